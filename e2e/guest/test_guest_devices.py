"""Real VFs on real NUMA nodes, under a kubelet: which are found, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guest.boot import VFS_PER_PORT, port_name
from guest.site import NET, POD_SECONDS, VFIO, Site
from harness.flows import run_one_by_one
from harness.kubelet import KubeletOptions
from harness.pods import Pod, unique
from harness.waiters import until

Nodes = dict[str, tuple[int, ...]]


@pytest.fixture(autouse=True)
def no_pods_left(site: Site) -> Iterator[None]:
    site.under(KubeletOptions())
    yield
    site.node.clear()


def test_vfs_and_their_numa_nodes(site: Site) -> None:
    site.serve()
    site.wait_for(NET, site.vfs(NET))
    site.wait_for(VFIO, site.vfs(VFIO))
    # The machine is as it was meant to be: addresses of two ports' VFs alternate.
    first = sorted(vf for resource in (NET, VFIO) for vf, (node,) in site.vfs(resource).items() if node == 0)
    assert [vf in site.vfs(NET) for vf in first] == [True, False] * VFS_PER_PORT


def test_container_drives_its_vfs(site: Site) -> None:
    site.serve("most-allocated")
    pod = Pod.of(unique("vfio"), {NET: 1, VFIO: 2})
    run_one_by_one(site.node, [pod], limit_seconds=POD_SECONDS)
    held = site.node.held()[pod.name]["main"].devices
    assert len(site.placement().nodes(pod.name)) == 1
    seen = site.node.given(pod.name, "main")
    assert set(seen.env["PCIDEVICE_INTEL_COM_NET_VF"].split(",")) == held[NET]
    assert set(seen.env["PCIDEVICE_INTEL_COM_VFIO_VF"].split(",")) == held[VFIO]
    # It has taken each over through its IOMMU group and read its configuration space: an 82576 VF.
    found = {address: (one["problem"], one["vendor"], one["device"]) for address, one in seen.vfio.items()}
    assert found == dict.fromkeys(held[VFIO], ("", "8086", "10ca"))
    groups = {
        site.guest.agent.shell(f"basename $(readlink /sys/bus/pci/devices/{vf}/iommu_group)")
        for vf in held[VFIO]
    }
    nodes = {f"/dev/vfio/{group.strip()}" for group in groups} | {"/dev/vfio/vfio"}
    assert {path for path in seen.devices if path.startswith("/dev/vfio/")} == nodes


def test_ports_by_name_and_vfs_by_index(site: Site) -> None:
    # The VFs of one port, although their addresses lie between those of the other's.
    ranged, whole = "intel.com/ranged", "intel.com/whole"
    sources = {
        ranged: {"sriov": {"pfNames": [f"{port_name(0, 0)}#1-2", f"{port_name(1, 0)}#3"]}},
        whole: {"sriov": {"pfNames": [port_name(1, 1)]}},
    }
    site.serve(sources=sources)
    vf = site.machine.vf
    site.wait_for(ranged, {vf(0, 0, 1): (0,), vf(0, 0, 2): (0,), vf(1, 0, 3): (1,)})
    site.wait_for(whole, {vf(1, 1, index): (1,) for index in range(VFS_PER_PORT)})


def test_vfs_are_removed_and_made(site: Site) -> None:
    site.serve()
    everything = site.vfs(NET)
    site.wait_for(NET, everything)
    gone = {site.machine.vf(1, 0, index) for index in range(VFS_PER_PORT)}
    site.guest.set_vfs(1, 0, 0)
    site.wait_for(NET, {vf: nodes for vf, nodes in everything.items() if vf not in gone})
    site.guest.set_vfs(1, 0, 2)
    fewer = {vf: nodes for vf, nodes in everything.items() if vf not in gone}
    site.wait_for(NET, fewer | {site.machine.vf(1, 0, index): (1,) for index in range(2)})
    site.guest.set_vfs(1, 0, 0)
    site.guest.set_vfs(1, 0, VFS_PER_PORT)
    site.wait_for(NET, everything)


def test_vf_that_gets_another_driver(site: Site) -> None:
    site.serve()
    vf = site.machine.vf(0, 0, 3)
    site.wait_for(NET, site.vfs(NET))
    site.guest.bind_vfio(vf)
    site.wait_for(VFIO, site.vfs(VFIO) | {vf: (0,)})
    site.wait_for(NET, {one: nodes for one, nodes in site.vfs(NET).items() if one != vf})
    site.guest.unbind_vfio(vf)
    site.wait_for(NET, site.vfs(NET))
    site.wait_for(VFIO, site.vfs(VFIO))


def test_network_devices_in_a_pods_namespace(site: Site) -> None:
    # A VF's, and that of its PF, by whose name the VFs are selected. Both vanish from the host's view.
    by_name = "intel.com/by_name"
    near = {site.machine.vf(0, 0, index): (0,) for index in range(VFS_PER_PORT)}
    far = {site.machine.vf(1, 0, index): (1,) for index in range(VFS_PER_PORT)}
    site.serve(sources={by_name: {"sriov": {"pfNames": [port_name(0, 0), port_name(1, 0)]}}})
    site.wait_for(by_name, near | far)
    moved = site.machine.vf(0, 0, 1), site.machine.pf(0, 0)
    with site.guest.network_namespace() as take:
        for address in moved:
            take(address)
        assert [site.guest.network_device(address) for address in moved] == ["", ""]
        looks_again(site, by_name, near, far)
    until(
        lambda: all(site.guest.network_device(address) for address in moved),
        "the kernel to give the devices back",
        limit_seconds=30,
    )


def test_port_without_a_link(site: Site) -> None:
    site.serve()
    near = {vf: nodes for vf, nodes in site.vfs(NET).items() if nodes == (0,)}
    far = {vf: nodes for vf, nodes in site.vfs(NET).items() if nodes == (1,)}
    site.wait_for(NET, near | far)
    agent, name = site.guest.agent, port_name(0, 0)
    agent.shell(f"ip link set {name} up")
    carrier = f"/sys/class/net/{name}/carrier"
    until(lambda: agent.read(carrier).strip() == "1", "the port's link", limit_seconds=30)
    site.guest.monitor.execute("set_link", name="pf0.0", up=False)
    until(lambda: agent.read(carrier).strip() == "0", "the port to lose its link", limit_seconds=30)
    looks_again(site, NET, near, far)
    agent.shell(f"ip link set {name} down")
    site.guest.monitor.execute("set_link", name="pf0.0", up=True)


def looks_again(site: Site, resource: str, near: Nodes, far: Nodes) -> None:
    """Check that VFs are known after further looks at the host. That there were some, ``far`` ones show.

    They go for a while: the daemon believes that after its second look.
    """
    site.guest.set_vfs(1, 0, 0)
    site.wait_for(resource, near)
    site.guest.set_vfs(1, 0, VFS_PER_PORT)
    site.wait_for(resource, near | far)
