"""Tables of what came out of a simulated run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from numaplace.cli.report import NOTHING, amount, sizes
from numaplace.cli.table import YELLOW, paint, render_table
from numaplace.engine.compare import Rule
from numaplace.engine.score import utilization_score
from numaplace.model.mask import nodes_of, union_of
from numaplace.model.names import CPU, ResourceName
from numaplace.model.ranges import ranges
from numaplace.placement.text import why
from numaplace.simulate.simulator.results import (
    ContainerResult,
    Created,
    Deleted,
    HealthChanged,
    NodeUse,
    Steered,
    StepResult,
)
from numaplace.steering.text import refusal_text

_HEADINGS = ("STEP", "POD", "CONTAINER", "ADMITTED", "NUMA", "CPUS", "MEMORY", "DEVICES", "WHY")

Row = tuple[str, ...]


def numa(mask: int | None) -> str:
    """Return a mask's NUMA nodes, ``any`` without one."""
    return "any" if mask is None else ranges(nodes_of(mask))


def steps_table(steps: Sequence[StepResult], *, colour: bool = False) -> str:
    """Return a row for each step; a pod with several containers has one for each."""
    rows: list[Row] = []
    for step in steps:
        match step:
            case Created():
                rows.extend(_created(step, colour=colour))
            case Deleted():
                note = "deleted" if step.held else "deleted (it had been refused)"
                rows.append((str(step.step), step.pod, "", "", "", "", "", "", note))
            case HealthChanged():
                health = "healthy" if step.healthy else "unhealthy"
                what = f"{step.resource}: {' '.join(step.ids)}"
                rows.append((str(step.step), "", "", "", "", "", "", what, f"turned {health}"))
    return render_table(_HEADINGS, rows, right=("STEP",), colour=colour)


def summary(steps: Iterable[StepResult]) -> str:
    created = [step for step in steps if isinstance(step, Created)]
    refused = [step.reason for step in created if not step.admitted]
    text = f"{len(created) - len(refused)} of {len(created)} pods admitted"
    reasons = ", ".join(f"{refused.count(reason)} {reason}" for reason in sorted(set(refused)))
    return f"{text}; refused: {reasons}" if reasons else text


def _created(step: Created, *, colour: bool) -> Iterator[Row]:
    first = (str(step.step), step.pod)
    if not step.admitted:
        failed = step.containers[-1].name if step.containers else ""
        yield (
            *first,
            failed,
            paint("no", YELLOW, colour=colour),
            "",
            "",
            "",
            "",
            f"{step.reason}: {step.message}{_refused_by_steering(step)}",
        )
        return
    for container in step.containers:
        touched = numa_nodes(container)
        yield (
            *first,
            container.name,
            "yes",
            paint(ranges(touched), YELLOW, colour=colour and len(touched) > 1) or NOTHING,
            ranges(container.cpus) or NOTHING,
            sizes(container.memory),
            "\n".join(f"{name}: {' '.join(held.ids)}" for name, held in container.devices.items()) or NOTHING,
            _why_of(step, container),
        )
        first = ("", "")


def numa_nodes(container: ContainerResult) -> tuple[int, ...]:
    """Return the NUMA nodes of a container: where it was aligned to, or else what it touches."""
    if container.affinity is not None and (container.cpus or container.memory or container.devices):
        return nodes_of(container.affinity)
    nodes = {node for block in container.memory if block.size_bytes for node in block.nodes}
    nodes.update(node for held in container.devices.values() for node in held.nodes)
    return tuple(sorted(nodes))


def _refused_by_steering(step: Created) -> str:
    """Return a note if a kubelet that sees all topology would have admitted the container."""
    stock = step.steering[-1].stock if step.steering else None
    return "; without steering it would be admitted" if stock is not None and stock.admitted else ""


def _why_of(step: Created, container: ContainerResult) -> str:
    """Return why the container is where it is; for a plugin that steers, whether it did."""
    steered = {one.container: one for one in step.steering}
    one = steered.get(container.name, steered.get(""))
    if one is None:
        return _why(container)
    steers = any(resource in one.decision.withheld for resource in container.devices)
    lines = [_steered(one, container), _by_plugin(container) if steers else _why(container)]
    return "\n".join(line for line in lines if line not in ("", NOTHING)) or NOTHING


def _steered(steered: Steered, container: ContainerResult) -> str:
    decision = steered.decision
    ours = [resource for resource in container.devices if resource in decision.withheld]
    if ours:
        hidden = nodes_of(union_of(decision.withheld[resource] for resource in ours))
        stock = steered.stock
        if stock is not None and stock.mask != container.affinity:
            return f"steered: NUMA {ranges(hidden)} withheld, else NUMA {numa(stock.mask)}"
        return f"steered: NUMA {ranges(hidden)} withheld"
    reasons = [
        one for one in decision.refusals if not one.resources or one.resources & container.devices.keys()
    ]
    if not container.devices or not reasons:
        return ""
    return f"not steered: {refusal_text(replace(reasons[0], resources=frozenset()))}"


def _by_plugin(container: ContainerResult) -> str:
    """Return why the plugin chose the devices; empty where the Topology Manager left no choice."""
    return "\n".join(
        f"{resource}: {why(one)}" if len(container.placements) > 1 else why(one)
        for resource, one in container.placements.items()
        if container.affinity is None or one.choice.rule is not Rule.ONLY_CANDIDATE
    )


def _why(container: ContainerResult) -> str:
    by_plugin = _by_plugin(container)
    if by_plugin:
        return by_plugin
    if container.rule is None or not container.candidates:
        return NOTHING
    if len(container.candidates) == 1:
        return "only choice"
    chosen = next((hint for hint in container.candidates if hint.mask == container.affinity), None)
    score = f" {chosen.score}" if chosen is not None and container.rule == "score" else ""
    text = f"{container.rule}{score}"
    if container.structural is not None and container.structural != container.affinity:
        text += f", else NUMA {numa(container.structural)}"
    return text if container.preferred else f"{text} (not preferred)"


def node_table(node: Sequence[NodeUse], *, colour: bool = False) -> str:
    headings = ("RESOURCE", "NUMA", "ALLOCATABLE", "ALLOCATED", "FREE", "SCORE")
    rows = []
    resources = sorted({resource for one in node for resource in one.allocatable})
    if not resources:
        return f"NUMA nodes {ranges(one.id for one in node)}; nothing that a manager could allocate."
    for resource in resources:
        label: str = resource
        for one in node:
            allocatable, allocated = one.allocatable.get(resource, 0), one.allocated.get(resource, 0)
            numbers = (allocatable, allocated, max(0, one.free(resource)))
            score = utilization_score(allocatable, allocated)
            shown = (amount(resource, number) for number in numbers)
            rows.append((label, str(one.id), *shown, str(score) if score else NOTHING))
            label = ""
    return render_table(headings, rows, right=headings[1:], colour=colour)


def request_text(needs: Iterable[tuple[ResourceName, int]]) -> str:
    return ", ".join(
        f"{number} CPUs" if resource == CPU else f"{amount(resource, number)} {resource}"
        for resource, number in needs
        if number
    )
