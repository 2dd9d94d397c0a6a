"""Pods as scenario files write them: Kubernetes' own fields, or amounts straight in the container."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, HUGEPAGES_PREFIX, MEMORY, ResourceName
from numaplace.reading.keys import Keys
from numaplace.reading.kinds import choice, matching
from numaplace.simulate.scenario.amounts import read_amounts

NAMESPACE = "default"
IGNORED = ("ephemeral-storage",)
NAME = matching(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "a name of lower-case letters, digits, - and .")


class _Restart(StrEnum):
    ALWAYS = "Always"


def read_pod(keys: Keys, *, index: int) -> Pod:
    """Return the pod of the create step ``index``; a pod created again is another pod."""
    name = keys.required("name", NAME, "")
    init = tuple(_read_containers(keys, "initContainers"))
    containers = tuple(_read_containers(keys, "containers"))
    if not containers and "containers" in keys.known:
        keys.problem('a pod needs "containers": a list such as [{name: main, cpu: 2, memory: 4Gi}]')
    resources = keys.mapping("resources")
    if resources is not None:
        _read_resources(resources)
    keys.refuse_rest()
    _check_names(keys, [one.name for one in (*init, *containers)])
    return Pod(
        uid=PodUid(f"{name}-{index}"),
        namespace=NAMESPACE,
        name=name,
        containers=containers,
        init_containers=init,
        pod_level=resources is not None,
    )


def _check_names(keys: Keys, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            keys.problem(f'two containers are named "{name}"')


def _read_containers(keys: Keys, list_name: str) -> Iterator[Container]:
    init = list_name == "initContainers"
    for one in keys.mappings(list_name):
        name = one.required("name", NAME, "")
        kind = ContainerKind.INIT if init else ContainerKind.APP
        if init and one.take("restartPolicy") is not None:
            one.value("restartPolicy", choice(_Restart), _Restart.ALWAYS)
            kind = ContainerKind.SIDECAR
        requests, limits = _read_resources(one)
        yield Container(name, requests, limits, kind)


def _read_resources(keys: Keys) -> tuple[dict[ResourceName, int], dict[ResourceName, int]]:
    """Return requests and limits; an amount without a request is requested as much as it is limited to."""
    explicit = [name for name in ("requests", "limits") if name in keys.section.entries]
    asked, limited = keys.mapping("requests"), keys.mapping("limits")
    requests = {} if asked is None else read_amounts(asked, ignored=IGNORED)
    limits = {} if limited is None else read_amounts(limited, ignored=IGNORED)
    short = read_amounts(keys, ignored=IGNORED)
    if not explicit:
        return short, short
    if short:
        first = next(iter(short))
        keys.problem(f'amounts stand either in the container or in "{explicit[0]}", not in both', name=first)
    requests = {**limits, **requests}
    for resource, amount in requests.items():
        _check_amount(keys, resource, amount, limits.get(resource))
    return requests, limits


def _check_amount(keys: Keys, resource: ResourceName, amount: int, limit: int | None) -> None:
    """Refuse what the API server refuses."""
    overcommitted = resource in (CPU, MEMORY)
    if not overcommitted and amount != limit:
        what = "hugepages" if resource.startswith(HUGEPAGES_PREFIX) else "devices"
        keys.problem(f"{resource}: {what} need a limit, and a request equal to it", name="requests")
    elif limit is not None and amount > limit:
        keys.problem(f"{resource}: the request is above the limit", name="requests")
