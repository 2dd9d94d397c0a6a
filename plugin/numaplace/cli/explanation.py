"""What ``numaplace explain`` shows: a pod's decisions as a JSON document and as tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numaplace.cli.outcome import numa, request_text, steps_table
from numaplace.cli.report import NOTHING, amount
from numaplace.cli.table import BOLD, paint, render_table
from numaplace.engine.compare import Rule
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.model.mask import width
from numaplace.model.names import ResourceName, Strategy
from numaplace.placement.reasons import Placement
from numaplace.placement.text import why
from numaplace.simulate.simulator.document import numa_list, step_document
from numaplace.simulate.simulator.explain import DecisionView, Explanation, MaskView
from numaplace.simulate.simulator.results import Steered
from numaplace.steering.text import decision_lines

MOST_ROWS = 24

RULES = {
    Rule.NO_CANDIDATE: "no NUMA nodes suit every resource",
    Rule.ONLY_CANDIDATE: "the only choice",
    Rule.EMPTY: "the other one has no NUMA node",
    Rule.PREFERRED: "preferred beats not preferred",
    Rule.BEST_NON_PREFERRED: "none is preferred: as wide as the most demanding resource needs",
    Rule.SAME_MASK: "the same NUMA nodes",
    Rule.NARROWEST: "fewer NUMA nodes",
    Rule.CLOSEST: "closer NUMA nodes",
    Rule.SCORE: "score",
    Rule.LOWEST_ID: "the lowest ids",
}


def as_document(explanation: Explanation) -> dict[str, Any]:
    """Return the document of ``-o json``; its keys are described in ``docs/cli.md``."""
    return {
        **step_document(explanation.created),
        "policy": str(explanation.policy),
        "scope": str(explanation.scope),
        "enforcement": str(explanation.enforcement),
        "strategy": str(_strategist(explanation).strategy),
        "weights": _strategist(explanation).weights.text,
        "decisions": [_decision_document(explanation, one) for one in explanation.decisions],
        "placements": [
            _placement_document(container.name, resource, placement)
            for container in explanation.created.containers
            for resource, placement in container.placements.items()
        ],
    }


def _strategist(explanation: Explanation) -> PolicyOptions:
    """Return the options that hold the strategy: the Topology Manager's or the plugin's."""
    return explanation.plugin or explanation.options


def _placement_document(container: str, resource: ResourceName, placement: Placement) -> dict[str, Any]:
    return {
        "container": container,
        "resource": resource,
        "ids": list(placement.ids),
        "numa": numa_list(placement.choice.mask),
        "structural": numa_list(placement.choice.structural),
        "decidedBy": None if placement.choice.rule is None else str(placement.choice.rule),
        "candidates": [
            {
                "numa": numa_list(one.mask),
                "preferred": one.preferred,
                "score": one.score,
                "scores": dict(one.scores),
            }
            for one in placement.choice.candidates
        ],
        "why": why(placement),
    }


def _decision_document(explanation: Explanation, decision: DecisionView) -> dict[str, Any]:
    weights = explanation.options.weights
    return {
        "container": decision.container or None,
        "affinity": numa_list(decision.hint.mask),
        "preferred": decision.hint.preferred,
        "admitted": decision.admitted,
        "decidedBy": str(decision.rule),
        "structural": numa_list(decision.structural),
        "resources": [
            {
                "name": resource,
                "requested": needed,
                "weight": weights.of(resource),
                "anyNode": resource in decision.indifferent,
            }
            for resource, needed in decision.needs.items()
        ],
        "masks": [_mask_document(one) for one in decision.masks],
        "wouldHelp": list(what_would_help(explanation, decision)),
    }


def _mask_document(mask: MaskView) -> dict[str, Any]:
    return {
        "numa": numa_list(mask.mask),
        "hints": {
            resource: {"preferred": hint.preferred, "score": hint.score}
            for resource, hint in mask.hints.items()
        },
        "vetoes": list(mask.vetoes),
        "withheld": sorted(mask.withheld),
        "lacks": [
            {"resource": one.resource, "free": one.free, "requested": one.needed} for one in mask.lacks
        ],
        "candidate": None
        if mask.merged is None
        else {"preferred": mask.merged.preferred, "score": mask.merged.score},
        "chosen": mask.chosen,
        "lostBy": None if mask.lost_by is None else str(mask.lost_by),
    }


def as_text(explanation: Explanation, *, colour: bool = False) -> str:
    parts = [_heading(explanation, colour=colour)]
    parts.extend(_steering_text(one) for one in explanation.created.steering)
    parts.extend(_decision_text(explanation, one, colour=colour) for one in explanation.decisions)
    if not explanation.decisions:
        parts.append("The Topology Manager's policy is none: no hints are collected, and nothing is aligned.")
    parts.extend(_placement_texts(explanation, colour=colour))
    parts.append(steps_table([explanation.created], colour=colour))
    return "\n\n".join(parts)


def _steering_text(steered: Steered) -> str:
    before = f" before container {steered.container}" if steered.container else ""
    lines = [f"Steering{before}:", *(f"- {line}" for line in decision_lines(steered.decision))]
    stock = steered.stock
    if stock is not None:
        where = f"NUMA {numa(stock.mask)}" if stock.admitted else f"a refusal, {stock.reason}"
        lines.append(f"- without steering it would be {where}")
    return "\n".join(lines)


def _placement_texts(explanation: Explanation, *, colour: bool) -> Iterator[str]:
    weights = _strategist(explanation).weights
    for container in explanation.created.containers:
        for resource, placement in container.placements.items():
            lines = [f"Container {container.name}, {resource}: the plugin is asked which devices it prefers"]
            names = sorted({name for one in placement.choice.candidates for name in one.scores})
            rows = [["", *(f"weight {weights.of(name)}" for name in names), "", ""]] if names else []
            for one in placement.choice.candidates:
                outcome = "chosen" if one.mask == placement.choice.mask else NOTHING
                scores = [str(one.scores.get(name, NOTHING)) for name in names]
                rows.append([numa(one.mask), *scores, str(one.score or NOTHING), outcome])
            if rows:
                headings = ("NUMA", *names, "SCORE", "OUTCOME")
                lines.append(render_table(headings, rows, colour=colour))
            yield "\n".join([*lines, f"{why(placement)}."])


def _heading(explanation: Explanation, *, colour: bool) -> str:
    options = _strategist(explanation)
    settings = [f"Topology Manager {explanation.policy}", f"scope {explanation.scope}"]
    if options.strategy is not Strategy.NONE:
        by = " in the plugin" if explanation.plugin else ""
        settings.append(f"strategy {options.strategy}{by}")
        if options.weights.text:
            settings.append(f"weights {options.weights.text}")
    if explanation.options.prefer_closest:
        settings.append("prefer-closest-numa-nodes")
    verdict = "admitted" if explanation.created.admitted else f"refused, {explanation.created.reason}"
    title = paint(f"Pod {explanation.pod.name}: {verdict}", BOLD, colour=colour)
    return f"{title}\n{', '.join(settings)}; {explanation.pod.qos} pod"


def _decision_text(explanation: Explanation, decision: DecisionView, *, colour: bool) -> str:
    who = f"Container {decision.container}" if decision.container else "All containers together"
    asked = request_text(decision.needs.items()) or "nothing that depends on NUMA nodes"
    lines = [f"{who}: {asked}"]
    if decision.indifferent:
        lines.append(f"Without topology, so any NUMA node suits: {', '.join(decision.indifferent)}")
    if len(decision.needs) > len(decision.indifferent):
        lines.append(_mask_table(explanation, decision, colour=colour))
    lines.append(_sentence(explanation, decision))
    lines.extend(what_would_help(explanation, decision))
    return "\n".join(lines)


def _mask_table(explanation: Explanation, decision: DecisionView, *, colour: bool) -> str:
    resources = [one for one in decision.needs if one not in decision.indifferent]
    scored = explanation.options.strategy is not Strategy.NONE
    headings = ["NUMA", *resources, *(["SCORE"] if scored else []), "OUTCOME"]
    rows = []
    if scored:
        weights = [f"weight {explanation.options.weights.of(resource)}" for resource in resources]
        rows.append(["", *weights, "", ""])
    shown = _shown(decision)
    for mask in shown:
        score = str(mask.merged.score or NOTHING) if mask.merged is not None else NOTHING
        cells = [_cell(mask, resource, scored=scored) for resource in resources]
        rows.append([numa(mask.mask), *cells, *([score] if scored else []), _outcome(explanation, mask)])
    table = render_table(headings, rows, colour=colour)
    left = len(decision.masks) - len(shown)
    return table + (f"\n{left} wider sets of NUMA nodes are not shown (-o json has them)" if left else "")


def _shown(decision: DecisionView) -> list[MaskView]:
    """Return the rows for people: all if they are few, else the chosen and what is as narrow, or single."""
    if len(decision.masks) <= MOST_ROWS:
        return list(decision.masks)
    chosen = next((one for one in decision.masks if one.chosen), None)
    limit = 1 if chosen is None else width(chosen.mask)
    narrow = [
        one for one in decision.masks if width(one.mask) <= limit and (one.merged or width(one.mask) == 1)
    ]
    shown = narrow[:MOST_ROWS]
    return shown if chosen is None or chosen in shown else [*shown, chosen]


def _cell(mask: MaskView, resource: ResourceName, *, scored: bool) -> str:
    hint = mask.hints.get(resource)
    if hint is not None:
        word = "preferred" if hint.preferred else "possible"
        return f"{word}, {hint.score}" if scored and hint.score else word
    for lack in mask.lacks:
        if lack.resource == resource:
            return f"no: {amount(resource, lack.free)} of {amount(resource, lack.needed)} free"
    return "no: withheld" if resource in mask.withheld else "no"


def _outcome(explanation: Explanation, mask: MaskView) -> str:
    if mask.chosen:
        return "chosen" if explanation.created.admitted else "best, but not good enough"
    if mask.lost_by is not None:
        return f"loses: {RULES[mask.lost_by]}"
    if mask.vetoes:
        return "impossible: " + ", ".join(mask.vetoes)
    if explanation.policy is PolicyName.SINGLE_NUMA_NODE and width(mask.mask) > 1:
        return "not one NUMA node"
    if explanation.policy is PolicyName.SINGLE_NUMA_NODE:
        return "not preferred by every resource"
    return NOTHING


def _sentence(explanation: Explanation, decision: DecisionView) -> str:
    if not decision.admitted:
        if decision.hint.mask is None or decision.rule is Rule.NO_CANDIDATE:
            return f"Refused: {RULES[Rule.NO_CANDIDATE]}."
        return (
            f"Refused: NUMA {numa(decision.hint.mask)} is the best candidate, but not preferred: some "
            "resource prefers fewer or other nodes. "
            f"{explanation.policy} admits preferred ones only."
        )
    if decision.hint.mask is None:
        return "No preference: every NUMA node suits."
    text = f"NUMA {numa(decision.hint.mask)}, decided by: {RULES[decision.rule]}"
    if decision.rule is Rule.SCORE:
        text += f" ({explanation.options.strategy})"
    if decision.structural is not None and decision.structural != decision.hint.mask:
        text += f"; without scores it would be NUMA {numa(decision.structural)}"
    return text + ("." if decision.hint.preferred else "; not preferred, which best-effort admits.")


def what_would_help(explanation: Explanation, decision: DecisionView) -> Iterator[str]:
    """Yield sentences on what a refused pod would need."""
    if decision.admitted:
        return
    for mask in decision.masks:
        if width(mask.mask) == 1 and mask.lacks:
            needs = " and ".join(
                f"{amount(lack.resource, lack.needed - lack.free)} more {lack.resource}"
                for lack in mask.lacks
            )
            yield f"NUMA {numa(mask.mask)} would fit with {needs}."
    fitting = next((one for one in decision.masks if width(one.mask) > 1 and not one.vetoes), None)
    if fitting is not None and explanation.policy is PolicyName.SINGLE_NUMA_NODE:
        yield f"NUMA {numa(fitting.mask)} together could hold it: best-effort would admit it there."
    elif decision.hint.mask is not None and explanation.policy is PolicyName.RESTRICTED:
        yield f"best-effort would admit it on NUMA {numa(decision.hint.mask)}."
