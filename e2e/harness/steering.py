"""What a daemon's metrics say of steering, and waiting for it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.daemon import Daemon
from harness.pages import samples_of
from harness.waiters import until

Withheld = Mapping[str, frozenset[int]]


def samples(daemon: Daemon, name: str) -> list[tuple[Mapping[str, str], float]]:
    """Return the labels and values of a metric."""
    return samples_of(daemon.metrics(), f"numaplace_{name}")


def count(daemon: Daemon, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples that have these labels."""
    return sum(value for found, value in samples(daemon, name) if labels.items() <= found.items())


def withheld(daemon: Daemon) -> Withheld:
    """Return the NUMA nodes whose free devices show no topology now, per resource."""
    found: dict[str, set[int]] = {}
    for labels, value in samples(daemon, "steering_withheld_devices"):
        if value:
            found.setdefault(labels["resource"], set()).add(int(labels["numa_node"]))
    return {resource: frozenset(nodes) for resource, nodes in found.items()}


def outcomes(daemon: Daemon) -> Mapping[str, float]:
    """Return how often each outcome was decided on: ``withheld``, or a reason."""
    return {labels["outcome"]: value for labels, value in samples(daemon, "steering_decisions_total")}


def wait_decided(daemon: Daemon) -> None:
    """Wait until steering has decided for the first time."""
    until(lambda: outcomes(daemon), "a steering decision", detail=daemon.tail)


def wait_listed(daemon: Daemon) -> None:
    """Wait until the daemon has seen the pods that are there: a List that was sent from now on.

    A pod that comes and goes between two Lists counts as one that is about to come, for half a minute.
    """
    before = _lists(daemon)
    until(lambda: _lists(daemon) >= before + 2, "the daemon to ask for two Lists", detail=daemon.tail)


def _lists(daemon: Daemon) -> float:
    return count(daemon, "podresources_calls_total", method="List", code="OK")
