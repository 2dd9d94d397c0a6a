"""A running guest: started with limits and retries, ended with everything that belongs to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from guest.client import Agent, Monitor
from guest.keeper import GuestLogs
from guest.machine import AGENT_PORT, DAEMON_PORT, KUBELET_PORT, POD_RESOURCES_PORT, Machine, command
from harness.process import Process
from harness.waiters import NeverHappenedError, until
from numaplace.devices.host import parse_cpulist

# On an idle machine the first sign comes within 7 s, the agent 2 s after it.
FIRST_SIGN_SECONDS = 60
AGENT_SECONDS = 30
ATTEMPTS = 4
DISK_MIB = 4096
_SIGN = "@@ kernel"

VFS_PER_PORT = 4


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest whose agent answers. ``ports``: TCP port of the guest -> of this machine's loopback address."""

    machine: Machine
    agent: Agent
    monitor: Monitor
    ports: Mapping[int, int]
    folder: Path

    @property
    def image_device(self) -> str:
        """Where the guest has the archive of the daemon's image."""
        return "/dev/vde"

    def load(self, *modules: str) -> None:
        """Load kernel modules with what they need."""
        for name in modules:
            self.agent.shell(
                f'while read -r file; do [ -d "/sys/module/$(basename "$file" .ko | tr - _)" ] ||'
                f' insmod "/payload/modules/$file"; done </payload/modules/{name}.order'
            )

    def make_vfs(self, count: int = VFS_PER_PORT) -> None:
        """Load the drivers, give each port its name and its VFs, and wait until these have drivers, too."""
        self.load("igb", "igbvf")
        ports = list(self.machine.ports())
        script = [
            f"ip link set $(ls {_sysfs(self.machine.pf(*port))}/net) name {port_name(*port)}\n"
            f"echo {count} >{_sysfs(self.machine.pf(*port))}/sriov_numvfs"
            for port in ports
        ]
        self.agent.shell("\n".join(script))
        last = [_sysfs(self.machine.vf(*port, count - 1)) for port in ports]
        self.agent.shell(f"for vf in {' '.join(last)}; do until [ -e $vf/driver ]; do sleep 0.2; done; done")

    def set_vfs(self, node: int, port: int, count: int) -> None:
        """Write a port's number of VFs; from one number to another the way is over 0."""
        self.agent.write(f"{_sysfs(self.machine.pf(node, port))}/sriov_numvfs", f"{count}\n")

    def bind_vfio(self, *addresses: str) -> None:
        """Give VFs to vfio-pci."""
        self.load("vfio-pci", "vfio_iommu_type1")
        for address in addresses:
            self.agent.shell(
                f"cd {_sysfs(address)}; echo vfio-pci >driver_override;"
                f" [ ! -e driver ] || echo {address} >driver/unbind;"
                f" echo {address} >/sys/bus/pci/drivers_probe; [ $(basename $(readlink driver)) = vfio-pci ]"
            )

    def numa_nodes(self) -> dict[int, frozenset[int]]:
        """The CPUs of each NUMA node that is online, as the kernel says."""
        base = "/sys/devices/system/node"
        online = parse_cpulist(self.agent.read(f"{base}/online"))
        return {node: parse_cpulist(self.agent.read(f"{base}/node{node}/cpulist")) for node in sorted(online)}

    def unbind_vfio(self, address: str) -> None:
        """Give a VF back to its network driver."""
        self.agent.shell(
            f"cd {_sysfs(address)}; echo >driver_override; echo {address} >driver/unbind;"
            f" echo {address} >/sys/bus/pci/drivers_probe; until [ -e driver ]; do sleep 0.2; done"
        )

    def network_device(self, address: str) -> str:
        """The name of a PCI function's network device; empty where the host sees none."""
        return self.agent.shell(f"ls {_sysfs(address)}/net 2>/dev/null || true").strip()

    @contextlib.contextmanager
    def network_namespace(self) -> Iterator[Callable[[str], None]]:
        """Make a network namespace, as a pod has; yield what moves a PCI function's network device there.

        At its end the kernel gives the devices back.
        """
        holder = self.agent.start(["unshare", "-n", "sleep", "infinity"], log="/dev/null")

        def take(address: str) -> None:
            name = self.network_device(address)
            self.agent.shell(f"ip link set {name} netns {holder.pid}")
            until(lambda: not self.network_device(address), f"{name} to go", limit_seconds=20)

        own = self.agent.run("readlink", "/proc/1/ns/net")
        until(
            lambda: self.agent.run("readlink", f"/proc/{holder.pid}/ns/net") != own,
            "the network namespace",
            limit_seconds=20,
        )
        try:
            yield take
        finally:
            holder.kill()


def port_name(node: int, port: int) -> str:
    """The network name of a PF."""
    return f"ens{node}f{port}"


def _sysfs(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}"


@contextlib.contextmanager
def running_guest(
    machine: Machine, built: Mapping[str, Path], scratch: Path, *, logs: GuestLogs
) -> Iterator[Guest]:
    """Run a guest until the block ends. A boot that hangs, or in which QEMU ends, is begun anew."""
    with contextlib.ExitStack() as stack:
        for number in range(1, ATTEMPTS + 1):
            attempt = _attempt(machine, built, scratch / f"boot{number}", logs=logs)
            try:
                guest = stack.enter_context(attempt)
                break
            except NeverHappenedError as error:
                if number == ATTEMPTS:
                    raise
                print(f"guest: boot {number}: {error}; once more")
        yield guest


@contextlib.contextmanager
def _attempt(
    machine: Machine, built: Mapping[str, Path], folder: Path, *, logs: GuestLogs
) -> Iterator[Guest]:
    folder.mkdir(parents=True)
    disk, control, console = folder / "disk", folder / "qmp", folder / "console.log"
    with disk.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
    ports = dict(
        zip((AGENT_PORT, POD_RESOURCES_PORT, KUBELET_PORT, DAEMON_PORT), _free_ports(4), strict=True)
    )
    arguments = command(machine, built, disk=disk, control=control, ports=ports)
    modules = built["packages"] / "root/usr/lib/x86_64-linux-gnu/qemu"
    process = Process(arguments, console, env={**os.environ, "QEMU_MODULE_DIR": str(modules)})
    agent = Agent(ports[AGENT_PORT])

    def told(sign: str) -> bool:
        text = console.read_text(errors="replace")
        if process.exit_code is not None:
            raise NeverHappenedError(f"QEMU ended: {text[-2000:]}")
        return sign in text

    def tail() -> str:
        return console.read_text(errors="replace")[-2000:]

    try:
        with logs.watching("console", console):
            try:
                until(lambda: told(_SIGN), "the guest's first sign of life", limit_seconds=FIRST_SIGN_SECONDS)
                until(
                    lambda: told("@@ agent") and agent.answers(),
                    "the guest's agent",
                    limit_seconds=AGENT_SECONDS,
                    detail=tail,
                )
            except NeverHappenedError:
                logs.keep("boot")
                raise
            with logs.following(agent, folder):
                yield Guest(machine, agent, Monitor(control), ports, folder)
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
