"""Reads the schema's records: the keys, and what each holds."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from numaplace.reading.readers import Reader


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record: a leaf (``reader``), a section or a list of sections (``section``)."""

    name: str
    key: str
    required: bool
    reader: Reader | None = None
    section: type[msgspec.Struct] | None = None
    repeated: bool = False
    default: Any = None


@cache
def fields_of(record: type[msgspec.Struct]) -> tuple[Field, ...]:
    return tuple(_field(info) for info in msgspec.structs.fields(record))


def _field(info: msgspec.structs.FieldInfo) -> Field:
    default = info.default
    if info.default_factory is not msgspec.NODEFAULT:
        default = info.default_factory()
    required = default is msgspec.NODEFAULT
    plain = Field(info.name, info.encode_name, required, default=None if required else default)
    reader = next(iter(getattr(info.type, "__metadata__", ())), None)
    if reader is not None:
        return replace(plain, reader=reader)
    section, repeated = _section_type(info.type)
    return replace(plain, section=section, repeated=repeated)


def _section_type(annotation: Any) -> tuple[type[msgspec.Struct], bool]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple:
        return arguments[0], True
    if origin in (types.UnionType, typing.Union):
        return next(one for one in arguments if one is not type(None)), False
    return annotation, False


def leaves(record: type[msgspec.Struct], *, prefix: str = "") -> Iterator[tuple[str, Field]]:
    """Yield (key path, field) of every leaf; a list of sections shows as ``resources[]``."""
    for field in fields_of(record):
        key = f"{prefix}{field.key}"
        if field.reader is not None:
            yield key, field
        elif field.section is not None:
            mark = "[]." if field.repeated else "."
            yield from leaves(field.section, prefix=key + mark)
