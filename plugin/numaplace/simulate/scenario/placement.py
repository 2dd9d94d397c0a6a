"""The ``placement`` and ``allocated`` sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from numaplace.config.readers import RequestsReader, WeightsReader
from numaplace.config.schema import SteeringMode
from numaplace.engine.weights import Weights
from numaplace.model.names import ResourceName, Strategy
from numaplace.prediction.request import Request
from numaplace.reading.keys import Keys
from numaplace.reading.kinds import BOOL, choice, integer
from numaplace.reading.names import NUMA_NODE
from numaplace.reading.quantities import QUANTITY
from numaplace.simulate.scenario.amounts import read_amounts
from numaplace.simulate.scenario.records import Enforcement, PlacementSettings, Share
from numaplace.steering.search import NO_HEADROOM, Headroom

_STRATEGY = choice(Strategy, also={"": Strategy.NONE})
_STEERING_MODE = choice(SteeringMode, also={"false": SteeringMode.OFF})
_ENFORCEMENT = choice(Enforcement, also={"false": Enforcement.OFF})


def read_placement(keys: Keys) -> PlacementSettings:
    """Return the strategy and who applies it. A strategy that nothing applies is refused."""
    strategy = keys.value("strategy", _STRATEGY, Strategy.NONE)
    node = keys.take("weights")
    weights = (
        Weights() if node is None else keys.read(WeightsReader(""), node, name="weights", default=Weights())
    )
    given = keys.take("enforcement") is not None
    enforcement = keys.value("enforcement", _ENFORCEMENT, Enforcement.OFF)
    if strategy is not Strategy.NONE and not given:
        keys.problem(
            '"enforcement" is missing: it says who applies the strategy: kubelet (KEP-6007 inside the '
            "kubelet), preferred (a stock kubelet, the plugin chooses the devices), steering (a stock "
            "kubelet, the plugin requests the topology that it sees, too) or off (nobody)"
        )
    closest = keys.value("preferClosestNUMANodes", BOOL, default=False)
    follow_cpus = keys.value("followCPUs", BOOL, default=True)
    section = keys.mapping("steering")
    steering = PlacementSettings() if section is None else _read_steering(section)
    keys.refuse_rest()
    return replace(
        steering,
        strategy=strategy,
        weights=weights,
        enforcement=enforcement,
        prefer_closest=closest,
        follow_cpus=follow_cpus,
        where=keys.place("enforcement"),
    )


def _read_steering(keys: Keys) -> PlacementSettings:
    """Return the settings with the keys of the daemon's ``steering``."""
    node = keys.take("requests")
    none: tuple[Mapping[ResourceName, int], ...] = ()
    requests = none if node is None else keys.read(RequestsReader(""), node, name="requests", default=none)
    headroom = NO_HEADROOM
    section = keys.mapping("headroom")
    if section is not None:
        headroom = Headroom(section.value("cpu", integer(0, 4096), 0), section.value("memory", QUANTITY, 0))
        section.refuse_rest()
    mode = keys.value("mode", _STEERING_MODE, SteeringMode.AUTO)
    if mode is SteeringMode.OFF:
        keys.problem("for a plugin that does not steer write enforcement: preferred", name="mode")
    keys.refuse_rest()
    return PlacementSettings(
        requests=tuple(Request.of(one) for one in requests),
        headroom=headroom,
        always=mode is SteeringMode.ALWAYS,
    )


def read_shares(keys: Keys, numa_nodes: Sequence[int]) -> Iterator[Share]:
    for one in keys.mappings("allocated"):
        numa = one.required("numa", NUMA_NODE, 0)
        if numa_nodes and numa not in numa_nodes:
            one.problem(f"the machine has no NUMA node {numa}", name="numa")
        yield Share(one.where, one.key, numa, read_amounts(one))
