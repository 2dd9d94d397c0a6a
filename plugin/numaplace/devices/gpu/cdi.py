"""Which CDI devices the container runtime knows.

A container that asks for an unknown CDI device does not start, so a name is given only if a
specification lists it. Format: the Container Device Interface specification, SPEC.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numaplace.devices.files import names_in, read_text
from numaplace.reading.document import load_plain

_SUFFIXES = (".yaml", ".yml", ".json")


class CdiCatalog:
    """The names in the specifications of some directories; a file is parsed again when it has changed."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self._directories = directories
        self._parsed: dict[Path, tuple[tuple[int, int], frozenset[str]]] = {}

    def names(self) -> frozenset[str]:
        """Return every qualified name ``vendor/class=name``. Unusable files are skipped."""
        files = [
            directory / name
            for directory in self._directories
            for name in names_in(directory)
            if name.endswith(_SUFFIXES)
        ]
        self._parsed = {path: entry for path in files if (entry := self._entry(path))}
        return frozenset().union(*(names for _, names in self._parsed.values()))

    def _entry(self, path: Path) -> tuple[tuple[int, int], frozenset[str]] | None:
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._parsed.get(path)
        return known if known and known[0] == stamp else (stamp, _names_of(read_text(path)))


def _names_of(text: str) -> frozenset[str]:
    try:
        spec = load_plain(text)
    except ValueError:
        return frozenset()
    if not isinstance(spec, Mapping) or not isinstance(spec.get("devices"), list):
        return frozenset()
    names = (device.get("name") for device in spec["devices"] if isinstance(device, Mapping))
    return frozenset(f"{spec.get('kind')}={name}" for name in names)
