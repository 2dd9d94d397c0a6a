"""Series as Prometheus has them after scraping three nodes, made by the daemon's own metrics.

``fine`` is well, ``ill`` has every trouble, ``blind`` has never read its allocation state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from numaplace.metrics import Alignment, FallbackReason, Metrics, RegistrationResult, ReloadResult
from numaplace.metrics.labels import SteeredEffect, SteeringFailure
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.placement.reasons import Outcome
from numaplace.state.snapshot import Snapshot, build_snapshot
from numaplace.steering.decision import SteeringDecision
from prometheus_client.parser import text_string_to_metric_families

GPU, VF = ResourceName("nvidia.com/gpu"), ResourceName("intel.com/sriov_vf")
JOB = "numa/np-numaplace"
FROM_PROMETHEUS = {"job", "node"}
"""Labels that the chart's monitors give each series."""

STEP_SECONDS = 30
STEPS = 120


def state(*, taken: dict[ResourceName, tuple[int, int]], taken_at_seconds: float) -> Snapshot:
    """Return two NUMA nodes with 4 GPUs, 1 VF and 4 CPUs each, and how many pods have of them."""
    sizes = {GPU: 4, VF: 1}
    blocks = {
        (resource, node): DeviceBlock(
            resource, tuple(DeviceId(f"{resource}-{node}-{n}") for n in range(size)), (node,)
        )
        for resource, size in sizes.items()
        for node in (0, 1)
    }
    used = tuple(
        DeviceBlock(resource, blocks[resource, node].ids[:count], (node,))
        for resource, counts in taken.items()
        for node, count in enumerate(counts)
        if count
    )
    return build_snapshot(
        topology=NumaTopology((0, 1), {0: frozenset(range(4)), 1: frozenset(range(4, 8))}),
        allocatable=Allocatable(tuple(blocks.values()), cpus=frozenset(range(8))),
        pods=(PodUse("default", "p", (ContainerUse("c", used, cpus=frozenset({0})),)),),
        devices={},
        taken_at_seconds=taken_at_seconds,
    )


def work(metrics: Metrics) -> None:
    """Do what a daemon does when all is well."""
    for resource in (GPU, VF):
        for outcome in Outcome:
            metrics.decided(
                resource,
                strategy=Strategy.MOST_ALLOCATED,
                outcome=outcome,
                score_decided=True,
                duration_seconds=0.004,
            )
        metrics.aligned(resource, Alignment.ONE_NODE)
        metrics.set_devices(resource, healthy=8, unhealthy=0)
        metrics.set_scan(resource, left_out=0, matched_nothing=False, failed=False)
        metrics.registration(resource, result=RegistrationResult.ACCEPTED)
        metrics.set_registered(resource, registered=True)
    metrics.steering.count_decision(SteeringDecision({GPU: 0b1}), duration_seconds=0.002)
    metrics.steering.count_list(GPU)
    for effect in SteeredEffect:
        metrics.steering.count_grant(GPU, effect)
    metrics.steering.set_state({GPU: {0: 3}}, breaker_open=False)
    metrics.podresources_call("List", "OK")
    metrics.reloaded(ReloadResult.ACCEPTED)
    metrics.cluster_watch_call("list", "OK")
    metrics.cluster_watch_call("watch", "OK")
    metrics.event("sent")
    metrics.set_cluster_watch(connected=True)
    metrics.set_inotify(available=True)


def trouble(metrics: Metrics) -> None:
    """Have every trouble there is."""
    for resource in (GPU, VF):
        for reason in FallbackReason:
            metrics.fell_back(resource, strategy=Strategy.NONE, reason=reason, duration_seconds=0.2)
        metrics.aligned(resource, Alignment.SPLIT)
        metrics.set_devices(resource, healthy=7, unhealthy=1)
        metrics.set_scan(resource, left_out=2, matched_nothing=True, failed=True)
        metrics.registration(resource, result=RegistrationResult.FAILED)
        metrics.set_registered(resource, registered=False)
    for failure in SteeringFailure:
        metrics.steering.count_failure(failure)
    metrics.steering.count_trip()
    metrics.steering.set_state({}, breaker_open=True)
    metrics.podresources_call("List", "UNAVAILABLE")
    metrics.restarted("poller")
    metrics.reloaded(ReloadResult.REFUSED)
    metrics.cluster_watch_call("watch", "UNAVAILABLE")
    for result in ("duplicate", "failed", "dropped"):
        metrics.event(result)
    metrics.set_cluster_watch(connected=False)
    metrics.set_inotify(available=False)


@dataclass(frozen=True, slots=True)
class Node:
    """What one node's daemon has done, and the last thing that it knows."""

    name: str
    habits: tuple[Callable[[Metrics], None], ...]
    snapshot: Snapshot | None


NODES = (
    Node("fine", (work,), state(taken={GPU: (0, 0)}, taken_at_seconds=998)),
    Node("ill", (work, trouble), state(taken={GPU: (2, 2)}, taken_at_seconds=600)),
    Node("blind", (work,), None),
)

Key = tuple[str, tuple[tuple[str, str], ...]]


def scraped(metrics: Metrics) -> tuple[dict[Key, float], set[str]]:
    """Return the samples of a scrape, and the names of those that only grow."""
    found: dict[Key, float] = {}
    growing = set()
    for family in text_string_to_metric_families(metrics.render()[0].decode()):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
            if family.type in ("counter", "histogram"):
                growing.add(sample.name)
    return found, growing


def lines_of(node: Node) -> list[str]:
    """Return the node's series, growing where the daemon counts, in the form of Prometheus's own tests."""
    metrics = Metrics(version="1.2.3", clock=lambda: 1000.0)
    if node.snapshot is not None:
        metrics.set_snapshot(node.snapshot)
    for habit in node.habits:
        habit(metrics)
    before, _ = scraped(metrics)
    for habit in node.habits:
        habit(metrics)
    after, growing = scraped(metrics)
    lines = []
    for (name, labels), value in after.items():
        every = {**dict(labels), "node": node.name, "job": JOB}
        shown = ",".join(f'{key}="{text}"' for key, text in every.items())
        step = value - before[name, labels] if name in growing else 0
        lines.append(f"  {name}{{{shown}}} {value}+{step}x{STEPS}")
    return lines


@cache
def load() -> str:
    """Return the series of all nodes."""
    return "\n".join([f"load {STEP_SECONDS}s", *(line for node in NODES for line in lines_of(node))]) + "\n"


@cache
def labels_by_metric() -> dict[str, set[str]]:
    """Return each series' labels by its name, as the daemon exports them."""
    metrics = Metrics(version="1.2.3", clock=lambda: 1000.0)
    metrics.set_snapshot(NODES[0].snapshot or state(taken={}, taken_at_seconds=0))
    known: dict[str, set[str]] = defaultdict(set)
    for habit in (work, trouble):
        habit(metrics)
        for name, labels in scraped(metrics)[0]:
            known[name] |= {label for label, _ in labels}
    return known
