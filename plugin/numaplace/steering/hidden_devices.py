"""Which devices are published without their NUMA nodes, and which of the offered ones a container is to get.

The kubelet computes a container's hints, then which devices it offers for it, then asks us. Lists may
arrive in between, and what was hidden when the offer was made may be shown again by the time of the question.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.model.device import Device
from numaplace.model.mask import mask_of, union_of
from numaplace.model.names import DeviceId
from numaplace.steering.published_topology import is_mixed, looked_at

LOOK_SECONDS = 1.0
"""Longer than from the Topology Manager's decision on a container to the call to us."""

HiddenNodes = Mapping[DeviceId, tuple[int, ...]]
"""Device id -> the NUMA nodes that it is on and is not published with."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Devices of these NUMA nodes became hidden; ``hidden`` are all that were hidden then."""

    nodes: int = 0
    hidden: HiddenNodes = field(default_factory=dict)
    at_seconds: float = 0.0


@dataclass(slots=True)
class HiddenDevices:
    """For one resource. ``now`` is what is hidden now: decisions read it each time."""

    now: HiddenNodes = field(default_factory=dict)
    _last: _Change = field(default_factory=_Change)

    def published(
        self,
        real: Sequence[Device],
        shown: Sequence[Device],
        *,
        withheld: int,
        now_seconds: float,
    ) -> None:
        """Note what is published: the devices as they are, and as they are shown, in the same order."""
        before, self.now = self.now, _hidden(real, shown) if withheld else {}
        newly = union_of(mask_of(self.now[one]) for one in self.now.keys() - before.keys())
        if newly:
            self._last = _Change(withheld & newly, self.now, now_seconds)

    def mixes(self, available: Collection[DeviceId], must_include: Collection[DeviceId]) -> bool:
        return is_mixed(available, must_include, hidden=self.now)

    def changed_since(self, seconds: float) -> bool:
        return self._last.nodes > 0 and self._last.at_seconds > seconds

    def looked_at(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Collection[DeviceId]:
        # What is hidden now was so at the last change, too.
        return looked_at(available, must_include, size, hidden=self._last.hidden, nodes=self._last.nodes)


def _hidden(devices: Sequence[Device], published: Sequence[Device]) -> HiddenNodes:
    return {
        real.id: real.nodes
        for real, shown in zip(devices, published, strict=True)
        if real.nodes and not shown.nodes
    }
