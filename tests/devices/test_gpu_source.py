from typing import Any

import pytest
from device_cases import cases
from numaplace.devices.gpu.table import VENDORS

GPU = "0000:5e:00.0"


@pytest.mark.parametrize("case", cases("gpu_allocate.yaml"))
def test_what_a_container_gets_or_why_the_gpu_is_left_out(case: Any, host: Any, source: Any) -> None:
    options = dict(case["gpu"])
    vendor = options.pop("vendor")
    host.gpu(vendor, GPU, numa=1, **options)
    for kind, names in case.get("cdi", ()):
        host.cdi_spec(kind, names)
    for name in case.get("remove", ()):
        host.tree.remove(name)
    if "file" in case:
        host.tree.file(case["file"], "")
    scan = source("gpu", vendor=vendor).scan()
    assert [offer(device) for device in scan.devices] == case.get("offered", [])
    assert [device.nodes for device in scan.devices] == [(1,)] * len(scan.devices)
    assert {device.group for device in scan.devices} <= {GPU}
    if "reason" in case:
        assert [entry.id for entry in scan.left_out] == [GPU]
        assert scan.left_out[0].reason.startswith(case["reason"])
    else:
        assert scan.left_out == ()


def offer(device: Any) -> dict[str, Any]:
    """A device as the case file writes it."""
    edits = device.edits
    found = {
        "id": device.id,
        "env": dict(edits.env),
        "nodes": [node.host_path for node in edits.device_nodes],
        "mounts": [mount.container_path for mount in edits.mounts],
        "cdi": list(edits.cdi_devices),
    }
    assert all(node.host_path == node.container_path for node in edits.device_nodes)
    return {key: value for key, value in found.items() if value}


def test_two_vendors_on_one_host_do_not_mix(host: Any, source: Any) -> None:
    nvidia = [host.gpu("nvidia", f"0000:{bus}:00.0", numa=0) for bus in ("17", "2a")]
    amd = [host.gpu("amd", f"0000:{bus}:00.0", numa=1) for bus in ("9c", "d8")]
    intel = [host.gpu("intel", "0001:03:00.0", numa=1)]
    host.pf("0000:3b:00.0", "ens1f0", vfs=2)
    offered = {vendor: [d.id for d in source("gpu", vendor=vendor).scan().devices] for vendor in VENDORS}
    assert offered == {"nvidia": nvidia, "amd": amd, "intel": intel}


def test_partitions_belong_to_their_own_gpu(host: Any, source: Any) -> None:
    for address in ("0000:9c:00.0", "10001:d8:1f.1"):
        host.gpu("amd", address, partitions=2)
    groups = {device.id: device.group for device in source("gpu", vendor="amd").scan().devices}
    assert groups == {
        "0000:9c:00.0": "0000:9c:00.0",
        "amdgpu_xcp_0": "0000:9c:00.0",
        "10001:d8:1f.1": "10001:d8:1f.1",
        "amdgpu_xcp_1": "10001:d8:1f.1",
    }


@pytest.mark.parametrize(("vendor", "offered"), [("intel", ["0000:5e:00.1"]), ("amd", [])])
def test_a_gpu_with_vfs_is_not_offered_itself(
    vendor: str, offered: list[str], host: Any, source: Any
) -> None:
    host.gpu(vendor, GPU)
    host.tree.file(f"{host.tree.pci(GPU)}/sriov_numvfs", "1")
    host.gpu(vendor, "0000:5e:00.1")
    host.tree.link(f"{host.tree.pci('0000:5e:00.1')}/physfn", host.tree.pci(GPU))
    scan = source("gpu", vendor=vendor).scan()
    assert [device.id for device in scan.devices] == offered
    assert {entry.id for entry in scan.left_out} == {GPU, "0000:5e:00.1"} - set(offered)


def test_a_gpu_that_could_have_vfs_and_has_none_is_offered(host: Any, source: Any) -> None:
    host.gpu("nvidia", GPU)
    host.tree.file(f"{host.tree.pci(GPU)}/sriov_numvfs", "0")
    assert len(source("gpu", vendor="nvidia").scan().devices) == 1


def test_neighbours_of_the_vendor_are_not_gpus(host: Any, source: Any) -> None:
    host.pci("0000:01:00.0", vendor="10de", device="22a3", pci_class="068000", driver="nvidia-nvswitch")
    host.pci("0000:01:00.1", vendor="10de", device="10f7", pci_class="040300", driver="snd_hda_intel")
    host.pci("0000:01:00.2", vendor="8086", device="09c4", pci_class="120000", driver="dfl-pci")
    for vendor in ("nvidia", "intel"):
        scan = source("gpu", vendor=vendor).scan()
        assert scan.matched_nothing
        assert scan.left_out == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        ": [",
        "devices: 3",
        "- a",
        "kind: 3\ndevices: [1, {name: []}]",
        "&a [*a]",
        "!!bool x",
        '!!int ""',
        "!!timestamp x",
    ],
)
def test_a_useless_cdi_file_is_passed_over(text: str, host: Any, source: Any) -> None:
    uuid = host.gpu("nvidia", GPU)
    host.tree.file("etc/cdi/broken.yaml", text)
    host.cdi_spec("nvidia.com/gpu", [uuid])
    (device,) = source("gpu", vendor="nvidia").scan().devices
    assert device.edits.cdi_devices == (f"nvidia.com/gpu={uuid}",)


def test_a_cdi_file_that_comes_later_is_seen(host: Any, source: Any) -> None:
    uuid = host.gpu("nvidia", GPU)
    gpus = source("gpu", vendor="nvidia")
    assert not gpus.scan().devices[0].edits.cdi_devices
    host.cdi_spec("nvidia.com/gpu", ["all", uuid])
    assert gpus.scan().devices[0].edits.cdi_devices
    assert gpus.scan().devices[0].edits.cdi_devices
    host.cdi_spec("nvidia.com/gpu", ["all"])
    assert not gpus.scan().devices[0].edits.cdi_devices


def test_a_missing_pci_bus_is_a_failed_scan(host: Any, source: Any) -> None:
    host.tree.remove("sys/bus")
    assert source("gpu", vendor="amd").scan().failed


def test_watch_paths_are_existing_directories(host: Any, source: Any) -> None:
    host.gpu("amd", GPU)
    bus, devfs = host.roots.sysfs / "bus/pci/devices", host.roots.devfs
    assert source("gpu", vendor="amd").watch_paths == (bus, devfs / "dri")
    assert source("gpu", vendor="nvidia").watch_paths == (bus, devfs)
