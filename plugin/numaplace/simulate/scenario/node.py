"""The ``node`` section: NUMA nodes, distances, CPU topology, devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from numaplace.model.device import Device
from numaplace.model.names import MEMORY, DeviceId, ResourceName, is_memory
from numaplace.reading.document import Items, Node, Scalar
from numaplace.reading.keys import Keys
from numaplace.reading.kinds import TEXT, integer
from numaplace.reading.names import CPU_LIST, DEVICE_ID, NUMA_NODE, RESOURCE_NAME
from numaplace.reading.readers import Leaf, ListOf
from numaplace.simulate.scenario.amounts import page_size, read_amounts
from numaplace.simulate.scenario.records import CpuGroups, Machine, NumaNode

MAX_DEVICES = 4096
_COUNT = integer(1, MAX_DEVICES)
_DISTANCE = integer(1, 255)
NO_CPUS: frozenset[int] = frozenset()


def read_machine(keys: Keys) -> Machine:
    nodes = _read_numa_nodes(keys)
    distances = _read_distances(keys, len(nodes))
    groups = CpuGroups()
    topology = keys.mapping("cpuTopology")
    if topology is not None:
        groups = _read_cpu_groups(topology, nodes)
    devices = _read_devices(keys, [node.id for node in nodes])
    keys.refuse_rest()
    return Machine(nodes, distances, groups, devices)


def _read_numa_nodes(keys: Keys) -> tuple[NumaNode, ...]:
    nodes: dict[int, NumaNode] = {}
    owner: dict[int, int] = {}
    for one in keys.mappings("numaNodes", required="a list such as [{id: 0, cpus: 0-7, memory: 32Gi}]"):
        node = _read_numa_node(one)
        if node.id in nodes:
            one.problem(f"NUMA node {node.id} is given twice", name="id")
        twice = sorted(cpu for cpu in node.cpus if cpu in owner)
        if twice:
            one.problem(f"CPU {twice[0]} is also on NUMA node {owner[twice[0]]}", name="cpus")
        owner.update(dict.fromkeys(node.cpus, node.id))
        nodes[node.id] = node
    if "numaNodes" in keys.section.entries and not nodes:
        keys.problem("at least one NUMA node is needed", name="numaNodes")
    # Linux lists every page size for every node, and the memory manager depends on it.
    sizes = {type_ for node in nodes.values() for type_ in node.sizes}
    return tuple(
        NumaNode(id_, nodes[id_].cpus, {**dict.fromkeys(sorted(sizes), 0), **nodes[id_].sizes})
        for id_ in sorted(nodes)
    )


def _read_numa_node(keys: Keys) -> NumaNode:
    id_ = keys.required("id", NUMA_NODE, 0)
    cpus = keys.value("cpus", CPU_LIST, NO_CPUS)
    sizes = read_amounts(keys, also="memory, hugepages-<size>")
    for name in [name for name in sizes if not is_memory(name)]:
        keys.problem("a NUMA node has memory and hugepages only; devices have a list of their own", name=name)
        del sizes[name]
    hugepages = {name: size for name, size in sizes.items() if name != MEMORY}
    for name, size in hugepages.items():
        if size % page_size(name):
            keys.problem("is not a whole number of pages", name=name)
    if sum(hugepages.values()) > sizes.get(MEMORY, 0):
        keys.problem(
            "hugepages are more than the node's memory, which includes them", name=next(iter(hugepages))
        )
    return NumaNode(id_, cpus, sizes)


def _read_distances(keys: Keys, count: int) -> tuple[tuple[int, ...], ...]:
    node = keys.take("distances")
    if node is None:
        return ()
    allowed = f"{count} lists of {count} distances, one for each NUMA node in the order of their ids"
    rows = node.items if isinstance(node, Items) else ()
    found = tuple(
        keys.read(ListOf(_DISTANCE), row, name=f"distances[{number}]", default=())
        for number, row in enumerate(rows)
    )
    if len(rows) != count or any(row and len(row) != count for row in found):
        keys.problem(f"has to be {allowed}", name="distances")
        return ()
    return found


def _read_cpu_groups(keys: Keys, nodes: tuple[NumaNode, ...]) -> CpuGroups:
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    sockets = _read_groups(keys, "sockets", node_of)
    uncore = _read_groups(keys, "uncoreCaches", node_of)
    cores = keys.values("cores", CPU_LIST)
    _check_once(keys, "cores", cores, node_of)
    if sockets:
        missing = sorted(node_of.keys() - frozenset().union(*sockets.values()))
        if missing:
            keys.problem(f"CPU {missing[0]} is in no socket", name="sockets")
    socket_of = {cpu: socket for socket, cpus in sockets.items() for cpu in cpus}
    for number, siblings in enumerate(cores):
        for what, owner in (("NUMA node", node_of), ("socket", socket_of)):
            if len({owner.get(cpu) for cpu in siblings}) > 1:
                keys.problem(f"the CPUs of a core are not on one {what}", name=f"cores[{number}]")
    keys.refuse_rest()
    return CpuGroups(sockets, uncore, cores)


def _read_groups(keys: Keys, name: str, node_of: Mapping[int, int]) -> dict[int, frozenset[int]]:
    groups: dict[int, frozenset[int]] = {}
    opened = keys.mapping(name)
    if opened is None:
        return groups
    for id_, node in tuple(opened.rest()):
        if not (id_.isascii() and id_.isdigit() and len(id_) < 6):
            opened.problem("the key has to be a whole number", name=id_)
            continue
        groups[int(id_)] = opened.read(Leaf(CPU_LIST), node, name=id_, default=NO_CPUS)
    _check_once(keys, name, tuple(groups.values()), node_of)
    return groups


def _check_once(
    keys: Keys, name: str, groups: tuple[frozenset[int], ...], node_of: Mapping[int, int]
) -> None:
    counts = Counter(cpu for cpus in groups for cpu in cpus)
    for cpu in sorted(counts):
        if counts[cpu] > 1:
            keys.problem(f"CPU {cpu} is named twice", name=name)
        elif cpu not in node_of:
            keys.problem(f"CPU {cpu} is on no NUMA node", name=name)


def _read_devices(keys: Keys, known: list[int]) -> dict[ResourceName, tuple[Device, ...]]:
    found: dict[ResourceName, dict[DeviceId, Device]] = {}
    for one in keys.mappings("devices"):
        resource = one.required("resource", RESOURCE_NAME, ResourceName(""))
        nodes = _read_nodes(one, known)
        group = one.value("group", TEXT, "")
        of_resource = found.setdefault(resource, {})
        for id_ in _read_ids(one, resource, nodes, taken=of_resource):
            if id_ in of_resource:
                one.problem(f'{resource} has the device "{id_}" twice', name="ids")
            of_resource[id_] = Device(id_, nodes, group)
        one.refuse_rest()
    return {resource: tuple(devices.values()) for resource, devices in found.items() if resource}


def _read_nodes(keys: Keys, known: list[int]) -> tuple[int, ...]:
    """Return the NUMA nodes of ``numa``: one id, a list of ids, or null for no topology."""
    if "numa" not in keys.section.entries:
        keys.problem('"numa" is missing: it is a NUMA node id, a list of them, or null for no topology')
    node: Node | None = keys.take("numa")
    if node is None:
        return ()
    nodes: tuple[int, ...] = ()
    if isinstance(node, Items):
        nodes = keys.read(ListOf(NUMA_NODE), node, name="numa", default=nodes)
    else:
        nodes = (keys.read(Leaf(NUMA_NODE), node, name="numa", default=known[0] if known else 0),)
    for one in nodes:
        if one not in known:
            keys.problem(f"the machine has no NUMA node {one}", name="numa")
    return tuple(sorted(set(nodes)))


def _read_ids(
    keys: Keys, resource: ResourceName, nodes: tuple[int, ...], *, taken: Mapping[DeviceId, Device]
) -> Iterator[DeviceId]:
    """Yield the ids as given, or ``count`` generated ones, going on from those of earlier entries.

    ``gpu-0-3``: the last part of the resource, the NUMA node (``0.1`` for two, ``any`` for none), a number.
    """
    given = "ids" in keys.section.entries
    count = keys.value("count", _COUNT, 0)
    ids = keys.values("ids", DEVICE_ID)
    if given == (not _is_null(keys, "count")):
        keys.problem("exactly one of count and ids has to be given")
        return
    if given:
        yield from ids
        return
    prefix = f"{resource.rpartition('/')[2]}-{'.'.join(map(str, nodes)) or 'any'}"
    number = 0
    for _ in range(count):
        while DeviceId(f"{prefix}-{number}") in taken:
            number += 1
        yield DeviceId(f"{prefix}-{number}")


def _is_null(keys: Keys, name: str) -> bool:
    node = keys.section.entries.get(name)
    return node is None or (isinstance(node, Scalar) and node.null)
