"""The parts of a decision alone, in this process: for information."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from numaplace.engine.options import PolicyOptions
from numaplace.kubelet.podresources.convert import ListDecoder, decode_allocatable
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.model.topology import NumaTopology
from numaplace.placement.index import index_devices
from numaplace.placement.place import PlacementRequest, place
from numaplace.state.pod_totals import ContributionCache
from numaplace.state.snapshot import build_snapshot

from bench.latency import SETTINGS
from bench.machine import RESOURCE, Machine
from bench.stats import Row

ROUNDS = 200


def measure_steps() -> list[Row]:
    """Return the median of each step on the largest setting, in milliseconds."""
    request = SETTINGS[0].request
    machine, decoder, cache = Machine(request), ListDecoder(), ContributionCache()
    resource = ResourceName(RESOURCE)
    devices = {DeviceId(key): Device(DeviceId(key), (node,)) for key, node in request.devices.items()}
    index = index_devices(devices.values())
    topology = NumaTopology(
        tuple(range(request.nodes)), {n: frozenset(range(n * 32, n * 32 + 32)) for n in range(request.nodes)}
    )
    allocatable = decode_allocatable(machine.allocatable())
    options = PolicyOptions(strategy=Strategy.LEAST_ALLOCATED)
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        machine.step()
        listing, offered = machine.listing(), [DeviceId(one) for one in machine.offered()]
        with _timed(times, "List to values"):
            pods = decoder.decode(listing)
        with _timed(times, "snapshot"):
            snapshot = build_snapshot(
                topology=topology,
                allocatable=allocatable,
                pods=pods,
                devices={resource: devices},
                offered={resource: frozenset(offered)},
                taken_at_seconds=0.0,
                cache=cache,
            )
        with _timed(times, "placement"):
            placement = place(
                PlacementRequest(offered, (), request.devices_per_pod),
                index=index,
                topology=topology,
                snapshot=snapshot,
                options=options,
            )
        machine.give(placement.ids)
    return [Row(f"{name}, {request}", "ms", median(found), 0.0) for name, found in times.items()]


@contextmanager
def _timed(times: dict[str, list[float]], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    times.setdefault(name, []).append(1000 * (time.perf_counter() - started))
