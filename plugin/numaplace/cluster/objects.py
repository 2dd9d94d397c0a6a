"""A pod's JSON as values: only the fields that matter here are read, the rest is skipped unparsed.

``msgspec`` does that in one pass and makes no objects of what is skipped: managed fields, environment and
volumes are most of a pod's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from numaplace.cluster.decode import decode
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, PodKey, ResourceName
from numaplace.model.quantity import parse_quantity, rounded_up

Quantities = dict[str, str | int | float] | None
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Resources(msgspec.Struct):
    requests: Quantities = None
    limits: Quantities = None


class _Container(msgspec.Struct, rename="camel"):
    name: _Text
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: _Resources | None = None


class _Status(msgspec.Struct):
    phase: str | None = None
    reason: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | None = None


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[_Pod] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod as the API server has it. ``terminal``: it has ended.

    ``reason`` is that of its status: the kubelet's reason for refusing the pod, where it did.
    """

    pod: Pod
    terminal: bool = False
    reason: str = ""

    @property
    def key(self) -> PodKey:
        return (self.pod.namespace, self.pod.name)


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch. ``pod`` is ``None`` for a bookmark, and for a pod that cannot be read.

    ``error`` is the HTTP status of an ERROR event, else 0, and ``message`` says more.
    """

    version: str = ""
    pod: KnownPod | None = None
    deleted: bool = False
    error: int = 0
    message: str = ""


def read_list(text: bytes | bytearray) -> tuple[str, tuple[KnownPod, ...]]:
    """Return a PodList's version and its pods; ``ValueError`` if it is not one."""
    found = decode(text, _List)
    pods = (_known(item) for item in found.items or ())
    return found.metadata.resource_version, tuple(pod for pod in pods if pod is not None)


def read_change(line: bytes) -> Change:
    """Return one event of a watch; ``ValueError`` if it is not one."""
    event = decode(line, _Event)
    if event.type == "ERROR":
        failure = decode(event.object, _Failure)
        return Change(error=failure.code or 500, message=failure.message)
    item = decode(event.object, _Pod)
    known = None if event.type == "BOOKMARK" else _known(item)
    return Change(item.metadata.resource_version, known, deleted=event.type == "DELETED")


def _known(item: _Pod) -> KnownPod | None:
    """Return the pod, or ``None`` if it has no name or an amount that cannot be parsed."""
    meta, spec = item.metadata, item.spec
    if not (meta.name and meta.namespace):
        return None
    try:
        pod = Pod(
            uid=PodUid(meta.uid),
            namespace=meta.namespace,
            name=meta.name,
            containers=tuple(_container(one, ContainerKind.APP) for one in spec.containers or ()),
            init_containers=tuple(_container(one, _kind(one)) for one in spec.init_containers or ()),
            pod_level=bool(spec.resources and (spec.resources.requests or spec.resources.limits)),
        )
    except ValueError:
        return None
    status = item.status or _Status()
    return KnownPod(pod, terminal=status.phase in ("Succeeded", "Failed"), reason=status.reason or "")


def _kind(init_container: _Container) -> ContainerKind:
    return ContainerKind.SIDECAR if init_container.restart_policy == "Always" else ContainerKind.INIT


def _container(found: _Container, kind: ContainerKind) -> Container:
    resources = found.resources or _Resources()
    limits = _amounts(resources.limits)
    return Container(found.name, {**limits, **_amounts(resources.requests)}, limits, kind)


def _amounts(quantities: Quantities) -> Mapping[ResourceName, int]:
    amounts = {}
    for name, quantity in (quantities or {}).items():
        amount = parse_quantity(str(quantity))
        amounts[ResourceName(name)] = rounded_up(amount * 1000 if name == CPU else amount)
    return amounts
