"""Writes the daemon's configuration into the chart's values.schema.json, from the daemon's own model.

``make schema`` rewrites the definitions ``config`` and ``declaredFile``, the rest of the file is
written by hand; ``--check`` changes nothing and fails when they are not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from numaplace.config.json_schema import config_schema
from numaplace.devices.declared.load import DEVICE_KEYS, TOP_KEYS

FILE = Path(__file__).parent / "numaplace/values.schema.json"


def declared_file_schema() -> dict[str, Any]:
    """Return the form of a ``declared`` resource's file: its keys; values are the daemon's to check."""
    device = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {} for key in DEVICE_KEYS},
        "required": ["id"],
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {"type": "array", "items": device} for key in TOP_KEYS},
        "required": list(TOP_KEYS),
    }


def current(text: str) -> str:
    """Return the file's text with the definitions as the model has them."""
    schema = json.loads(text)
    schema["definitions"] |= {"config": config_schema(), "declaredFile": declared_file_schema()}
    return json.dumps(schema, indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Rewrite the file, or with ``--check`` only compare; return the exit code."""
    text = FILE.read_text()
    wanted = current(text)
    if wanted == text:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{FILE}: is not current: run 'make schema'\n")
        return 1
    FILE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
