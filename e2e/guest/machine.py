"""The machine that QEMU emulates, as a value: NUMA nodes, and the PCI cards on each one's own root bus."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FIRST_BUS = 0x40
BUSES_PER_NODE = 0x20
AGENT_PORT = 10000
POD_RESOURCES_PORT = 10001
KUBELET_PORT = 10255
DAEMON_PORT = 9477


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node. Without CPUs it has memory only.

    ``ports``: of one igb NIC, each a PF with seven VFs; ``displays``: QEMU's display adapters. ``later``: the
    firmware names it for CPUs that are not plugged, and so the kernel keeps an id for it.
    """

    cpus: int = 2
    memory_mib: int = 1024
    later: bool = False
    ports: int = 2
    displays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """A guest. The index of a node is its id in the firmware.

    It is the kernel's, too, if nodes with CPUs come first, then those for later, then those with memory
    alone: the kernel gives ids in the order in which the firmware names nodes, CPUs before memory.
    """

    nodes: tuple[NumaNode, ...]
    # Room for memory that is plugged in later.
    memory_slots: int = 0

    @property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    @property
    def kernel_arguments(self) -> str:
        """What the kernel has to be told.

        CPUs that may come would bring their nodes with them. And page tables that change at every system
        call are dear where a processor's caches of them are emulated. On a busy machine the emulated timer
        is late, and a kernel that checks it gives up.
        """
        return f"possible_cpus={self.cpus} mitigations=off no_timer_check intel_iommu=on"

    def bus(self, node: int) -> int:
        """The number of the node's PCI root bus."""
        return FIRST_BUS + BUSES_PER_NODE * node

    def pf(self, node: int, port: int) -> str:
        """The PCI address of a port."""
        return f"0000:{self.bus(node) + 1:02x}:00.{port}"

    def vf(self, node: int, port: int, index: int) -> str:
        """The PCI address of a VF: the ports' VFs interleave (igb's VF offset is 128, its stride 2)."""
        number = port + 2 * index
        return f"0000:{self.bus(node) + 1:02x}:{0x10 + number // 8:02x}.{number % 8}"

    def display(self, node: int, number: int) -> str:
        """The PCI address of a display adapter."""
        slot = number + (1 if self.nodes[node].ports else 0)
        return f"0000:{self.bus(node) + 1 + slot:02x}:00.0"

    def ports(self) -> Iterator[tuple[int, int]]:
        """Node and number of each port."""
        for number, node in enumerate(self.nodes):
            yield from ((number, port) for port in range(node.ports))

    def arguments(self) -> list[str]:
        """QEMU's arguments for processors, memory and cards."""
        sockets = self.cpus + sum(node.later for node in self.nodes)
        memory = sum(node.memory_mib for node in self.nodes)
        room = (
            f",slots={self.memory_slots},maxmem={memory + 1024 * self.memory_slots}M"
            if self.memory_slots
            else ""
        )
        return [
            *("-machine", "q35,kernel-irqchip=split"),
            # With a thread for each CPU, a tenth of all boots hang, and in another tenth QEMU ends: a CPU
            # uses the memory map that another has just replaced (iotlb_to_section). One takes 1 s more.
            *("-accel", "tcg,thread=single"),
            # Fewer instructions to emulate than with "max": Python is a fifth faster.
            *("-cpu", "Nehalem"),
            *("-smp", f"{self.cpus},maxcpus={sockets},sockets={sockets},cores=1,threads=1"),
            *("-m", f"{memory}M{room}"),
            *("-device", "intel-iommu,intremap=on,caching-mode=on"),
            *self._numa(),
            *(part for number in range(len(self.nodes)) for part in self._cards(number)),
        ]

    def _numa(self) -> Iterator[str]:
        cpus, unplugged = itertools.count(), itertools.count(self.cpus)
        for number, node in enumerate(self.nodes):
            option = f"node,nodeid={number}"
            if node.memory_mib:
                yield from ("-object", f"memory-backend-ram,id=memory{number},size={node.memory_mib}M")
                option += f",memdev=memory{number}"
            own = [next(cpus) for _ in range(node.cpus)] or [next(unplugged)] * node.later
            if own:
                option += f",cpus={own[0]}-{own[-1]}"
            yield from ("-numa", option)

    def _cards(self, number: int) -> Iterator[str]:
        node = self.nodes[number]
        if not node.ports and not node.displays:
            return
        root = f"root{number}"
        yield from (
            "-device",
            f"pxb-pcie,id={root},bus=pcie.0,bus_nr={self.bus(number)},numa_node={number}",
        )
        slots = itertools.count()
        if node.ports:
            nic = _slot(root, next(slots), 16 * number)
            yield from nic.arguments
            for port in range(node.ports):
                # Where alternative routing IDs are on, a function has to name the next one.
                more = port + 1 < node.ports
                several = ",multifunction=on" if node.ports > 1 else ""
                several += ",x-pcie-ari-nextfn-1=on" if more else ""
                yield from ("-device", f"igb,id=pf{number}.{port},bus={nic.bus},addr=0.{port}{several}")
        for display in node.displays:
            slot = _slot(root, next(slots), 16 * number)
            yield from (*slot.arguments, "-device", f"{display},bus={slot.bus}")


@dataclass(frozen=True, slots=True)
class _Slot:
    bus: str
    arguments: tuple[str, ...]


def _slot(root: str, number: int, chassis: int) -> _Slot:
    bus = f"{root}.{number}"
    device = (
        f"pcie-root-port,id={bus},bus={root},chassis={chassis + number + 1},slot={number},addr={number:x}"
    )
    return _Slot(bus, ("-device", device))


def command(
    machine: Machine, built: Mapping[str, Path], *, disk: Path, control: Path, ports: Mapping[int, int]
) -> list[str]:
    """Return the command that runs the machine.

    ``built``: what build.sh has made; ``disk``: what the guest may write to; ``control``: where QEMU's
    monitor listens; ``ports``: TCP port of the guest -> of this machine's loopback address.
    """
    tools = built["packages"] / "root"
    libraries = tools / "lib/x86_64-linux-gnu", tools / "usr/lib/x86_64-linux-gnu"
    forwards = "".join(f",hostfwd=tcp:127.0.0.1:{here}-:{there}" for there, here in ports.items())
    disks = (("base", True), ("app", True), ("payload", True), (None, False), ("image", True))
    drives: list[str] = []
    for number, (name, read_only) in enumerate(disks):
        path = built[name] if name else disk
        options = "readonly=on" if read_only else "cache=unsafe"
        drives += ["-drive", f"file={path},format=raw,if=none,id=disk{number},{options}"]
        drives += ["-device", f"virtio-blk-pci,drive=disk{number},bus=pcie.0"]
    return [
        str(libraries[0] / "ld-linux-x86-64.so.2"),
        "--library-path",
        ":".join(map(str, libraries)),
        str(tools / "usr/bin/qemu-system-x86_64"),
        *("-L", str(tools / "usr/share/qemu"), "-L", str(tools / "usr/share/seabios")),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-qmp", f"unix:{control},server=on,wait=off"),
        *machine.arguments(),
        *drives,
        *("-netdev", f"user,id=management,restrict=on{forwards}"),
        *("-device", "virtio-net-pci,netdev=management,bus=pcie.0,romfile="),
        *("-kernel", str(built["kernel"]), "-initrd", str(built["initrd"])),
        *("-append", f"console=ttyS0 quiet panic=-1 {machine.kernel_arguments}"),
    ]
