"""``numaplace simulate``: what a kubelet would do with these pods."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from numaplace.cli.console import Console, add_output_option, command_parser
from numaplace.cli.outcome import node_table, steps_table, summary
from numaplace.cli.progress import Progress
from numaplace.simulate.scenario.load import load_scenario
from numaplace.simulate.simulator.document import run_document
from numaplace.simulate.simulator.run import simulate


def parser() -> ArgumentParser:
    made = command_parser(
        "simulate",
        "Runs a scenario file (a machine, a kubelet's configuration, pods that come and go) on\n"
        "a reimplementation of the kubelet's managers: which NUMA nodes, CPUs, memory and devices each pod\n"
        "gets, or why it is refused. Needs no cluster and no hardware.",
        epilog="the scenario file is described in docs/simulate.md\n"
        "example: numaplace simulate docs/examples/scenario.yaml",
    )
    made.add_argument("file", metavar="FILE", type=Path, help="the scenario, YAML or JSON")
    add_output_option(made)
    return made


def main(argv: Sequence[str], console: Console) -> int:
    arguments = parser().parse_args(argv)
    scenario = load_scenario(arguments.file)
    progress = Progress(console, len(scenario.steps))
    try:
        run = simulate(scenario, progress=progress)
    finally:
        progress.finish()
    if arguments.output == "json":
        console.say_json(run_document(run))
        return 0
    if run.steps:
        console.say(steps_table(run.steps, colour=console.colour))
        console.say(f"\n{summary(run.steps)}\n")
    console.say(node_table(run.node, colour=console.colour))
    return 0
