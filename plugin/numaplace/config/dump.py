"""A configuration back into the file's form: what is in effect, whichever source it came from."""

from __future__ import annotations

from typing import Any

import msgspec

from numaplace.config.fields import Field, fields_of
from numaplace.config.readers import RequestsReader
from numaplace.reading.readers import ListOf


def as_document(record: msgspec.Struct) -> dict[str, Any]:
    """Return the mapping that, written as YAML or JSON, loads as this record; every key that has a value.

    Durations and paths are text as in the file; truth values and numbers are themselves.
    """
    document: dict[str, Any] = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if value is not None:
            document[field.key] = _plain(field, value)
    return document


def _plain(field: Field, value: Any) -> Any:
    if field.repeated:
        return [as_document(one) for one in value]
    if isinstance(value, msgspec.Struct):
        return as_document(value)
    if isinstance(field.reader, RequestsReader):
        return [dict(request) for request in value]
    if isinstance(field.reader, ListOf):
        return [field.reader.kind.show(one) for one in value]
    if isinstance(value, bool | int) or field.reader is None:
        return value
    return field.reader.show(value)
