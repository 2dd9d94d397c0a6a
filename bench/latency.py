"""GetPreferredAllocation through real gRPC, interleaved with its reference call by call.

The reference of each sample: a call to a server that decodes the same request and returns a constant, plus a
bare List of the same state, whose reply is decoded by protobuf and dropped. All three calls are made
from this process, with a client of the kubelet's dial options; daemon, reference and kubelet are processes of
their own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from numaplace.devices.fake import FakeHost
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc

from bench.machine import RESOURCE, Machine, Request
from bench.parts import KUBELET_DIAL_OPTIONS, Child, Daemon, PodResources, channel
from bench.stats import Row, middle_round

CALLS_PER_SECOND = 33.0
"""Below the daemon's own rate limit for PodResources: what is measured is latency, not waiting."""
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """A machine, and how many times the reference a decision may take."""

    request: Request
    max_ratio: float


SETTINGS = (
    Setting(Request(nodes=8, devices_per_node=64, pods=110, devices_per_pod=2), max_ratio=2.5),
    Setting(Request(nodes=2, devices_per_node=8, pods=10, devices_per_pod=1), max_ratio=2.0),
)


@dataclass(frozen=True, slots=True)
class Peers:
    """The three servers."""

    daemon: rpc.DevicePluginStub
    reference: rpc.DevicePluginStub
    pod_resources: PodResources


def measure(setting: Setting, folder: Path, *, calls: int, warm_up: int) -> list[Row]:
    """Return p50 and p99 of one setting, in milliseconds."""
    machine = Machine(setting.request)
    with _peers(machine, folder) as peers:
        for _ in range(warm_up):
            _decide(machine, peers, turn=0)
        samples = [_decide(machine, peers, turn=turn) for turn in range(calls)]
    ours, reference = [one[0] * 1000 for one in samples], [one[1] * 1000 for one in samples]
    return [
        Row(
            f"GetPreferredAllocation, {setting.request}: p{percent}",
            "ms",
            *middle_round(ours, reference, percent, rounds=ROUNDS),
            max_ratio=setting.max_ratio,
        )
        for percent in (50, 99)
    ]


def _decide(machine: Machine, peers: Peers, *, turn: int) -> tuple[float, float]:
    """Admit one pod; return the seconds of our answer, and of the reference."""
    due = time.perf_counter() + 1 / CALLS_PER_SECOND
    machine.step()
    peers.pod_resources.show(machine.listing())
    size = machine.request.devices_per_pod
    request = pb.PreferredAllocationRequest(
        container_requests=[
            pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=machine.offered(), allocation_size=size
            )
        ]
    )
    answers: dict[str, pb.PreferredAllocationResponse] = {}
    steps: dict[str, Callable[[], object]] = {
        "constant": lambda: peers.reference.GetPreferredAllocation(request),
        "list": peers.pod_resources.bare_list,
        "daemon": lambda: answers.update(daemon=peers.daemon.GetPreferredAllocation(request)),
    }
    names = list(steps)
    order = [*names[turn % 3 :], *names[: turn % 3]]
    seconds = {name: _timed(steps[name]) for name in order}
    ids = answers["daemon"].container_responses[0].deviceIDs
    peers.daemon.Allocate(
        pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
    )
    machine.give(list(ids))
    time.sleep(max(0.0, due - time.perf_counter()))
    return seconds["daemon"], seconds["constant"] + seconds["list"]


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@contextlib.contextmanager
def _peers(machine: Machine, folder: Path) -> Iterator[Peers]:
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        kubelet = Child("kubelet", folder, RESOURCE)
        stack.callback(kubelet.stop)
        kubelet.fact()
        bare = PodResources(stack.enter_context(channel(folder / "list.sock")))
        bare.set_allocatable(machine.allocatable())
        bare.show(machine.listing())
        reference = Child("reference", folder)
        stack.callback(reference.stop)
        reference.fact()
        daemon = Daemon(folder, _config(machine.request, folder))
        stack.callback(daemon.stop)
        sockets = kubelet.fact(hint=daemon.log)["sockets"]
        assert isinstance(sockets, dict)

        def plugin(path: Path) -> rpc.DevicePluginStub:
            return rpc.DevicePluginStub(stack.enter_context(channel(path, KUBELET_DIAL_OPTIONS)))

        yield Peers(plugin(Path(sockets[RESOURCE])), plugin(folder / "reference.sock"), bare)


def _config(request: Request, folder: Path) -> dict[str, object]:
    host = FakeHost(folder / "host")
    for node in range(request.nodes):
        host.numa_node(node, cpus=f"{node * 32}-{node * 32 + 31}", memory_bytes=128 << 30)
    devices = folder / "devices.yaml"
    listed = [{"id": device, "numaNode": node} for device, node in request.devices.items()]
    devices.write_text(yaml.safe_dump({"devices": listed}))
    return {
        "strategy": "least-allocated",
        "resources": [{"name": RESOURCE, "declared": {"file": str(devices)}}],
        "host": {"sysfs": str(host.roots.sysfs)},
    }
