"""What is free on each NUMA node: the study's own accounts, from the simulator's allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from numaplace.model.names import CPU, Amounts, ResourceName
from numaplace.simulate.simulator.results import Created

from study.worlds import World, machine_of

Held = Mapping[tuple[int, ResourceName], int]
"""Amounts by NUMA node and resource."""


class Books:
    """Free amounts of a world's node. Resources as in ``World.capacity``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._free = {
            (node, name): amount for node in range(world.nodes) for name, amount in world.capacity.items()
        }
        machine = machine_of(world)
        self._node_of_cpu = {cpu: node.id for node in machine.numa_nodes for cpu in node.cpus}
        self._node_of_device = {one.id: one.nodes[0] for one in machine.devices[world.device]}

    def held(self, created: Created) -> Held:
        held: Counter[tuple[int, ResourceName]] = Counter()
        for container in created.containers:
            held.update((self._node_of_cpu[cpu], CPU) for cpu in container.cpus)
            for name, devices in container.devices.items():
                held.update((self._node_of_device[one], name) for one in devices.ids)
        return held

    def take(self, held: Held) -> None:
        for key, amount in held.items():
            self._free[key] -= amount

    def give_back(self, held: Held) -> None:
        for key, amount in held.items():
            self._free[key] += amount

    def room(self, amounts: Amounts, nodes: Iterable[int]) -> bool:
        where = tuple(nodes)
        return all(sum(self._free[node, name] for node in where) >= n for name, n in amounts.items())

    def room_in_total(self, amounts: Amounts) -> bool:
        return self.room(amounts, range(self._world.nodes))

    def room_in_a_domain(self, amounts: Amounts) -> bool:
        return any(self.room(amounts, group) for group in self._world.groups)

    def used(self, name: ResourceName) -> list[float]:
        """Return the used part of a resource by domain, 0 to 1."""
        whole = self._world.capacity[name]
        return [
            1 - sum(self._free[node, name] for node in group) / (whole * len(group))
            for group in self._world.groups
        ]


def nodes_of(held: Held, name: ResourceName) -> frozenset[int]:
    return frozenset(node for node, one in held if one == name)
