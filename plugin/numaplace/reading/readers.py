"""Readers: from a raw node to one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from numaplace.reading.document import Items, Node, Scalar, kind_name
from numaplace.reading.kinds import Kind

T = TypeVar("T")

MAX_SHOWN = 80
IN_QUOTES = "; numbers and words such as off have to be in quotes"


class Refused(Exception):  # noqa: N818 - it carries problems, it is not one error
    """The node is not allowed; ``problems`` are complete sentences."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class Reader(Protocol):
    """The interface of a leaf for the walk, the flags and the documentation."""

    scalar: ClassVar[bool]

    @property
    def help(self) -> str:
        """One sentence for the flag's help."""

    @property
    def allowed(self) -> str:
        """What is allowed, for messages and the documentation."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """What JSON Schema can say of it."""

    def read(self, node: Node, *, key: str) -> object:
        """Return the value; raises ``Refused``."""

    def show(self, value: Any) -> str:
        """Return the text that reads as this value."""


def refuse_kind(node: Node, *, key: str, allowed: str) -> Refused:
    """Return the refusal of a node of the wrong kind: list, mapping or scalar."""
    return Refused(f"{node.where}: {key}: {kind_name(node)} is not allowed here: allowed is {allowed}")


def parse_scalar(node: Node, *, key: str, kind: Kind[T]) -> T:
    """Return the node's value; raises ``Refused``."""
    if not isinstance(node, Scalar) or node.null:
        raise refuse_kind(node, key=key, allowed=kind.allowed)
    text = node.text if len(node.text) <= MAX_SHOWN else f"{node.text[:MAX_SHOWN]}..."
    if kind.quoted and node.type != "str":
        raise Refused(f"{node.where}: {key}: {text} is not allowed: allowed is {kind.allowed}{IN_QUOTES}")
    try:
        return kind.parse(node.text)
    except ValueError as error:
        shown = json.dumps(text, ensure_ascii=False)
        message = f"{node.where}: {key}: {shown} is not allowed: allowed is {kind.allowed}"
        raise Refused(message) from error


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value."""

    scalar: ClassVar[bool] = True
    kind: Kind[Any]
    help: str = ""

    @property
    def allowed(self) -> str:
        return self.kind.allowed

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.kind.schema

    def read(self, node: Node, *, key: str) -> object:
        return parse_scalar(node, key=key, kind=self.kind)

    def show(self, value: Any) -> str:
        return self.kind.show(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one kind; read as a tuple."""

    scalar: ClassVar[bool] = False
    kind: Kind[Any]
    help: str = ""

    @property
    def allowed(self) -> str:
        return f"a list, each item {self.kind.allowed}"

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "array", "items": dict(self.kind.schema)}

    def read(self, node: Node, *, key: str) -> tuple[object, ...]:
        if not isinstance(node, Items):
            raise refuse_kind(node, key=key, allowed=self.allowed)
        values: list[object] = []
        problems: list[str] = []
        for number, item in enumerate(node.items):
            try:
                values.append(parse_scalar(item, key=f"{key}[{number}]", kind=self.kind))
            except Refused as refused:
                problems.extend(refused.problems)
        if problems:
            raise Refused(*problems)
        return tuple(values)

    def show(self, value: Any) -> str:
        return "[" + ", ".join(map(self.kind.show, value)) + "]"
