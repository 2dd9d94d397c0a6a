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

REMOVED = {
    "kubelet.liveList": (
        "is no setting any more, PodResources is always asked during a decision: leave it out. "
        "Kubelets before 1.34 are not supported"
    )
}
"""What to say of keys that there were."""


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
    found = []
    for name in node.entries:
        full = f"{key}.{name}" if key else name
        if full in REMOVED:
            found.append(f"{places[name]}: {full}: {REMOVED[full]}")
        elif name not in known:
            found.append(f'{places[name]}: {prefix}unknown key "{name}": {listed}{did_you_mean(name, known)}')
    return found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean "x"?)`` for the known name that is nearest, else nothing."""
    by_folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f' (did you mean "{by_folded[near[0]]}"?)' if near else ""
