"""The running daemon's page ``/steering``, as ``doctor`` and ``inspect`` read it.

Only the fields that they need are read: a daemon of another version may have more, or no such page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from numaplace.model.names import DeviceId, ResourceName


class _Device(msgspec.Struct):
    id: str
    numa_nodes: list[int] = msgspec.field(name="numaNodes")


class _Withheld(msgspec.Struct):
    resource: str
    numa_nodes: list[int] = msgspec.field(name="numaNodes")
    devices: list[_Device] = []


class _Refusal(msgspec.Struct):
    reason: str = ""
    text: str = ""
    resources: list[str] = []


class _Request(msgspec.Struct):
    text: str = ""


class _Kubelet(msgspec.Struct):
    known: bool = False
    policy: str | None = None
    scope: str | None = None
    source: str = ""
    problem: str = ""


class _Breaker(msgspec.Struct):
    open: bool = False
    seconds_left: float | None = msgspec.field(default=None, name="secondsLeft")
    trips: int = 0


class _Page(msgspec.Struct):
    mode: str
    kubelet: _Kubelet = msgspec.field(default_factory=_Kubelet)
    withheld: list[_Withheld] = []
    refusals: list[_Refusal] = []
    requests: list[_Request] = []
    requests_source: str = msgspec.field(default="none", name="requestsSource")
    breaker: _Breaker = msgspec.field(default_factory=_Breaker)


@dataclass(frozen=True, slots=True)
class WithheldFact:
    """The NUMA nodes whose free devices of a resource show no topology, and those devices' own nodes."""

    nodes: tuple[int, ...]
    devices: Mapping[DeviceId, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SteeringFact:
    """The page ``/steering``. ``document`` is the whole of it.

    ``policy`` and ``scope`` are empty and ``problem`` a clause where it does not know the kubelet.
    ``open_seconds``: how long the circuit breaker stays open; ``None``: closed. ``refusals`` are (code,
    sentence), one for all resources it applies to; ``requests`` are sentences.
    """

    mode: str
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)
    policy: str = ""
    scope: str = ""
    source: str = ""
    problem: str = ""
    withheld: Mapping[ResourceName, WithheldFact] = field(default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = ()
    requests: tuple[str, ...] = ()
    requests_source: str = "none"
    open_seconds: float | None = None
    trips: int = 0


def _joined(refusals: Iterable[_Refusal]) -> Iterator[tuple[str, str]]:
    """Yield the reasons; equal ones of several resources are joined."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in refusals:
        found.setdefault((one.reason, one.text), []).extend(one.resources)
    for (reason, text), resources in found.items():
        yield reason, f"{', '.join(sorted(resources))}: {text}" if resources else text


def read_steering(text: str) -> SteeringFact | None:
    """Return the page's content; ``None`` if it is not such a page."""
    try:
        page = msgspec.json.decode(text, type=_Page)
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return None
    kubelet = page.kubelet
    return SteeringFact(
        mode=page.mode,
        document=document,
        policy=kubelet.policy or "" if kubelet.known else "",
        scope=kubelet.scope or "" if kubelet.known else "",
        source=kubelet.source,
        problem=kubelet.problem,
        withheld={
            ResourceName(one.resource): WithheldFact(
                tuple(one.numa_nodes),
                {DeviceId(device.id): tuple(device.numa_nodes) for device in one.devices},
            )
            for one in page.withheld
        },
        refusals=tuple(_joined(page.refusals)),
        requests=tuple(one.text for one in page.requests),
        requests_source=page.requests_source,
        open_seconds=(page.breaker.seconds_left or 0.0) if page.breaker.open else None,
        trips=page.breaker.trips,
    )
