"""A host whose files hang in the kernel: a FIFO that nobody writes to stands for a driver."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from daemon_site import GPU, LIMIT_SECONDS, SIZES, VF, Site, until
from numaplace.daemon.runtime.threads import threads_named
from numaplace.simulate.process import running_daemon


@pytest.fixture
def hang(site: Site) -> Iterator[Callable[[], None]]:
    """Let the looks at one GPU hang, until the end of the test."""
    address = "0000:50:00.0"
    file = site.host.roots.sysfs / "bus/pci/devices" / address / "numa_node"

    def make() -> None:
        site.host.set_numa(address, None)
        os.mkfifo(file)

    yield make
    if file.is_fifo():
        released = os.open(file, os.O_RDWR | os.O_NONBLOCK)
        site.host.set_numa(address, 0)
        end = time.monotonic() + LIMIT_SECONDS
        while threads_named(f"look {GPU}") and time.monotonic() < end:
            # A look that has just opened it reads until it is closed.
            os.close(released)
            released = os.open(os.devnull, os.O_RDONLY)
            time.sleep(0.01)
        os.close(released)


def resources(site: Site, gpus: Any) -> list[dict[str, Any]]:
    vfs, _ = site.document()["resources"]
    return [vfs, {"name": GPU, **gpus}]


async def test_sigterm_ends_a_daemon_whose_look_hangs(site: Site, hang: Callable[[], None]) -> None:
    hang()
    async with running_daemon(site.write(site.document())) as daemon:
        await site.registered(VF)
        assert await daemon.stop() == 0


async def test_sigterm_ends_a_daemon_that_reads_a_configuration_that_hangs(site: Site) -> None:
    config = site.write(site.document())
    async with running_daemon(config) as daemon:
        await site.registered()
        config.unlink()
        os.mkfifo(config)
        daemon.send(signal.SIGHUP)
        await site.admit("meanwhile", {VF: 1})
        assert await daemon.stop() == 0


async def test_looks_that_hang_hold_up_no_reload(site: Site, hang: Callable[[], None]) -> None:
    """Each one is left behind with its source; the next source looks in a thread of its own."""
    hang()
    async with site.serving(wait=False) as served:
        await site.registered(VF)
        for number in range(12):
            gpus = {"gpu": {"vendor": "amd" if number % 2 else "nvidia"}}
            assert await served.node.apply(site.config(resources=resources(site, gpus)))
        other = {"sriov": {"pfNames": ["ens9"]}}
        assert await served.node.apply(site.config(resources=resources(site, other)))
        await until(lambda: {line["resource"] for line in served.log.events("registered")} == {VF, GPU})
        await site.admit("p", {VF: 1})


async def test_a_look_that_takes_too_long_is_a_failed_one_and_is_logged_once(
    site: Site, hang: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaplace.daemon.resources.host_look.LOOK_LIMIT_SECONDS", 0.05)
    async with site.serving(wait=False, rescanInterval="1s") as served:
        await site.registered()
        hang()
        await until(lambda: served.log.events("device scan hangs"))
        await until(lambda: served.count("numaplace_device_scan_failed", resource=GPU) == 1)
        assert len(site.kubelet.allocatable(GPU)) == SIZES[GPU], "nothing is taken away"
        assert len(served.log.events("device scan hangs")) == 1
