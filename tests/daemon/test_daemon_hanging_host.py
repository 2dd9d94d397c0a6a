"""A host whose files hang in the kernel: a FIFO that nobody writes to stands for a driver."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, LIMIT_SECONDS, PATIENT, SIZES, VF, Site, until
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
        while looks_run() and time.monotonic() < end:
            # A look that has just opened it reads until it is closed.
            os.close(released)
            released = os.open(os.devnull, os.O_RDONLY)
            time.sleep(0.01)
        os.close(released)


def looks_run() -> bool:
    return any(f"look {GPU}" in thread.name for thread in threading.enumerate())


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


async def test_sigterm_ends_a_daemon_whose_kubelet_configuration_hangs(site: Site) -> None:
    """Steering looks for it; placement goes on without."""
    os.mkfifo(file := site.root / "kubelet.yaml")
    kubelet = {**site.document()["kubelet"], "configFile": str(file)}
    async with running_daemon(site.write(site.document(kubelet=kubelet))) as daemon:
        await site.registered()
        await site.admit("meanwhile", {VF: 1})
        assert await daemon.stop() == 0


async def test_a_kubelet_configuration_that_hangs_is_looked_up_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported once. Steering goes on, and withholds nothing."""
    monkeypatch.setattr("numaplace.daemon.steering.kubelet_probe.LOOKUP_SECONDS", 0.05)
    os.mkfifo(file := site.root / "kubelet.yaml")
    kubelet = {**site.document()["kubelet"], "configFile": str(file)}
    times = replace(PATIENT, lookup_first_seconds=0.05)
    async with site.serving(kubelet=kubelet, times=times) as served:
        failures = {"reason": "error"}
        await until(lambda: served.count("numaplace_steering_failures_total", **failures) >= 2)
        assert len(served.log.events("the kubelet's configuration could not be looked up; will retry")) == 1
    os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))


async def test_sigterm_ends_a_daemon_whose_credentials_hang(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubeconfig's program hangs when the token has to be renewed."""
    called = site.root / "called"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    program = (
        f"[ ! -e {called} ] || {{ touch {called}-again; exec sleep 30; }};"
        f"touch {called}; echo '{json.dumps(credential)}'"
    )
    user = {"exec": {"apiVersion": credential["apiVersion"], "command": "sh", "args": ["-c", program]}}
    file = site.write(kubeconfig("http://127.0.0.1:1", **user), "kubeconfig.yaml")
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("NODE_NAME", "n")
    async with running_daemon(site.write(site.document())) as daemon:
        await until(Path(f"{called}-again").exists)
        await site.registered()
        await site.admit("meanwhile", {VF: 1})
        assert await daemon.stop() == 0


def kubeconfig(server: str, **user: Any) -> dict[str, Any]:
    return {
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }


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
