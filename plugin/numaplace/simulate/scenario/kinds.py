"""Kinds of value that scenario files have beside those of the configuration."""

from __future__ import annotations

import re
from fractions import Fraction

from numaplace.config.kinds import Kind
from numaplace.config.names import RESOURCE_NAME
from numaplace.model.mask import MAX_NODE
from numaplace.model.names import (
    CPU,
    HUGEPAGES_PREFIX,
    MAX_DEVICE_ID_LENGTH,
    MEMORY,
    DeviceId,
    ResourceName,
    is_memory,
)
from numaplace.model.quantity import ALLOWED_QUANTITY, parse_quantity, rounded_up

MAX_CPU = 4095
RESOURCE_KEYS = "cpu, memory, hugepages-<size>, or domain/name such as nvidia.com/gpu"

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_NODE = re.compile(r"[0-9]{1,2}")


def parse_cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs of ``0-3,8``; none for an empty text; ``ValueError`` otherwise."""
    cpus: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")) if text.strip() else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"not a CPU list: {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= MAX_CPU:
            raise ValueError(f"{part} runs backwards or beyond {MAX_CPU}")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


CPU_LIST = Kind(f"a list of CPUs from 0 to {MAX_CPU}, such as 0-15,64-79, or empty", parse_cpu_list)


def _parse_node(text: str) -> int:
    if not _NODE.fullmatch(text) or int(text) > MAX_NODE:
        raise ValueError(f"not a NUMA node id: {text!r}")
    return int(text)


NUMA_NODE = Kind(f"a NUMA node id from 0 to {MAX_NODE}", _parse_node)


def _parse_size(text: str) -> int:
    size = rounded_up(parse_quantity(text))
    if size < 0:
        raise ValueError(f"negative: {text!r}")
    return size


SIZE = Kind(f"{ALLOWED_QUANTITY}, not negative", _parse_size)


def _parse_milli(text: str) -> int:
    milli = rounded_up(parse_quantity(text) * 1000)
    if milli < 0:
        raise ValueError(f"negative: {text!r}")
    return milli


CPU_AMOUNT = Kind(f"{ALLOWED_QUANTITY}, not negative", _parse_milli)


def _parse_pieces(text: str) -> int:
    amount = parse_quantity(text)
    if amount.denominator != 1 or amount < 0:
        raise ValueError(f"not a whole number: {text!r}")
    return int(amount)


PIECES = Kind("a whole number of devices", _parse_pieces)


def page_size(resource: str) -> int:
    """Return the bytes of a page of ``hugepages-<size>``; ``ValueError`` if that is no page size."""
    size = parse_quantity(resource.removeprefix(HUGEPAGES_PREFIX))
    if size.denominator != 1 or size < 1024:
        raise ValueError(f"not a page size: {resource!r}")
    return int(size)


def parse_resource(text: str) -> ResourceName:
    """Return the name of a resource that a manager deals with; ``ValueError`` otherwise."""
    if text in (CPU, MEMORY):
        return ResourceName(text)
    if text.startswith(HUGEPAGES_PREFIX):
        page_size(text)
        return ResourceName(text)
    return RESOURCE_NAME.parse(text)


def amount_kind(resource: ResourceName) -> Kind[int]:
    """Return how an amount of the resource is written."""
    if resource == CPU:
        return CPU_AMOUNT
    return SIZE if is_memory(resource) else PIECES


def _parse_device_id(text: str) -> DeviceId:
    if not 0 < len(text) <= MAX_DEVICE_ID_LENGTH:
        raise ValueError(f"not a device id: {text!r}")
    return DeviceId(text)


DEVICE_ID = Kind(f"a device id of 1 to {MAX_DEVICE_ID_LENGTH} characters", _parse_device_id)


def _parse_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text):
        raise ValueError(f"not a name: {text!r}")
    return text


NAME = Kind("a name of lower-case letters, digits, - and .", _parse_name)
TEXT = Kind("a text", str)

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")


def _parse_threshold(text: str) -> int | Fraction:
    match = _PERCENT.fullmatch(text)
    if match is None:
        return _parse_size(text)
    part = Fraction(match[1]) / 100
    if part > 1:
        raise ValueError(f"more than everything: {text!r}")
    return part


THRESHOLD: Kind[int | Fraction | None] = Kind(
    "a quantity such as 100Mi, or a percentage such as 5%", _parse_threshold
)
