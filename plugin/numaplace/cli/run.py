"""``numaplace run``: the daemon. Its flags are derived from the configuration's schema."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from numaplace.cli.console import Console, command_parser
from numaplace.config.load import Loaded, load_config
from numaplace.config.settings import CONFIG_FILE_ENV, settings


def parser() -> ArgumentParser:
    """Return the command's parser; the flags' destinations are the settings' key paths."""
    made = command_parser(
        "run",
        "Runs the device plugin of this node. SIGHUP reloads the configuration, SIGTERM stops.",
        epilog="precedence: flag, environment variable, file. Reference: docs/configuration.md\n\n"
        "example: numaplace run --config /etc/numaplace/config.yaml --strategy least-allocated",
    )
    made.add_argument(
        "--config", metavar="FILE", help=f"configuration file; also {CONFIG_FILE_ENV} (default: none)"
    )
    for setting in settings():
        if not setting.flag:
            continue
        text = (
            f"{setting.help}; {setting.allowed}; also {setting.env} (default: {setting.default or 'empty'})"
        )
        help_text = text.replace("%", "%%")
        if setting.is_bool:
            made.add_argument(
                setting.flag, dest=setting.key, nargs="?", const="true", metavar="BOOL", help=help_text
            )
        else:
            made.add_argument(setting.flag, dest=setting.key, metavar="VALUE", help=help_text)
    return made


def config_loader(arguments: Namespace, env: Mapping[str, str]) -> Callable[[], Loaded]:
    """Return the function that reads the configuration each time it is called (SIGHUP)."""
    values: dict[str, str | None] = vars(arguments)
    name = values.get("config") or env.get(CONFIG_FILE_ENV)
    flags = {setting.key: values.get(setting.key) for setting in settings() if setting.flag}
    return lambda: load_config(Path(name) if name else None, env=env, flags=flags)


def main(argv: Sequence[str], console: Console) -> int:
    loader = config_loader(parser().parse_args(argv), console.env)
    # Imported after the arguments are checked: a usage error is reported at once.
    from numaplace.daemon.app import serve

    return asyncio.run(serve(loader))
