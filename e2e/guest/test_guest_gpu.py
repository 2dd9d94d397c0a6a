"""Display adapters on real NUMA nodes, as far as the ``gpu`` source can be taken with them.

QEMU has no GPU that a container driver runs. Two things stand in. A Radeon of the year 2000 (``ati-vga``) is
a display function of a vendor that the source knows, with a driver that it does not want. And of the virtio
display adapters, which are on a NUMA node and have DRM nodes that open, vendor and driver are made up: all
else is the kernel's own word.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guest.site import POD_SECONDS, SOURCES, Site
from harness.flows import placement, run_one_by_one
from harness.kubelet import KubeletOptions
from harness.pods import Pod, unique
from harness.report import Report

GPU = "amd.com/gpu"
_GPU_SOURCE = {GPU: {"gpu": {"vendor": "amd"}}}
_TREE = "/run/made-up"

# Links to all that the kernel says of an adapter, but for these two.
_MAKE_UP = f"""
real=/sys/bus/pci/devices/$1 made={_TREE}/bus/pci/devices/$1
mkdir -p $made {_TREE}/devices/system
[ -e {_TREE}/devices/system/node ] || ln -s /sys/devices/system/node {_TREE}/devices/system/node
ln -s $real/* $made/
rm $made/vendor $made/driver
echo 0x1002 >$made/vendor
ln -s /sys/bus/pci/drivers/amdgpu $made/driver
"""


@pytest.fixture(autouse=True)
def no_pods_left(site: Site) -> Iterator[None]:
    site.under(KubeletOptions())
    yield
    site.node.clear()


@pytest.fixture(scope="module")
def adapters(site: Site) -> dict[str, int]:
    """The virtio adapters, with drivers, and their NUMA nodes by how the machine was made."""
    site.guest.load("virtio-gpu")
    found = {site.machine.display(node, number): node for node in (0, 1) for number in (0, 1)}
    for address in found:
        site.guest.agent.run("sh", "-ec", _MAKE_UP, "made-up", address)
    return found


def test_display_adapter_with_another_driver_is_left_out(site: Site) -> None:
    site.serve(sources=SOURCES | _GPU_SOURCE)
    assert site.daemon.metric("numaplace_devices_left_out", resource=GPU) == 1
    assert f'"{site.machine.display(1, 2)}":"driver none: needs amdgpu"' in site.daemon.log()
    assert not site.node.numa_nodes().get(GPU)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("most-allocated", [(0,), (0,)]), ("least-allocated", [(0,), (1,)])],
)
def test_adapters_follow_the_strategy(
    site: Site, adapters: dict[str, int], strategy: str, expected: list[tuple[int, ...]], report: Report
) -> None:
    site.serve(strategy, sources=_GPU_SOURCE, more={"host": {"sysfs": _TREE}})
    site.wait_for(GPU, {address: (node,) for address, node in adapters.items()})
    pods = [Pod.of(unique("gpu"), {GPU: 1}) for _ in expected]
    run_one_by_one(site.node, pods, limit_seconds=POD_SECONDS)
    placed = placement(site.node, adapters)
    sequence = placed.node_sequence(pods, GPU)
    report.rows("Topology Manager none, a display adapter", {strategy: sequence})
    assert sequence == expected
    for pod in pods:
        # The container has the DRM nodes of its own adapter, and they open.
        (address,) = placed.ids(pod.name, GPU)
        names = site.guest.agent.shell(f"ls /sys/bus/pci/devices/{address}/drm").split()
        nodes = {f"/dev/dri/{name}" for name in names if name.startswith(("card", "renderD"))}
        assert site.node.given(pod.name, "main").opened == dict.fromkeys(nodes, "virtio_gpu")
        assert len(nodes) == 2
