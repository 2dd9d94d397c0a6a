"""NUMA nodes and devices that are not as they should be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from doctor_site import GPU_ONLY, VF_ONLY, Patient
from numaplace.devices.fake import FakeHost
from numaplace.doctor.findings import Level

PF = "0000:1b:00.0"
GPU = "0000:50:00.0"


async def test_firmware_that_does_not_say_the_numa_node(running: Patient) -> None:
    running.host.set_numa(GPU, -1)
    report = await running.examine()
    found = report.warning("numa", "nvidia.com/gpu: 1 of 8 devices have no NUMA node", "is -1")
    assert "firmware" in found.advice


async def test_a_numa_node_that_does_not_exist(running: Patient) -> None:
    running.host.set_numa(GPU, 7)
    report = await running.examine()
    found = report.warning("numa", "1 of 8 devices", "numa_node in sysfs is 7; this machine has 0, 1")
    assert "offline" in found.advice
    assert not [one for one in report.findings if one.check == "devices" and "NUMA" in one.summary]


async def test_all_devices_on_one_node(running: Patient) -> None:
    for slot in range(4):
        running.host.set_numa(f"0000:6{slot}:00.0", 0)
    report = await running.examine()
    assert "selectors" in report.warning("numa", "nvidia.com/gpu: all devices are on NUMA node 0").advice


async def test_a_node_without_devices_is_no_trouble(running: Patient) -> None:
    running.host.numa_node(2, cpus="", memory_bytes=1 << 30)
    report = await running.examine()
    report.one("numa", Level.OK, "intel.com/vf: devices on 2 NUMA nodes; none on NUMA 2")
    report.one("numa", Level.OK, "3 NUMA nodes", "without CPUs: 2")


async def test_a_sysfs_without_numa(running: Patient) -> None:
    host = {name: str(running.site.root / "host" / name) for name in ("devfs", "procfs")}
    empty = running.site.root / "empty"
    (empty / "bus/pci/devices").mkdir(parents=True)
    report = await running.examine(host={"sysfs": str(empty), **host})
    assert "host.sysfs" in report.warning("numa", "the kernel shows no NUMA nodes").advice
    assert "sriov_numvfs" in report.problem("devices", "intel.com/vf: no device matches").advice


async def test_no_sysfs_at_all(running: Patient) -> None:
    report = await running.examine(host={"sysfs": str(running.site.root / "nothing")})
    assert "host.sysfs" in report.problem("devices", "intel.com/vf: its devices cannot be scanned").advice


async def test_more_numa_nodes_than_allowed(running: Patient) -> None:
    for node in range(2, 9):
        running.host.numa_node(node, cpus=str(16 + node))
    report = await running.examine()
    assert "maxAllowableNUMANodes: 9" in report.warning("numa", "9 NUMA nodes are more than").advice
    running.kubelet_file(topologyManagerPolicy="restricted")
    report = await running.examine(maxAllowableNUMANodes=16)
    found = report.problem("numa", "more than the kubelet allows (8)")
    assert 'max-allowable-numa-nodes: "9"' in found.advice
    running.kubelet_file(
        topologyManagerPolicy="restricted", topologyManagerPolicyOptions={"max-allowable-numa-nodes": "9"}
    )
    assert (await running.examine(maxAllowableNUMANodes=16)).ok


async def test_a_selector_that_matches_nothing(running: Patient) -> None:
    resources = [{"name": "intel.com/vf", "sriov": {"pfNames": ["ens9"]}}]
    report = await running.examine(resources=resources)
    found = report.problem("devices", "intel.com/vf: no device matches", "is not in [ens9]")
    assert "selectors" in found.advice
    report.warning("devices", "ens9 is not a PF of this host (PFs: ens0, ens1)")


def no_iommu(host: FakeHost) -> None:
    vf = host.vf(PF, 0)
    host.bind(vf, "vfio-pci")
    host.tree.remove(f"{host.tree.pci(vf)}/iommu_group")


def no_uio(host: FakeHost) -> None:
    vf = host.vf(PF, 0)
    host.bind(vf, "igb_uio")
    for number in range(4):
        host.tree.remove(f"{host.tree.pci(vf)}/uio/uio{number}")


def nvidia_facts(host: FakeHost, **facts: str) -> None:
    lines = {"GPU UUID": "GPU-1", "Device Minor": "0"} | {
        key.replace("_", " "): text for key, text in facts.items()
    }
    text = "\n".join(f"{key}: {value}" for key, value in lines.items())
    host.tree.file(f"proc/driver/nvidia/gpus/{GPU}/information", text)


def mig(host: FakeHost) -> None:
    host.tree.file("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "")


ANY_VF = [{"name": "intel.com/vf", "sriov": {}}]
RDMA = [{"name": "intel.com/vf", "sriov": {"rdma": True}}]
SPOILT = {
    "unbound": (ANY_VF, lambda host: host.bind(host.vf(PF, 0), None), "no driver is bound", "driverctl"),
    "no IOMMU": (ANY_VF, no_iommu, "without an IOMMU group", "intel_iommu=on"),
    "no UIO": (ANY_VF, no_uio, "without a userspace I/O device", "load the driver igb_uio"),
    "rdma": (RDMA, lambda host: None, "it has no RDMA device", "irdma"),
    "no UUID": (
        GPU_ONLY,
        lambda host: nvidia_facts(host, GPU_UUID="GPU-????????"),
        "no UUID yet",
        "nvidia-persistenced",
    ),
    "excluded": (GPU_ONLY, lambda host: nvidia_facts(host, GPU_Excluded="Yes"), "excluded", "NVreg_Excluded"),
    "off the bus": (
        GPU_ONLY,
        lambda host: host.tree.remove(f"proc/driver/nvidia/gpus/{GPU}/information"),
        "does not list it",
        "dmesg",
    ),
    "MIG": (GPU_ONLY, mig, "in MIG mode", "vendor's plugin"),
    "given to a VM": (
        GPU_ONLY,
        lambda host: host.bind(GPU, "vfio-pci"),
        "driver vfio-pci: needs nvidia",
        "load the driver (nvidia)",
    ),
    "without DRM": (
        [{"name": "amd.com/gpu", "gpu": {"vendor": "amd"}}],
        lambda host: host.pci(
            "0000:90:00.0", vendor="1002", device="74a1", pci_class="120000", numa=0, driver="amdgpu"
        ),
        "no DRM node yet",
        "dmesg",
    ),
    "shared by VFs": (
        [{"name": "intel.com/gpu", "gpu": {"vendor": "intel"}}],
        lambda host: host.tree.file(
            f"{host.tree.pci(host.gpu('intel', '0000:91:00.0', numa=0))}/sriov_numvfs", "2"
        ),
        "a PF with 2 VFs",
        "sriov_numvfs to 0",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
async def test_devices_left_out(running: Patient, name: str) -> None:
    resources, spoil, reason, advice = SPOILT[name]
    spoil_host: Callable[[FakeHost], object] = spoil
    spoil_host(running.host)
    report = await running.examine(resources=resources)
    found = report.warning("devices", "left out", reason)
    assert advice in found.advice


async def test_devices_that_are_not_selected_are_no_trouble(running: Patient) -> None:
    resources = [{"name": "intel.com/vf", "sriov": {"pfNames": ["ens0#0-3"], "vendors": ["8086"]}}]
    report = await running.examine(resources=resources)
    assert not [one for one in report.worse_than_ok() if one.check == "devices"]


async def test_two_resources_with_the_same_device(running: Patient) -> None:
    resources = [
        {"name": "intel.com/vf", "sriov": {"drivers": ["iavf"]}},
        {"name": "intel.com/fast", "sriov": {"pfNames": ["ens0"]}},
    ]
    report = await running.examine(resources=resources)
    found = report.warning(
        "devices", "8 devices matched by intel.com/vf and intel.com/fast: intel.com/vf keeps"
    )
    assert "exclude each other" in found.advice


async def test_a_declared_device_that_is_ill_and_one_without_a_node(running: Patient) -> None:
    file = running.site.root / "widgets.yaml"
    file.write_text("devices:\n- {id: a, numaNode: 0, healthy: false}\n- {id: b}\n- {id: c, numaNode: 1}\n")
    resources = [{"name": "example.com/widget", "declared": {"file": str(file)}}]
    report = await running.examine(resources=resources)
    assert "repair" in report.warning("devices", "1 unhealthy device", "a").advice
    assert "name one of 0, 1" in report.warning("numa", "1 of 3 devices have no NUMA node").advice


async def test_a_device_that_the_kubelet_does_not_count(running: Patient) -> None:
    async with running.site.serving(resources=VF_ONLY):
        running.host.pf("0000:7b:00.0", "ens7", numa=0, vfs=1)
        report = await running.examine(resources=VF_ONLY)
    found = report.warning("devices", "does not count 1 device as allocatable that is there")
    assert "run doctor again" in found.advice
