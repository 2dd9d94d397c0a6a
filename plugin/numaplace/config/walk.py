"""The walk: raw nodes and the schema side by side, into a record and all problems.

Every leaf is read on its own, so one run tells the user everything that is wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from numaplace.config.document import Items, Node, Scalar, Section
from numaplace.config.fields import Field, fields_of
from numaplace.config.readers import Refused, refuse_kind

R = TypeVar("R", bound=msgspec.Struct)


def build(record: type[R], node: Node, *, key: str = "", problems: list[str]) -> R | None:
    """Return the record that ``node`` describes; None, with ``problems`` added, when it is refused.

    A leaf or section with nothing after its key counts as not given.
    """
    if isinstance(node, Scalar) and node.null:
        node = Section(node.where)
    if not isinstance(node, Section):
        allowed = "a mapping of " + ", ".join(field.key for field in fields_of(record))
        problems.extend(refuse_kind(node, key=key, allowed=allowed).problems)
        return None
    before = len(problems)
    problems.extend(_unknown_keys(record, node, key=key))
    values: dict[str, Any] = {}
    for field in fields_of(record):
        full = f"{key}.{field.key}" if key else field.key
        entry = node.entries.get(field.key)
        if entry is None or (isinstance(entry, Scalar) and entry.null and field.section is None):
            if field.required:
                problems.append(f'{node.where}: {key}: "{field.key}" is missing{_wanted(field)}')
            continue
        values[field.name] = _read(field, entry, key=full, problems=problems)
    return record(**values) if len(problems) == before else None


def _read(field: Field, node: Node, *, key: str, problems: list[str]) -> object:
    if field.reader is not None:
        try:
            return field.reader.read(node, key=key)
        except Refused as refused:
            problems.extend(refused.problems)
            return None
    if field.section is None:
        raise TypeError(f"{key} has neither a reader nor a section")
    if field.repeated:
        return _read_list(field.section, node, key=key, problems=problems)
    return build(field.section, node, key=key, problems=problems)


def _read_list(record: type[R], node: Node, *, key: str, problems: list[str]) -> tuple[R, ...]:
    if isinstance(node, Scalar) and node.null:
        return ()
    if not isinstance(node, Items):
        problems.extend(refuse_kind(node, key=key, allowed="a list of mappings").problems)
        return ()
    built = (
        build(record, item, key=f"{key}[{number}]", problems=problems)
        for number, item in enumerate(node.items)
    )
    return tuple(one for one in built if one is not None)


def _wanted(field: Field) -> str:
    return f": it is {field.reader.allowed}" if field.reader is not None else ""


def _unknown_keys(record: type[msgspec.Struct], node: Section, *, key: str) -> list[str]:
    known = [field.key for field in fields_of(record)]
    prefix = f"{key}: " if key else ""
    listed = f"allowed are {', '.join(known)}" if known else "no keys are allowed here"
    places = node.key_where
    return [
        f'{places[name]}: {prefix}unknown key "{name}": {listed}{did_you_mean(name, known)}'
        for name in node.entries
        if name not in known
    ]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean "x"?)`` for the known name that is nearest, else nothing."""
    by_folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f' (did you mean "{by_folded[near[0]]}"?)' if near else ""
