"""The file of declared devices.

::

    devices:
      - id: widget-0               # required, unique, at most 63 characters
        numaNode: 0                # or numaNodes: [0, 1]; neither: no topology
        group: board-a             # what it shares hardware with
        healthy: true
        deviceNodes: [/dev/widget0, {hostPath: /dev/w, containerPath: /dev/w0, permissions: rw}]
        env: {WIDGET: "0"}         # values of a container's devices are joined with commas
        mounts: [{hostPath: /opt/widget, containerPath: /opt/widget, readOnly: true}]
        cdiDevices: [example.com/widget=0]
        annotations: {}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from numaplace.devices.declared.tree import Value, plain, read_tree
from numaplace.errors import InputError
from numaplace.model.device import ContainerEdits, Device, DeviceNode, Mount
from numaplace.model.mask import MAX_NODE
from numaplace.model.names import MAX_DEVICE_ID_LENGTH, DeviceId

T = TypeVar("T")

TOP_KEYS = ("devices",)
DEVICE_KEYS = (
    "id",
    "numaNode",
    "numaNodes",
    "group",
    "healthy",
    "deviceNodes",
    "env",
    "mounts",
    "cdiDevices",
    "annotations",
)
NODE_KEYS = ("hostPath", "containerPath", "permissions")
MOUNT_KEYS = ("hostPath", "containerPath", "readOnly")
_CDI_NAME = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w-]*=[\w.:-]+", re.ASCII)


def load_declared(file: Path) -> tuple[Device, ...]:
    """Return the devices of ``file`` in its order.

    ``InputError`` holds one line per problem: file, line, key, value and what is allowed.
    """
    reader = _Reader(file)
    devices = reader.devices(read_tree(file))
    if reader.problems:
        raise InputError("\n".join(reader.problems))
    return devices


class _Reader:
    """Turns values into devices and collects problems; a refused value reads as its default."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problems: list[str] = []

    def devices(self, top: Value) -> tuple[Device, ...]:
        listed = top
        if isinstance(top.data, Mapping):
            listed = self.keys(top, TOP_KEYS).get("devices", Value("devices", top.line, None))
        if not isinstance(listed.data, tuple):
            self.refuse(listed, "a list of devices")
            return ()
        devices = tuple(self.device(item) for item in listed.data)
        first: dict[str, Value] = {}
        for item, device in zip(listed.data, devices, strict=True):
            if device.id and (other := first.setdefault(device.id, item)) is not item:
                self.refuse(
                    item, f"each id once, and {other.where} in line {other.line} has {device.id!r} too"
                )
        return devices

    def device(self, value: Value) -> Device:
        keys = self.keys(value, DEVICE_KEYS)
        if "id" not in keys and isinstance(value.data, Mapping):
            self.refuse(value, "a device with an id")
        if "numaNode" in keys and "numaNodes" in keys:
            self.refuse(keys["numaNodes"], "numaNode or numaNodes, not both")
        node = self.read(keys, "numaNode", self.node, default=None)
        no_nodes: tuple[int, ...] = ()
        nodes = self.read(keys, "numaNodes", self.nodes, default=no_nodes)
        return Device(
            id=DeviceId(self.read(keys, "id", self.id, default="")),
            nodes=nodes if node is None else (node,),
            group=self.read(keys, "group", self.text, default=""),
            healthy=self.read(keys, "healthy", self.flag, default=True),
            edits=ContainerEdits(
                env=self.read(keys, "env", self.texts, default={}),
                device_nodes=self.read(keys, "deviceNodes", self.each(self.device_node), default=()),
                mounts=self.read(keys, "mounts", self.each(self.mount), default=()),
                cdi_devices=self.read(keys, "cdiDevices", self.each(self.cdi), default=()),
                annotations=self.read(keys, "annotations", self.texts, default={}),
            ),
        )

    def refuse(self, value: Value, allowed: str) -> None:
        shown = repr(plain(value))
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        where = value.where or "the file"
        self.problems.append(f"{self.file}:{value.line}: {where}: {shown} is not allowed; allowed: {allowed}")

    def keys(self, value: Value, allowed: tuple[str, ...]) -> Mapping[str, Value]:
        if not isinstance(value.data, Mapping):
            self.refuse(value, f"a mapping with keys {', '.join(allowed)}")
            return {}
        for key, item in value.data.items():
            if key not in allowed:
                place = value.where or "the file"
                self.problems.append(
                    f"{self.file}:{item.line}: {place}: unknown key {key!r}; allowed: {', '.join(allowed)}"
                )
        return value.data

    def read(self, keys: Mapping[str, Value], key: str, parse: Callable[[Value], T], *, default: T) -> T:
        return parse(keys[key]) if key in keys else default

    def each(self, parse: Callable[[Value], T]) -> Callable[[Value], tuple[T, ...]]:
        def parse_list(value: Value) -> tuple[T, ...]:
            if isinstance(value.data, tuple):
                return tuple(parse(item) for item in value.data)
            self.refuse(value, "a list")
            return ()

        return parse_list

    def text(self, value: Value) -> str:
        if isinstance(value.data, str):
            return value.data
        self.refuse(value, "text; put numbers and words such as off into quotes")
        return ""

    def id(self, value: Value) -> str:
        text = value.data
        if isinstance(text, str) and 0 < len(text) <= MAX_DEVICE_ID_LENGTH and text.isprintable():
            return text
        self.refuse(
            value, f"printable text of 1 to {MAX_DEVICE_ID_LENGTH} characters; put numbers into quotes"
        )
        return ""

    def flag(self, value: Value) -> bool:
        if not isinstance(value.data, bool):
            self.refuse(value, "true or false")
        return value.data is True

    def node(self, value: Value) -> int | None:
        """Return a node id; null and -1 (as the kernel writes it) mean no topology."""
        number = value.data
        if number is None or (type(number) is int and number == -1):
            return None
        if type(number) is int and 0 <= number <= MAX_NODE:
            return number
        self.refuse(value, f"a NUMA node id of 0 to {MAX_NODE}; null or -1: no topology")
        return None

    def nodes(self, value: Value) -> tuple[int, ...]:
        found = {node for node in self.each(self.node)(value) if node is not None}
        return tuple(sorted(found))

    def texts(self, value: Value) -> Mapping[str, str]:
        if not isinstance(value.data, Mapping):
            self.refuse(value, "a mapping of names to text")
            return {}
        return {key: self.text(item) for key, item in value.data.items()}

    def path(self, value: Value) -> str:
        if isinstance(value.data, str) and value.data.startswith("/"):
            return value.data
        self.refuse(value, "an absolute path")
        return ""

    def device_node(self, value: Value) -> DeviceNode:
        if isinstance(value.data, str):
            path = self.path(value)
            return DeviceNode(path, path)
        keys = self.keys(value, NODE_KEYS)
        host, container = self.host_and_container(value, keys)
        return DeviceNode(host, container, self.read(keys, "permissions", self.permissions, default="rw"))

    def mount(self, value: Value) -> Mount:
        keys = self.keys(value, MOUNT_KEYS)
        host, container = self.host_and_container(value, keys)
        return Mount(host, container, self.read(keys, "readOnly", self.flag, default=True))

    def host_and_container(self, value: Value, keys: Mapping[str, Value]) -> tuple[str, str]:
        if keys and "hostPath" not in keys:
            self.refuse(value, "a mapping with a hostPath")
        host = self.read(keys, "hostPath", self.path, default="")
        return host, self.read(keys, "containerPath", self.path, default=host)

    def permissions(self, value: Value) -> str:
        text = value.data
        if isinstance(text, str) and text and set(text) <= set("mrw") and len(set(text)) == len(text):
            return text
        self.refuse(value, "letters of mrw, each once")
        return "rw"

    def cdi(self, value: Value) -> str:
        if isinstance(value.data, str) and _CDI_NAME.fullmatch(value.data):
            return value.data
        self.refuse(value, "a CDI device name such as example.com/widget=0")
        return ""
