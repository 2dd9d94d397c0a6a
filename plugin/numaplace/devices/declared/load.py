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

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from numaplace.errors import ConfigError
from numaplace.model.device import ContainerEdits, Device, DeviceNode, Mount
from numaplace.model.mask import MAX_NODE
from numaplace.model.names import DeviceId
from numaplace.reading.document import Scalar, parse_document, read_text
from numaplace.reading.keys import Keys
from numaplace.reading.kinds import BOOL, TEXT, integer, matching
from numaplace.reading.names import DEVICE_ID, NUMA_NODE
from numaplace.reading.readers import Leaf

MAX_FILE_BYTES = 4 << 20
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
_ID = replace(DEVICE_ID, quoted=True)
_QUOTED_TEXT = replace(TEXT, quoted=True)
# The kernel writes -1 for a device without a NUMA node.
_NODE = replace(integer(-1, MAX_NODE), allowed=f"{NUMA_NODE.allowed}, or -1 for no topology")
_PATH = matching("/.*", "an absolute path")
_PERMISSIONS = matching("(?!.*(.).*\\1)[mrw]+", "letters of mrw, each once")
_CDI_NAME = matching(
    r"[A-Za-z][\w.-]*/[A-Za-z][\w-]*=[\w.:-]+", "a CDI device name such as example.com/widget=0"
)


def load_declared(file: Path) -> tuple[Device, ...]:
    """Return the devices of ``file`` in its order. Raises ``ConfigError`` with every problem found."""
    text = read_text(file, max_bytes=MAX_FILE_BYTES)
    top, problems = parse_document(text, source=str(file), list_key=TOP_KEYS[0])
    devices = tuple(_devices(Keys(top, "", problems)))
    if problems:
        raise ConfigError(tuple(problems))
    return devices


def _devices(keys: Keys) -> Iterator[Device]:
    first: dict[DeviceId, str] = {}
    allowed = f"a mapping of {', '.join(DEVICE_KEYS)}"
    for one in keys.mappings(TOP_KEYS[0], allowed=allowed, required="a list of devices"):
        device = _device(one)
        if device.id in first:
            one.problem(f'"{device.id}" is given twice, first at {first[device.id]}', name="id")
        elif device.id:
            first[device.id] = f"{one.place('id')}: {one.path('id')}"
        yield device
    keys.refuse_rest()


def _device(keys: Keys) -> Device:
    id_ = keys.required("id", _ID, DeviceId(""))
    nodes = {keys.value("numaNode", _NODE, -1), *keys.values("numaNodes", _NODE)} - {-1}
    if {"numaNode", "numaNodes"} <= keys.section.entries.keys():
        keys.problem("is given beside numaNode: allowed is one of the two", name="numaNodes")
    device = Device(
        id=id_,
        nodes=tuple(sorted(nodes)),
        group=keys.value("group", _QUOTED_TEXT, ""),
        healthy=keys.value("healthy", BOOL, default=True),
        edits=ContainerEdits(
            device_nodes=tuple(_device_nodes(keys)),
            env=keys.texts("env", _QUOTED_TEXT),
            mounts=tuple(map(_mount, keys.mappings("mounts"))),
            cdi_devices=keys.values("cdiDevices", _CDI_NAME),
            annotations=keys.texts("annotations", _QUOTED_TEXT),
        ),
    )
    keys.refuse_rest()
    return device


def _device_nodes(keys: Keys) -> Iterator[DeviceNode]:
    for name, item in keys.items("deviceNodes", allowed="a list of paths and mappings"):
        if isinstance(item, Scalar):
            path = keys.read(Leaf(_PATH), item, name=name, default="")
            yield DeviceNode(path, path)
        elif (one := keys.open(name, item)) is not None:
            paths = _host_and_container(one)
            yield DeviceNode(*paths, one.value("permissions", _PERMISSIONS, "rw"))
            one.refuse_rest()


def _mount(keys: Keys) -> Mount:
    mount = Mount(*_host_and_container(keys), keys.value("readOnly", BOOL, default=True))
    keys.refuse_rest()
    return mount


def _host_and_container(keys: Keys) -> tuple[str, str]:
    host = keys.required("hostPath", _PATH, "")
    return host, keys.value("containerPath", _PATH, host)
