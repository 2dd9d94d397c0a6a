from pathlib import Path
from typing import Any

import pytest
from numaplace.devices.fake import FakeHost
from numaplace.devices.host import parse_cpulist, read_topology
from numaplace.model.topology import NumaTopology


def test_sparse_nodes_with_cpus_and_distances(root: Path) -> None:
    host = FakeHost(root)
    host.numa_node(0, cpus="0-2,8", distances=(10, 16, 32))
    host.numa_node(2, cpus="3", distances=(16, 10, 32))
    host.numa_node(8, cpus="", distances=(32, 32, 10))
    assert read_topology(host.roots.sysfs) == NumaTopology(
        nodes=(0, 2, 8),
        cpus={0: frozenset({0, 1, 2, 8}), 2: frozenset({3}), 8: frozenset()},
        distances={0: {0: 10, 2: 16, 8: 32}, 2: {0: 16, 2: 10, 8: 32}, 8: {0: 32, 2: 32, 8: 10}},
    )


def test_a_kernel_without_numa_is_one_node(root: Path) -> None:
    host = FakeHost(root)
    assert read_topology(host.roots.sysfs) == NumaTopology(nodes=(0,), cpus={0: frozenset()})
    host.tree.file("sys/devices/system/cpu/online", "0-3")
    assert read_topology(host.roots.sysfs).cpus == {0: frozenset({0, 1, 2, 3})}


def test_an_offline_node_is_not_there(host: Any) -> None:
    host.tree.file("sys/devices/system/node/online", "1")
    assert read_topology(host.roots.sysfs).nodes == (1,)


@pytest.mark.parametrize("text", ["", "garbage", "7-5", "-", "4-"])
def test_without_a_usable_list_the_directories_count(text: str, host: Any) -> None:
    host.tree.file("sys/devices/system/node/online", text)
    assert read_topology(host.roots.sysfs).nodes == (0, 1)


def test_a_node_that_the_kubelet_cannot_name_is_left_away(host: Any) -> None:
    host.numa_node(64)
    assert read_topology(host.roots.sysfs).nodes == (0, 1)


@pytest.mark.parametrize("text", ["10", "10 21 31", "10 x", "10 0", "10 -1", ""])
def test_a_broken_distance_row_reads_as_the_defaults(text: str, host: Any) -> None:
    host.tree.file("sys/devices/system/node/node0/distance", text)
    topology = read_topology(host.roots.sysfs)
    assert (topology.distance(0, 0), topology.distance(0, 1), topology.distance(1, 0)) == (10, 20, 21)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        (" 1 , 2-3\n", {1, 2, 3}),
        ("x,1,2-x,3-2", {1}),
        ("0-99999999999", set()),
    ],
)
def test_cpu_lists(text: str, cpus: set[int]) -> None:
    assert parse_cpulist(text) == cpus
