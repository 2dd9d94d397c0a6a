from __future__ import annotations

import asyncio
import socket

import grpc
import pytest
from google.protobuf import json_format
from kubelet_side import PodResourcesSide, eventually, pod
from numaplace.errors import InputError, PeerError
from numaplace.kubelet.api import podresources_pb2 as pr
from numaplace.kubelet.podresources.client import connect


class Calls(list):
    def __call__(self, method: str, code: str) -> None:
        self.append((method, code))


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
async def client(short_dir, calls):
    client = connect(f"unix:{short_dir}/pr.sock", observe=calls)
    yield client
    await client.close()


async def code_of(awaitable) -> str:
    with pytest.raises(PeerError) as caught:
        await awaitable
    return caught.value.code


@pytest.mark.parametrize("address", ["", "unix:", "/run/x.sock", "tcp:127.0.0.1:1", "fake:"])
def test_other_addresses_are_refused(address, calls):
    with pytest.raises(InputError, match="unix:PATH, fake:PATH"):
        connect(address, observe=calls)


def test_a_path_too_long_is_refused_at_once(calls):
    with pytest.raises(InputError, match="107"):
        connect("unix:/" + "x" * 200, observe=calls)


async def test_all_three_calls(podresources, client, calls):
    podresources.say(pod("a", resource="x/y", ids=("1",)))
    podresources.replies["Get"] = pr.GetPodResourcesResponse(pod_resources=pod("b")).SerializeToString()
    allocatable = pr.AllocatableResourcesResponse(cpu_ids=[1, 2])
    podresources.replies["GetAllocatableResources"] = allocatable.SerializeToString()
    (listed,) = await client.list(timeout_seconds=10)
    got = await client.get("default", "b", timeout_seconds=10)
    capacity = await client.allocatable(timeout_seconds=10)
    assert (listed.name, got.name, capacity.cpus) == ("a", "b", {1, 2})
    assert calls == [("List", "OK"), ("Get", "OK"), ("GetAllocatableResources", "OK")]


async def test_an_unchanged_reply_is_the_same_tuple(podresources, client):
    podresources.say(pod("a"))
    assert await client.list(timeout_seconds=10) is await client.list(timeout_seconds=10)


@pytest.mark.parametrize(
    "code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "CANCELLED", "UNKNOWN"]
)
async def test_the_kubelets_code_is_kept(podresources, client, calls, code):
    podresources.fail["List"] = grpc.StatusCode[code]
    assert await code_of(client.list(timeout_seconds=10)) == code
    assert calls == [("List", code)]


async def test_a_pod_that_the_kubelet_does_not_have_is_none(podresources, client):
    podresources.fail["Get"] = grpc.StatusCode.UNKNOWN
    assert await client.get("default", "gone", timeout_seconds=10) is None


async def test_a_kubelet_without_get_says_so(podresources, client):
    podresources.fail["Get"] = grpc.StatusCode.UNIMPLEMENTED
    assert await code_of(client.get("default", "a", timeout_seconds=10)) == "UNIMPLEMENTED"


async def test_a_reply_that_is_no_message(podresources, client, calls):
    podresources.replies["List"] = b"\xff\xff"
    assert await code_of(client.list(timeout_seconds=10)) == "DECODE"
    assert calls == [("List", "DECODE")]


async def test_a_reply_beyond_grpcs_default_limit_is_read(podresources, client):
    podresources.say(*(pod(f"{n}" + "x" * 4000) for n in range(1500)))
    assert len(podresources.replies["List"]) > 4 * 1024 * 1024
    assert len(await client.list(timeout_seconds=20)) == 1500


async def test_a_reply_beyond_our_limit_is_an_error(podresources, client):
    podresources.replies["List"] = b"\x0a\x00" * (9 * 1024 * 1024)
    assert await code_of(client.list(timeout_seconds=20)) == "RESOURCE_EXHAUSTED"


async def test_a_silent_kubelet_costs_the_timeout_only(podresources, client):
    podresources.gate = asyncio.Event()
    assert await code_of(client.list(timeout_seconds=0.05)) == "DEADLINE_EXCEEDED"


async def test_a_socket_that_nobody_serves(short_dir, client):
    with socket.socket(socket.AF_UNIX) as broken:
        broken.bind(str(short_dir / "pr.sock"))
    assert await code_of(client.list(timeout_seconds=10)) == "UNAVAILABLE"


async def test_a_restarted_kubelet_is_found_again_at_once(short_dir, podresources, client):
    podresources.say(pod("before"))
    await client.list(timeout_seconds=10)
    await podresources.stop()
    for _ in range(5):
        assert await code_of(client.list(timeout_seconds=10)) == "UNAVAILABLE"
    after = PodResourcesSide(podresources.path)
    after.say(pod("after"))
    await after.start()
    try:
        (only,) = await client.list(timeout_seconds=10)
        assert only.name == "after"
    finally:
        await after.stop()


async def test_a_replaced_socket_is_followed_though_the_old_server_lives(short_dir, podresources, client):
    podresources.say(pod("old"))
    await client.list(timeout_seconds=10)
    podresources.path.unlink()
    new = PodResourcesSide(podresources.path)
    new.say(pod("new"))
    await new.start()
    try:
        (only,) = await client.list(timeout_seconds=10)
        assert only.name == "new"
    finally:
        await new.stop()


async def test_closing_ends_a_call_in_flight_with_an_error_not_a_cancellation(podresources, client):
    podresources.gate = asyncio.Event()
    call = asyncio.create_task(client.list(timeout_seconds=30))
    await eventually(lambda: podresources.calls)
    await client.close()
    assert await code_of(call) == "CANCELLED"


async def test_the_fake_answers_from_its_folder(tmp_path, calls):
    fake = connect(f"fake:{tmp_path}", observe=calls)
    assert await code_of(fake.list(timeout_seconds=1)) == "UNAVAILABLE"
    listing = pr.ListPodResourcesResponse(pod_resources=[pod("a"), pod("b")])
    (tmp_path / "list.json").write_text(json_format.MessageToJson(listing))
    (tmp_path / "allocatable.json").write_text('{"cpuIds": ["3"], "devices": [{"resourceName": "x/y"}]}')
    assert [one.name for one in await fake.list(timeout_seconds=1)] == ["a", "b"]
    assert (await fake.get("default", "b", timeout_seconds=1)).name == "b"
    assert await fake.get("default", "c", timeout_seconds=1) is None
    assert (await fake.allocatable(timeout_seconds=1)).cpus == {3}
    (tmp_path / "list.json").write_text("{nonsense")
    assert await code_of(fake.list(timeout_seconds=1)) == "DECODE"
    await fake.close()
    assert calls[0] == ("List", "UNAVAILABLE")
    assert calls[-1] == ("List", "DECODE")
