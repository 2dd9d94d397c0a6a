"""Stopping, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import socket

import grpc
import pytest
from grpc import aio
from kubelet_side import eventually
from numaplace.errors import InputError
from numaplace.kubelet.api import deviceplugin_pb2 as dp
from numaplace.kubelet.api import deviceplugin_pb2_grpc as dp_rpc
from registrar_site import Plugin, own_sockets, running, settled


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


async def test_stopping_at_any_moment_of_a_registration(short_dir, kubelet, caplog):
    for number in range(40):
        plugin = Plugin(short_dir)
        async with running(plugin):
            for _ in range(number):
                await asyncio.sleep(0)
        assert not own_sockets(short_dir)
        assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]
