"""The walk: raw nodes and the schema side by side, into a record and all problems.

Every leaf is read on its own, so one run tells the user everything that is wrong.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from numaplace.config.fields import Field, fields_of
from numaplace.reading.document import Section
from numaplace.reading.keys import Keys

R = TypeVar("R", bound=msgspec.Struct)


def build(record: type[R], keys: Keys) -> R | None:
    """Return the record that the keys describe; None, with ``problems`` added, when it is refused.

    A leaf or section with nothing after its key counts as not given.
    """
    before = len(keys.problems)
    values: dict[str, Any] = {}
    for field in fields_of(record):
        if field.reader is not None:
            node = keys.take(field.key, required=field.reader.allowed if field.required else "")
            if node is not None:
                values[field.name] = keys.read(field.reader, node, name=field.key, default=None)
        elif field.section is not None and field.key in keys.section.entries:
            values[field.name] = _section(field, field.section, keys)
        else:
            keys.known.append(field.key)
    keys.refuse_rest()
    return record(**values) if len(keys.problems) == before else None


def _section(field: Field, record: type[R], keys: Keys) -> object:
    allowed = "a mapping of " + ", ".join(one.key for one in fields_of(record))
    if field.repeated:
        built = (build(record, one) for one in keys.mappings(field.key, allowed=allowed))
        return tuple(one for one in built if one is not None)
    node = keys.take(field.key) or Section(keys.place(field.key))
    opened = keys.open(field.key, node, allowed=allowed)
    return None if opened is None else build(record, opened)
