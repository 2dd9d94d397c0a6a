"""NUMA nodes of all kinds: with CPUs, with memory alone, and one that is not there, comes and goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from guest.boot import running_guest
from guest.daemon import GuestDaemon
from guest.keeper import GuestLogs
from guest.machine import Machine, NumaNode
from guest.node import GuestNode, Runtime
from guest.site import NET, POD_SECONDS, Site
from harness.flows import placement, run_one_by_one
from harness.kubelet import KubeletOptions
from harness.pods import Pod, unique
from harness.report import Report
from harness.waiters import until

LATER = 2
MEMORY_ONLY = 3
MACHINE = Machine(
    (
        NumaNode(cpus=2, ports=1),
        NumaNode(cpus=2, ports=1),
        NumaNode(cpus=0, memory_mib=0, later=True, ports=1),
        NumaNode(cpus=0, memory_mib=512, ports=1),
    ),
    memory_slots=1,
)
VFS = 2
MORE_MIB = 256


@pytest.fixture(scope="module")
def site(built: Mapping[str, Path], scratch: Path, logs: GuestLogs) -> Iterator[Site]:
    with running_guest(MACHINE, built, scratch / "topology", logs=logs) as guest:
        guest.make_vfs(VFS)
        runtime = Runtime(guest)
        runtime.start(built["agent"])
        site = Site(guest, runtime, GuestNode(guest), GuestDaemon(guest))
        site.under(KubeletOptions())
        yield site


@pytest.fixture(autouse=True)
def no_pods_left(site: Site) -> Iterator[None]:
    yield
    site.node.clear()


def vfs(*, later: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """All VFs with their NUMA nodes; ``later``: those of the VFs of the node that is not there at first."""
    return {
        MACHINE.vf(node, port, index): later if node == LATER else (node,)
        for node, port in MACHINE.ports()
        for index in range(VFS)
    }


def test_sparse_node_ids(site: Site) -> None:
    assert site.guest.numa_nodes() == {0: {0, 1}, 1: {2, 3}, MEMORY_ONLY: frozenset()}
    site.serve()
    # What is on a node that is not there has no NUMA node that a kubelet could know.
    site.wait_for(NET, vfs(later=()))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("most-allocated", [(0,), (0,)]), ("least-allocated", [(0,), (1,), (3,)])],
)
def test_node_without_cpus_counts(
    site: Site, strategy: str, expected: list[tuple[int, ...]], report: Report
) -> None:
    site.serve(strategy)
    pods = [Pod.of(unique("sparse"), {NET: 1}) for _ in expected]
    run_one_by_one(site.node, pods, limit_seconds=POD_SECONDS)
    nodes = {vf: node[0] for vf, node in vfs(later=(LATER,)).items()}
    sequence = placement(site.node, nodes).node_sequence(pods, NET)
    report.rows("NUMA nodes 0, 1 and 3 (without CPUs), a VF", {strategy: sequence})
    assert sequence == expected


def test_single_numa_node_with_sparse_ids(site: Site, report: Report) -> None:
    site.under(KubeletOptions(topology_manager_policy="single-numa-node", static_cpu_manager=True))
    site.serve("least-allocated")
    with_cpu = [Pod.of(unique("cpu"), {NET: 1, "cpu": 1, "memory": "16Mi"}) for _ in range(2)]
    without = [Pod.of(unique("none"), {NET: 1})]
    run_one_by_one(site.node, [*with_cpu, *without], limit_seconds=POD_SECONDS)
    nodes = {vf: node[0] for vf, node in vfs(later=(LATER,)).items()}
    placed = placement(site.node, nodes)
    rows = {"with a CPU": placed.node_sequence(with_cpu, NET), "without": placed.node_sequence(without, NET)}
    report.rows("NUMA nodes 0, 1 and 3 (without CPUs), single-numa-node", rows)
    assert all(placed.nodes(pod.name) <= {0, 1} for pod in with_cpu)
    cpus = site.guest.numa_nodes()
    assert all(placed.cpus[pod.name] <= cpus[min(placed.nodes(pod.name))] for pod in with_cpu)


def test_node_that_comes_and_goes(site: Site) -> None:
    site.serve()
    site.wait_for(NET, vfs(later=()))
    monitor, guest = site.guest.monitor, site.guest
    options = {"qom-type": "memory-backend-ram", "id": "more", "size": MORE_MIB << 20}
    monitor.execute("object-add", **options)
    monitor.execute("device_add", driver="pc-dimm", id="plugged", memdev="more", node=LATER)
    until(lambda: LATER in guest.numa_nodes(), "the node to be there", limit_seconds=30)
    assert guest.numa_nodes()[LATER] == frozenset()
    # What doctor advises where the firmware, or in this case the kernel, says no node.
    for index in range(VFS):
        guest.agent.write(f"/sys/bus/pci/devices/{MACHINE.vf(LATER, 0, index)}/numa_node", f"{LATER}\n")
    site.wait_for(NET, vfs(later=(LATER,)))
    monitor.execute("device_del", id="plugged")
    until(
        lambda: LATER not in guest.numa_nodes(),
        "the node to be gone",
        limit_seconds=30,
        detail=lambda: guest.agent.shell("dmesg | tail -n 5"),
    )
    site.wait_for(NET, vfs(later=()))
