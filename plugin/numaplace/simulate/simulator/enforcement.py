"""Who applies the strategy: one row for each value of ``placement.enforcement``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from numaplace.engine.options import PolicyOptions
from numaplace.errors import ScenarioError
from numaplace.model.names import Strategy
from numaplace.simulate.scenario.records import Enforcement, PlacementSettings


@dataclass(frozen=True, slots=True)
class How:
    """Who knows the strategy, and how the plugin applies it."""

    kubelet_scores: bool = False
    plugin_prefers: bool = False
    plugin_steers: bool = False


ENFORCEMENTS: Mapping[Enforcement, How] = {
    Enforcement.OFF: How(),
    Enforcement.KUBELET: How(kubelet_scores=True),
    Enforcement.PREFERRED: How(plugin_prefers=True),
    Enforcement.STEERING: How(plugin_prefers=True, plugin_steers=True),
}


def kubelet_options(how: How, placement: PlacementSettings, options: PolicyOptions) -> PolicyOptions:
    """Return the Topology Manager's options: its own, and the strategy where the kubelet applies it.

    ``ScenarioError`` if the kubelet section names another strategy.
    """
    if not how.kubelet_scores:
        return options
    if options.strategy is not Strategy.NONE:
        raise ScenarioError(
            (
                f"{placement.where}: placement.enforcement: the strategy stands in the kubelet's "
                "topologyManagerPolicyOptions already: leave it out there, or write enforcement: off",
            )
        )
    return replace(options, strategy=placement.strategy, weights=placement.weights)


def plugin_options(placement: PlacementSettings) -> PolicyOptions:
    return PolicyOptions(
        prefer_closest=placement.prefer_closest, strategy=placement.strategy, weights=placement.weights
    )
