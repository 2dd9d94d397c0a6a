"""Readers: from a raw node to one value of the schema.

A reader is attached to a field with ``Annotated``; with it the field is a leaf of the schema. Scalar
readers have a flag and an environment variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from numaplace.config.document import Items, Node, Scalar, Section, kind_name
from numaplace.config.kinds import QUANTITY, Kind
from numaplace.config.names import REQUESTED_NAME
from numaplace.engine.weights import MAX_WEIGHT, Weights, parse_weights, weights_from_mapping
from numaplace.errors import OptionError
from numaplace.model.names import ResourceName

T = TypeVar("T")


class Refused(Exception):  # noqa: N818 - it carries problems, it is not one error
    """The node is not allowed; ``problems`` are complete sentences."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class Reader(Protocol):
    """What the walk, the flags and the documentation need to know of a leaf."""

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
    """Return the refusal of a node that is a list or mapping where it must not be, or the reverse."""
    return Refused(f"{node.where}: {key}: {kind_name(node)} is not allowed here: allowed is {allowed}")


def _requested(name: str, *, where: str, key: str) -> ResourceName:
    try:
        return REQUESTED_NAME.parse(name)
    except ValueError:
        allowed = REQUESTED_NAME.allowed
        raise Refused(f'{where}: {key}: "{name}" is no resource: allowed are {allowed}') from None


def _parse(node: Node, *, key: str, kind: Kind[T]) -> T:
    if not isinstance(node, Scalar) or node.null:
        raise refuse_kind(node, key=key, allowed=kind.allowed)
    try:
        return kind.parse(node.text)
    except ValueError as error:
        message = f'{node.where}: {key}: "{node.text}" is not allowed: allowed is {kind.allowed}'
        raise Refused(message) from error


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value."""

    scalar: ClassVar[bool] = True
    kind: Kind[Any]
    help: str

    @property
    def allowed(self) -> str:
        """What the kind allows."""
        return self.kind.allowed

    @property
    def schema(self) -> Mapping[str, Any]:
        """The kind's."""
        return self.kind.schema

    def read(self, node: Node, *, key: str) -> object:
        """Return the parsed value; raises ``Refused``."""
        return _parse(node, key=key, kind=self.kind)

    def show(self, value: Any) -> str:
        """Return the text that reads as this value."""
        return self.kind.show(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one kind; read as a tuple."""

    scalar: ClassVar[bool] = False
    kind: Kind[Any]
    help: str

    @property
    def allowed(self) -> str:
        """What each item may be."""
        return f"a list, each item {self.kind.allowed}"

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of the kind."""
        return {"type": "array", "items": dict(self.kind.schema)}

    def read(self, node: Node, *, key: str) -> tuple[object, ...]:
        """Return the parsed items; raises ``Refused`` with all problems."""
        if not isinstance(node, Items):
            raise refuse_kind(node, key=key, allowed=self.allowed)
        values: list[object] = []
        problems: list[str] = []
        for number, item in enumerate(node.items):
            try:
                values.append(_parse(item, key=f"{key}[{number}]", kind=self.kind))
            except Refused as refused:
                problems.extend(refused.problems)
        if problems:
            raise Refused(*problems)
        return tuple(values)

    def show(self, value: Any) -> str:
        """Return the list in YAML's flow style."""
        return "[" + ", ".join(map(self.kind.show, value)) + "]"


@dataclass(frozen=True, slots=True)
class WeightsReader:
    """KEP-6007's ``numa-score-weights``: its text, or a mapping."""

    scalar: ClassVar[bool] = True
    help: str
    allowed: str = 'pairs such as "cpu=3,memory=1", or a mapping; weights are whole numbers from 0 to 100'

    @property
    def schema(self) -> Mapping[str, Any]:
        """Text or a mapping; what the text holds is left to ``read``."""
        weight = {"type": "integer", "minimum": 0, "maximum": MAX_WEIGHT}
        return {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": weight}]}

    def read(self, node: Node, *, key: str) -> Weights:
        """Return the weights; raises ``Refused`` with all problems."""
        problems: list[str] = []
        weights = Weights()
        try:
            if isinstance(node, Section):
                weights = weights_from_mapping(_weight_values(node, key=key, problems=problems))
            elif isinstance(node, Scalar) and not node.null:
                weights = parse_weights(node.text)
            else:
                raise refuse_kind(node, key=key, allowed=self.allowed)
        except OptionError as error:
            problems.append(f"{node.where}: {key}: {error}")
        if problems:
            raise Refused(*problems)
        return weights

    def show(self, value: Any) -> str:
        """Return the KEP's text form."""
        weights: Weights = value
        return weights.text


def _weight_values(node: Section, *, key: str, problems: list[str]) -> dict[str, object]:
    """Return what may be a weight; what is no scalar is added to ``problems`` instead."""
    values: dict[str, object] = {}
    for name, entry in node.entries.items():
        if not isinstance(entry, Scalar) or entry.null:
            refused = refuse_kind(entry, key=f"{key}.{name}", allowed="a whole number from 0 to 100")
            problems.extend(refused.problems)
            continue
        # What is no number goes on as text: the weights' own check words the refusal.
        digits = entry.text.removeprefix("-")
        values[name] = int(entry.text) if digits.isascii() and digits.isdigit() else entry.text
    return values


@dataclass(frozen=True, slots=True)
class RequestsReader:
    """A list of request requests: mappings of resource name to quantity."""

    scalar: ClassVar[bool] = False
    help: str
    allowed: str = "a list of mappings such as {nvidia.com/gpu: 1, cpu: 8, memory: 32Gi}"

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of mappings to quantities."""
        request = {
            "type": "object",
            "minProperties": 1,
            "patternProperties": {REQUESTED_NAME.schema["pattern"]: dict(QUANTITY.schema)},
            "additionalProperties": False,
        }
        return {"type": "array", "items": request}

    def read(self, node: Node, *, key: str) -> tuple[Mapping[ResourceName, int], ...]:
        """Return the requests; raises ``Refused`` with all problems."""
        if not isinstance(node, Items):
            raise refuse_kind(node, key=key, allowed=self.allowed)
        problems: list[str] = []
        requests = tuple(
            self._request(item, key=f"{key}[{number}]", problems=problems)
            for number, item in enumerate(node.items)
        )
        if problems:
            raise Refused(*problems)
        return requests

    def _request(self, node: Node, *, key: str, problems: list[str]) -> Mapping[ResourceName, int]:
        request: dict[ResourceName, int] = {}
        if not isinstance(node, Section):
            problems.extend(refuse_kind(node, key=key, allowed="a mapping of resource to quantity").problems)
            return request
        if not node.entries:
            problems.append(f"{node.where}: {key}: is empty: allowed is a mapping of resource to quantity")
        for name, entry in node.entries.items():
            try:
                resource = _requested(name, where=entry.where, key=key)
                request[resource] = _parse(entry, key=f"{key}.{name}", kind=QUANTITY)
            except Refused as refused:
                problems.extend(refused.problems)
        return request

    def show(self, value: Any) -> str:
        """Return the requests in YAML's flow style."""
        requests = (", ".join(f"{name}: {count}" for name, count in request.items()) for request in value)
        return "[" + ", ".join(f"{{{request}}}" for request in requests) + "]"
