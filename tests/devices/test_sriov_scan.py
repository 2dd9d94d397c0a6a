from typing import Any

import pytest

PF = "0000:3b:00.0"


def offered(scan: Any) -> list[str]:
    return [device.id for device in scan.devices]


def reason(scan: Any, address: str) -> str:
    return str(next(entry.reason for entry in scan.left_out if entry.id == address))


def test_interleaved_vfs_of_a_dual_port_card_are_grouped_by_pf(host: Any, source: Any) -> None:
    first = host.pf(PF, "ens1f0", numa=1, vfs=3, vf_offset=0x80, vf_stride=2)
    second = host.pf("0000:3b:00.1", "ens1f1", numa=1, vfs=3, vf_offset=0x80, vf_stride=2)
    scan = source("sriov").scan()
    assert offered(scan) == [vf for pair in zip(first, second, strict=True) for vf in pair]
    assert [device.group for device in scan.devices] == [PF, "0000:3b:00.1"] * 3
    assert {device.nodes for device in scan.devices} == {(1,)}
    assert all(device.healthy for device in scan.devices)


def test_a_gap_in_the_vf_links_keeps_the_indexes(host: Any, source: Any) -> None:
    host.pf(PF, "ens1f0", vfs=5, vf_gaps=(1, 2))
    scan = source("sriov", pf_names=("ens1f0#3-4",)).scan()
    assert offered(scan) == [host.vf(PF, 3), host.vf(PF, 4)]


def test_ten_and_more_vfs_are_told_apart(host: Any, source: Any) -> None:
    host.pf(PF, "ens1f0", vfs=12)
    assert offered(source("sriov", pf_names=("ens1f0#1",)).scan()) == [host.vf(PF, 1)]
    assert offered(source("sriov", pf_names=("ens1f0#11",)).scan()) == [host.vf(PF, 11)]


def test_a_pf_is_never_offered(host: Any, source: Any) -> None:
    host.pf(PF, "ens1f0", vfs=0)
    scan = source("sriov").scan()
    assert scan.matched_nothing
    assert reason(scan, PF) == "a PF with 0 VFs: only VFs are offered"


def test_other_cards_are_not_looked_at(host: Any, source: Any) -> None:
    host.pci("0000:00:1f.0", vendor="8086", device="a30a", pci_class="060100")
    host.pci("0000:01:00.0", vendor="8086", device="1533", pci_class="020000", driver="igb")
    scan = source("sriov").scan()
    assert (scan.devices, scan.left_out, scan.failed) == ((), (), False)


def test_a_vf_without_driver_is_left_out_until_it_has_one(host: Any, source: Any) -> None:
    (vf,) = host.pf(PF, "ens1f0", vfs=1, vf_driver=None)
    sriov = source("sriov")
    assert reason(sriov.scan(), vf) == "no driver is bound"
    host.bind(vf, "vfio-pci")
    assert offered(sriov.scan()) == [vf]


@pytest.mark.parametrize(
    ("driver", "gone", "expected"),
    [
        ("vfio-pci", "iommu_group", "bound to vfio-pci without an IOMMU group: switch the IOMMU on"),
        ("uio_pci_generic", "uio", "bound to uio_pci_generic without a userspace I/O device"),
    ],
)
def test_a_vf_that_a_container_could_not_open_is_left_out(
    driver: str, gone: str, expected: str, host: Any, source: Any
) -> None:
    (vf,) = host.pf(PF, "ens1f0", vfs=1, vf_driver=driver)
    host.tree.remove(f"{host.tree.pci(vf)}/{gone}")
    assert reason(source("sriov").scan(), vf) == expected


def test_a_vf_whose_netdev_is_in_a_pod_stays_selected(host: Any, source: Any) -> None:
    first, second = host.pf(PF, "ens1f0", vfs=2)
    for vf in (first, second):
        host.move_netdev(vf)
    assert offered(source("sriov", pf_names=("ens1f0",), link_types=("ether",)).scan()) == [first, second]


def test_a_pf_whose_netdev_moved_away_is_remembered(host: Any, source: Any) -> None:
    (vf,) = host.pf(PF, "ens1f0", vfs=1, vf_driver="vfio-pci")
    sriov = source("sriov", pf_names=("ens1f0#0",), link_types=("ether",))
    before = sriov.scan()
    host.move_netdev(PF)
    assert sriov.scan() == before
    # A source that never saw the name says what to do.
    scan = source("sriov", pf_names=("ens1f0#0",)).scan()
    assert "select it by pciAddresses" in reason(scan, vf)


