"""What the host shows, as the kubelet gets it."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, SIZES, VF, Site, http_anywhere, total, until
from grpc import StatusCode, aio
from numaplace.daemon.resources.sources import source_of
from numaplace.devices.scan import Scan
from numaplace.kubelet.api import deviceplugin_pb2 as pb

WIDGET = "example.com/widget"


def write(file: Path, text: str | None) -> None:
    """Write the file, or remove it."""
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


@pytest.fixture
def widgets(root: Path) -> Path:
    return root / "widgets.yaml"


async def test_an_unhealthy_device_is_published_as_such(site: Site, widgets: Path) -> None:
    write(widgets, "- {id: good, numaNode: 0}\n- {id: sick, numaNode: 1, healthy: false}\n")
    resources = [{"name": WIDGET, "declared": {"file": str(widgets)}}]
    async with site.serving(resources=resources, http=http_anywhere()) as served:
        published = site.kubelet.published(WIDGET)
        assert {one.id: one.healthy for one in published.values()} == {"good": True, "sick": False}
        found = await served.scrape()
        assert total(found, "numaplace_devices", resource=WIDGET, health="healthy") == 1
        assert total(found, "numaplace_devices", resource=WIDGET, health="unhealthy") == 1
        assert total(found, "numaplace_allocatable", resource=WIDGET) == 1, "sick devices are no capacity"
        write(widgets, "- {id: good, numaNode: 0}\n- {id: sick, numaNode: 1}\n")
        await served.rescan(WIDGET)
        await site.kubelet.wait_until(lambda: len(site.kubelet.allocatable(WIDGET)) == 2)


async def test_a_device_without_a_numa_node_has_no_topology_and_is_named_once(site: Site) -> None:
    for address in [one for one, node in site.truth.items() if node == 1 and one.startswith("0000")][:3]:
        site.host.set_numa(address, -1)
    async with site.serving(strategy="none") as served:
        published = site.kubelet.published(VF).values()
        assert sorted(len(one.nodes) for one in published) == [0] * 3 + [1] * 13
        await served.rescan(VF, times=3)
        [line] = served.log.events("devices without a NUMA node")
        assert len(line["ids"]) == 3
        admission = await site.admit("all", {VF: SIZES[VF]})
        assert len(admission.containers["main"][VF]) == SIZES[VF]


async def test_a_device_in_use_outlives_a_rescan_that_cannot_see_it(site: Site) -> None:
    async with site.serving() as served:
        admission = await site.admit("user", {VF: 1})
        [held] = admission.containers["main"][VF]
        free = next(one for one in sorted(site.kubelet.allocatable(VF)) if one != held)
        site.host.remove(held)
        site.host.remove(free)
        await served.rescan(VF, times=6)
        await site.kubelet.wait_until(lambda: free not in site.kubelet.published(VF))
        assert held in site.kubelet.allocatable(VF)


async def test_allocate_answers_for_a_vanished_device_and_refuses_a_stranger(site: Site) -> None:
    """Without its device a container would start and fail later; with an error its pod says why."""
    async with site.serving() as served, site.plugin(VF) as stub:
        gone = min(site.kubelet.allocatable(VF))
        site.host.remove(gone)
        await served.rescan(VF, times=6)
        assert gone not in {one.id for one in served.service(VF).devices().devices}
        reply = await stub.Allocate(request_of(gone), timeout=10)
        assert reply.container_responses[0].envs["PCIDEVICE_INTEL_COM_VF"] == gone
        with pytest.raises(aio.AioRpcError, match=r"unknown device ids: 0000:ff:1f\.7") as refused:
            await stub.Allocate(request_of(gone, "0000:ff:1f.7"), timeout=10)
        assert refused.value.code() is StatusCode.NOT_FOUND


def request_of(*ids: str) -> pb.AllocateRequest:
    return pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])


async def test_a_device_of_two_resources_belongs_to_the_first(site: Site) -> None:
    second = "intel.com/all-vfs"
    resources = [
        {"name": VF, "sriov": {"pfNames": ["ens1"]}},
        {"name": second, "sriov": {"drivers": ["iavf"]}},
    ]
    async with site.serving(resources=resources, wait=False):
        await site.kubelet.wait_registered(VF, count=8)
        await site.kubelet.wait_registered(second, count=8)
        assert site.kubelet.allocatable(VF).isdisjoint(site.kubelet.allocatable(second))
        assert {site.truth[one] for one in site.kubelet.allocatable(VF)} == {1}


@pytest.mark.parametrize(
    ("selectors", "says"), [({"pfNames": ["ens9"]}, "ens9"), ({"drivers": ["vfio-pci"]}, "no device matches")]
)
async def test_selectors_that_match_nothing_are_a_warning_and_a_metric(
    site: Site, selectors: dict[str, list[str]], says: str
) -> None:
    resources = site.document()["resources"]
    resources[0]["sriov"] = selectors
    async with site.serving(resources=resources, wait=False, http=http_anywhere()) as served:
        await site.registered(GPU)
        await until(lambda: len(served.log.events("registered")) == 2)
        await served.rescan(VF, times=3)
        [warning] = [line for line in served.log.troubles if line.get("resource") == VF]
        assert says in warning["warning"]
        found = await served.scrape()
        assert total(found, "numaplace_selectors_unmatched", resource=VF) == 1
        assert total(found, "numaplace_selectors_unmatched", resource=GPU) == 0
        await site.admit("gpu", {GPU: 1})


async def test_a_file_of_devices_that_vanishes_takes_none_away(site: Site, widgets: Path) -> None:
    write(widgets, "- {id: w0, numaNode: 0}\n- {id: w1, numaNode: 1}\n")
    resources = [{"name": WIDGET, "declared": {"file": str(widgets)}}]
    async with site.serving(resources=resources, http=http_anywhere()) as served:
        write(widgets, None)
        await served.rescan(WIDGET, times=5)
        assert len(site.kubelet.allocatable(WIDGET)) == 2
        await served.shows(1, "numaplace_device_scan_failed", resource=WIDGET)
        assert len([line for line in served.log.troubles if "warning" in line]) == 1


class OddSource:
    """Finds nothing, or raises, or hangs."""

    watch_paths = ()

    def __init__(self, scan: Any) -> None:
        self.scan = scan


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the VFs' source look in another way."""

    def install(scan: Any) -> None:
        def make(resource: Any, host: Any) -> Any:
            return OddSource(scan) if resource.name == VF else source_of(resource, host)

        monkeypatch.setattr("numaplace.daemon.reload_plan.source_of", make)

    return install


