"""Kubelets that are not there, not ready, or no kubelets."""

from __future__ import annotations

import itertools
import shutil
import socket
import time

import grpc
import pytest
from grpc import aio
from kubelet_side import KubeletSide, eventually
from numaplace.kubelet.plugin.registration import RegistrationTimes
from numaplace.model.pacing import Backoff
from registrar_site import Plugin, own_sockets, running, settled


async def test_an_absent_kubelet_is_waited_for_without_attempts(short_dir):
    plugin = Plugin(short_dir)
    kubelet = KubeletSide(short_dir)
    async with running(plugin):
        polls = []
        await plugin.watch.until(lambda: polls.append(None) or (True if len(polls) > 3 else None))
        assert plugin.told == []
        assert not own_sockets(short_dir)
        await kubelet.start()
        await settled(kubelet, plugin, registrations=1)
    await kubelet.stop()


async def test_a_missing_directory_is_waited_for(short_dir):
    directory = short_dir / "dp"
    plugin = Plugin(directory)
    kubelet = KubeletSide(directory)
    async with running(plugin):
        polls = []
        await plugin.watch.until(lambda: polls.append(None) or (True if len(polls) > 3 else None))
        directory.mkdir()
        await kubelet.start()
        await settled(kubelet, plugin, registrations=1)
        await kubelet.stop()
        shutil.rmtree(directory)
        directory.mkdir()
        await kubelet.start()
        await settled(kubelet, plugin, registrations=2)
    await kubelet.stop()


async def test_a_dead_socket_of_the_kubelet_is_retried_until_it_lives(short_dir, kubelet):
    await kubelet.stop()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short_dir / "kubelet.sock"))
    plugin = Plugin(short_dir)
    async with running(plugin):
        await eventually(lambda: len(plugin.refusals) >= 3)
        assert not plugin.registrar.registered
        await kubelet.start()
        await settled(kubelet, plugin, registrations=1)


async def test_a_refusing_kubelet_is_asked_for_ever_each_time_by_another_name(short_dir, kubelet):
    kubelet.refuse = "not today"
    plugin = Plugin(short_dir)
    async with running(plugin):
        await eventually(lambda: kubelet.attempts >= 4)
        assert "not today" in plugin.refusals[0]
        assert plugin.registrar.registrations == 0
        kubelet.refuse = ""
        await settled(kubelet, plugin, registrations=1)


async def test_a_new_kubelet_ends_a_long_back_off(short_dir, kubelet):
    kubelet.refuse = "never"
    times = RegistrationTimes(first_retry_seconds=1000, longest_retry_seconds=1000)
    plugin = Plugin(short_dir, times=times)
    async with running(plugin):
        await eventually(lambda: plugin.refusals)
        kubelet.refuse = ""
        await kubelet.restart()
        await settled(kubelet, plugin, registrations=1)


async def test_attempts_become_rarer_up_to_the_longest_pause(short_dir, kubelet):
    kubelet.refuse = "no"
    at: list[float] = []
    times = RegistrationTimes(first_retry_seconds=0.04, longest_retry_seconds=0.16)
    plugin = Plugin(
        short_dir, times=times, chance=lambda: 0.0, on_registered=lambda *_: at.append(time.monotonic())
    )
    async with running(plugin):
        await eventually(lambda: len(at) >= 5)
    gaps = [after - before for before, after in itertools.pairwise(at)]
    for gap, least in zip(gaps, (0.02, 0.04, 0.08, 0.08), strict=False):
        assert gap >= least * 0.95


async def test_no_pause_is_longer_than_the_longest(short_dir, kubelet, monkeypatch):
    """The kubelet refuses pods meanwhile."""
    kubelet.refuse = "no"
    pauses: list[float] = []
    real_pause = Backoff.pause

    def pause(self, **limits):
        pauses.append(real_pause(self, **limits))
        return pauses[-1]

    monkeypatch.setattr(Backoff, "pause", pause)
    times = RegistrationTimes(first_retry_seconds=0.02, longest_retry_seconds=0.08)
    async with running(Plugin(short_dir, times=times, chance=lambda: 1.0)):
        await eventually(lambda: len(pauses) >= 4)
    assert pauses[:4] == [0.02, 0.04, 0.08, 0.08]


class Nonsense(grpc.GenericRpcHandler):
    """A server at kubelet.sock that is no kubelet."""

    def __init__(self) -> None:
        self.calls = 0

    def service(self, details):
        async def answer(request, context):
            self.calls += 1
            return b"\xff\xff\xff"

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.mark.parametrize("handlers", [(), (Nonsense(),)])
async def test_a_server_that_is_no_kubelet_is_survived(short_dir, handlers):
    server = aio.server()
    server.add_generic_rpc_handlers(handlers)
    server.add_insecure_port(f"unix:{short_dir}/kubelet.sock")
    await server.start()
    plugin = Plugin(short_dir)
    kubelet = KubeletSide(short_dir)
    async with running(plugin):
        await eventually(lambda: len(plugin.refusals) >= 2)
        await server.stop(0)
        await kubelet.start()
        await settled(kubelet, plugin, registrations=1)
    await kubelet.stop()


async def test_a_kubelet_that_hangs_in_register_costs_the_timeout_only(short_dir):
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(short_dir / "kubelet.sock"))
        mute.listen()
        plugin = Plugin(
            short_dir, times=RegistrationTimes(register_timeout_seconds=0.1, first_retry_seconds=0.01)
        )
        async with running(plugin):
            await eventually(lambda: len(plugin.refusals) >= 2)
