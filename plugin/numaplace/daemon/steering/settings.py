"""What the configuration says of steering."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.config.schema import Config, SteeringMode
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings
from numaplace.steering.search import Headroom

LEAST_STALE_SECONDS = 30.0
STALE_POLLS = 3
"""As many Lists in a row may fail before nothing is withheld."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``on``: whether to steer at all. ``declared`` requests count alone where there are any.

    ``deadline_seconds`` bounds what steering adds to one Allocate. Nothing is withheld by a List older than
    ``stale_seconds``.
    """

    on: bool
    choice: SteeringSettings
    declared: tuple[Request, ...] = ()
    backoff_seconds: float = 300.0
    deadline_seconds: float = 0.2
    stale_seconds: float = LEAST_STALE_SECONDS

    @classmethod
    def of(cls, config: Config) -> Settings:
        steering = config.steering
        return cls(
            on=steering.mode is not SteeringMode.OFF,
            choice=SteeringSettings(
                strategy=config.strategy,
                weights=config.weights,
                strategies={one.name: one.strategy for one in config.resources if one.strategy is not None},
                headroom=Headroom(steering.headroom.cpu, steering.headroom.memory_bytes),
                always=steering.mode is SteeringMode.ALWAYS,
            ),
            declared=tuple(dict.fromkeys(Request.of(request) for request in steering.requests if request)),
            backoff_seconds=steering.backoff_seconds,
            deadline_seconds=config.deadline_seconds,
            stale_seconds=max(LEAST_STALE_SECONDS, STALE_POLLS * config.poll_interval_seconds),
        )