def test_a_renamed_pf_is_known_by_its_new_name_only(host: Any, source: Any) -> None:
    host.pf(PF, "eth0", vfs=1)
    old, new = source("sriov", pf_names=("eth0",)), source("sriov", pf_names=("ens1f0",))
    assert (len(old.scan().devices), len(new.scan().devices)) == (1, 0)
    host.move_netdev(PF)
    host.netdev(PF, "ens1f0")
    assert (len(old.scan().devices), len(new.scan().devices)) == (0, 1)


def test_rdma_in_exclusive_mode_stays_selected(host: Any, source: Any) -> None:
    (vf,) = host.pf(PF, "ens1f0", vfs=1, vf_driver="mlx5_core", rdma=True)
    host.tree.remove(f"{host.tree.pci(vf)}/infiniband")
    assert offered(source("sriov", rdma=True).scan()) == [vf]


def test_an_unlisted_vf_matches_its_pf_but_no_range(host: Any, source: Any) -> None:
    (vf,) = host.pf(PF, "ens1f0", vfs=1)
    host.tree.remove(f"{host.tree.pci(PF)}/virtfn0")
    assert offered(source("sriov", pf_names=("ens1f0",)).scan()) == [vf]
    assert "VF index unknown" in reason(source("sriov", pf_names=("ens1f0#0",)).scan(), vf)


@pytest.mark.parametrize("numa", [-1, None, "", "garbage", "9999999999999999999999"])
def test_without_a_numa_node_there_is_no_topology(numa: Any, host: Any, source: Any) -> None:
    host.pf(PF, "ens1f0", numa=numa, vfs=1)
    (device,) = source("sriov").scan().devices
    assert device.nodes == ()


def test_a_numa_node_that_the_host_lacks_is_warned_of_and_not_published(host: Any, source: Any) -> None:
    (vf,) = host.pf(PF, "ens1f0", numa=7, vfs=1)
    scan = source("sriov").scan()
    assert [device.nodes for device in scan.devices] == [()]
    assert scan.warnings == (
        f"{vf}: NUMA node 7 does not exist here (there are: 0, 1); published without it",
    )


def test_a_missing_pci_bus_is_a_failed_scan(host: Any, source: Any) -> None:
    host.tree.remove("sys/bus")
    sriov = source("sriov")
    scan = sriov.scan()
    assert scan.failed
    assert not scan.matched_nothing
    assert "bus/pci/devices" in scan.warnings[0]
    assert sriov.watch_paths == ()


@pytest.mark.parametrize("name", ["vendor", "device", "class", "driver", "physfn", "net", "iommu_group"])
def test_no_damage_to_a_function_breaks_the_scan(name: str, host: Any, source: Any) -> None:
    damaged, whole = host.pf(PF, "ens1f0", vfs=2)
    path = f"{host.tree.pci(damaged)}/{name}"
    sriov = source("sriov", vendors=("8086",), pf_names=("ens1f0#0-9",))
    for damage in (
        lambda: host.tree.remove(path),
        lambda: host.tree.file(path, "\0garbage\n"),
        lambda: host.tree.remove(path),
        lambda: host.tree.path(path).symlink_to("nowhere"),
        lambda: host.tree.remove(path),
        lambda: host.tree.directory(path),
    ):
        damage()
        assert whole in offered(sriov.scan())


def test_a_function_that_vanishes_in_the_middle_is_not_offered(host: Any, source: Any) -> None:
    gone, whole = host.pf(PF, "ens1f0", vfs=2)
    host.tree.remove(host.tree.pci(gone))  # its link on the bus dangles
    assert offered(source("sriov").scan()) == [whole]


def test_watch_paths_are_existing_directories(host: Any, source: Any) -> None:
    sriov = source("sriov")
    assert sriov.watch_paths == (host.roots.sysfs / "bus/pci/devices",)
    host.node("vfio/vfio")
    assert sriov.watch_paths == (host.roots.sysfs / "bus/pci/devices", host.roots.devfs / "vfio")


def test_a_device_stays_with_the_first_resource_that_offers_it(host: Any, source: Any) -> None:
    first, second = host.pf(PF, "ens1f0", vfs=2)
    scan = source("sriov").scan().without({first: "offered as intel.com/a already"})
    assert offered(scan) == [second]
    assert reason(scan, first) == "offered as intel.com/a already"


def test_another_card_at_the_address_of_a_former_one_is_seen(host: Any, source: Any) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    looking = source("sriov", devices=("154c",))
    (vf,) = offered(looking.scan())
    for address in (vf, PF):
        host.remove(address)
    host.pf(PF, "ens1f0", vfs=1, vendor="15b3", vf_device="1018")
    scan = looking.scan()
    assert offered(scan) == []
    assert "1018" in reason(scan, vf)
