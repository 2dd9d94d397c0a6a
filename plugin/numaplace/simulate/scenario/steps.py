"""The ``steps`` section: pods that come and go, devices that fail and recover."""

from __future__ import annotations

from collections.abc import Mapping

from numaplace.model.device import Device
from numaplace.model.names import ResourceName
from numaplace.reading.keys import Keys
from numaplace.reading.names import DEVICE_ID, RESOURCE_NAME
from numaplace.reading.readers import Leaf
from numaplace.simulate.scenario.pods import NAME, read_pod
from numaplace.simulate.scenario.records import Create, Delete, Health, Step

KINDS = ("create", "delete", "unhealthy", "healthy")

Devices = Mapping[ResourceName, tuple[Device, ...]]


def read_steps(keys: Keys, devices: Devices) -> tuple[Step, ...]:
    """Return the steps; a name is created once before it is deleted, and deleted after it was created."""
    ids = {resource: frozenset(one.id for one in found) for resource, found in devices.items()}
    steps: list[Step] = []
    created: dict[str, str] = {}
    for number, one in enumerate(keys.mappings("steps")):
        step = _read_step(one, ids, number=number)
        if step is None:
            continue
        steps.append(step)
        match step:
            case Create(pod) if pod.name:
                if pod.name in created:
                    one.problem(
                        f'a pod named "{pod.name}" was created at {created[pod.name]} and not deleted since',
                        name="create",
                    )
                created[pod.name] = one.place("create")
            case Delete(name) if name and created.pop(name, None) is None:
                one.problem(f'no pod named "{name}" was created before', name="delete")
            case _:
                pass
    return tuple(steps)


def _read_step(keys: Keys, ids: Mapping[ResourceName, frozenset[str]], *, number: int) -> Step | None:
    nodes = {kind: node for kind in KINDS if (node := keys.take(kind)) is not None}
    keys.refuse_rest()
    if len(nodes) != 1:
        keys.problem(f"a step has exactly one of {', '.join(KINDS)}")
        return None
    kind, node = next(iter(nodes.items()))
    if kind == "delete":
        return Delete(keys.read(Leaf(NAME), node, name=kind, default=""))
    opened = keys.open(kind, node)
    if opened is None:
        return None
    if kind == "create":
        return Create(read_pod(opened, index=number))
    return _read_health(opened, ids, healthy=kind == "healthy")


def _read_health(keys: Keys, ids: Mapping[ResourceName, frozenset[str]], *, healthy: bool) -> Health:
    resource = keys.required("resource", RESOURCE_NAME, ResourceName(""))
    named = keys.values("ids", DEVICE_ID)
    if not named:
        keys.problem('"ids" is missing: it is a list of device ids')
    if resource and resource not in ids:
        keys.problem(f"the node has no {resource}", name="resource")
    else:
        for id_ in named:
            if resource and id_ not in ids[resource]:
                keys.problem(f'{resource} has no device "{id_}"', name="ids")
    keys.refuse_rest()
    return Health(resource, named, healthy)
