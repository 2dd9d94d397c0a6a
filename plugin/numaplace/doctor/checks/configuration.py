"""Whether numaplace has resources to serve."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.config.checks import NO_RESOURCES
from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level


def configuration(facts: Facts) -> Iterator[Finding]:
    config = facts.config
    if not config.resources:
        yield Finding(
            Level.WARNING,
            "no resources are configured, so no devices are served",
            "the configuration that was read has no entry in resources",
            "name the daemon's configuration with --config FILE (in the daemon's pod: "
            "/etc/numaplace/config.yaml)",
        )
    else:
        names = ", ".join(resource.name for resource in config.resources)
        yield Finding(Level.OK, f"resources: {names}; strategy: {config.strategy}")
    for warning in facts.config_warnings:
        if not warning.endswith(NO_RESOURCES):
            yield Finding(
                Level.WARNING,
                warning,
                "a check of the configuration, as at the daemon's start",
                "change or remove the key; numaplace config check FILE shows what is in effect",
            )
