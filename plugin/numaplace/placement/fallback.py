"""The answer when no decision can be made: always valid, never an error (an error fails the pod)."""

from __future__ import annotations

from collections.abc import Sequence

from numaplace.model.names import DeviceId


def fallback(
    available: Sequence[DeviceId], must_include: Sequence[DeviceId], *, size: int
) -> tuple[DeviceId, ...]:
    """Return at most ``size`` distinct ids: the must-include ones, then the first offered ones in id order.

    A must-include id that is not offered is kept: the kubelet has taken it already. Fewer ids than ``size``
    come back only if fewer were offered; the kubelet then reports the shortage itself.
    """
    chosen = dict.fromkeys(must_include)
    for device_id in sorted(set(available)):
        if len(chosen) >= size:
            break
        chosen[device_id] = None
    return tuple(chosen)[: max(size, 0)]
