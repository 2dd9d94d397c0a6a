from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import time

import grpc
import pytest
from grpc import aio
from kubelet_side import KubeletSide, eventually
from numaplace.errors import InputError
from numaplace.kubelet.api import deviceplugin_pb2 as dp
from numaplace.kubelet.api import deviceplugin_pb2_grpc as dp_rpc
from numaplace.kubelet.registration import Registrar, RegistrationTimes
from numaplace.kubelet.watch import SocketWatch
from plugin_handlers import RESOURCE, Handler

QUICK = RegistrationTimes(
    register_timeout_seconds=5, first_retry_seconds=0.01, longest_retry_seconds=0.05, stable_seconds=0.0
)


class Plugin:
    """A registrar at work, and what it told."""

    def __init__(self, directory, handler: Handler | None = None, **options) -> None:
        self.handler = handler or Handler("d0", "d1")
        self.told: list[tuple[str, bool, str]] = []
        self.errors: list[tuple[str, Exception]] = []
        self.watch = SocketWatch(directory, poll_seconds=0.05, on_degraded=pytest.fail)
        options = {"times": QUICK, "jitter": lambda: 0.0, **options}
        self.registrar = Registrar(
            self.handler,
            self.watch,
            on_registered=lambda *told: self.told.append(told),
            on_error=lambda *error: self.errors.append(error),
            **options,
        )

    @property
    def refusals(self) -> list[str]:
        return [detail for _, accepted, detail in self.told if not accepted]


@contextlib.asynccontextmanager
async def running(plugin):
    watching = asyncio.create_task(plugin.watch.run())
    task = asyncio.create_task(plugin.registrar.run())
    yield plugin
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


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


