from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from effort import examples
from grpc import aio
from hypothesis import given, settings
from hypothesis import strategies as st
from kubelet_side import eventually
from numaplace.kubelet.api import deviceplugin_pb2 as dp
from numaplace.kubelet.api import deviceplugin_pb2_grpc as dp_rpc
from numaplace.kubelet.channel import new_server, open_channel, unix_target
from numaplace.kubelet.plugin.service import DeviceList, DevicePluginService
from numaplace.model.device import ContainerEdits, Device, DeviceNode, Mount
from plugin_handlers import Handler


class Served:
    """A service on a socket, and a client of it."""

    def __init__(self, handler: Handler, path, **options) -> None:
        self.handler = handler
        self.errors: list[tuple[str, Exception]] = []
        self.on_error = lambda rpc, error: self.errors.append((rpc, error))
        self.streams = 0
        self.service = DevicePluginService(
            handler,
            on_error=lambda rpc, error: self.on_error(rpc, error),
            on_streams=lambda count: setattr(self, "streams", count),
            **options,
        )
        self.server = new_server()
        dp_rpc.add_DevicePluginServicer_to_server(self.service, self.server)
        self.server.add_insecure_port(unix_target(path))
        self.channel = open_channel(path)
        self.stub = dp_rpc.DevicePluginStub(self.channel)

    def watch(self):
        return self.stub.ListAndWatch(dp.Empty())

    async def prefer(self, *containers: tuple[list[str], list[str], int]) -> list[list[str]]:
        request = dp.PreferredAllocationRequest(
            container_requests=[
                dp.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
                )
                for available, must, size in containers
            ]
        )
        response = await self.stub.GetPreferredAllocation(request, timeout=20)
        return [list(one.deviceIDs) for one in response.container_responses]

    async def allocate(self, *containers: list[str]) -> list[dp.ContainerAllocateResponse]:
        request = dp.AllocateRequest(
            container_requests=[dp.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        return list((await self.stub.Allocate(request, timeout=20)).container_responses)

    @property
    def error_texts(self) -> list[str]:
        return [f"{rpc}: {error}" for rpc, error in self.errors]


@pytest.fixture
async def served(short_dir):
    one = Served(Handler("d0", "d1", "d2", "d3"), short_dir / "plugin.sock", preferred_limit_seconds=0.2)
    await one.server.start()
    yield one
    await one.channel.close()
    one.service.drain()
    await one.server.stop(0)


def ids_of(response: dp.ListAndWatchResponse) -> list[str]:
    return [device.ID for device in response.devices]


async def test_options_offer_the_preferred_allocation(served):
    options = await served.stub.GetDevicePluginOptions(dp.Empty(), timeout=10)
    assert options.get_preferred_allocation_available
    assert not options.pre_start_required
    assert await served.stub.PreStartContainer(dp.PreStartContainerRequest(devices_ids=["d0"]), timeout=10)


async def test_the_handlers_options_and_preparations_reach_the_kubelet(served):
    served.handler.options.pre_start_required = True
    options = await served.stub.GetDevicePluginOptions(dp.Empty(), timeout=10)
    assert options.pre_start_required
    request = dp.PreStartContainerRequest(devices_ids=["d1", "d0"])
    assert await served.stub.PreStartContainer(request, timeout=10)
    assert served.handler.started == [["d1", "d0"]]
    served.handler.pre_start_fails = "no reset"
    with pytest.raises(aio.AioRpcError, match=r"example\.com/widget: no reset"):
        await served.stub.PreStartContainer(request, timeout=10)


async def test_what_allocate_gives_is_passed_on_with_unknown_fields(served):
    """A vendor may know a newer API than we do."""
    container = b"\xfa\x3f\x03new" + dp.ContainerAllocateResponse(envs={"A": "1"}).SerializeToString()
    raw = b"\x0a" + bytes([len(container)]) + container + b"\xfa\x3f\x05newer"
    served.handler.reply = dp.AllocateResponse.FromString(raw)
    call = served.channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
    request = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=["d0"])])
    reply = await call(request.SerializeToString(), timeout=10)
    assert b"\xfa\x3f\x03new" in reply
    assert b"\xfa\x3f\x05newer" in reply
    (one,) = dp.AllocateResponse.FromString(reply).container_responses
    assert dict(one.envs) == {"A": "1"}


