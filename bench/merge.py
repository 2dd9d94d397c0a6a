"""The merge of topology hints beside the kubelet's own Go code, in turns, on the same hints.

Every provider offers every NUMA node set of at least some width, those of that width preferred: the worst
case. The kubelet's time grows with the product of the providers' hints, so what is too large for it
is compared with the largest merge that it can do in seconds.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from numaplace.engine.hint import Hint
from numaplace.engine.merge import ProvidersHints
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import POLICIES, PolicyResult
from numaplace.model.mask import masks_by_width, nodes_of
from numaplace.model.names import ResourceName, Strategy
from numaplace.model.topology import NumaTopology

from bench.parts import ROOT
from bench.stats import Row

BUILD = ROOT / "bench" / "gomerge" / "build.sh"
TURNS = 3
COMPARED, SEED = 3000, 1
POLICY_NAMES = (PolicyName.BEST_EFFORT, PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE)


@dataclass(frozen=True, slots=True)
class Machine:
    """NUMA nodes, and per provider the width of the narrowest sets that it offers."""

    nodes: int
    narrowest: tuple[int, ...]

    def __str__(self) -> str:
        name = f"{self.nodes} nodes x {len(self.narrowest)} providers"
        return name if len(set(self.narrowest)) == 1 else f"{name}, none preferred"


@dataclass(frozen=True, slots=True)
class Setting:
    """A machine, the kubelet's merge to compare it with, and how many times its duration it may take."""

    machine: Machine
    beside: Machine
    max_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """The input of both sides."""

    policy: PolicyName
    topology: NumaTopology
    providers: ProvidersHints
    closest: bool = False


Merged = tuple[list[int] | None, bool, bool]
"""NUMA node ids, preferred, admitted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the kubelet's code, and how long it took."""

    merged: Merged
    seconds: float


SMALL, LARGE = Machine(8, (1,) * 2), Machine(8, (1,) * 3)
SPLIT = Machine(8, (1, 2, 1))
SETTINGS = (
    Setting(SMALL, SMALL),
    Setting(LARGE, LARGE, max_ratio=1 / 100),
    Setting(SPLIT, SPLIT, max_ratio=1 / 100),
    Setting(Machine(8, (1,) * 6), LARGE, max_ratio=1 / 50),
    Setting(Machine(16, (1,) * 4), LARGE, max_ratio=1.0),
)
STRATEGIES = (Strategy.NONE, Strategy.LEAST_ALLOCATED)


def measure_merge() -> list[Row]:
    """Return the best time of each setting and strategy, and how many answers differ.

    Builds the Go program if need be; ``subprocess.CalledProcessError`` without Go.
    """
    program = subprocess.run([str(BUILD)], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    merges = {setting.machine: _all_sets(setting.machine) for setting in SETTINGS}
    in_go = {setting.beside for setting in SETTINGS}
    theirs: dict[Machine, list[float]] = {machine: [] for machine in in_go}
    ours: dict[tuple[Machine, Strategy], list[float]] = {}
    differing = _differing(program, list(_random_merges()))
    for _ in range(TURNS):
        for machine, merge in merges.items():
            for strategy in STRATEGIES:
                ours.setdefault((machine, strategy), []).append(_timed(merge, strategy))
            if machine in in_go:
                (answer,) = _in_go(program, [merge])
                theirs[machine].append(answer.seconds)
    differing += _differing(program, [merges[machine] for machine in in_go])
    rows = [
        Row(
            _name(setting, strategy),
            "ms",
            1000 * min(ours[setting.machine, strategy]),
            1000 * min(theirs[setting.beside]),
            max_ratio=setting.max_ratio,
        )
        for setting in SETTINGS
        for strategy in STRATEGIES
    ]
    compared = COMPARED + len(in_go)
    return [*rows, Row(f"merges unlike the kubelet's, of {compared}", "", differing, 0.0, max_value=0)]


def _name(setting: Setting, strategy: Strategy) -> str:
    beside = "" if setting.beside == setting.machine else f" (kubelet: {setting.beside})"
    return f"merge, {setting.machine}, strategy {strategy}{beside}"


def _all_sets(machine: Machine) -> Merge:
    """Return a merge of all sets, each with a score."""
    nodes = tuple(range(machine.nodes))
    providers = [
        {
            ResourceName(f"example.com/r{number}"): [
                Hint(mask, mask.bit_count() == narrowest, 1 + (37 * mask + 7 * number) % 100)
                for mask in masks_by_width(nodes, smallest=narrowest)
            ]
        }
        for number, narrowest in enumerate(machine.narrowest)
    ]
    return Merge(PolicyName.BEST_EFFORT, NumaTopology(nodes), providers)


def _timed(merge: Merge, strategy: Strategy) -> float:
    started = time.perf_counter()
    _merged(merge, strategy)
    return time.perf_counter() - started


def _merged(merge: Merge, strategy: Strategy = Strategy.NONE) -> PolicyResult:
    options = PolicyOptions(prefer_closest=merge.closest, strategy=strategy)
    return POLICIES[merge.policy].merge(merge.providers, merge.topology, options)


def _differing(program: str, merges: Sequence[Merge]) -> int:
    """Return how many of the merges the two sides answer differently."""
    answers = _in_go(program, merges)
    return sum(
        _answer(_merged(merge)) != answer.merged for merge, answer in zip(merges, answers, strict=True)
    )


def _random_merges() -> Iterator[Merge]:
    random = Random(SEED)
    for _ in range(COMPARED):
        yield _random_merge(random)


def _random_merge(random: Random) -> Merge:
    """Return a merge of 1 to 8 nodes, 1 to 4 providers and at most 8,000 combinations."""
    nodes, resources = tuple(range(random.randint(1, 8))), random.randint(1, 4)
    most = int(8000 ** (1 / resources))
    preferred, anywhere = random.choice((0.1, 0.5, 0.9)), random.choice((0.0, 0.1))

    def hint() -> Hint:
        mask = None if random.random() < anywhere else random.randrange(1 << len(nodes))
        return Hint(mask, random.random() < preferred)

    return Merge(
        random.choice(POLICY_NAMES),
        NumaTopology(
            nodes, distances={a: {b: random.choice((10, 11, 12, 21)) for b in nodes} for a in nodes}
        ),
        [
            {ResourceName(f"r{number}"): [hint() for _ in range(random.randint(0, most))]}
            for number in range(resources)
        ],
        closest=random.random() < 0.5,
    )


def _in_go(program: str, merges: Sequence[Merge]) -> list[Answer]:
    text = json.dumps([_form(merge) for merge in merges])
    done = subprocess.run([program], input=text, stdout=subprocess.PIPE, text=True, check=True)
    return [
        Answer((one["numa"], one["preferred"], one["admit"]), one["seconds"])
        for one in json.loads(done.stdout)
    ]


def _form(merge: Merge) -> dict[str, object]:
    nodes = merge.topology.nodes
    return {
        "policy": merge.policy,
        "closest": merge.closest,
        "distances": [[merge.topology.distance(a, b) for b in nodes] for a in nodes],
        "providers": [
            [{"numa": _numa(hint.mask), "preferred": hint.preferred} for hint in hints or ()]
            for provider in merge.providers
            for hints in provider.values()
        ],
    }


def _answer(result: PolicyResult) -> Merged:
    return _numa(result.hint.mask), result.hint.preferred, result.admit


def _numa(mask: int | None) -> list[int] | None:
    return None if mask is None else list(nodes_of(mask))
