"""Whatever is asked of the daemon's socket, there is an answer, and a valid one where there can be one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, VF, Site, build_site, pod, preferred
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.channel import open_channel
from numaplace.kubelet.emulator import NO_FAULTS, Faults


class Loop:
    """A site with a daemon on an event loop of its own, for tests that are no coroutines."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.ids: dict[Any, list[str]] = {}
        self.stubs: dict[Any, Any] = {}

    async def start(self, root: Path) -> None:
        self.site: Site = build_site(root)
        await self.stack.enter_async_context(self.site.kubelet)
        self.served = await self.stack.enter_async_context(self.site.serving(deadline="1s"))
        for resource in (VF, GPU):
            self.stubs[resource] = await self.stack.enter_async_context(self.site.plugin(resource))
            self.ids[resource] = sorted(self.site.kubelet.allocatable(resource))


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    made = Loop()
    with tempfile.TemporaryDirectory(prefix="np-", dir="/tmp") as root, made.runner:
        made.runner.run(made.start(Path(root)))
        yield made
        made.runner.run(made.stack.aclose())


faults = st.sampled_from([NO_FAULTS, NO_FAULTS, Faults(errors={"List": "UNAVAILABLE"})])
indexes = st.lists(st.integers(0, 19), max_size=20)


@st.composite
def request_of(draw: Any) -> tuple[Any, list[int], list[int], int]:
    return (
        draw(st.sampled_from([VF, GPU])),
        draw(indexes),
        draw(st.lists(st.integers(0, 19), max_size=3)),
        draw(st.one_of(st.integers(1, 6), st.integers(-2, 30))),
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), request_of()),
        st.tuples(st.just("admit"), st.integers(1, 3)),
        st.tuples(st.just("faults"), faults),
        st.tuples(st.just("allocate"), st.integers(0, 7)),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_random_requests_never_fail_and_are_answered_validly(loop: Loop, sequence: Any) -> None:
    loop.runner.run(play(loop, sequence))


async def play(loop: Loop, sequence: Any) -> None:
    kubelet = loop.site.kubelet
    admitted, in_use = [], 0
    try:
        for number, (kind, what) in enumerate(sequence):
            match kind:
                case "faults":
                    kubelet.faults = what
                case "admit":
                    admission = await kubelet.admit(pod(f"p{number}", {VF: what}))
                    assert admission.admitted == (in_use + what <= len(loop.ids[VF])), admission.message
                    if admission.admitted:
                        in_use += what
                        admitted.append(f"p{number}")
                case "allocate":
                    ids = loop.ids[GPU][what : what + 1]
                    await loop.stubs[GPU].Allocate(
                        pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
                    )
                case "ask":
                    await ask(loop, *what)
    finally:
        kubelet.faults = NO_FAULTS
        for name in admitted:
            await kubelet.remove(("default", name))


async def ask(loop: Loop, resource: Any, available: list[int], must: list[int], size: int) -> None:
    """Ids beyond those of the resource are strangers: no kubelet sends them, and they do no harm."""
    known = loop.ids[resource]

    def named(numbers: list[int]) -> list[str]:
        return [known[one] if one < len(known) else f"stranger-{one}" for one in numbers]

    offered, musts = named(available), named(must)
    answer = await preferred(loop.stubs[resource], offered, musts, size=size)
    everything = {*offered, *musts}
    assert len(answer) == len(set(answer)) == min(max(size, 0), len(everything))
    assert set(answer) <= everything
    assert set(musts) <= set(answer) or size < len(set(musts))


def test_odd_requests_are_counted_as_such(loop: Loop) -> None:
    async def play() -> None:
        stub, vfs = loop.stubs[VF], loop.ids[VF]
        before = loop.served.count("numaplace_fallbacks_total", resource=VF, reason="invalid-request")
        assert await preferred(stub, vfs, size=0) == []
        assert await preferred(stub, vfs[:2], size=5) == vfs[:2]
        assert await preferred(stub, vfs, vfs[:3], size=2) == vfs[:2]
        after = loop.served.count("numaplace_fallbacks_total", resource=VF, reason="invalid-request")
        assert after - before == 3
        reply = await stub.GetPreferredAllocation(pb.PreferredAllocationRequest())
        assert not reply.container_responses

    loop.runner.run(play())


def test_a_request_of_many_ids_is_answered(loop: Loop) -> None:
    """More than gRPC's default limit of 4 MiB."""

    async def play() -> None:
        strangers = [f"{'x' * 55}{number:08}" for number in range(80_000)]
        answer = await preferred(loop.stubs[VF], [*strangers, loop.ids[VF][0]], size=1)
        assert len(answer) == 1

    loop.runner.run(play())


def test_bytes_that_are_no_request_harm_nobody(loop: Loop) -> None:
    async def play() -> None:
        endpoint = next(one for one in loop.site.kubelet.endpoints if one.resource == VF)
        channel = open_channel(endpoint.socket_path)
        call = channel.unary_unary("/v1beta1.DevicePlugin/GetPreferredAllocation")
        with pytest.raises(Exception, match=r"."):
            await call(b"\xff\xff\xff", timeout=5)
        await channel.close()
        assert await preferred(loop.stubs[VF], loop.ids[VF], size=1)

    loop.runner.run(play())
