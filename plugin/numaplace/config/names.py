"""Kinds with a grammar of their own: resource names, PF names with VF ranges, listen addresses."""

from __future__ import annotations

import re

from numaplace.config.kinds import Kind
from numaplace.model.names import CPU, MEMORY, ResourceName

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
"""What a container may ask for and the kubelet's managers take from NUMA nodes."""

MAX_VF_INDEX = 65535
"""The PCI specification counts VFs in 16 bits."""

_RANGES = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", re.ASCII)
# The kernel's limit for the name of a network device is 15 (IFNAMSIZ, without its ending NUL).
_NETDEV = re.compile(r"[^\s/:#]{1,15}")


def _parse_pf_name(text: str) -> str:
    """Accept ``ens1f0`` and ``ens1f0#0,2-7,9``: VF indexes, both ends included."""
    name, mark, ranges = text.partition("#")
    if not _NETDEV.fullmatch(name) or (mark and not _RANGES.fullmatch(ranges)):
        raise ValueError(f"not a PF name: {text!r}")
    for part in ranges.split(",") if mark else ():
        first, _, last = part.partition("-")
        if not int(first) <= int(last or first) <= MAX_VF_INDEX:
            raise ValueError(f"the range {part} runs backwards, or beyond {MAX_VF_INDEX}")
    return text


PF_NAME = Kind(
    "a PF's network name, with VF indexes if wanted, such as ens1f0#0,2-7,9",
    _parse_pf_name,
    schema={"type": "string", "pattern": f"^{_NETDEV.pattern}(#{_RANGES.pattern})?$"},
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
