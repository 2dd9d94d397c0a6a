"""``numaplace demo``: the strategies on a simulated node."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from numaplace.cli.console import Console, add_output_option, command_parser
from numaplace.cli.table import BOLD, paint, render_table
from numaplace.model.ranges import ranges

if TYPE_CHECKING:
    from numaplace.simulate.demo import DemoRun, Landing

INTRODUCTION = """\
One simulated node, two NUMA nodes; each has 4 GPUs and 8 SR-IOV VFs (a dual-port NIC).
Already running: "router" has 3 VFs of NUMA 0, "notebook" and "encoder" have 1 GPU each of NUMA 1.
The same four pods then arrive under each setting. The Topology Manager's policy is "none".
"""


def parser() -> ArgumentParser:
    made = command_parser(
        "demo",
        "Starts a simulated NUMA node (a kubelet emulator on real gRPC sockets in a temporary\n"
        "folder) and the real daemon against it, admits a handful of pods under each strategy,\n"
        "and shows where each landed and why, next to what the kubelet does alone.\n"
        "Needs no cluster and no root.",
        epilog="example: numaplace demo",
    )
    add_output_option(made)
    return made


def main(argv: Sequence[str], console: Console) -> int:
    arguments = parser().parse_args(argv)
    return asyncio.run(_demo(console, as_json=arguments.output == "json"))


async def _demo(console: Console, *, as_json: bool) -> int:
    from numaplace.simulate.demo import run_demo

    runs = []
    if not as_json:
        console.say(INTRODUCTION)
    async with aclosing(run_demo()) as demo:
        async for run in demo:
            runs.append(run)
            if not as_json:
                console.say(run_table(run, colour=console.colour))
    if as_json:
        console.say_json({"runs": [_run_document(run) for run in runs]})
    else:
        console.say(summary(runs, colour=console.colour))
    return 0


def run_table(run: DemoRun, *, colour: bool) -> str:
    rows = []
    for landing in run.landings:
        first = (landing.pod.name, _request(landing), _nodes(landing))
        for resource, reason in landing.why.items():
            short = resource.partition("/")[2]
            rows.append((*first, f"{short}: {reason}" if len(landing.why) > 1 else reason))
            first = ("", "", "")
    title = run.setting.title if run.setting.strategy is None else f"strategy: {run.setting.title}"
    table = render_table(("POD", "ASKED FOR", "NUMA", "WHY"), rows, colour=colour)
    return f"{paint(title, BOLD, colour=colour)}\n{table}\n"


def summary(runs: Sequence[DemoRun], *, colour: bool) -> str:
    headings = ("POD", "ASKED FOR", *(run.setting.title.replace(", ", ",\n") for run in runs))
    rows = [
        (column[0].pod.name, _request(column[0]), *(_nodes(landing) for landing in column))
        for column in zip(*(run.landings for run in runs), strict=True)
    ]
    table = render_table(headings, rows, colour=colour)
    return f"{paint('NUMA nodes of each pod, by setting', BOLD, colour=colour)}\n{table}"


def _request(landing: Landing) -> str:
    return " + ".join(f"{count} {name.partition('/')[2]}" for name, count in landing.pod.devices.items())


def _nodes(landing: Landing) -> str:
    return ranges(landing.nodes) + (" (split)" if len(landing.nodes) > 1 else "")


def _run_document(run: DemoRun) -> dict[str, Any]:
    """Return one run; ``strategy`` is null for the kubelet alone."""
    return {
        "strategy": None if run.setting.strategy is None else str(run.setting.strategy),
        "weights": run.setting.weights,
        "pods": [
            {
                "name": landing.pod.name,
                "requests": dict(landing.pod.devices),
                "numaNodes": list(landing.nodes),
                "devices": {name: list(ids) for name, ids in landing.devices.items()},
                "why": dict(landing.why),
            }
            for landing in run.landings
        ],
    }
