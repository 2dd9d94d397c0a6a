"""KEP-6007's user stories and worked examples on a stock kubelet whose device plugin steers.

The scenario files are those of the simulator (tests/cases/scenarios): what ``enforcement: steering`` expects
there, this kubelet does, and the simulator withholds the same at each step. Where the rule "never worse"
keeps steering off, the file says so, and the same story is told again under Topology Manager policy ``none``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness.apiserver import Cluster, fake_cluster
from harness.backend import Tools
from harness.conformance import normalise
from harness.daemon import Daemon
from harness.equipped import EquippedNode
from harness.flows import run_one_by_one
from harness.landing import Landing, land, landings, vanish
from harness.logs import LogKeeper
from harness.podresources import Held
from harness.pods import Container, Pod, unique
from harness.report import Report
from harness.scenario_node import Scenario, fill, load_case, merged, pod_of, scenario_node
from harness.steering import Withheld, count, wait_listed
from harness.waiters import until
from numaplace.simulate.scenario.load import parse_scenario
from numaplace.simulate.simulator.document import run_document
from numaplace.simulate.simulator.run import simulate

CASES = Path(__file__).parent.parent / "tests" / "cases" / "scenarios"
STORIES, STORY_VARIANTS = load_case(CASES / "kep-6007-stories-steering.yaml")
EXAMPLES = {name: load_case(CASES / f"kep-6007-{name}.yaml") for name in ("example-1", "example-2")}


def steered(variants: Mapping[str, Scenario]) -> list[str]:
    """The ids of the variants in which the plugin steers."""
    return [name for name, one in variants.items() if one["placement"].get("enforcement") == "steering"]


def by_policy(variants: Mapping[str, Scenario], policy: str) -> list[str]:
    own = [variants[name].get("kubelet", {}).get("topologyManagerPolicy") for name in variants]
    return [
        name for name, found in zip(variants, own, strict=True) if (found or "single-numa-node") == policy
    ]


def simulated_sets(scenario: Scenario) -> dict[str, Withheld]:
    """Return what the simulator withholds before each pod of the scenario."""
    document = run_document(simulate(parse_scenario(json.dumps(normalise(scenario)), source="case")))
    return {
        step["pod"]: {name: frozenset(nodes) for name, nodes in step["steering"]["withheld"].items()}
        for step in document["steps"]
        if "pod" in step
    }


def settings(placement: Scenario) -> dict[str, Any]:
    """Return a daemon's settings for a scenario's placement."""
    return {
        "strategy": placement["strategy"],
        "weights": placement.get("weights", ""),
        "steering": placement.get("steering", {}),
    }


@dataclass(frozen=True, slots=True)
class Teller:
    """A daemon that steers, with an API server: what is learnt of pods counts only with one."""

    site: EquippedNode
    daemon: Daemon
    cluster: Cluster

    def tell(self, scenario: Scenario) -> dict[str, Landing]:
        """Play a scenario's steps; return where its pods landed, by their names there."""
        sets = simulated_sets(scenario)
        pods: dict[str, Pod] = {}
        found: dict[str, Landing] = {}
        for step in scenario["steps"]:
            if "delete" in step:
                vanish(self.site, [pods[step["delete"]]])
                self.cluster.mirror(self.site.node.kubelet)
                continue
            name = step["create"]["name"]
            pods[name] = pod_of(step["create"])
            self.site.wait_withheld(self.daemon, sets[name])
            (found[name],) = land(self.site, [pods[name]])
            self.cluster.mirror(self.site.node.kubelet)
            wait_listed(self.daemon)
        return found

    def change(self, placement: Scenario, keep: Collection[Pod]) -> None:
        """Delete the pods but for those of ``keep``, and go on with another placement."""
        self.site.node.clear(but={pod.name for pod in keep})
        self.cluster.mirror(self.site.node.kubelet)
        before = count(self.daemon, "reloads_total", result="accepted")
        self.daemon.configure(self.site.configuration(**settings(placement)) | self.cluster.config)
        self.daemon.reload()
        until(
            lambda: count(self.daemon, "reloads_total", result="accepted") > before,
            "the daemon to take its new configuration",
            detail=self.daemon.tail,
        )


@contextlib.contextmanager
def teller(
    site: EquippedNode, placement: Scenario, folder: Path, *, keep: Collection[Pod] = ()
) -> Iterator[Teller]:
    with (
        fake_cluster(folder) as cluster,
        site.daemon(**settings(placement), keep=keep, cluster=cluster) as daemon,
    ):
        yield Teller(site, daemon, cluster)


def tell(site: EquippedNode, scenario: Scenario, folder: Path) -> dict[str, Landing]:
    with teller(site, scenario["placement"], folder) as one:
        return one.tell(scenario)


def assert_as_expected(found: Mapping[str, Landing], expected: Scenario) -> None:
    for name, one in expected.items():
        landing = found[name]
        assert landing.admitted, (name, landing)
        assert list(landing.nodes) == one["numa"], (name, landing)


