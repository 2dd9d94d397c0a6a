"""YAML and JSON: raw nodes that hold their position in the file, or plain values.

Scalars keep the text as written and are not converted here: the reader knows what each one has to be. So a
bare ``8086`` or ``0000:18:02.0`` in a list of texts stays what the user sees, where YAML 1.1 would
make a number of it, and ``off`` is ``off``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from numaplace.errors import ConfigError

# Some builds of PyYAML lack the C parser.
_FAST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(
    f"{_PREFIX}{name}"
    for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "value", "merge")
)


def read_text(file: Path, *, max_bytes: int) -> str:
    """Return a file's text; ``ConfigError`` if it cannot be read, is too large, or is not UTF-8."""
    try:
        with file.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise ConfigError((f"{file}: cannot be read: {error.strerror or error}",)) from error
    if len(content) > max_bytes:
        raise ConfigError((f"{file}: is larger than {max_bytes} bytes",))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError((f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}",)) from error


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as text; ``type`` is what YAML 1.1 takes it for, such as ``str``, ``int`` or ``bool``."""

    where: str
    text: str
    type: str = "str"

    @property
    def null(self) -> bool:
        """Whether no value is given: a key without a value, ``~`` or ``null``."""
        return self.type == "null"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    where: str
    items: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping. ``key_where`` says where each key was written."""

    where: str
    entries: Mapping[str, Node] = field(default_factory=dict)
    key_where: Mapping[str, str] = field(default_factory=dict)


Node = Scalar | Items | Section

KIND_NAMES = {Scalar: "one value", Items: "a list", Section: "a mapping"}


def kind_name(node: Node) -> str:
    return "nothing" if isinstance(node, Scalar) and node.null else KIND_NAMES[type(node)]


def parse_document(
    text: str, *, source: str, list_key: str = "", large: bool = False
) -> tuple[Section, list[str]]:
    """Return the document's top mapping and the problems that do not stop the reading (a key given twice).

    ``source`` is the file's name, for messages. A list on its own is read as that of ``list_key``, if given.
    ``large`` is for long files: the C parser, whose error messages are shorter. Raises
    ``ConfigError`` with file, line and column where the text is not YAML, or not a mapping.
    """
    converter = _Converter(source)
    try:
        node = yaml.compose(text, Loader=_FAST_LOADER if large else yaml.SafeLoader)
        top = Scalar(source, "", "null") if node is None else converter.convert(node, path="")
    except yaml.MarkedYAMLError as error:
        raise ConfigError((_syntax_problem(error, source=source),)) from error
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError((f"{source}: is not YAML: {reason}",)) from error
    except RecursionError as error:
        raise ConfigError((f"{source}: is nested too deeply",)) from error
    if isinstance(top, Items) and list_key:
        top = Section(top.where, {list_key: top})
    if isinstance(top, Scalar) and top.null:
        top = Section(source)
    if not isinstance(top, Section):
        raise ConfigError((f"{top.where}: the file has to be a mapping of keys, it is {kind_name(top)}",))
    return top, converter.problems


def load_plain(text: str | bytes) -> object:
    """Return the values of a file that others check; ``ValueError``, in one line, if it is not YAML."""
    try:
        return yaml.load(text, Loader=_FAST_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        # PyYAML's constructors raise the latter three where tag and value do not fit: ``!!bool x``.
        raise ValueError(" ".join(str(error).split())) from error


def _syntax_problem(error: yaml.MarkedYAMLError, *, source: str) -> str:
    reason = "; ".join(part for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    return f"{place}: is not YAML: {reason}"


class _Converter:
    """Walks the composed nodes once: aliases share their node, a cyclic one is refused."""

    def __init__(self, source: str) -> None:
        self.problems: list[str] = []
        self._source = source
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def convert(self, node: yaml.Node, *, path: str) -> Node:
        known = self._done.get(id(node))
        if known is not None:
            return known
        where = f"{self._source}:{node.start_mark.line + 1}"
        if id(node) in self._open:
            self.problems.append(f"{where}: {path}: an alias that refers to itself")
            return Scalar(where, "", "null")
        self._open.add(id(node))
        done = self._by_kind(node, where=where, path=path)
        self._open.discard(id(node))
        self._done[id(node)] = done
        return done

    def _by_kind(self, node: yaml.Node, *, where: str, path: str) -> Node:
        if node.tag not in _TAGS:
            self.problems.append(f"{where}: {path or 'the file'}: the tag {node.tag} is not allowed")
        if isinstance(node, yaml.MappingNode):
            return self._section(node, where=where, path=path)
        if isinstance(node, yaml.SequenceNode):
            items = (self.convert(item, path=f"{path}[{n}]") for n, item in enumerate(node.value))
            return Items(where, tuple(items))
        return Scalar(where, str(node.value), node.tag.removeprefix(_PREFIX))

    def _section(self, node: yaml.MappingNode, *, where: str, path: str) -> Section:
        entries: dict[str, Node] = {}
        key_where: dict[str, str] = {}
        for key_node, value_node in node.value:
            line = f"{self._source}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(f"{line}: {path or 'the file'}: a key has to be text")
                continue
            key = str(key_node.value)
            full = f"{path}.{key}" if path else key
            if key in entries:
                self.problems.append(f"{line}: {full}: is given twice, first at {key_where[key]}")
                continue
            entries[key] = self.convert(value_node, path=full)
            key_where[key] = line
        return Section(where, entries, key_where)
