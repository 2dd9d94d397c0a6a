"""Whether another plugin serves a resource of ours: a resource name has one plugin.

Evidence, strongest first: the kubelet reports devices as allocatable although no numaplace serves the
resource, or ones that our source does not see; a socket by the name that a known plugin gives it for the
resource. Device ids alone prove nothing: every plugin names VFs by PCI address and NVIDIA's GPUs by UUID.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaplace.doctor.checks.devices import allocatable_ids
from numaplace.doctor.facts import Facts, SocketFact
from numaplace.doctor.findings import Finding, Level
from numaplace.doctor.text import listed
from numaplace.doctor.vendors import usual_owner
from numaplace.kubelet.plugin.watch import KUBELET_SOCKET
from numaplace.kubelet.sockets import socket_prefix
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ids_by_resource

_OURS = "numaplace-"
_ADVICE = (
    "stop the other plugin on this node (remove its DaemonSet from it, or switch the operator's device "
    "plugin off), or give numaplace another resource name; the kubelet calls only one of the "
    "two, and which one may change"
)


def other_plugins(facts: Facts) -> Iterator[Finding]:
    for resource in (one.name for one in facts.config.resources):
        ours = facts.folder.listeners(socket_prefix(resource))
        yield from _twice(resource, ours)
        yield from _named_like(facts, resource)
        yield from _by_devices(facts, resource, serving=bool(ours))
    yield from _leftovers(facts)
    yield _others(facts)


def _twice(resource: ResourceName, ours: Sequence[SocketFact]) -> Iterator[Finding]:
    if len(ours) > 1:
        yield Finding(
            Level.WARNING,
            f"{resource}: {len(ours)} sockets of numaplace have a listener: it may run twice on this node",
            ", ".join(one.path.name for one in ours),
            "stop one of them: a service and a DaemonSet, or two releases of the chart. For a moment "
            "after a registration two sockets are normal: run doctor again",
        )


def _named_like(facts: Facts, resource: ResourceName) -> Iterator[Finding]:
    for socket in (*facts.folder.sockets, *facts.registry.sockets):
        owner = usual_owner(socket.path.name, resource)
        if owner and socket.listening:
            yield Finding(
                Level.PROBLEM,
                f"{resource}: another plugin seems to serve it: {owner}",
                f"{_who(socket)} listens on {socket.path}, the name that this plugin uses",
                _ADVICE,
            )


def _by_devices(facts: Facts, resource: ResourceName, *, serving: bool) -> Iterator[Finding]:
    known = allocatable_ids(facts, resource)
    if known and not serving and facts.folder.sockets:
        yield Finding(
            Level.PROBLEM,
            f"{resource}: another plugin serves it: the kubelet has healthy devices, and no numaplace "
            "listens",
            listed(sorted(known)),
            _ADVICE,
        )
        return
    fact = facts.scans.get(resource)
    if fact is None or fact.scan.failed:
        return
    unseen = known - {device.id for device in fact.scan.devices}
    free = unseen - _held(facts, resource)
    if free:
        yield Finding(
            Level.PROBLEM,
            f"{resource}: the kubelet has devices of it that numaplace does not find: another plugin "
            "serves it, or the daemon runs with another configuration",
            listed(sorted(free)),
            _ADVICE,
        )
    elif unseen:
        yield Finding(
            Level.WARNING,
            f"{resource}: pods hold devices that are not found any more",
            listed(sorted(unseen)),
            "numaplace keeps a device published while a pod has it; find out what removed it (VFs that "
            "were created again, a card that fell off the bus)",
        )


def _held(facts: Facts, resource: ResourceName) -> set[DeviceId]:
    pods = facts.pod_resources.pods or ()
    blocks = (block for pod in pods for container in pod.containers for block in container.devices)
    return ids_by_resource(blocks).get(resource, set())


def _leftovers(facts: Facts) -> Iterator[Finding]:
    dead = [one.path.name for one in facts.folder.sockets if one.error and one.path.name.startswith(_OURS)]
    if dead:
        yield Finding(
            Level.OK,
            "sockets of a killed numaplace are left; the next start removes them",
            listed(dead),
        )


def _others(facts: Facts) -> Finding:
    others = [
        one
        for one in (*facts.folder.sockets, *facts.registry.sockets)
        if one.path.name != KUBELET_SOCKET and not one.path.name.startswith(_OURS)
    ]
    if not others:
        return Finding(Level.OK, "no other plugin has a socket here", f"scanned {facts.folder.path}")
    shown = (f"{one.path.name} ({_who(one) if one.listening else 'no listener'})" for one in others)
    return Finding(Level.OK, f"sockets of other plugins: {listed(shown)}", f"scanned {facts.folder.path}")


def _who(socket: SocketFact) -> str:
    return socket.process or "a process of another PID namespace"
