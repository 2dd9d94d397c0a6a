"""YAML with the place of each value, so that a refusal can name line and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from numaplace.devices.malformed import MALFORMED_VALUE
from numaplace.errors import InputError

MAX_FILE_BYTES = 4 << 20
MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Value:
    """One value: ``where`` is its key path, ``data`` a scalar, a tuple of values or a dict of values."""

    where: str
    line: int
    data: object


def read_tree(file: Path) -> Value:
    """Read a YAML or JSON file. ``InputError`` names the file, and the line if the text is at fault."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise InputError(f"{file}: larger than the allowed {MAX_FILE_BYTES} bytes")
    try:
        node = yaml.compose(raw.decode("utf-8"), Loader=yaml.SafeLoader)
        return _value(file, node, "")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{file}{line}: not YAML: {getattr(error, 'problem', error)}") from error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply") from error


def _value(file: Path, node: yaml.Node | None, where: str, *, depth: int = 0) -> Value:
    if node is None:
        return Value(where, 1, None)
    line = node.start_mark.line + 1
    if depth > MAX_DEPTH:
        raise InputError(f"{file}:{line}: {where[:40]}: nested deeper than the allowed {MAX_DEPTH} levels")
    if isinstance(node, yaml.SequenceNode):
        items = enumerate(node.value)
        return Value(
            where, line, tuple(_value(file, item, f"{where}[{i}]", depth=depth + 1) for i, item in items)
        )
    if isinstance(node, yaml.MappingNode):
        return Value(where, line, _mapping(file, node, where, depth))
    return Value(where, line, _scalar(file, node, line))


def _mapping(file: Path, node: yaml.MappingNode, where: str, depth: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key_node, value_node in node.value:
        line, key = key_node.start_mark.line + 1, str(key_node.value)
        if not isinstance(key_node, yaml.ScalarNode):
            raise InputError(f"{file}:{line}: {where}: a key is not a plain word; allowed: plain words")
        if key in found:
            raise InputError(f"{file}:{line}: {where}: key {key!r} is given twice; allowed: once")
        found[key] = _value(file, value_node, f"{where}.{key}".lstrip("."), depth=depth + 1)
    return found


def _scalar(file: Path, node: yaml.Node, line: int) -> object:
    try:
        constructed: object = yaml.SafeLoader("").construct_object(node)
    except MALFORMED_VALUE as error:
        raise InputError(f"{file}:{line}: {node.value!r} is not a valid value: {error}") from error
    return constructed


def plain(value: Value) -> object:
    """Return the value without places."""
    if isinstance(value.data, tuple):
        return [plain(item) for item in value.data]
    if isinstance(value.data, Mapping):
        return {key: plain(item) for key, item in value.data.items()}
    return value.data
