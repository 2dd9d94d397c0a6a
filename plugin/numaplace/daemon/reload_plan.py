"""What follows from a configuration alone: what is fixed, where each resource looks, its settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaplace.config.schema import Config, ResourceConfig
from numaplace.daemon.preference.decider import DecisionSettings
from numaplace.daemon.resources.context import ResourceSettings
from numaplace.daemon.resources.sources import source_of
from numaplace.devices.scan import Source
from numaplace.engine.options import PolicyOptions
from numaplace.model.names import ResourceName


def fixed_parts(config: Config) -> tuple[object, ...]:
    return (config.kubelet, config.host, config.http, config.cluster, config.poll_interval_seconds)


def new_sources(config: Config, *, before: Config | None = None) -> dict[ResourceName, Source]:
    """Return the sources of resources that are new or look elsewhere than before, in the given order.

    ``InputError`` if selectors are wrong.
    """
    known = {one.name: _without_strategy(one) for one in before.resources} if before else {}
    return {
        resource.name: source_of(resource, config.host)
        for resource in config.resources
        if known.get(resource.name) != _without_strategy(resource)
    }


def _without_strategy(resource: ResourceConfig) -> ResourceConfig:
    return msgspec.structs.replace(resource, strategy=None)


def resource_settings_of(config: Config) -> Mapping[ResourceName, ResourceSettings]:
    return {
        resource.name: ResourceSettings(
            DecisionSettings(
                options=PolicyOptions(
                    prefer_closest=config.prefer_closest,
                    max_allowable_numa_nodes=config.max_allowable_numa_nodes,
                    strategy=config.strategy if resource.strategy is None else resource.strategy,
                    weights=config.weights,
                ),
                deadline_seconds=config.deadline_seconds,
                follow_cpus=config.follow_cpus,
            ),
            config.rescan_interval_seconds,
        )
        for resource in config.resources
    }
