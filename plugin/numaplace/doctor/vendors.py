"""Socket names of other device plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from numaplace.model.names import ResourceName

SOCKET_NAMES: Mapping[str, Callable[[str, str], str]] = {
    # k8s-device-plugin hard-codes nvidia-<name>.sock; HAMi's plugin takes the same name.
    "the NVIDIA device plugin": lambda prefix, name: f"nvidia-{name}*.sock" if prefix == "nvidia.com" else "",
    # sriov-network-device-plugin, pkg/resources/server.go
    "the SR-IOV network device plugin": lambda prefix, name: f"{prefix}_{name}.sock",
    # kubevirt/device-plugin-manager, pkg/dpm/plugin.go: ROCm's plugin is built on it
    "the ROCm device plugin, or another one built like it": lambda prefix, name: f"{prefix}_{name}",
    # intel-device-plugins-for-kubernetes, pkg/deviceplugin/server.go
    "an Intel device plugin": lambda prefix, name: f"{prefix}-{name}.sock",
}
"""By plugin: the pattern of its socket's name for the resource ``prefix/name``; empty: not served."""


def usual_owner(socket: str, resource: ResourceName) -> str:
    """Return the plugin that would serve the resource on a socket of that name; empty: none known."""
    prefix, _, name = resource.partition("/")
    patterns = ((plugin, pattern(prefix, name)) for plugin, pattern in SOCKET_NAMES.items())
    return next((plugin for plugin, pattern in patterns if pattern and fnmatchcase(socket, pattern)), "")