async def test_a_stream_starts_with_the_full_list(served):
    served.handler.publish(
        Device("a", nodes=(1,)),
        Device("b"),
        Device("c", nodes=(0, 2), healthy=False),
        Device("d", nodes=(-1,)),
    )
    first = await served.watch().read()
    assert [(one.ID, one.health, [node.ID for node in one.topology.nodes]) for one in first.devices] == [
        ("a", "Healthy", [1]),
        ("b", "Healthy", []),
        ("c", "Unhealthy", [0, 2]),
        ("d", "Healthy", []),
    ]
    assert [one.HasField("topology") for one in first.devices] == [True, False, True, False]


async def test_every_stream_gets_every_change(served):
    streams = [served.watch() for _ in range(4)]
    for stream in streams:
        assert ids_of(await stream.read()) == ["d0", "d1", "d2", "d3"]
    for change in (["d0"], ["d0", "d9"]):
        served.handler.publish(*change)
        for stream in streams:
            assert ids_of(await stream.read()) == change


async def test_a_change_between_two_streams_is_not_lost(served):
    first = served.watch()
    await first.read()
    first.cancel()
    await eventually(lambda: served.streams == 0)
    served.handler.publish("new")
    assert ids_of(await served.watch().read()) == ["new"]


async def test_a_list_that_says_the_same_is_not_sent_again(served):
    stream = served.watch()
    await stream.read()
    same = served.handler.board.current
    served.handler.board.publish(DeviceList(same.version + 1, same.devices))
    hidden = tuple(Device(one.id, group="other") for one in same.devices)
    served.handler.board.publish(DeviceList(same.version + 2, hidden))
    await asyncio.wait_for(served.handler.board.wait_change(same.version + 1), 10)
    served.handler.publish("d0")
    assert ids_of(await stream.read()) == ["d0"]


async def test_a_burst_of_changes_ends_with_the_last(served):
    stream = served.watch()
    await stream.read()
    for number in range(50):
        served.handler.publish(f"n{number}")
    seen = []
    while seen != ["n49"]:
        seen = ids_of(await asyncio.wait_for(stream.read(), 10))


async def test_draining_ends_all_streams_without_a_message(served):
    streams = [served.watch() for _ in range(3)]
    for stream in streams:
        await stream.read()
    served.service.drain()
    served.handler.publish()
    for stream in streams:
        assert await stream.read() is aio.EOF
        assert await stream.code() == grpc.StatusCode.OK
    assert await served.watch().read() is aio.EOF
    await eventually(lambda: served.streams == 0)


async def test_a_list_beyond_the_kubelets_limit_is_cut_and_reported(served):
    served.handler.publish(*(f"{number:060d}" for number in range(60_000)))
    stream = served.stub.ListAndWatch(dp.Empty())
    response = await stream.read()
    assert response.ByteSize() <= 4 * 1024 * 1024
    assert len(response.devices) > 50_000
    assert "do not fit" in served.error_texts[0]


async def test_the_handlers_preference_is_answered(served):
    assert await served.prefer((["d0", "d1", "d2"], [], 2)) == [["d1", "d2"]]
    assert served.errors == []


async def test_a_request_beyond_grpcs_default_limit_is_answered(served):
    available = [f"{number:063d}" for number in range(100_000)]
    (answer,) = await served.prefer((available, [], 2))
    assert answer == available[-2:]


async def test_one_response_per_container_request(served):
    served.handler.publish("d0", "d1")
    assert await served.prefer() == []
    assert await served.prefer((["d0", "d1"], [], 1), (["d0"], [], 1)) == [["d1"], ["d0"]]
    assert await served.allocate() == []
    assert len(await served.allocate(["d0"], ["d1"])) == 2


async def sleep_for_ever(*_):
    await asyncio.Event().wait()


async def cancelled_inside(*_):
    raise asyncio.CancelledError


