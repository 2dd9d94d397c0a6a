"""Kinds of names: resources, devices, NUMA nodes, CPU lists, PF names, listen addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from operator import attrgetter

from numaplace.model.mask import MAX_NODE
from numaplace.model.names import CPU, MAX_DEVICE_ID_LENGTH, MEMORY, DeviceId, ResourceName
from numaplace.model.ranges import parse_range
from numaplace.reading.kinds import Kind, integer

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABELS = rf"{_LABEL}(\.{_LABEL})*"
_DOMAIN = re.compile(rf"(?=.{{1,244}}\Z){_LABELS}")
_LOCAL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _parse_resource_name(text: str) -> ResourceName:
    """Accept what the API server accepts as an extended resource (v1helper.IsExtendedResourceName)."""
    domain, slash, name = text.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests.")
    if not slash or native or not _DOMAIN.fullmatch(domain) or not _LOCAL_NAME.fullmatch(name):
        raise ValueError(f"not an extended resource name: {text!r}")
    return ResourceName(text)


RESOURCE_NAME = Kind(
    "a name of the form domain/name, such as intel.com/sriov_vf, not of kubernetes.io",
    _parse_resource_name,
    schema={
        "type": "string",
        "pattern": f"^{_LABELS}/{_LOCAL_NAME.pattern}$",
        "not": {"pattern": r"^requests\.|^([^/]*\.)?kubernetes\.io/"},
    },
)

_HUGEPAGES = r"hugepages-[1-9][0-9]{0,9}[KMG]i"


def _parse_requested_name(text: str) -> ResourceName:
    if text in (CPU, MEMORY) or re.fullmatch(_HUGEPAGES, text):
        return ResourceName(text)
    return _parse_resource_name(text)


REQUESTED_NAME = Kind(
    "cpu, memory, hugepages-<size> and names of the form domain/name",
    _parse_requested_name,
    schema={"pattern": rf"^({CPU}|{MEMORY}|{_HUGEPAGES}|{_LABELS}/{_LOCAL_NAME.pattern})$"},
)
"""What a container may request and the kubelet's managers take from NUMA nodes."""


def _parse_device_id(text: str) -> DeviceId:
    if not 0 < len(text) <= MAX_DEVICE_ID_LENGTH or not text.isprintable():
        raise ValueError(f"not a device id: {text!r}")
    return DeviceId(text)


DEVICE_ID = Kind(f"a device id: printable text of 1 to {MAX_DEVICE_ID_LENGTH} characters", _parse_device_id)
NUMA_NODE = replace(integer(0, MAX_NODE), allowed=f"a NUMA node id from 0 to {MAX_NODE}")

MAX_CPU = 4095


def parse_cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs of ``0-3, 8``; none for an empty text; ``ValueError`` otherwise."""
    parts = filter(None, map(str.strip, text.split(",")))
    return frozenset().union(*(parse_range(part, highest=MAX_CPU) for part in parts))


CPU_LIST = Kind(f"a list of CPUs from 0 to {MAX_CPU}, such as 0-15,64-79, or empty", parse_cpu_list)

MAX_VF_INDEX = 65535
"""The PCI specification counts VFs in 16 bits."""

# The kernel's limit for the name of a network device is 15 (IFNAMSIZ, without its ending NUL).
_NETDEV = re.compile(r"[^\s/:#]{1,15}")
_RANGE = r"\d{1,5}(-\d{1,5})?"


@dataclass(frozen=True, slots=True)
class PfName:
    """A PF's network device and the VF indexes that are meant; no ``ranges`` means all."""

    text: str
    name: str
    ranges: tuple[range, ...] = ()

    def covers(self, index: int | None) -> bool:
        """Return whether the VF with this index is meant. An unknown index is covered only by "all"."""
        return not self.ranges or any(index in one for one in self.ranges)


def _parse_pf_name(text: str) -> PfName:
    """Accept ``ens1f0`` and ``ens1f0#0,2-7,9``: VF indexes, both ends included."""
    name, mark, indexes = text.partition("#")
    if not _NETDEV.fullmatch(name):
        raise ValueError(f"not a PF name: {text!r}")
    parts = indexes.split(",") if mark else ()
    return PfName(text, name, tuple(parse_range(part, highest=MAX_VF_INDEX) for part in parts))


PF_NAME = Kind(
    "a PF's network name, with VF indexes if wanted, such as ens1f0#0,2-7,9",
    _parse_pf_name,
    attrgetter("text"),
    schema={"type": "string", "pattern": rf"^{_NETDEV.pattern}(#{_RANGE}(,{_RANGE})*)?$"},
)

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]*):(\d{1,5})", re.ASCII)


def _parse_http_address(text: str) -> str:
    if text in ("", "off", "false"):
        return ""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"not an address: {text!r}")
    return text


HTTP_ADDRESS = Kind(
    "host:port, :port for all addresses, or off",
    _parse_http_address,
    schema={"anyOf": [{"type": "string", "pattern": f"^(off|false|{_ADDRESS.pattern})?$"}, {"const": False}]},
)
