"""``numaplace doctor``: what is wrong with this node, how it was seen, and what to do."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from numaplace.cli.console import Console, add_output_option, command_parser
from numaplace.cli.diagnosis import as_document, as_text
from numaplace.config.load import Loaded, load_config
from numaplace.config.settings import CONFIG_FILE_ENV
from numaplace.daemon.resources.sources import source_of
from numaplace.doctor.checks.table import CHECKS, examine
from numaplace.doctor.findings import is_ok
from numaplace.doctor.look import Reach, look
from numaplace.kubelet.config.read import USUAL_FILE


def parser() -> ArgumentParser:
    made = command_parser(
        "doctor",
        "Checks this node: sockets, permissions, the kubelet's configuration, NUMA nodes,\n"
        "devices, other plugins, the running daemon. Each finding says how it was seen and what to\n"
        "do. Changes nothing. Run it as root on the node, or in the daemon's pod (it sees less).",
        epilog=f"checks: {', '.join(CHECKS)}\n"
        "exit codes: 0 no problem (warnings and unknowns may be shown), 1 a problem, 2 bad input\n"
        "example: numaplace doctor --config /etc/numaplace/config.yaml",
    )
    made.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help=f"the daemon's configuration file; also {CONFIG_FILE_ENV} (default: none)",
    )
    made.add_argument(
        "--kubelet-config",
        metavar="FILE",
        type=Path,
        help="the kubelet's configuration file (default: kubelet.configFile, then what the running kubelet's "
        f"command line names, then {USUAL_FILE})",
    )
    made.add_argument(
        "--kubelet-config-dir",
        metavar="DIR",
        type=Path,
        help="the folder of the kubelet's drop-in files (default: what its command line names)",
    )
    add_output_option(made)
    return made


def main(argv: Sequence[str], console: Console) -> int:
    """Print the findings; return the exit code. ``InputError`` when the configuration is refused."""
    arguments = parser().parse_args(argv)
    loaded = load_config(console.config_file(arguments.config), env=console.env, flags={})
    facts = asyncio.run(
        look(reach_of(loaded, file=arguments.kubelet_config, folder=arguments.kubelet_config_dir))
    )
    findings = examine(facts)
    if arguments.output == "json":
        console.say_json(as_document(findings))
    else:
        console.say(as_text(findings, colour=console.colour))
    return 0 if is_ok(findings) else 1


def reach_of(loaded: Loaded, *, file: Path | None, folder: Path | None) -> Reach:
    """Return what to examine under a configuration; ``InputError`` for a source of a later version."""
    config = loaded.config
    return Reach(
        config=config,
        sources={resource.name: source_of(resource, config.host) for resource in config.resources},
        config_warnings=loaded.warnings,
        kubelet_file=file,
        kubelet_folder=folder,
    )
