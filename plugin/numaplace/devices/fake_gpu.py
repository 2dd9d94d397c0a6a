"""What the GPU vendors' kernel drivers show on a fake host."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numaplace.devices.fake_tree import FakeTree

FIRST_RENDER_MINOR = 128


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """One GPU to add."""

    address: str
    uuid: str
    excluded: bool = False
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class FakeGpuVendor:
    """One vendor: its PCI identity, and how its driver shows a GPU."""

    pci_vendor: str
    device: str
    pci_class: str
    driver: str
    write: Callable[[FakeTree, FakeGpu], None]


def nvidia_uuid(address: str) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, address)}"


def _nvidia(tree: FakeTree, gpu: FakeGpu) -> None:
    minor = tree.count("proc/driver/nvidia/gpus", "")
    lines = {
        "Model": "NVIDIA H100 80GB HBM3",
        "IRQ": "345",
        "GPU UUID": gpu.uuid,
        "Bus Type": "PCIe",
        "Bus Location": gpu.address,
        "Device Minor": str(minor),
        "GPU Excluded": "Yes" if gpu.excluded else "No",
    }
    text = "\n".join(f"{key}: \t {value}" for key, value in lines.items())
    tree.file(f"proc/driver/nvidia/gpus/{gpu.address}/information", text)
    for name in (f"nvidia{minor}", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        tree.file(f"dev/{name}", "")


def _drm(tree: FakeTree, parent: str) -> int:
    """Add the DRM nodes of the next card below ``parent`` and return its render minor."""
    card = tree.count("dev/dri", "card")
    minor = FIRST_RENDER_MINOR + card
    for name in (f"card{card}", f"renderD{minor}"):
        tree.directory(f"{parent}/drm/{name}")
        tree.file(f"dev/dri/{name}", "")
    return minor


def _amd(tree: FakeTree, gpu: FakeGpu) -> None:
    tree.file("dev/kfd", "")
    _kfd(tree, _drm(tree, tree.pci(gpu.address)), gpu.address)
    for _ in range(1, gpu.partitions):
        number = tree.count("sys/devices/platform", "amdgpu_xcp_")
        _kfd(tree, _drm(tree, f"sys/devices/platform/amdgpu_xcp_{number}"), gpu.address)


def _kfd(tree: FakeTree, minor: int, address: str) -> None:
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    location = int(bus, 16) << 8 | int(device, 16) << 3 | int(function)
    nodes = "sys/class/kfd/kfd/topology/nodes"
    text = f"cpu_cores_count 0\nlocation_id {location}\ndomain {int(domain, 16)}\ndrm_render_minor {minor}"
    tree.file(f"{nodes}/{tree.count(nodes, '')}/properties", text)


def _intel(tree: FakeTree, gpu: FakeGpu) -> None:
    minor = _drm(tree, tree.pci(gpu.address))
    card = minor - FIRST_RENDER_MINOR
    tree.link(f"dev/dri/by-path/pci-{gpu.address}-card", f"dev/dri/card{card}")
    tree.link(f"dev/dri/by-path/pci-{gpu.address}-render", f"dev/dri/renderD{minor}")


FAKE_GPUS: Mapping[str, FakeGpuVendor] = {
    "nvidia": FakeGpuVendor("10de", "2330", "030200", "nvidia", _nvidia),
    "amd": FakeGpuVendor("1002", "74a1", "120000", "amdgpu", _amd),
    "intel": FakeGpuVendor("8086", "0bda", "038000", "xe", _intel),
}
