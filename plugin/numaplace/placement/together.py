"""Which NUMA masks keep a container together: its devices, its CPUs and its memory on the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from numaplace.model.mask import union_of
from numaplace.model.names import Amounts, is_memory
from numaplace.placement.reasons import Asker
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Together:
    """The masks that suit a container, and why the others were passed over.

    ``rest`` is what they lack of what the container has still to be given, ``cpus`` the mask of the NUMA
    nodes where its CPUs will be, unless all masks were equal in that.
    """

    masks: Sequence[int]
    rest: Amounts = field(default_factory=dict)
    cpus: int = 0


def keep_together(masks: Sequence[int], asker: Asker, *, snapshot: Snapshot | None) -> Together:
    """Narrow ``masks`` down, in this order; a condition that no mask meets is passed over.

    1. Where the container has devices already (``held``), for they stay.
    2. Where the devices that it has still to be given are free: numaplace decides on these too.
    3. Where the kubelet will take its exclusive CPUs from (``cpus``, 0 if none or unknown).
    4. Where as many CPUs and as much memory are free. Under Topology Manager policy ``none`` the kubelet
       takes them without regard to the devices; where there are none they cannot be beside the devices. Nor
       can memory where the kubelet takes it from several NUMA nodes together, and one is outside the mask.

    For the effect of the last two see docs/fragmentation.md. Resources without state do not count.
    """
    held, cpus = asker.held, asker.cpus
    masks = _those(masks, lambda mask: held in (0, mask & held) or mask & held == mask)
    if snapshot is None:
        return Together(masks)
    tallies = snapshot.tallies
    known = {name: amount for name, amount in asker.rest.items() if name in tallies}
    devices = {name: amount for name, amount in known.items() if name in snapshot.device_states}
    compute = {name: amount for name, amount in known.items() if name not in devices}
    memory = {name: amount for name, amount in compute.items() if is_memory(name)}

    def has_room_for(wanted: Amounts) -> Callable[[int], bool]:
        return lambda mask: all(tallies[name].usage(mask).free >= wanted[name] for name in wanted)

    has_room, has_memory = has_room_for(compute), has_room_for(memory)

    def has_compute(mask: int) -> bool:
        return has_room(mask) and any(map(has_memory, _memory_homes(mask, snapshot.memory_groups)))

    with_devices = _those(masks, has_room_for(devices))
    with_cpus = _those(_those(with_devices, lambda mask: mask & cpus != 0), lambda mask: mask & cpus == cpus)
    with_all = _those(with_cpus, has_compute)
    lacking = (devices if len(with_devices) < len(masks) else {}) | (
        compute if len(with_all) < len(with_cpus) else {}
    )
    return Together(with_all, lacking, cpus if len(with_cpus) < len(with_devices) else 0)


def _memory_homes(mask: int, groups: Collection[int]) -> list[int]:
    """Return the sets within ``mask`` that memory may come from: its nodes in no group, and whole groups."""
    alone = mask & ~union_of(groups)
    return [alone, *(group for group in groups if group & mask == group)]


def _those(masks: Sequence[int], suits: Callable[[int], bool]) -> Sequence[int]:
    """Return the masks that suit; all of them if none does."""
    return [mask for mask in masks if suits(mask)] or masks
