"""The CPUs as the kubelet has them from cAdvisor: what is read, and what its oddities make of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.devices.cpu_topology import read_cpu_topology
from numaplace.devices.fake_tree import FakeTree
from numaplace.managers.cpu.topology import CpuDetail

CPU = "sys/devices/system/cpu"


class Machine:
    """CPUs are written where the kernel has them, in the NUMA node's folder as links."""

    def __init__(self, root: Path) -> None:
        self.tree = FakeTree(root)
        self.sysfs, self.procfs = root / "sys", root / "proc"

    def cpu(self, cpu: int, *, node: int | None, core: int | str, socket: int | str) -> None:
        base = f"{CPU}/cpu{cpu}"
        self.tree.file(f"{base}/topology/core_id", str(core))
        self.tree.file(f"{base}/topology/physical_package_id", str(socket))
        if node is not None:
            self.tree.link(f"sys/devices/system/node/node{node}/cpu{cpu}", base)
            self.tree.file(f"sys/devices/system/node/node{node}/cpumap", "ff")

    def cache(
        self, cpu: int, index: int, *, id_: int | str, level: int, mask: str, size: str = "16384K"
    ) -> None:
        base = f"{CPU}/cpu{cpu}/cache/index{index}"
        for name, text in (("id", str(id_)), ("level", str(level)), ("size", size), ("shared_cpu_map", mask)):
            self.tree.file(f"{base}/{name}", text)

    def online(self, text: str) -> None:
        self.tree.file(f"{CPU}/online", text)

    def details(self) -> dict[int, CpuDetail]:
        topology = read_cpu_topology(self.sysfs)
        assert topology is not None
        return dict(topology.details)


@pytest.fixture
def machine(root: Path) -> Machine:
    return Machine(root)


