"""What a container gets with a VF, as the SR-IOV network device plugin gives it.

``PCIDEVICE_<RESOURCE>`` lists the PCI addresses in the kubelet's order; ``PCIDEVICE_<RESOURCE>_INFO`` is a
JSON object {PCI address: {provider: {key: value}}} (its pkg/infoprovider). Workloads, Multus and
sriov-cni read both, so names and keys are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from numaplace.devices.files import exists
from numaplace.devices.sriov.spec import SriovSpec
from numaplace.devices.sriov.vf import VirtualFunction, iommu_group, rdma_devices, rdma_nodes, uio_device
from numaplace.model.device import ContainerEdits, DeviceNode
from numaplace.model.names import ResourceName

VHOST_NODES = ("vhost-net", "net/tun")


@dataclass(frozen=True, slots=True)
class Provided:
    """One provider's part. ``problem`` says why a container could not use the VF; then the rest is empty."""

    info: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[DeviceNode, ...] = ()
    problem: str = ""


def variable_of(resource: ResourceName) -> str:
    """Return ``PCIDEVICE_INTEL_COM_SRIOV_VF`` for ``intel.com/sriov_vf``; hyphens stay, as upstream."""
    return "PCIDEVICE_" + resource.upper().replace("/", "_").replace(".", "_")


def edits_of(
    vf: VirtualFunction, spec: SriovSpec, *, resource: ResourceName, devfs: Path
) -> ContainerEdits | str:
    """Return what a container gets with ``vf``, or the reason why the VF cannot be used."""
    parts = {"generic": Provided({"deviceID": vf.address})}
    if driver := DRIVERS.get(vf.function.driver):
        name, provide = driver
        parts[name] = provide(vf)
    if spec.rdma:
        parts["rdma"] = _rdma(vf, devfs)
    if spec.vhost_net and exists(devfs / VHOST_NODES[0]):
        parts["vhost"] = _vhost(devfs)
    if problem := next((part.problem for part in parts.values() if part.problem), ""):
        return problem
    variable = variable_of(resource)
    return ContainerEdits(
        env={variable: vf.address},
        env_json={f"{variable}_INFO": {vf.address: {name: dict(part.info) for name, part in parts.items()}}},
        device_nodes=tuple(node for part in parts.values() for node in part.nodes),
    )


def missing_vhost_nodes(devfs: Path) -> tuple[str, ...]:
    return tuple(f"/dev/{name}" for name in VHOST_NODES if not exists(devfs / name))


def _vfio(vf: VirtualFunction) -> Provided:
    group, noiommu = iommu_group(vf.function)
    if not group:
        return Provided(problem="bound to vfio-pci without an IOMMU group: switch the IOMMU on")
    # The node's name differs in a no-IOMMU group, the container sees the usual one.
    host = f"/dev/vfio/noiommu-{group}" if noiommu else f"/dev/vfio/{group}"
    inside = f"/dev/vfio/{group}"
    return Provided(
        {"mount": "/dev/vfio/vfio", "dev-mount": inside},
        (DeviceNode.below_dev("vfio/vfio"), DeviceNode(host, inside)),
    )


def _uio(vf: VirtualFunction) -> Provided:
    device = uio_device(vf.function)
    if not device:
        return Provided(problem=f"bound to {vf.function.driver} without a userspace I/O device")
    return Provided({"mount": f"/dev/{device}"}, (DeviceNode.below_dev(device),))


def _rdma(vf: VirtualFunction, devfs: Path) -> Provided:
    nodes = rdma_nodes(vf.function)
    if exists(devfs / "infiniband/rdma_cm"):
        nodes = (*nodes, "rdma_cm")
    info = {name.rstrip("0123456789"): f"/dev/infiniband/{name}" for name in nodes}
    if devices := rdma_devices(vf.function):
        info["rdma_dev"] = devices[0]
    return Provided(info, tuple(DeviceNode.below_dev(f"infiniband/{name}") for name in nodes))


def _vhost(devfs: Path) -> Provided:
    # A node that is missing on the host would fail the container; upstream adds none of them then.
    nodes = () if missing_vhost_nodes(devfs) else tuple(DeviceNode.below_dev(name) for name in VHOST_NODES)
    return Provided({"net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun"}, nodes)


DRIVERS: Mapping[str, tuple[str, Callable[[VirtualFunction], Provided]]] = {
    "vfio-pci": ("vfio", _vfio),
    "igb_uio": ("uio", _uio),
    "uio_pci_generic": ("uio", _uio),
}
"""Userspace drivers: the provider's name in ``_INFO``, and what it adds. Kernel drivers add nothing."""
