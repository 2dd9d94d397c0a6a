"""NVIDIA GPUs: the kernel driver's procfs gives UUID and device minor without NVML.

A container gets ``NVIDIA_VISIBLE_DEVICES`` always, which NVIDIA's runtime acts on and others ignore, plus
one of two things that work with any runtime: the CDI device ``nvidia.com/gpu=<UUID>`` if a CDI
specification lists it (it carries the driver's libraries too, and the toolkit's specifications switch the
environment variable off so that nothing is injected twice), else the device nodes that exist.
GPUs in MIG mode are left to the vendor's plugin.
"""

from __future__ import annotations

from pathlib import Path

from numaplace.devices.files import exists, names_in, read_pairs, to_int
from numaplace.devices.gpu.vendor import GpuHost, GpuVendor, Unit
from numaplace.devices.pci import PciFunction
from numaplace.devices.roots import HostRoots
from numaplace.model.device import ContainerEdits, DeviceNode

_CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def _units(function: PciFunction, host: GpuHost) -> tuple[Unit, ...] | str:
    driver = host.roots.procfs / "driver/nvidia"
    facts = read_pairs(driver / "gpus" / function.address / "information", ":")
    uuid, minor = facts.get("GPU UUID", ""), to_int(facts.get("Device Minor", ""))
    if not facts:
        return f"the driver does not list it in {driver / 'gpus'}"
    if facts.get("GPU Excluded", "No") == "Yes":
        return "excluded in the driver (GPU Excluded: Yes)"
    if not uuid.startswith("GPU-") or "?" in uuid:
        return f"the driver shows no UUID yet ({uuid or 'none'}): start nvidia-persistenced or run nvidia-smi"
    if minor is not None and any(
        name.startswith("gi") for name in names_in(driver / f"capabilities/gpu{minor}/mig")
    ):
        return "in MIG mode: its partitions are not served in this version"
    return (Unit(uuid, _edits(uuid, minor, host)),)


def _edits(uuid: str, minor: int | None, host: GpuHost) -> ContainerEdits:
    env = {"NVIDIA_VISIBLE_DEVICES": uuid}
    cdi = f"nvidia.com/gpu={uuid}"
    if cdi in host.cdi.names():
        return ContainerEdits(env=env, cdi_devices=(cdi,))
    own = f"nvidia{minor}"
    if not exists(host.roots.devfs / own):
        return ContainerEdits(env=env)
    names = (own, *(name for name in _CONTROL_NODES if exists(host.roots.devfs / name)))
    return ContainerEdits(env=env, device_nodes=tuple(map(DeviceNode.below_dev, names)))


def _watched(roots: HostRoots) -> tuple[Path, ...]:
    return (roots.devfs, *roots.cdi)


NVIDIA = GpuVendor(
    name="nvidia",
    pci_vendor="10de",
    classes=("0300", "0302"),
    drivers=("nvidia",),
    offers_vfs=False,
    units=_units,
    watched=_watched,
)