async def test_a_source_that_raises_is_told_once_and_harms_nobody(site: Site, odd: Any) -> None:
    def scan() -> Scan:
        raise RuntimeError("a bug")

    odd(scan)
    async with site.serving(wait=False) as served:
        await site.registered(GPU)
        await until(lambda: len(served.log.events("registered")) == 2)
        await served.rescan(VF, times=3)
        [line] = [line for line in served.log.troubles if line.get("resource") == VF]
        assert str(line["exc"]) == "a bug", "with its traceback"
        await site.admit("p", {GPU: 1})


async def test_a_source_that_hangs_holds_up_its_own_resource_only(
    site: Site, odd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaplace.daemon.resources.running.TURN_SECONDS", 0.1)
    release = threading.Event()

    def scan() -> Scan:
        release.wait(20)
        return Scan()

    odd(scan)
    try:
        async with site.serving(wait=False, http=http_anywhere()) as served:
            await site.registered(GPU)
            assert len(site.kubelet.registrations) == 1
            await until(lambda: served.log.events("registered"))
            status, text = await served.page("/readyz")
            assert status == 503
            assert VF in text
            assert GPU not in text
    finally:
        release.set()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES, errno.EIO])
async def test_a_look_that_fails_for_a_reason_of_ours_takes_nothing_away(
    site: Site, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What cannot be read is not gone."""
    listdir = os.listdir

    def refuse(path: Any = ".") -> list[str]:
        if "pci/devices" in str(path):
            raise OSError(number, os.strerror(number))
        return listdir(path)

    async with site.serving(http=http_anywhere()) as served:
        monkeypatch.setattr(os, "listdir", refuse)
        await served.rescan(VF, times=6)
        assert len(site.kubelet.allocatable(VF)) == SIZES[VF]
        assert total(await served.scrape(), "numaplace_device_scan_failed", resource=VF) == 1
        [line] = [line for line in served.log.troubles if line.get("resource") == VF]
        assert os.strerror(number) in line["reason"]
        monkeypatch.setattr(os, "listdir", listdir)
        await served.rescan(VF, times=1)
        assert total(await served.scrape(), "numaplace_device_scan_failed", resource=VF) == 0
        assert served.log.events("device scan is complete again")


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Parts of the paths of files that nobody may read; a test adds some."""
    parts: set[str] = set()
    real_open = os.open

    def refuse(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if any(part in str(path) for part in parts):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return real_open(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    return parts


@pytest.mark.parametrize("later", [False, True], ids=["from the start", "later"])
async def test_a_file_that_can_never_be_read_hides_no_change_of_other_devices(
    site: Site, unreadable: set[str], *, later: bool
) -> None:
    secret = {"0000:98:00.0/numa_node"}
    unreadable |= set() if later else secret
    site.host.pci("0000:98:00.0", vendor="10de", device="2330", pci_class="030200", driver="nvidia")
    async with site.serving() as served:
        if later:
            unreadable |= secret
        await served.rescan(GPU)
        site.host.gpu("nvidia", "0000:99:00.0", numa=1)
        await served.rescan(GPU, times=1)
        await site.kubelet.wait_until(lambda: len(site.kubelet.allocatable(GPU)) == SIZES[GPU] + 1)
        site.host.remove("0000:99:00.0")
        await served.rescan(GPU, times=6)
        await site.kubelet.wait_until(lambda: len(site.kubelet.published(GPU)) == SIZES[GPU])


async def test_a_new_device_is_offered_while_a_known_one_cannot_be_read(
    site: Site, unreadable: set[str]
) -> None:
    async with site.serving() as served:
        unreadable.add("0000:50:00.0/information")
        site.host.gpu("nvidia", "0000:99:00.0", numa=1)
        await served.rescan(GPU, times=6)
        await site.kubelet.wait_until(lambda: len(site.kubelet.allocatable(GPU)) == SIZES[GPU] + 1)


async def test_a_first_look_that_fails_for_a_reason_of_ours_is_repeated_soon(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it could read is published meanwhile."""
    listdir, refused = os.listdir, []

    def refuse(path: Any = ".") -> list[str]:
        if "pci/devices" in str(path):
            refused.append(path)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return listdir(path)

    monkeypatch.setattr("numaplace.daemon.resources.host_supply.RETRY_SECONDS", 0.1)
    monkeypatch.setattr(os, "listdir", refuse)
    async with site.serving(wait=False, rescanInterval="1h") as served:
        await until(lambda: len(refused) >= 2 * len(SIZES))
        await until(lambda: all(served.node.resources.registered.values()))
        assert {one["resource"] for one in served.log.troubles} == set(SIZES)
        assert len(served.log.troubles) == len(SIZES), "each resource's trouble once"
        assert served.count("numaplace_device_scan_failed") == len(SIZES)
        monkeypatch.setattr(os, "listdir", listdir)
        await site.registered()
        assert len(served.log.events("device scan is complete again")) == len(SIZES)


async def test_a_pod_that_gets_all_that_is_left_is_counted(site: Site) -> None:
    """It is not asked about."""
    async with site.serving(http=http_anywhere()) as served:
        await site.admit("first", {GPU: 1})
        await site.admit("rest", {GPU: SIZES[GPU] - 1})
        found = await served.scrape()
        assert total(found, "numaplace_allocated", resource=GPU) == SIZES[GPU]


async def test_devices_appear_at_the_kubelet_when_the_host_gets_them(site: Site) -> None:
    async with site.serving(rescanInterval="1s"):
        site.host.gpu("nvidia", "0000:99:00.0", numa=1)
        await site.kubelet.wait_until(lambda: len(site.kubelet.allocatable(GPU)) == SIZES[GPU] + 1)


def inotify_instances() -> int:
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return links.count("anon_inode:inotify")


async def test_one_inotify_instance_serves_all_resources(site: Site) -> None:
    """A node has 128 of them for all processes of a user."""
    before = inotify_instances()
    async with site.serving():
        assert inotify_instances() == before + 1