def broken(*_):
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("prefer", "report"),
    [
        (broken, "broken"),
        (sleep_for_ever, ""),
        (cancelled_inside, "CancelledError"),
        (lambda *_: [], "0 ids"),
        (lambda *_: ["d1", "d1"], "distinct"),
        (lambda *_: ["d1", "zz"], "not offered|must be included"),
        (lambda *_: ["d0", "d1"], "must be included"),
        (lambda *_: ["d1", "d2", "d3"], "3 ids"),
        (lambda *_: None, "NoneType"),
    ],
)
async def test_whatever_the_handler_does_the_answer_is_valid_and_reported(served, prefer, report):
    served.handler.prefer = prefer
    assert await served.prefer((["d3", "d1", "d2", "d0"], ["d2"], 2)) == [["d2", "d0"]]
    ((rpc, error),) = served.errors
    assert rpc == "GetPreferredAllocation"
    assert any(part in f"{error!r}" for part in report.split("|"))


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (([], [], 1), []),
        ((["d0", "d1"], [], 0), []),
        ((["d0", "d1"], [], -1), []),
        ((["d1", "d0"], [], 5), ["d0", "d1"]),
        ((["d0"], ["d1", "d2"], 1), ["d1"]),
    ],
)
async def test_requests_without_a_right_answer_get_the_nearest_and_are_reported(served, request_, answer):
    assert await served.prefer(request_) == [answer]
    assert len(served.errors) == 1


async def test_a_report_that_fails_is_no_error_for_the_kubelet(served):
    served.handler.prefer = broken
    served.on_error = broken
    assert await served.prefer((["d0"], [], 1)) == [["d0"]]


ids = st.lists(st.sampled_from([f"d{n}" for n in range(6)]), max_size=8)


@settings(max_examples=examples(60))
@given(available=ids, must=ids, size=st.integers(-2, 9), answer=ids)
def test_no_request_and_no_answer_of_the_handler_make_an_error(available, must, size, answer):
    handler = Handler()
    handler.prefer = lambda *_: answer
    service = DevicePluginService(handler, on_error=lambda *_: None)
    request = dp.PreferredAllocationRequest(
        container_requests=[
            dp.ContainerPreferredAllocationRequest(
                available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
            )
        ]
    )
    response = asyncio.run(service.GetPreferredAllocation(request, None))
    chosen = list(response.container_responses[0].deviceIDs)
    assert len(chosen) == len(set(chosen)) <= max(size, 0)
    assert set(chosen) <= {*available, *must}
    if 0 < size <= len({*available, *must}) and len(set(must)) <= size:
        assert len(chosen) == size
        assert set(chosen) >= set(must)


async def test_allocate_renders_all_edits(served):
    served.handler.edits["d0"] = ContainerEdits(
        env={"A": "1"},
        env_json={"INFO": {"x": {"y": [1, 2]}}},
        device_nodes=(DeviceNode("/dev/h", "/dev/c", "mrw"),),
        mounts=(Mount("/h", "/c"), Mount("/w", "/w", read_only=False)),
        cdi_devices=("vendor/class=name",),
        annotations={"k": "v"},
    )
    (response,) = await served.allocate(["d0"])
    assert dict(response.envs) == {"A": "1", "INFO": '{"x":{"y":[1,2]}}'}
    assert json.loads(response.envs["INFO"]) == {"x": {"y": [1, 2]}}
    assert [(one.host_path, one.container_path, one.permissions) for one in response.devices] == [
        ("/dev/h", "/dev/c", "mrw")
    ]
    assert [(one.host_path, one.container_path, one.read_only) for one in response.mounts] == [
        ("/h", "/c", True),
        ("/w", "/w", False),
    ]
    assert [one.name for one in response.cdi_devices] == ["vendor/class=name"]
    assert dict(response.annotations) == {"k": "v"}


async def test_a_device_that_has_vanished_can_still_be_allocated(served):
    served.handler.publish("d1")
    assert len(await served.allocate(["d0"])) == 1


async def test_an_id_that_never_was_fails_with_its_name(served):
    with pytest.raises(aio.AioRpcError) as caught:
        await served.allocate(["zz"])
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert "zz" in caught.value.details()
    assert [rpc for rpc, _ in served.errors] == ["Allocate"]
