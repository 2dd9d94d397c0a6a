"""``numaplace config check FILE``: is the file valid, and what would run."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numaplace.cli.console import Console, add_output_option
from numaplace.cli.table import render_table
from numaplace.config.dump import as_document
from numaplace.config.load import load_config
from numaplace.config.schema import Config, ResourceConfig
from numaplace.doctor.checks.cpus import cpus_beside_devices
from numaplace.doctor.findings import Level
from numaplace.kubelet.config.read import look_at_kubelet
from numaplace.model.names import is_memory
from numaplace.model.quantity import binary_text


def parser() -> ArgumentParser:
    made = ArgumentParser(prog="numaplace config", description="Checks configuration files.")
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="check a file and show what would run",
        description="Checks a configuration file without flags and environment, and shows what would run.\n"
        "Each problem is reported with file, line, key, value and what is allowed.",
        epilog="exit codes: 0 the file is valid (warnings may be shown), 2 it is not\n"
        "example: numaplace config check /etc/numaplace/config.yaml",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    check.add_argument("file", metavar="FILE", type=Path, help="the configuration file")
    add_output_option(check)
    return made


def main(argv: Sequence[str], console: Console) -> int:
    """Check the file; return the exit code. Raises ``ConfigError`` when it is refused."""
    arguments = parser().parse_args(argv)
    loaded = load_config(arguments.file, env={}, flags={})
    for warning in loaded.warnings:
        console.warn(f"warning: {warning}")
    for hint in hints(loaded.config):
        console.warn(f"hint: {hint}")
    if arguments.output == "json":
        console.say_json(as_document(loaded.config))
    else:
        console.say(f"{arguments.file}: valid\n")
        console.say(summary(loaded.config, colour=console.colour))
    return 0


def hints(config: Config) -> Iterator[str]:
    """Yield what does not fit the kubelet, where its configuration is named and can be read from here."""
    file = config.kubelet.config_file
    if file is None:
        return
    settings = look_at_kubelet(file=file, folder=None, procfs=config.host.procfs).settings
    for finding in cpus_beside_devices(config, settings) if settings else ():
        if finding.level is not Level.OK:
            yield f"{finding.summary}; {finding.advice}"


def summary(config: Config, *, colour: bool = False) -> str:
    document = as_document(config)
    resources = [_row(one, config) for one in config.resources]
    settings = [row for row in _flat(document) if not row[0].startswith("resources")]
    tables = [render_table(("SETTING", "VALUE"), settings, colour=colour)]
    if resources:
        headings = ("RESOURCE", "SOURCE", "STRATEGY", "DEVICES")
        tables.append(render_table(headings, resources, colour=colour))
    return "\n\n".join(tables)


def _row(resource: ResourceConfig, config: Config) -> tuple[str, str, str, str]:
    document = as_document(resource)
    source = next(name for name in ("sriov", "gpu", "declared", "relay") if name in document)
    chosen = ", ".join(f"{key} {_text(value)}" for key, value in document[source].items() if value)
    return resource.name, source, resource.strategy or config.strategy, chosen or "all"


def _flat(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _amount(key, value)


def _amount(key: str, value: Any) -> str:
    return binary_text(value) if isinstance(value, int) and is_memory(key) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_amount(key, one)}" for key, one in value.items()) + "}"
    return " ".join(map(_text, value)) if isinstance(value, list) else str(value)
