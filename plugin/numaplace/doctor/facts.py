"""What was found on a node. Values only: a fact does not say whether it is good or bad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from numaplace.config.schema import Config
from numaplace.devices.scan import Scan
from numaplace.doctor.steering_page import SteeringFact
from numaplace.kubelet.config.read import KubeletFact
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, PodUse
from numaplace.model.topology import NumaTopology


class PathKind(StrEnum):
    """What is at a path. ``denied``: unknown, permission is missing."""

    MISSING = "missing"
    DENIED = "denied"
    SOCKET = "socket"
    DIRECTORY = "directory"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SocketFact:
    """A unix socket. ``error`` is the system's text when connecting failed; empty: it has a listener.

    ``process`` is the listener's name, empty when it is in another PID namespace or gone.
    """

    path: Path
    kind: PathKind = PathKind.MISSING
    error: str = ""
    denied: bool = False
    process: str = ""

    @property
    def listening(self) -> bool:
        return self.kind is PathKind.SOCKET and not self.error


@dataclass(frozen=True, slots=True)
class FolderFact:
    """A folder of sockets. ``writable`` and ``read_only`` (the mount) are for this process."""

    path: Path
    kind: PathKind = PathKind.MISSING
    writable: bool = False
    read_only: bool = False
    sockets: tuple[SocketFact, ...] = ()

    def listeners(self, prefix: str) -> tuple[SocketFact, ...]:
        """Return the sockets with this prefix that have a listener."""
        return tuple(one for one in self.sockets if one.listening and one.path.name.startswith(prefix))


@dataclass(frozen=True, slots=True)
class CallFact:
    """One call: ``OK`` or the code of its ``PeerError``, the seconds that it took, and the error's text."""

    code: str
    seconds: float
    text: str = ""

    @property
    def good(self) -> bool:
        return self.code == "OK"


@dataclass(frozen=True, slots=True)
class PodResourcesFact:
    """The PodResources API. Calls are None when not made: no socket, or (``get``) no pod to ask for.

    ``got``: Get returned a pod that List has.
    """

    socket: SocketFact
    list: CallFact | None = None
    allocatable: CallFact | None = None
    get: CallFact | None = None
    got: bool = False
    pods: tuple[PodUse, ...] | None = None
    capacity: Allocatable | None = None


@dataclass(frozen=True, slots=True)
class ScanFact:
    """One scan of a resource's source, and what sysfs says (``numa_node``) of devices without a NUMA node."""

    scan: Scan
    raw_numa: Mapping[DeviceId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a metric."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class DaemonFact:
    """The daemon's pages. ``status`` and ``text`` are of ``/readyz``; 0 and the error without an answer.

    ``steering`` is None without an answer, and of a daemon that has no such page.
    """

    url: str
    status: int = 0
    text: str = ""
    samples: tuple[Sample, ...] = ()
    steering: SteeringFact | None = None

    def values(self, name: str) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if sample.name == name)


@dataclass(frozen=True, slots=True)
class LimitsFact:
    """The system's limits; None where procfs does not show them. ``inotify_error``: why there is none."""

    inotify_instances: int | None = None
    inotify_watches: int | None = None
    inotify_error: str = ""
    open_files: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was seen. ``daemon`` is None when its pages are switched off.

    ``cpu_topology`` is None where a kubelet would find no CPUs.
    ``pci_bus`` and ``numa_shown``: whether sysfs shows a PCI bus, and NUMA nodes. ``registry`` is the folder
    of the kubelet's plugin watcher, where some plugins have their sockets instead.
    """

    config: Config
    folder: FolderFact
    registry: FolderFact
    kubelet_socket: SocketFact
    pod_resources: PodResourcesFact
    kubelet: KubeletFact
    topology: NumaTopology
    cpu_topology: CpuTopology | None = None
    config_warnings: tuple[str, ...] = ()
    uid: int = 0
    numa_shown: bool = True
    scans: Mapping[ResourceName, ScanFact] = field(default_factory=dict)
    daemon: DaemonFact | None = None
    limits: LimitsFact = field(default_factory=LimitsFact)