async def test_it_serves_first_and_registers_with_the_same_options(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        request = kubelet.last.request
        assert (request.version, request.resource_name) == ("v1beta1", RESOURCE)
        assert request.endpoint.startswith("numaplace-")
        assert "/" not in request.endpoint
        assert request.options == kubelet.last.options
        assert request.options.get_preferred_allocation_available
        assert kubelet.last.lists == [["d0", "d1"]]
        assert plugin.told == [(RESOURCE, True, request.endpoint)]
        assert plugin.registrar.registrations == 1


async def test_two_resources_share_a_watch_and_have_their_own_sockets(short_dir, kubelet):
    one, two = Plugin(short_dir), Plugin(short_dir, Handler("x", resource="example.com/other"))
    async with running(one), running(two):
        await eventually(lambda: len(kubelet.accepted) == 2)
        assert len({one.endpoint for one in kubelet.accepted}) == 2


async def test_a_restarted_kubelet_gets_a_new_socket_name_and_the_present_list(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        for number in range(1, 6):
            await settled(kubelet, plugin, registrations=number)
            await kubelet.stop()
            plugin.handler.publish(f"after-{number}")
            await kubelet.start()
        await settled(kubelet, plugin, registrations=6)
        assert kubelet.last.lists[0] == ["after-5"]
        endpoints = [one.endpoint for one in kubelet.accepted]
        assert len(set(endpoints)) == len(endpoints)


async def test_a_kubelet_that_replaces_only_its_own_socket_is_noticed(short_dir, kubelet):
    plugin = Plugin(short_dir)
    other = KubeletSide(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        await other.start(clean=False)
        await settled(other, plugin, registrations=1)
        await eventually(lambda: kubelet.last.stream_ended)
        assert [] not in kubelet.last.lists
    await other.stop()


async def test_a_late_notice_about_the_same_kubelet_is_no_restart(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        for _ in range(20):
            plugin.watch.notify()
            (short_dir / "kubelet.sock").chmod(0o700)
            await asyncio.sleep(0)
        (short_dir / "noise.sock").touch()
        plugin.handler.publish("still the first stream")
        await eventually(lambda: ["still the first stream"] in kubelet.last.lists)
        assert kubelet.attempts == 1


async def test_a_deleted_own_socket_is_served_anew_and_the_old_stream_ends_after(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        first = kubelet.last
        (short_dir / first.endpoint).unlink()
        await settled(kubelet, plugin, registrations=2)
        await eventually(lambda: first.stream_ended)
        assert [] not in first.lists


async def test_an_old_kubelet_that_confuses_two_servers_of_a_resource_ends_with_one(short_dir, kubelet):
    kubelet.confuses_servers = True
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        (short_dir / kubelet.last.endpoint).unlink()
        await settled(kubelet, plugin, registrations=3)
        plugin.handler.publish("kept")
        await eventually(lambda: ["kept"] in kubelet.last.lists)
        assert kubelet.attempts == 3


async def test_a_stream_that_the_kubelet_ends_leads_to_a_new_registration(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        await kubelet.drop_streams()
        await settled(kubelet, plugin, registrations=2)


async def test_a_kubelet_that_never_opens_its_stream_is_asked_again(short_dir, kubelet):
    kubelet.abandon_streams = True
    plugin = Plugin(short_dir, times=RegistrationTimes(first_retry_seconds=0.01, stream_start_seconds=0.1))
    async with running(plugin):
        await eventually(lambda: len(kubelet.accepted) >= 2)
        kubelet.abandon_streams = False
        await eventually(lambda: kubelet.last.lists)


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


async def test_attempts_become_rarer_with_jitter_up_to_half(short_dir, kubelet):
    kubelet.refuse = "no"
    at: list[float] = []
    times = RegistrationTimes(first_retry_seconds=0.04, longest_retry_seconds=0.16)
    plugin = Plugin(short_dir, times=times, jitter=lambda: 1.0)
    plugin.registrar._on_registered = lambda *_: at.append(time.monotonic())
    async with running(plugin):
        await eventually(lambda: len(at) >= 5)
    gaps = [after - before for before, after in itertools.pairwise(at)]
    for gap, least in zip(gaps, (0.02, 0.04, 0.08, 0.08), strict=False):
        assert gap >= least * 0.95


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


async def test_stopping_ends_the_stream_without_an_empty_list_and_removes_the_socket(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
    await eventually(lambda: kubelet.last.stream_ended)
    assert kubelet.last.lists == [["d0", "d1"]]
    assert not own_sockets(short_dir)
    assert not plugin.registrar.registered


async def test_stopping_lets_an_allocation_in_flight_finish(short_dir, kubelet):
    plugin = Plugin(short_dir)
    release, asked = asyncio.Event(), asyncio.Event()

    async def prefer(available, must, size):
        asked.set()
        await release.wait()
        return available[:size]

    plugin.handler.prefer = prefer
    channel = None
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        channel = aio.insecure_channel(f"unix:{short_dir / kubelet.last.endpoint}")
        request = dp.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=["d0", "d1"], allocation_size=1)
        call = dp_rpc.DevicePluginStub(channel).GetPreferredAllocation(request, timeout=10)
        waiting = asyncio.ensure_future(call.code())
        await asyncio.wait_for(asked.wait(), 10)
        asyncio.get_running_loop().call_later(0.05, release.set)
    assert await waiting == grpc.StatusCode.OK
    assert list((await call).container_responses[0].deviceIDs) == ["d0"]
    await channel.close()


async def test_stopping_while_no_kubelet_is_there(short_dir):
    async with running(Plugin(short_dir)):
        await asyncio.sleep(0)


async def test_sockets_of_killed_processes_are_removed(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        prefix = kubelet.last.endpoint.rsplit("-", 1)[0]
    dead = short_dir / f"{prefix}-00000000.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(dead))
    os.utime(dead, (1, 1))
    async with running(Plugin(short_dir)):
        await eventually(lambda: not dead.exists())


def test_a_directory_that_leaves_no_room_is_the_users_error(tmp_path):
    with pytest.raises(InputError, match="107"):
        Plugin(tmp_path / ("x" * 90))


async def test_stopping_in_the_middle_of_a_handover(short_dir, kubelet):
    for number in range(20):
        plugin = Plugin(short_dir)
        accepted = len(kubelet.accepted)
        async with running(plugin):
            await eventually(lambda before=accepted: len(kubelet.accepted) > before and kubelet.last.lists)
            (short_dir / kubelet.last.endpoint).unlink()
            await eventually(lambda before=accepted: len(kubelet.accepted) > before + 1)
            for _ in range(number):
                await asyncio.sleep(0)
        assert not own_sockets(short_dir)