def epyc(machine: Machine) -> None:
    """One socket in two NUMA nodes of 4 cores with 2 threads; two cores share an L3 cache."""
    for cpu in range(16):
        core = cpu % 8
        machine.cpu(cpu, node=core // 4, core=core, socket=0)
        siblings = f"{1 << core | 1 << core + 8:04x}"
        complex_ = core // 2
        shared = sum(1 << one for one in range(16) if one % 8 // 2 == complex_)
        machine.cache(cpu, 0, id_=core, level=1, mask=siblings, size="32K")
        machine.cache(cpu, 2, id_=core, level=2, mask=siblings, size="512K")
        machine.cache(cpu, 3, id_=complex_, level=3, mask=f"{shared:08x}")
    machine.online("0-15")


def test_threads_cores_nodes_and_caches(machine: Machine) -> None:
    epyc(machine)
    topology = read_cpu_topology(machine.sysfs)
    assert topology is not None
    assert (topology.num_cpus, topology.num_cores, topology.num_sockets) == (16, 8, 1)
    assert (topology.num_numa, topology.num_uncore, topology.cpus_per_core) == (2, 4, 2)
    assert topology.details[13] == CpuDetail(numa=1, socket=0, core=5, uncore_cache=2)
    assert topology.details[0] == CpuDetail(numa=0, socket=0, core=0, uncore_cache=0)


def test_a_cache_of_the_whole_numa_node_is_no_uncore_cache(machine: Machine) -> None:
    """The socket stands in for it, so the kubelet sees one cache per socket."""
    for cpu in range(4):
        machine.cpu(cpu, node=cpu // 2, core=cpu, socket=cpu // 2 + 4)
        machine.cache(cpu, 3, id_=7, level=3, mask=f"{0b11 << cpu // 2 * 2:x}")
    assert [one.uncore_cache for one in machine.details().values()] == [4, 4, 5, 5]


def test_a_cache_of_more_than_the_numa_node_is_one(machine: Machine) -> None:
    """Sub-NUMA clustering: the socket's cache is shared by both of its NUMA nodes."""
    for cpu in range(4):
        machine.cpu(cpu, node=cpu // 2, core=cpu, socket=0)
        machine.cache(cpu, 3, id_=9, level=3, mask="0000000f,00000000")
    assert {one.uncore_cache for one in machine.details().values()} == {9}


@pytest.mark.parametrize("broken", [{"id_": "x"}, {"size": "big"}, {"mask": "zz"}, {"id_": ""}])
def test_caches_that_cannot_be_read_end_the_look_at_that_numa_node(
    machine: Machine, broken: dict[str, str]
) -> None:
    for cpu in range(6):
        machine.cpu(cpu, node=cpu // 3, core=cpu, socket=0)
        good = {"id_": str(cpu + 20), "size": "1K", "mask": "1"}
        machine.cache(cpu, 3, level=3, **{**good, **(broken if cpu == 1 else {})})
    assert [one.uncore_cache for one in machine.details().values()] == [20, 0, 0, 23, 24, 25]


def test_cores_of_two_sockets_with_the_same_id_are_two(machine: Machine) -> None:
    for cpu, (core, socket) in enumerate([(0, 0), (0, 1), (0, 0), (0, 1)]):
        machine.cpu(cpu, node=0, core=core, socket=socket)
    assert [one.core for one in machine.details().values()] == [0, 1, 0, 1]
    topology = read_cpu_topology(machine.sysfs)
    assert topology is not None
    assert (topology.num_cores, topology.num_sockets) == (2, 2)


def test_offline_cpus_are_not_there(machine: Machine) -> None:
    epyc(machine)
    machine.online("0-7,9")
    assert list(machine.details()) == [0, 1, 2, 3, 4, 5, 6, 7, 9]


def test_without_numa_nodes_a_socket_is_one(machine: Machine) -> None:
    for cpu in range(4):
        machine.cpu(cpu, node=None, core=cpu, socket=cpu // 2)
    assert [(one.numa, one.socket) for one in machine.details().values()] == [(0, 0), (0, 0), (1, 1), (1, 1)]


def test_without_numa_nodes_offline_cpus_count_for_the_number_alone(machine: Machine) -> None:
    for cpu in range(4):
        machine.cpu(cpu, node=None, core=cpu, socket=0)
    machine.online("0-2")
    topology = read_cpu_topology(machine.sysfs)
    assert topology is not None
    assert (topology.num_cpus, topology.num_cores, len(topology.details)) == (4, 3, 3)


def test_the_sockets_of_cpuinfo_count_first(machine: Machine) -> None:
    epyc(machine)
    machine.tree.file(
        "proc/cpuinfo", "processor\t: 0\nphysical id\t: 0\n\nphysical id\t: 3\nphysical id\t: 3"
    )
    topology = read_cpu_topology(machine.sysfs, procfs=machine.procfs)
    assert topology is not None
    assert topology.num_sockets == 2
    machine.tree.file("proc/cpuinfo", "processor : 0")
    again = read_cpu_topology(machine.sysfs, procfs=machine.procfs)
    assert again is not None
    assert again.num_sockets == 1


def test_a_node_without_cpus_is_no_part_of_it(machine: Machine) -> None:
    epyc(machine)
    machine.tree.directory("sys/devices/system/node/node2")
    topology = read_cpu_topology(machine.sysfs)
    assert topology is not None
    assert (topology.num_numa, set(topology.numa)) == (2, {0, 1})


def test_a_cpu_that_tells_no_core_is_left_out(machine: Machine) -> None:
    epyc(machine)
    machine.tree.remove(f"{CPU}/cpu3/topology/core_id")
    assert 3 not in machine.details()


@pytest.mark.parametrize("text", ["", "x", "-"])
def test_what_no_kubelet_starts_on_is_unknown(machine: Machine, text: str) -> None:
    epyc(machine)
    machine.tree.file(f"{CPU}/cpu3/topology/core_id", text)
    assert read_cpu_topology(machine.sysfs) is None


def test_an_empty_sysfs_is_unknown(root: Path) -> None:
    assert read_cpu_topology(root / "nowhere") is None


def test_a_node_that_no_affinity_mask_can_name(machine: Machine) -> None:
    machine.cpu(0, node=64, core=0, socket=0)
    assert read_cpu_topology(machine.sysfs) is None


@given(
    texts=st.lists(
        st.sampled_from(["", "0", "1", "-1", "x", "99999999999999999999", "0-3"]), min_size=4, max_size=4
    )
)
def test_nothing_in_sysfs_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    for cpu in range(2):
        machine.cpu(cpu, node=cpu, core=texts[0], socket=texts[1])
        machine.cache(cpu, 3, id_=texts[2], level=3, mask=texts[3])
    machine.online(texts[3])
    topology = read_cpu_topology(machine.sysfs)
    assert topology is None or topology.num_cpus >= len(topology.details)
