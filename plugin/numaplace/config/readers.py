"""Readers of the configuration's own: weights, and requests.

A reader is attached to a field of the schema with ``Annotated``; with it the field is a leaf. Scalar readers
have a flag and an environment variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numaplace.engine.weights import MAX_WEIGHT, Weights, parse_weights, weights_from_mapping
from numaplace.errors import OptionError
from numaplace.model.names import ResourceName
from numaplace.reading.document import Items, Node, Scalar, Section
from numaplace.reading.names import REQUESTED_NAME
from numaplace.reading.quantities import QUANTITY
from numaplace.reading.readers import Refused, parse_scalar, refuse_kind


def _requested(name: str, *, where: str, key: str) -> ResourceName:
    try:
        return REQUESTED_NAME.parse(name)
    except ValueError:
        allowed = REQUESTED_NAME.allowed
        raise Refused(f'{where}: {key}: "{name}" is not a resource: allowed are {allowed}') from None


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
        weights: Weights = value
        return weights.text


def _weight_values(node: Section, *, key: str, problems: list[str]) -> dict[str, object]:
    """Return what may be a weight; a node that is not a scalar is added to ``problems``."""
    values: dict[str, object] = {}
    for name, entry in node.entries.items():
        if not isinstance(entry, Scalar) or entry.null:
            refused = refuse_kind(entry, key=f"{key}.{name}", allowed="a whole number from 0 to 100")
            problems.extend(refused.problems)
            continue
        # Text that is not a number is passed on: the weights' own check refuses it.
        digits = entry.text.removeprefix("-")
        values[name] = int(entry.text) if digits.isascii() and digits.isdigit() else entry.text
    return values


@dataclass(frozen=True, slots=True)
class RequestsReader:
    """A list of requests: mappings of resource name to quantity."""

    scalar: ClassVar[bool] = False
    help: str
    allowed: str = "a list of mappings such as {nvidia.com/gpu: 1, cpu: 8, memory: 32Gi}"

    @property
    def schema(self) -> Mapping[str, Any]:
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
                request[resource] = parse_scalar(entry, key=f"{key}.{name}", kind=QUANTITY)
            except Refused as refused:
                problems.extend(refused.problems)
        return request

    def show(self, value: Any) -> str:
        requests = (", ".join(f"{name}: {count}" for name, count in request.items()) for request in value)
        return "[" + ", ".join(f"{{{request}}}" for request in requests) + "]"
