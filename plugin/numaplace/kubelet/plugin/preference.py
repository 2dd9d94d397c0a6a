"""Checks of every GetPreferredAllocation answer, and the fallback."""

from __future__ import annotations

from collections.abc import Sequence

from numaplace.model.device import natural_key
from numaplace.model.names import DeviceId


def fallback(
    available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
) -> tuple[DeviceId, ...]:
    """Return must-include, then the first available ids in natural order: at most ``size`` distinct ids.

    Valid for every request that has a valid answer, and the nearest thing to it for the others (fewer ids
    when too few are offered, none for a size below 1).
    """
    ordered = dict.fromkeys((*must_include, *sorted(available, key=natural_key)))
    return tuple(ordered)[: max(size, 0)]


def complaint_about_request(
    available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
) -> str:
    if size < 1:
        return f"allocation_size is {size}"
    if len(set(must_include)) > size:
        return f"{len(set(must_include))} ids must be included in {size}"
    offered = len({*available, *must_include})
    return f"{size} ids are requested, {offered} are offered" if offered < size else ""


def complaint_about_answer(
    answer: Sequence[DeviceId],
    *,
    available: Sequence[DeviceId],
    must_include: Sequence[DeviceId],
    size: int,
) -> str:
    """Return what is wrong with the answer, or nothing: it must be ``size`` distinct offered ids."""
    chosen = set(answer)
    if len(answer) != size or len(chosen) != size:
        return f"the answer has {len(answer)} ids, {len(chosen)} of them distinct, instead of {size}"
    if not chosen.issuperset(must_include):
        return "the answer leaves out an id that must be included"
    if chosen.difference(available, must_include):
        return "the answer has an id that was not offered"
    return ""
