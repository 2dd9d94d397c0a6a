"""What an Event says about a container's devices: where they are, and why, if we were asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

from numaplace.cluster.events import Note
from numaplace.engine.compare import Rule
from numaplace.managers.pod import Pod
from numaplace.model.mask import union_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse, ids_by_resource
from numaplace.placement.reasons import Placement
from numaplace.placement.text import numa_text, why
from numaplace.state.snapshot import Snapshot

PLACED, SPLIT = "NUMAPlaced", "NUMASplit"
MAX_ANSWERS = 512
REMEMBERED_SECONDS = 300.0
"""An answer that no List has shown by then was not followed; the devices may be another pod's later."""

MAX_IDS = 4


class Answers:
    """Our latest answers by resource and ids, until the pod that got them is seen."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._given: OrderedDict[tuple[ResourceName, frozenset[DeviceId]], tuple[float, Placement]]
        self._given = OrderedDict()

    def note(self, resource: ResourceName, placement: Placement) -> None:
        key = (resource, frozenset(placement.ids))
        self._given[key] = (self._clock(), placement)
        self._given.move_to_end(key)
        if len(self._given) > MAX_ANSWERS:
            self._given.popitem(last=False)

    def take(self, resource: ResourceName, ids: Collection[DeviceId]) -> Placement | None:
        at, placement = self._given.pop((resource, frozenset(ids)), (0.0, None))
        return placement if self._clock() - at < REMEMBERED_SECONDS else None


Steered = Callable[[ResourceName, Collection[DeviceId], int], str]
"""Resource, ids and the mask of their NUMA nodes -> what steering did about them; empty: nothing."""


def not_steered(_resource: ResourceName, _ids: Collection[DeviceId], _mask: int) -> str:
    """Say that the kubelet would have chosen the same NUMA nodes by itself."""
    return ""


def notes_of(
    use: PodUse,
    spec: Pod,
    *,
    ours: Collection[ResourceName],
    snapshot: Snapshot,
    answers: Answers,
    steered: Steered = not_steered,
) -> Iterator[Note]:
    for container in use.containers:
        blocks = _blocks(container)
        if not any(block.resource in ours for block in blocks):
            continue
        masks = [mask for block in blocks for mask in _masks(block, snapshot)]
        split = bool(masks) and not _common(masks)
        reasons = [
            f"{block.resource}: {_why(block, snapshot, answers=answers, steered=steered)}"
            for block in blocks
            if block.resource in ours
        ]
        where = ", ".join(_where(block, snapshot) for block in blocks)
        several = " (devices of one container on several NUMA nodes)" if split else ""
        yield Note(
            namespace=use.namespace,
            pod=use.name,
            uid=spec.uid,
            container=container.name,
            reason=SPLIT if split else PLACED,
            message=f"Container {container.name}: {where}{several}. {'. '.join(reasons)}",
            identity=" ".join(sorted(f"{block.resource}/{one}" for block in blocks for one in block.ids)),
            warning=split,
        )


def _blocks(container: ContainerUse) -> list[DeviceBlock]:
    """Return one block per resource, by name: List has one per set of NUMA nodes."""
    held = ids_by_resource(container.devices)
    return [DeviceBlock(name, tuple(sorted(ids))) for name, ids in sorted(held.items())]


def _masks(block: DeviceBlock, snapshot: Snapshot) -> list[int]:
    """Return the NUMA masks of the devices that have one, by our own knowledge: List may lack it."""
    states = snapshot.devices(block.resource)
    return [state.mask for one in block.ids if (state := states.get(one)) is not None and state.mask]


def _common(masks: Collection[int]) -> int:
    common = -1
    for mask in masks:
        common &= mask
    return common


def _where(block: DeviceBlock, snapshot: Snapshot) -> str:
    mask = union_of(_masks(block, snapshot))
    shown = ", ".join(block.ids[:MAX_IDS])
    more = f" and {len(block.ids) - MAX_IDS} more" if len(block.ids) > MAX_IDS else ""
    place = f"on {numa_text(mask)}" if mask else "without a NUMA node"
    return f"{len(block.ids)} {block.resource} ({shown}{more}) {place}"


def _why(block: DeviceBlock, snapshot: Snapshot, *, answers: Answers, steered: Steered) -> str:
    """Return why; what steering did comes first, because it left the rest to choose from."""
    placement = answers.take(block.resource, block.ids)
    by_steering = steered(block.resource, block.ids, union_of(_masks(block, snapshot)))
    if by_steering:
        return by_steering
    if placement is None:
        return "chosen by the kubelet"
    sentence = why(placement)
    return sentence if placement.choice.rule is Rule.SCORE else f"{sentence} (strategy {placement.strategy})"
