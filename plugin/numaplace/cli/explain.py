"""``numaplace explain``: why a scenario's pod lands where it does, or why not."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from numaplace.cli.console import Console, add_output_option, command_parser
from numaplace.cli.explanation import as_document, as_text
from numaplace.simulate.scenario.load import load_scenario
from numaplace.simulate.simulator.explain import explain


def parser() -> ArgumentParser:
    made = command_parser(
        "explain",
        "Runs a scenario file up to one pod and shows its admission in full: what each resource\n"
        "reports for each set of NUMA nodes, the scores and weights, which set wins by which rule, and\n"
        "what is missing if the pod is refused.",
        epilog="example: numaplace explain docs/examples/scenario.yaml --pod infer",
    )
    made.add_argument("file", metavar="FILE", type=Path, help="the scenario, YAML or JSON")
    made.add_argument("--pod", metavar="NAME", help="the pod to explain (default: the last one created)")
    add_output_option(made)
    return made


def main(argv: Sequence[str], console: Console) -> int:
    arguments = parser().parse_args(argv)
    explanation = explain(load_scenario(arguments.file), arguments.pod)
    if arguments.output == "json":
        console.say_json(as_document(explanation))
    else:
        console.say(as_text(explanation, colour=console.colour))
    return 0
