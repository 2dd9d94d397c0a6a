"""A run as the JSON document of ``numaplace simulate -o json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numaplace.managers.cpu.bits import bits_of, cpu_list
from numaplace.model.mask import nodes_of
from numaplace.simulate.simulator.results import (
    ContainerResult,
    Created,
    Deleted,
    HealthChanged,
    NodeUse,
    Steered,
    StepResult,
)
from numaplace.simulate.simulator.run import Run
from numaplace.steering.text import refusal_text


def run_document(run: Run) -> dict[str, Any]:
    """Return ``{"steps": [...], "node": {...}}``; the keys are described in ``docs/simulate.md``."""
    return {"steps": [step_document(step) for step in run.steps], "node": node_document(run.node)}


def step_document(step: StepResult) -> dict[str, Any]:
    match step:
        case Created():
            return {
                "step": step.step,
                "pod": step.pod,
                "admitted": step.admitted,
                "reason": step.reason,
                "message": step.message,
                "containers": [_container(one) for one in step.containers],
                **_steering(step.steering),
            }
        case Deleted():
            return {"step": step.step, "delete": step.pod}
        case HealthChanged():
            kind = "healthy" if step.healthy else "unhealthy"
            return {"step": step.step, kind: {"resource": step.resource, "ids": list(step.ids)}}


def node_document(node: Iterable[NodeUse]) -> dict[str, Any]:
    """Return the node: per NUMA node and resource, allocatable and allocated (CPUs, bytes, devices)."""
    return {
        "numaNodes": [
            {"id": one.id, "allocatable": dict(one.allocatable), "allocated": dict(one.allocated)}
            for one in node
        ]
    }


def numa_list(mask: int | None) -> list[int] | None:
    return None if mask is None else list(nodes_of(mask))


def _steering(steered: Sequence[Steered]) -> dict[str, Any]:
    """Return the key ``steering``: the first set, and those that replaced it; empty without steering."""
    if not steered:
        return {}
    first, *others = map(_steered, steered)
    return {"steering": {**first, "renewed": others}}


def _steered(steered: Steered) -> dict[str, Any]:
    decision, stock = steered.decision, steered.stock
    return {
        "container": steered.container or None,
        "withheld": {resource: list(nodes_of(mask)) for resource, mask in decision.withheld.items()},
        "reasons": [
            {
                "reason": str(one.reason),
                "resources": sorted(one.resources),
                "text": refusal_text(one),
            }
            for one in decision.refusals
        ],
        "without": None
        if stock is None
        else {"admitted": stock.admitted, "reason": stock.reason, "numa": numa_list(stock.mask)},
    }


def _container(container: ContainerResult) -> dict[str, Any]:
    return {
        "name": container.name,
        "affinity": numa_list(container.affinity),
        "preferred": container.preferred,
        "structural": numa_list(container.structural),
        "decidedBy": None if container.rule is None else str(container.rule),
        "candidates": [
            {"numa": numa_list(hint.mask), "preferred": hint.preferred, "score": hint.score}
            for hint in container.candidates
        ],
        "cpus": cpu_list(bits_of(container.cpus)),
        "memory": [
            {"type": block.type, "size": block.size_bytes, "numa": list(block.nodes)}
            for block in container.memory
        ],
        "devices": {
            resource: {"ids": list(held.ids), "numa": list(held.nodes)}
            for resource, held in container.devices.items()
        },
    }
