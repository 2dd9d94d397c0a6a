"""Kubelet and daemon come and go."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, LIMIT_SECONDS, SIZES, VF, Served, Site, http_anywhere, pod, preferred, until
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.simulate.process import running_daemon


def sockets(site: Site) -> list[str]:
    return sorted(path.name for path in site.kubelet.device_plugins_dir.iterdir() if path.is_socket())


async def test_a_restarted_kubelet_is_served_again(site: Site) -> None:
    async with site.serving(weights="cpu=0,memory=0") as served:
        assert await site.nodes("before", {GPU: 1}) == {0}
        for number in range(2, 4):
            await site.kubelet.restart()
            await site.registered()
            assert len(site.kubelet.registrations) == 2, "one registration per resource"
            await until(lambda: len(served.log.events("registered")) >= 2 * number)  # noqa: B023 - awaited here
            assert served.count("numaplace_registrations_total", result="accepted") == 2 * number
        assert site.kubelet.containers(("default", "before"))["main"][GPU]
        assert await site.nodes("after", {GPU: 1}) == {1}, "the state is known again"
        assert not [line for line in served.log.troubles if "PodResources" not in line["event"]]


async def test_a_restarted_kubelet_may_admit_any_pod_again(site: Site) -> None:
    """It admits all pods that it finds: one that was done, and holds nothing, may ask now."""
    async with site.serving() as served:
        await site.kubelet.admit(pod("idle"))
        for name in ("newer", "newest"):
            await site.admit(name, {GPU: 1})
        assert await asker(site, served) is None, "who was there before a newer pod is done"
        await site.kubelet.restart()
        await site.registered()
        await until(lambda: len(served.log.events("registered")) == 2 * len(SIZES))
        assert await asker(site, served) == "default/idle"


async def asker(site: Site, served: Served) -> Any:
    """Ask for a GPU as the kubelet would, admitting a pod that it lists; return for whom it was decided."""
    async with site.plugin(GPU) as stub:
        assert await preferred(stub, site.kubelet.allocatable(GPU), size=1)
    return served.log.events("decision")[-1]["pod"]


async def test_a_kubelet_that_comes_late_is_waited_for(site: Site) -> None:
    await site.kubelet.stop()
    async with site.serving(wait=False, http=http_anywhere()) as served:
        await until(lambda: served.log.events("devices changed"))
        assert (await served.page("/readyz"))[0] == 503
        await site.kubelet.start()
        await site.registered()
        await site.admit("p", {VF: 1})


async def test_sockets_that_vanish_are_made_again(site: Site) -> None:
    async with site.serving():
        for path in site.kubelet.device_plugins_dir.glob("numaplace-*.sock"):
            path.unlink()
        await site.kubelet.wait_until(lambda: len(site.kubelet.registrations) == 2 * len(SIZES))
        await site.registered()
        await site.admit("p", {VF: 1, GPU: 1})


@pytest.fixture
def config(site: Site) -> Path:
    return site.write(site.document(weights="cpu=0,memory=0"))


async def test_a_killed_daemon_comes_back_knowing_what_is_in_use(site: Site, config: Path) -> None:
    async with running_daemon(config) as daemon:
        await site.registered()
        assert await site.nodes("before", {GPU: 1}) == {0}
        daemon.send(signal.SIGKILL)
        assert await daemon.ended() == -signal.SIGKILL
    left = sockets(site)
    assert len(left) == 3
    await site.kubelet.wait_until(lambda: not site.kubelet.endpoints)
    async with running_daemon(config) as daemon:
        await site.registered()
        assert await site.nodes("after", {GPU: 1}) == {1}
        await until(lambda: not {*left[1:]} & {*sockets(site)}, "the removal of the dead daemon's sockets")
        assert await daemon.stop() == 0


async def test_sigterm_ends_streams_without_an_empty_list_and_removes_the_sockets(
    site: Site, config: Path
) -> None:
    sizes = []

    async def read(stub: Any) -> None:
        async for message in stub.ListAndWatch(pb.Empty()):
            sizes.append(len(message.devices))  # noqa: PERF401 - read while it grows

    async with running_daemon(config) as daemon:
        await site.registered()
        await site.kubelet.restart()
        await site.registered()
        await site.admit("p", {VF: 1})
        async with site.plugin(VF) as stub:
            reading = asyncio.create_task(read(stub))
            await until(lambda: sizes)
            assert await daemon.stop() == 0
            await reading
        assert sizes == [SIZES[VF]]
        await until(lambda: daemon.lines[-1]["event"] == "stopped")
        assert daemon.noise == [], "nothing but JSON lines on standard error"
    assert sockets(site) == ["kubelet.sock"]
    await site.kubelet.wait_until(lambda: not site.kubelet.endpoints)
    assert len(site.kubelet.published(VF)) == SIZES[VF], "unhealthy, not gone"


async def test_sigterm_while_no_kubelet_is_there(site: Site, config: Path) -> None:
    await site.kubelet.stop()
    async with running_daemon(config) as daemon:
        await daemon.wait_line(lambda line: line["event"] == "devices changed", timeout_seconds=LIMIT_SECONDS)
        assert await daemon.stop() == 0


async def test_an_idle_daemon_is_quiet(site: Site) -> None:
    config = site.write(site.document(pollInterval="500ms", rescanInterval="1s", http=http_anywhere()))
    async with running_daemon(config) as daemon:
        await site.registered()
        await daemon.wait_line(lambda line: line["event"] == "registered", timeout_seconds=LIMIT_SECONDS)
        await until(lambda: sum(line["event"] == "registered" for line in daemon.lines) == 2)
        await daemon.wait_line(lambda line: line["event"] == "steering", timeout_seconds=LIMIT_SECONDS)
        before = list(daemon.lines)
        await lists(site, 4)
        assert daemon.lines == before
        assert daemon.noise == []


async def lists(site: Site, count: int) -> None:
    """Wait until the daemon has listed so many more times."""
    wanted = site.kubelet.api_calls["List"] + count
    await until(lambda: site.kubelet.api_calls["List"] >= wanted)
