"""The configuration as one frozen record, and at the same time the schema of the file.

A field's encoded name is its key in the file. A field with a reader (``Annotated``) is a leaf; one
whose type is another record is a section; a tuple of records is a list of sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec

from numaplace.config.readers import RequestsReader, WeightsReader
from numaplace.engine.weights import Weights
from numaplace.model.names import ResourceName, Strategy
from numaplace.reading.kinds import (
    BOOL,
    MAX_SOCKET_PATH_BYTES,
    READABLE_FILE,
    Kind,
    choice,
    integer,
    matching,
    path,
)
from numaplace.reading.names import HTTP_ADDRESS, PF_NAME, RESOURCE_NAME, PfName
from numaplace.reading.quantities import QUANTITY, duration
from numaplace.reading.readers import Leaf, ListOf


class LinkType(StrEnum):
    """A network device's link type."""

    ETHER = "ether"
    INFINIBAND = "infiniband"


class GpuVendor(StrEnum):
    """The vendor of the GPUs that the ``gpu`` source offers."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


class SteeringMode(StrEnum):
    """Whether topology is withheld to steer the kubelet's Topology Manager.

    ``auto``: where it can do no harm; ``always``: also with requests of several sizes.
    """

    OFF = "off"
    AUTO = "auto"
    ALWAYS = "always"


class ClusterMode(StrEnum):
    """Whether the API server is used; ``auto`` is on when in a cluster with permission."""

    AUTO = "auto"
    ON = "true"
    OFF = "false"


_STRATEGY = choice(Strategy, also={"": Strategy.NONE}, note=" (empty is none)")
_PCI_ID = matching(r"[0-9a-fA-F]{4}", "four hexadecimal digits, such as 8086")
_PCI_ADDRESS = matching(
    r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]", "a PCI address such as 0000:18:02.0"
)
_DRIVER = matching(r"[A-Za-z0-9_-]{1,63}", "a driver's name, such as vfio-pci")
_SOCKET: Kind[Path | None] = path(longest_bytes=MAX_SOCKET_PATH_BYTES)


class SriovConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which VFs belong to the resource: all selectors given have to match; within one, any item."""

    pf_names: Annotated[
        tuple[PfName, ...], ListOf(PF_NAME, "PF's network name, with VF indexes after # if wanted")
    ] = msgspec.field(default=(), name="pfNames")
    vendors: Annotated[tuple[str, ...], ListOf(_PCI_ID, "PCI vendor id")] = ()
    devices: Annotated[tuple[str, ...], ListOf(_PCI_ID, "PCI device id of the VF")] = ()
    drivers: Annotated[tuple[str, ...], ListOf(_DRIVER, "driver the VF is bound to")] = ()
    pci_addresses: Annotated[tuple[str, ...], ListOf(_PCI_ADDRESS, "PCI address of the VF")] = msgspec.field(
        default=(), name="pciAddresses"
    )
    link_types: Annotated[tuple[LinkType, ...], ListOf(choice(LinkType), "link type of the VF")] = (
        msgspec.field(default=(), name="linkTypes")
    )
    rdma: Annotated[bool, Leaf(BOOL, "only VFs with RDMA; the container gets their RDMA device nodes")] = (
        False
    )
    vhost_net: Annotated[bool, Leaf(BOOL, "the container also gets /dev/vhost-net and /dev/net/tun")] = (
        msgspec.field(default=False, name="vhostNet")
    )


class GpuConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of one vendor."""

    vendor: Annotated[GpuVendor, Leaf(choice(GpuVendor), "vendor of the GPUs")]


class DeclaredConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that a file lists."""

    file: Annotated[Path, Leaf(READABLE_FILE, "file that lists the devices")]


class RelayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The vendor's own plugin registers this name with numaplace."""


class ResourceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One resource: its name and exactly one source of devices."""

    name: Annotated[
        ResourceName,
        Leaf(RESOURCE_NAME, "extended resource name"),
    ]
    sriov: SriovConfig | None = None
    gpu: GpuConfig | None = None
    declared: DeclaredConfig | None = None
    relay: RelayConfig | None = None
    strategy: Annotated[
        Strategy | None, Leaf(_STRATEGY, "strategy of this resource, instead of the top one")
    ] = None


class RelayDirectoryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where vendors' plugins register with numaplace."""

    directory: Annotated[
        Path, Leaf(path(), "the vendor's view of the kubelet's device-plugins directory")
    ] = Path("/var/lib/numaplace/device-plugins")


class HeadroomConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What has to stay free on the NUMA node that keeps its topology."""

    cpu: Annotated[int, Leaf(integer(0, 4096), "CPUs to keep free on the wanted NUMA node")] = 0
    memory_bytes: Annotated[int, Leaf(QUANTITY, "memory to keep free on the wanted NUMA node")] = (
        msgspec.field(default=0, name="memory")
    )


class SteeringConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Steering of the kubelet's Topology Manager."""

    mode: Annotated[
        SteeringMode,
        Leaf(
            choice(SteeringMode, also={"false": SteeringMode.OFF}),
            "whether the kubelet's Topology Manager is made to follow the strategy",
        ),
    ] = SteeringMode.AUTO
    requests: Annotated[
        tuple[Mapping[ResourceName, int], ...], RequestsReader("requests that may arrive")
    ] = ()
    headroom: HeadroomConfig = msgspec.field(default_factory=HeadroomConfig)
    backoff_seconds: Annotated[
        float, Leaf(duration("1s", "24h"), "how long all topology stays published after a refused pod")
    ] = msgspec.field(default=300.0, name="backoff")


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Use of the API server."""

    enabled: Annotated[
        ClusterMode,
        Leaf(
            choice(ClusterMode, also={"on": ClusterMode.ON, "off": ClusterMode.OFF}),
            "whether this node's pods are watched at the API server",
        ),
    ] = ClusterMode.AUTO
    events: Annotated[bool, Leaf(BOOL, "whether pods get an Event that says where they were placed")] = True


class KubeletConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where the kubelet is found."""

    device_plugin_directory: Annotated[
        Path, Leaf(path(), "folder of the kubelet's device plugin sockets")
    ] = msgspec.field(default=Path("/var/lib/kubelet/device-plugins"), name="devicePluginDirectory")
    pod_resources_socket: Annotated[Path, Leaf(_SOCKET, "the kubelet's PodResources socket")] = msgspec.field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"), name="podResourcesSocket"
    )
    config_file: Annotated[Path | None, Leaf(path(empty=True), "the kubelet's own configuration file")] = (
        msgspec.field(default=None, name="configFile")
    )


class HostConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where the host's file systems are mounted."""

    sysfs: Annotated[Path, Leaf(path(), "where the host's /sys is mounted")] = Path("/sys")
    devfs: Annotated[Path, Leaf(path(), "where the host's /dev is mounted")] = Path("/dev")
    procfs: Annotated[Path, Leaf(path(), "where the host's /proc is mounted")] = Path("/proc")


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of /metrics, /healthz and /readyz."""

    address: Annotated[str, Leaf(HTTP_ADDRESS, "address of /metrics, /healthz and /readyz")] = ":9477"

    @property
    def listen(self) -> tuple[str, int] | None:
        """Return (host, port) to listen on, the host empty for all addresses; None when switched off."""
        if not self.address:
            return None
        host, _, port = self.address.rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of the daemon."""

    strategy: Annotated[
        Strategy, Leaf(_STRATEGY, "which NUMA node wins a tie (KEP-6007 numa-allocation-strategy)")
    ] = Strategy.NONE
    weights: Annotated[
        Weights, WeightsReader("how much each resource's score counts (KEP-6007 numa-score-weights)")
    ] = msgspec.field(default_factory=Weights)
    prefer_closest: Annotated[
        bool, Leaf(BOOL, "among equally wide sets of NUMA nodes prefer the closest (KEP-3545)")
    ] = msgspec.field(default=False, name="preferClosestNUMANodes")
    follow_cpus: Annotated[
        bool,
        Leaf(
            BOOL,
            "under Topology Manager policy none, put devices beside the CPUs that the container will get",
        ),
    ] = msgspec.field(default=True, name="followCPUs")
    max_allowable_numa_nodes: Annotated[
        int, Leaf(integer(8, 64), "largest number of NUMA nodes that is accepted")
    ] = msgspec.field(default=8, name="maxAllowableNUMANodes")
    deadline_seconds: Annotated[
        float, Leaf(duration("10ms", "10s"), "time limit for one GetPreferredAllocation")
    ] = msgspec.field(default=0.2, name="deadline")
    rescan_interval_seconds: Annotated[
        float, Leaf(duration("1s", "1h"), "how often the host is scanned for devices")
    ] = msgspec.field(default=10.0, name="rescanInterval")
    poll_interval_seconds: Annotated[
        float, Leaf(duration("500ms", "10m"), "how often PodResources is polled between decisions")
    ] = msgspec.field(default=5.0, name="pollInterval")
    resources: tuple[ResourceConfig, ...] = ()
    relay: RelayDirectoryConfig = msgspec.field(default_factory=RelayDirectoryConfig)
    steering: SteeringConfig = msgspec.field(default_factory=SteeringConfig)
    cluster: ClusterConfig = msgspec.field(default_factory=ClusterConfig)
    kubelet: KubeletConfig = msgspec.field(default_factory=KubeletConfig)
    host: HostConfig = msgspec.field(default_factory=HostConfig)
    http: HttpConfig = msgspec.field(default_factory=HttpConfig)
