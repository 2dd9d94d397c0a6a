"""The configuration file as JSON Schema (draft 7), for tools that check values before a daemon sees them.

It knows keys, types, closed lists and the form of values. Rules over several settings, bounds of durations
and files that have to exist stay with ``load_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from numaplace.config.fields import Field, fields_of
from numaplace.config.schema import Config


def config_schema() -> dict[str, Any]:
    """Return the schema of the whole file; the form of each record is in place, without references."""
    return _record(Config)


def _record(record: type[msgspec.Struct]) -> dict[str, Any]:
    fields = fields_of(record)
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {field.key: _field(field) for field in fields},
    }
    required = [field.key for field in fields if field.required]
    return schema | ({"required": required} if required else {})


def _field(field: Field) -> dict[str, Any]:
    if field.reader is not None:
        schema = {"description": f"{field.reader.help}: {field.reader.allowed}", **field.reader.schema}
    elif field.section is not None:
        schema = _record(field.section)
        if field.repeated:
            schema = {"type": "array", "items": schema}
    else:
        raise TypeError(f"{field.key} has neither a reader nor a section")
    return schema if field.required else _or_nothing(schema)


def _or_nothing(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema that also accepts a key without a value, as the file does."""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}
