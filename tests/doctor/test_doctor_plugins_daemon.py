"""Other plugins on the node, the running daemon, and limits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from daemon.daemon_site import http_anywhere
from doctor_site import GPU_ONLY, VF_ONLY, Patient
from emulator.smallplugin import SmallPlugin, device
from numaplace.doctor.checks.cluster import CALLS, CONNECTED
from numaplace.doctor.checks.table import examine
from numaplace.doctor.facts import DaemonFact, LimitsFact, Sample
from numaplace.doctor.findings import Level
from numaplace.doctor.pages import samples
from numaplace.kubelet.emulator import Faults
from numaplace.metrics.labels import FallbackReason
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import ResourceName, Strategy
from prometheus_client.parser import text_string_to_metric_families

VF, NVIDIA = "intel.com/vf", "nvidia.com/gpu"
OWN_NAME = Path("/proc/self/comm").read_text().strip()


@contextlib.asynccontextmanager
async def vendor(patient: Patient, resource: str, ids: list[str], *, endpoint: str = "vendor.sock") -> Any:
    folder = patient.kubelet.device_plugins_dir
    async with SmallPlugin(folder, resource, [device(one, [0]) for one in ids], endpoint=endpoint) as plugin:
        await plugin.register()
        await patient.kubelet.wait_registered(ResourceName(resource), count=len(ids))
        yield


async def test_a_vendors_plugin_in_numaplaces_place(running: Patient) -> None:
    """The ids are ours, and nobody of ours serves."""
    async with vendor(running, VF, [running.host.vf("0000:1b:00.0", 0)]):
        report = await running.examine(resources=VF_ONLY)
    found = report.problem("other-plugins", "another plugin serves it", "no numaplace listens")
    assert "remove its DaemonSet" in found.advice


async def test_devices_that_are_not_numaplaces(running: Patient) -> None:
    async with running.site.serving(resources=VF_ONLY), vendor(running, VF, ["shared-0", "shared-1"]):
        report = await running.examine(resources=VF_ONLY)
    assert "another resource name" in report.problem("other-plugins", "does not find", "shared-0").advice


@pytest.mark.parametrize(
    ("resources", "endpoint", "who"),
    [
        (VF_ONLY, "intel.com_vf.sock", "SR-IOV network device plugin"),
        (VF_ONLY, "intel.com_vf", "ROCm"),
        (VF_ONLY, "intel.com-vf.sock", "Intel"),
        (GPU_ONLY, "nvidia-gpu.sock", "NVIDIA"),
    ],
)
async def test_a_vendors_socket(running: Patient, resources: Any, endpoint: str, who: str) -> None:
    """It listens, whether it has registered by now or not."""
    async with (
        running.site.serving(resources=resources),
        SmallPlugin(running.kubelet.device_plugins_dir, "x/y", [], endpoint=endpoint),
    ):
        own = {"own_procfs": Path("/proc")}
        report = await running.examine(resources=resources, reach=own)
    found = report.problem("other-plugins", "seems to serve it: ", who, endpoint)
    assert "one of the two" in found.advice
    assert found.detail.startswith(OWN_NAME)


async def test_a_vendors_socket_in_the_watchers_folder(running: Patient) -> None:
    folder = running.site.root / "plugins_registry"
    folder.mkdir()
    async with (
        running.site.serving(resources=VF_ONLY),
        SmallPlugin(folder, VF, [], endpoint="intel.com_vf.sock"),
    ):
        report = await running.examine(resources=VF_ONLY)
    report.problem("other-plugins", "SR-IOV", "plugins_registry")


async def test_plugins_of_other_resources_are_no_trouble(running: Patient) -> None:
    http = http_anywhere()
    async with (
        running.site.serving(resources=VF_ONLY, http=http),
        vendor(running, "vendor.com/fpga", ["f0"], endpoint="nvidia-gpu.sock"),
    ):
        report = await running.examine(resources=VF_ONLY, http=http)
    assert report.worse_than_ok() == []
    report.one("other-plugins", Level.OK, "sockets of other plugins: nvidia-gpu.sock (")


async def test_numaplace_twice(running: Patient) -> None:
    async with running.site.serving(resources=VF_ONLY), running.site.serving(resources=VF_ONLY):
        report = await running.examine(resources=VF_ONLY)
    assert "two releases" in report.warning("other-plugins", "2 sockets of numaplace").advice


async def test_a_pods_device_that_is_gone(running: Patient) -> None:
    async with running.site.serving(resources=VF_ONLY):
        admission = await running.site.admit("holder", {ResourceName(VF): 1})
        (gone,) = admission.containers["main"][ResourceName(VF)]
        running.host.remove(gone)
        report = await running.examine(resources=VF_ONLY)
    found = report.warning("other-plugins", "pods hold devices that are not found any more", gone)
    assert "VFs that were created again" in found.advice


async def test_the_daemon_does_not_run(running: Patient) -> None:
    report = await running.examine(http=http_anywhere())
    assert "systemctl start numaplace" in report.warning("daemon", "does not run").advice
    assert report.ok


async def test_a_daemon_whose_pages_are_elsewhere(running: Patient) -> None:
    async with running.site.serving():
        report = await running.examine(http=http_anywhere())
    found = report.one("daemon", Level.UNKNOWN, "pages cannot be reached", NVIDIA)
    assert "in the daemon's pod" in found.advice


async def test_pages_that_are_off(running: Patient) -> None:
    report = await running.examine()
    assert "http.address" in report.one("daemon", Level.UNKNOWN, "switched off").advice


async def test_a_daemon_that_is_not_ready(patient: Patient) -> None:
    http = http_anywhere()
    patient.kubelet.device_plugins_dir.mkdir()
    async with patient.site.serving(wait=False, http=http):
        report = await patient.examine(http=http)
    found = report.problem("daemon", "not ready: not registered with the kubelet", NVIDIA)
    assert "the daemon's log" in found.advice
    assert "check pod-resources" in report.warning("daemon", "does not know the allocation state").advice


async def test_a_daemon_that_fell_back(running: Patient) -> None:
    http = http_anywhere()
    running.kubelet.faults = Faults(errors={"List": "UNAVAILABLE"})
    async with running.site.serving(http=http):
        await running.site.admit("holder", {ResourceName(VF): 1})
        running.kubelet.faults = Faults()
        report = await running.examine(http=http)
    found = report.warning("daemon", "without a decision or without live state", VF)
    assert "PodResources was slow or silent" in found.advice


class Teapot(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(418)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def teapot() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Teapot) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


async def test_something_else_at_the_address(running: Patient) -> None:
    with teapot() as address:
        report = await running.examine(http={"address": address})
    assert "another port" in report.problem("daemon", "something other than numaplace", "418").advice


async def test_no_http_at_the_address(running: Patient) -> None:
    async def rude(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-rude\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(rude, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        report = await running.examine(http={"address": f"127.0.0.1:{port}"})
    report.warning("daemon", "does not run")


def scraped(**values: float) -> tuple[Sample, ...]:
    labels = {
        "numaplace_podresources_calls_total": {"method": "List", "code": "RESOURCE_EXHAUSTED"},
        "numaplace_registered": {"resource": VF},
    }
    given = {"numaplace_build_info": 1.0, "numaplace_snapshot_age_seconds": 1.0, **values}
    return tuple(Sample(name, labels.get(name, {}), value) for name, value in given.items())


@pytest.mark.parametrize(
    ("values", "level", "word", "advice"),
    [
        ({"numaplace_snapshot_age_seconds": 300}, Level.WARNING, "its state is 300 s old", "pod-resources"),
        ({"numaplace_registered": 0}, Level.PROBLEM, f"does not know {VF}", "daemon's log"),
        ({"numaplace_podresources_calls_total": 3}, Level.WARNING, "rate limit", "too often"),
        ({"numaplace_inotify_available": 0}, Level.WARNING, "no inotify", "max_user_instances"),
        ({"process_open_fds": 900, "process_max_fds": 1024}, Level.WARNING, "open files", "LimitNOFILE"),
    ],
)
async def test_what_the_daemons_metrics_tell(
    running: Patient, values: dict[str, float], level: Level, word: str, advice: str
) -> None:
    facts = await running.facts()
    seen = DaemonFact("http://127.0.0.1:1", 200, "ready", scraped(**values))
    found = [one for one in examine(replace(facts, daemon=seen)) if one.check == "daemon" and one.advice]
    assert [(one.level, word in one.summary, advice in one.advice) for one in found] == [(level, True, True)]


def watched(connected: float | None, **codes: float) -> tuple[Sample, ...]:
    calls = tuple(Sample(CALLS, {"call": "watch", "code": code}, count) for code, count in codes.items())
    return calls if connected is None else (*calls, Sample(CONNECTED, {}, connected))


@pytest.mark.parametrize(
    ("mode", "seen", "level", "advice"),
    [
        ("false", watched(None), Level.OK, ""),
        ("auto", watched(None), Level.OK, ""),
        ("true", watched(None), Level.WARNING, "NODE_NAME"),
        ("auto", watched(1, OK=2), Level.OK, ""),
        ("auto", watched(0, **{"403": 4}), Level.WARNING, "list and watch of pods"),
        ("true", watched(0, UNAVAILABLE=4, OK=1), Level.WARNING, "NetworkPolicy"),
        ("true", watched(0, **{"500": 1}), Level.WARNING, "daemon's log"),
    ],
)
async def test_the_api_server(
    running: Patient, mode: str, seen: tuple[Sample, ...], level: Level, advice: str
) -> None:
    facts = await running.facts(cluster={"enabled": mode})
    daemon = DaemonFact("http://127.0.0.1:1", 200, "ready", (*scraped(), *seen))
    (found,) = [one for one in examine(replace(facts, daemon=daemon)) if one.check == "cluster"]
    assert found.level is level
    assert advice in found.advice


def test_the_daemon_has_the_metrics_that_are_read() -> None:
    assert {CONNECTED, CALLS} <= set(Metrics(version="1", clock=lambda: 0.0).names())


def test_metrics_are_read_as_prometheus_reads_them() -> None:
    metrics = Metrics(version='1 "quoted" \\ {odd}', clock=lambda: 0.0)
    metrics.fell_back(
        ResourceName(VF), strategy=Strategy.NONE, reason=FallbackReason.STALE, duration_seconds=0.25
    )
    text = metrics.render()[0].decode()
    wanted = {
        (one.name, frozenset(one.labels), one.value)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert {(one.name, frozenset(one.labels), one.value) for one in samples(text)} == wanted


async def test_no_inotify_instance_left(running: Patient) -> None:
    def none_left() -> Any:
        raise OSError(24, "Too many open files")

    report = await running.examine(reach={"open_inotify": none_left})
    assert "fs.inotify.max_user_instances" in report.warning("limits", "no inotify", "Too many").advice


async def test_low_limits(running: Patient) -> None:
    running.host.tree.file("proc/sys/fs/inotify/max_user_instances", "16")
    report = await running.examine()
    assert "sysctl" in report.warning("limits", "max_user_instances is 16").advice
    facts = await running.facts()
    few = replace(facts, limits=LimitsFact(128, 65536, open_files=256))
    assert any("LimitNOFILE" in one.advice for one in examine(few))


async def test_limits_that_cannot_be_seen(running: Patient) -> None:
    running.host.tree.remove("proc/sys/fs/inotify/max_user_watches")
    report = await running.examine()
    report.one("limits", Level.UNKNOWN, "cannot be read")
