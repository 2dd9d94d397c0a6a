"""Case files of the device tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from numaplace.devices.source import SOURCES
from numaplace.reading.names import PF_NAME

CASES = Path(__file__).parent.parent / "cases/devices"


def record(kind: str, fields: Mapping[str, Any]) -> Any:
    """Make a kind's record from plain data."""
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    if "pf_names" in plain:
        plain["pf_names"] = tuple(map(PF_NAME.parse, plain["pf_names"]))
    return SOURCES[kind].spec(**plain)


def cases(name: str) -> Sequence[Any]:
    """Read a case file as pytest parameters, named by `name` or by their content."""
    rows = yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    return [pytest.param(row, id=str(row.get("name") or list(row.values())[1])) for row in rows]
