"""What the configuration says of steering."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.config.schema import Config, SteeringMode
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings
from numaplace.steering.search import Headroom


@dataclass(frozen=True, slots=True)
class SteeringRuntimeSettings:
    """``on``: whether to steer at all. ``declared`` requests count alone where there are any.

    ``deadline_seconds`` bounds what steering adds to one Allocate.
    """

    on: bool
    choice: SteeringSettings
    declared: tuple[Request, ...]
    backoff_seconds: float
    deadline_seconds: float


def steer_settings(config: Config) -> SteeringRuntimeSettings:
    """Return the settings of a configuration."""
    steering = config.steering
    return SteeringRuntimeSettings(
        on=steering.mode is not SteeringMode.OFF,
        choice=SteeringSettings(
            strategy=config.strategy,
            weights=config.weights,
            strategies={
                resource.name: resource.strategy
                for resource in config.resources
                if resource.strategy is not None
            },
            headroom=Headroom(steering.headroom.cpu, steering.headroom.memory_bytes),
            always=steering.mode is SteeringMode.ALWAYS,
        ),
        declared=tuple(dict.fromkeys(Request.of(request) for request in steering.requests if request)),
        backoff_seconds=steering.backoff_seconds,
        deadline_seconds=config.deadline_seconds,
    )
