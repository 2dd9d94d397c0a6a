"""The shapes of this node's pods: of those that the API server tells, and of those seen in Lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from numaplace.managers.pod import Pod
from numaplace.model.names import PodKey
from numaplace.model.podresources import PodUse
from numaplace.steering.node import SteeringNode
from numaplace.steering.shape import REMEMBERED_SHAPES, Shape, seen_shapes
from numaplace.steering.specs import managed_part, shape_of


@dataclass(frozen=True, slots=True)
class KnownShapes:
    """The distinct shapes of the last pods, newest last. ``observed`` gives the next value, or itself.

    A value is for one node: with another ``SteeringNode`` the same pods may have other shapes.
    """

    shapes: tuple[Shape, ...] = ()
    _noted: frozenset[PodKey] = field(default=frozenset(), repr=False)

    def observed(
        self,
        pods: Sequence[PodUse],
        *,
        settled: AbstractSet[PodKey],
        specs: Mapping[PodKey, Pod],
        node: SteeringNode,
    ) -> KnownShapes:
        """Note the pods of ``specs``, and the ``settled`` ones of the List: others show a part only.

        Where a pod's spec is known, it counts; a pod may have it before it is in any List.
        """
        present = specs.keys() | settled
        new = present - self._noted
        if not new:
            return self if len(present) == len(self._noted) else KnownShapes(self.shapes, frozenset(present))
        without_spec = [pod for pod in pods if pod.key in new and pod.key not in specs]
        found = (
            *seen_shapes(sorted(without_spec, key=lambda pod: pod.key)),
            *(shape_of(specs[key], node.scope) for key in sorted(new & specs.keys())),
        )
        return KnownShapes(self._with(found, node), frozenset(present))

    def _with(self, found: Iterable[Shape], node: SteeringNode) -> tuple[Shape, ...]:
        shapes = dict.fromkeys(managed_part(one, node) for one in found)
        shapes.pop(Shape(()), None)
        kept = [one for one in self.shapes if one not in shapes]
        return (*kept, *shapes)[-REMEMBERED_SHAPES:]
