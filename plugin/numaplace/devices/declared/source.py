"""The ``declared`` source: reads its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from numaplace.devices.declared.load import load_declared
from numaplace.devices.files import existing_directories
from numaplace.devices.numa import NumaCheck
from numaplace.devices.roots import HostRoots
from numaplace.devices.scan import Scan
from numaplace.devices.spec import DeclaredSpec
from numaplace.errors import ConfigError
from numaplace.model.names import ResourceName


class DeclaredSource:
    """Offers the devices of a file. A bad file is a failed scan: what was read before stays."""

    def __init__(self, spec: DeclaredSpec, *, resource: ResourceName, roots: HostRoots) -> None:
        self._file = spec.file
        self._roots = roots

    @property
    def watch_paths(self) -> tuple[Path, ...]:
        """The file's directory: editors and ConfigMap volumes replace files rather than write them."""
        return existing_directories(self._file.parent)

    def scan(self) -> Scan:
        try:
            devices = load_declared(self._file)
        except ConfigError as error:
            return Scan(failed=True, warnings=error.problems)
        numa = NumaCheck(self._roots.sysfs)
        checked = tuple(replace(device, nodes=numa.nodes(device.id, device.nodes)) for device in devices)
        return Scan(checked, warnings=tuple(numa.warnings))
