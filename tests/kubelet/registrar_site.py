"""A registrar at work, for tests of its life with a kubelet."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from kubelet_side import KubeletSide, eventually
from numaplace.kubelet.directories import DirectoryWatch
from numaplace.kubelet.plugin.registration import Registrar, RegistrationTimes
from numaplace.kubelet.plugin.watch import SocketWatch
from plugin_handlers import Handler

QUICK = RegistrationTimes(
    register_timeout_seconds=5, first_retry_seconds=0.01, longest_retry_seconds=0.05, stable_seconds=0.0
)


class Plugin:
    """A registrar at work, and what it told."""

    def __init__(self, directory, handler: Handler | None = None, **options) -> None:
        self.handler = handler or Handler("d0", "d1")
        self.told: list[tuple[str, bool, str]] = []
        self.errors: list[tuple[str, Exception]] = []
        self.directories = DirectoryWatch(on_degraded=pytest.fail)
        self.watch = SocketWatch(directory, self.directories, poll_seconds=0.05)
        options = {
            "times": QUICK,
            "chance": lambda: 0.0,
            "on_registered": lambda *told: self.told.append(told),
            **options,
        }
        self.registrar = Registrar(
            self.handler,
            self.watch,
            on_error=lambda *error: self.errors.append(error),
            **options,
        )

    @property
    def refusals(self) -> list[str]:
        return [detail for _, accepted, detail in self.told if not accepted]


@contextlib.asynccontextmanager
async def running(plugin):
    watching = [asyncio.create_task(run()) for run in (plugin.directories.run, plugin.watch.run)]
    task = asyncio.create_task(plugin.registrar.run())
    yield plugin
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    for one in watching:
        one.cancel()
    await asyncio.gather(*watching, return_exceptions=True)


def own_sockets(directory) -> set[str]:
    return {path.name for path in directory.glob("numaplace-*.sock")}


async def settled(kubelet: KubeletSide, plugin: Plugin, *, registrations: int) -> None:
    """Return once the kubelet has the list by that registration, and nothing of a former one is left."""
    await eventually(
        lambda: (
            plugin.registrar.registered
            and len(kubelet.accepted) >= registrations
            and kubelet.last.lists
            and own_sockets(kubelet.directory) == {kubelet.last.endpoint}
        )
    )
