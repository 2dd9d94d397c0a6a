"""The ``placement`` and ``allocated`` sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaplace.config.kinds import BOOL, choice
from numaplace.config.readers import WeightsReader
from numaplace.engine.weights import Weights
from numaplace.model.names import Strategy
from numaplace.simulate.scenario.amounts import read_amounts
from numaplace.simulate.scenario.kinds import NUMA_NODE
from numaplace.simulate.scenario.reading import Keys
from numaplace.simulate.scenario.records import Enforcement, PlacementSettings, Share

_STRATEGY = choice(Strategy, also={"": Strategy.NONE})
_ENFORCEMENT = choice(Enforcement, also={"false": Enforcement.OFF})


def read_placement(keys: Keys) -> PlacementSettings:
    """Return the strategy and who applies it. A strategy that nobody is told to apply is refused."""
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
            "kubelet), preferred (a stock kubelet, the plugin chooses the devices) or off (nobody)"
        )
    closest = keys.value("preferClosestNUMANodes", BOOL, default=False)
    keys.refuse_rest()
    return PlacementSettings(
        strategy, weights, enforcement, prefer_closest=closest, where=keys.place("enforcement")
    )


def read_shares(keys: Keys, numa_nodes: Sequence[int]) -> Iterator[Share]:
    """Yield the anonymous allocations."""
    for one in keys.mappings("allocated"):
        numa = one.required("numa", NUMA_NODE, 0)
        if numa_nodes and numa not in numa_nodes:
            one.problem(f"the machine has no NUMA node {numa}", name="numa")
        yield Share(one.where, one.key, numa, read_amounts(one))
