"""Rules over more than one setting: contradictions are refused, what does nothing is warned about."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.config.schema import Config, RelayDirectoryConfig
from numaplace.model.names import Strategy
from numaplace.reading.document import Items, Node, Scalar, Section

SOURCES = ("sriov", "gpu", "declared", "relay")
NO_RESOURCES = "resources: none are given, so no devices are served"
_USUAL_NUMA_NODES = 8


def entry_problems(top: Section) -> Iterator[str]:
    """Yield what is wrong between the ``resources`` entries as written, even if other parts are refused."""
    entries = top.entries.get("resources")
    first: dict[str, str] = {}
    for number, entry in enumerate(entries.items if isinstance(entries, Items) else ()):
        if isinstance(entry, Section):
            place = f"{entry.where}: resources[{number}]"
            yield from _source_problems(entry, place=place)
            yield from _name_problems(entry, place=place, first=first)


def _source_problems(entry: Section, *, place: str) -> Iterator[str]:
    given = [source for source in SOURCES if source in entry.entries]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        yield f"{place}: exactly one of {', '.join(SOURCES)} has to be given: it has {found}"
    if "relay" in given:
        allowed = "allowed are sriov, gpu, declared"
        yield f"{place}.relay: the relay is not available yet in this version: {allowed}"


def _name_problems(entry: Section, *, place: str, first: dict[str, str]) -> Iterator[str]:
    name = entry.entries.get("name")
    if not isinstance(name, Scalar) or name.null:
        return
    if name.text in first:
        yield f'{place}.name: "{name.text}" is given twice, first at {first[name.text]}: names have to differ'
    first.setdefault(name.text, entry.where)


def clashes(config: Config, top: Section) -> Iterator[str]:
    for number, resource in enumerate(config.resources):
        place = f"{where(top, 'resources', number)}: resources[{number}]"
        for earlier, other in enumerate(config.resources[:number]):
            first = f"resources[{earlier}] at {where(top, 'resources', earlier)}"
            for source in SOURCES[:3]:
                mine = getattr(resource, source)
                if mine is not None and mine == getattr(other, source):
                    yield (
                        f"{place}.{source}: selects the same devices as {first}: "
                        "a device belongs to one resource"
                    )


def warnings_of(config: Config, top: Section) -> Iterator[str]:
    if not config.resources:
        yield f"{top.where}: {NO_RESOURCES}"
    strategies = {config.strategy, *(one.strategy for one in config.resources if one.strategy is not None)}
    if strategies == {Strategy.NONE} and "weights" in top.entries and config.weights.text:
        yield f"{where(top, 'weights')}: weights: has no effect without a strategy"
    if config.max_allowable_numa_nodes > _USUAL_NUMA_NODES:
        yield (
            f"{where(top, 'maxAllowableNUMANodes')}: maxAllowableNUMANodes: more than {_USUAL_NUMA_NODES} "
            "NUMA nodes make decisions slower: the number of node sets doubles with each"
        )
    yield from _unsteered(config, top)
    for key in without_effect(config):
        yield f"{where(top, *key.split('.'))}: {key}: has no effect in this version"


def _unsteered(config: Config, top: Section) -> Iterator[str]:
    """Yield the requests that steering cannot act on."""
    ours = {resource.name for resource in config.resources}
    for number, request in enumerate(config.steering.requests):
        if not any(amount for name, amount in request.items() if name in ours):
            key = f"steering.requests[{number}]"
            place = where(top, "steering", "requests", number)
            yield f"{place}: {key}: names none of the resources: no pod of it is steered"


def without_effect(config: Config) -> Iterator[str]:
    """Yield the keys of later versions' settings that ask for something."""
    if config.relay != RelayDirectoryConfig():
        yield "relay.directory"


def where(top: Section, *path: str | int) -> str:
    """Return where the node at ``path`` was written; the nearest known place above it if it was not."""
    node: Node = top
    place = top.where
    for step in path:
        if isinstance(step, int) and isinstance(node, Items) and step < len(node.items):
            node = node.items[step]
        elif isinstance(step, str) and isinstance(node, Section) and step in node.entries:
            node = node.entries[step]
        else:
            return place
        place = node.where
    return place