@pytest.fixture(scope="module")
def single(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with scenario_node(tools, scratch, STORIES, logs=logs) as site:
        yield site


@pytest.mark.parametrize(
    "name", steered({n: STORY_VARIANTS[n] for n in by_policy(STORY_VARIANTS, "single-numa-node")})
)
def test_user_story(single: EquippedNode, name: str, tmp_path: Path, report: Report) -> None:
    scenario = merged(STORIES, STORY_VARIANTS[name])
    found = tell(single, scenario, tmp_path)
    report.rows(f"KEP-6007 user story {name}", {"steering": [found[pod].nodes for pod in found]})
    assert_as_expected(found, STORY_VARIANTS[name]["expect"])


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_user_story_1_under_another_policy(
    policy: str, tools: Tools, scratch: Path, tmp_path: Path, logs: LogKeeper
) -> None:
    variant = STORY_VARIANTS["1 under best-effort"]
    scenario = merged(STORIES, {**variant, "kubelet": {"topologyManagerPolicy": policy}})
    with scenario_node(tools, scratch, scenario, logs=logs) as site:
        assert_as_expected(tell(site, scenario, tmp_path), variant["expect"])


HALF = {"intel.com/vf": 1, "cpu": 2, "memory": "1Gi"}
WHOLE = {"intel.com/vf": 2, "cpu": 4, "memory": "2Gi"}


@pytest.mark.parametrize(
    ("scope", "request_", "expected"),
    [
        # The NUMA nodes of both containers, pod after pod.
        pytest.param("container", HALF, [(0, 1), (2, 3), (0, 1)], id="container"),
        pytest.param("pod", WHOLE, [(0, 0), (1, 1), (2, 2)], id="pod"),
    ],
)
def test_interaction_with_scope(
    scope: str,
    request_: Scenario,
    expected: list[tuple[int, int]],
    tools: Tools,
    scratch: Path,
    logs: LogKeeper,
) -> None:
    """Container scope spreads the containers of one pod; pod scope keeps them together."""
    scenario = merged(STORIES, {"kubelet": {"topologyManagerScope": scope}})
    taken: set[int] = set()
    with (
        scenario_node(tools, scratch, scenario, logs=logs) as site,
        site.daemon("least-allocated", steering={"requests": [request_]}) as daemon,
    ):
        for pair in expected:
            site.wait_withheld(daemon, {"intel.com/vf": frozenset(taken)} if taken else {})
            pod = Pod(unique("two"), tuple(Container(name, HALF) for name in ("a", "b")))
            land(site, [pod])
            boxes = site.node.held()[pod.name]
            assert [nodes_of(site, boxes[name]) for name in ("a", "b")] == [(node,) for node in pair]
            taken = (taken | set(pair)) if len(taken | set(pair)) < 4 else set()


def nodes_of(site: EquippedNode, box: Held) -> tuple[int, ...]:
    node_of_cpu = site.node.topology.node_of_cpu()
    devices = {site.hardware.node_of[id_] for ids in box.devices.values() for id_ in ids}
    return tuple(sorted(devices | {node_of_cpu[cpu] for cpu in box.cpus}))


def test_user_stories_1_and_3_of_the_kubelet_alone(single: EquippedNode) -> None:
    """What the stories complain of."""
    variant = STORY_VARIANTS["1 and 3, nobody applies the strategy"]
    with single.alone():
        pods = [pod_of(step["create"]) for step in STORIES["steps"]]
        run_one_by_one(single.node, pods)
        names = [step["create"]["name"] for step in STORIES["steps"]]
        assert_as_expected(dict(zip(names, landings(single, pods), strict=True)), variant["expect"])


@pytest.mark.parametrize("example", EXAMPLES)
def test_worked_example(
    example: str, tools: Tools, scratch: Path, tmp_path: Path, logs: LogKeeper, report: Report
) -> None:
    """All weights of a worked example, one after the other on the same node; the KEP's answers."""
    scenario, variants = EXAMPLES[example]
    rows: dict[str, list[tuple[int, ...]]] = {}
    with scenario_node(tools, scratch, scenario, logs=logs) as site:
        shares = fill(site, scenario["allocated"])
        names = steered(variants)
        with teller(site, variants[names[0]]["placement"], tmp_path, keep=shares) as one:
            for name in names:
                one.change(variants[name]["placement"], shares)
                found = one.tell(merged(scenario, variants[name]))
                assert_as_expected(found, variants[name]["expect"])
                rows[name] = [landing.nodes for landing in found.values()]
    report.rows(f"KEP-6007 worked {example}", rows)


def test_user_story_2_under_policy_none(tools: Tools, scratch: Path, logs: LogKeeper) -> None:
    """Several sizes keep steering off; without a Topology Manager the size is known, and jobs are packed."""
    variant = STORY_VARIANTS["2, steering with several requests stays off"]
    scenario = merged(STORIES, {**variant, "kubelet": {"topologyManagerPolicy": "none"}})
    with scenario_node(tools, scratch, scenario, logs=logs) as site:
        pods = [pod_of(step["create"]) for step in scenario["steps"] if "create" in step]
        with site.daemon("most-allocated", weights="cpu=0"):
            run_one_by_one(site.node, pods[:3])
            vanish(site, pods[:1])
            run_one_by_one(site.node, pods[3:])
            nodes = {tuple(one.devices) for one in landings(site, pods[1:])}
        assert len(nodes) == 1, "all jobs' devices are on one NUMA node"


def test_worked_example_1_under_policy_none(tools: Tools, scratch: Path, logs: LogKeeper) -> None:
    """With no request declared steering stays off; without a Topology Manager GPUs alone decide on GPUs."""
    scenario = merged(EXAMPLES["example-1"][0], {"kubelet": {"topologyManagerPolicy": "none"}})
    (step,) = scenario["steps"]
    found = {}
    with scenario_node(tools, scratch, scenario, logs=logs) as site:
        shares = fill(site, scenario["allocated"])
        for strategy in ("most-allocated", "least-allocated"):
            with site.daemon(strategy, weights="cpu=0,memory=0", keep=shares):
                (landing,) = land(site, [pod_of(step["create"])])
                found[strategy] = landing.devices
    assert found == {"most-allocated": {1}, "least-allocated": {0}}
