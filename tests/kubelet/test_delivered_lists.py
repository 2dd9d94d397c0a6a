"""A writer of the device list can wait until every open stream has sent it."""

from __future__ import annotations

import asyncio

import pytest
from kubelet_side import eventually
from numaplace.kubelet.api import deviceplugin_pb2 as dp
from numaplace.kubelet.api import deviceplugin_pb2_grpc as dp_rpc
from numaplace.kubelet.channel import open_channel
from numaplace.kubelet.plugin.devicelist import DeviceList, DeviceListBroadcaster
from numaplace.kubelet.plugin.server import PluginServer
from numaplace.model.device import Device
from plugin_handlers import Handler


@pytest.fixture
async def served(tmp_path):
    handler = Handler("a", "b")
    server = PluginServer(handler, tmp_path, on_error=lambda *_: None, on_streams=lambda: None)
    await server.start()
    channel = open_channel(server.path)
    yield handler, dp_rpc.DevicePluginStub(channel)
    await channel.close()
    await server.stop(0)


async def test_nothing_is_waited_for_without_a_stream():
    board = DeviceListBroadcaster(DeviceList(1))
    board.publish(board.current.replaced_by([Device("a")]))
    assert await board.delivered(0.01)


async def test_a_list_is_delivered_once_the_stream_has_written_it(served):
    handler, stub = served
    stream = stub.ListAndWatch(dp.Empty())
    await stream.read()
    assert await handler.board.delivered(5)
    handler.publish("a")
    assert await handler.board.delivered(5)
    assert [one.ID for one in (await stream.read()).devices] == ["a"]


async def test_every_open_stream_counts(served):
    handler, stub = served
    streams = [stub.ListAndWatch(dp.Empty()) for _ in range(3)]
    for stream in streams:
        await stream.read()
    handler.publish("c", "d")
    assert await handler.board.delivered(5)
    for stream in streams:
        assert [one.ID for one in (await stream.read()).devices] == ["c", "d"]
        stream.cancel()
    await eventually(lambda: not handler.board.followed)


async def test_a_stream_that_does_not_write_is_waited_for_in_vain():
    board = DeviceListBroadcaster(DeviceList(1))
    with board.following() as follower:
        assert not await board.delivered(0.01)
        board.written(follower, 1)
        assert await board.delivered(0.01)
        board.publish(board.current.replaced_by([Device("a")]))
        assert not await board.delivered(0.01)
        waiting = asyncio.create_task(board.delivered(5))
        await asyncio.sleep(0)
        board.written(follower, 2)
        assert await waiting
        board.publish(board.current.replaced_by([]))
        waiting = asyncio.create_task(board.delivered(5))
        await asyncio.sleep(0)
    assert await waiting, "a stream that has ended is not waited for"


async def test_a_list_that_is_sent_again_unchanged_counts_as_written(served):
    handler, stub = served
    stream = stub.ListAndWatch(dp.Empty())
    await stream.read()
    handler.board.publish(DeviceList(handler.board.current.version + 1, handler.board.current.devices))
    assert await handler.board.delivered(5)
