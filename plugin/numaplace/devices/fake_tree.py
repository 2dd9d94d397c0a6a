"""Files, directories and links of a fake host, named relative to its root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class FakeTree:
    """Writes below one root; parents are made as needed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        return self.root / name

    def pci(self, address: str) -> str:
        """Return the name of a PCI function's directory, where a real sysfs has it."""
        domain_bus = address.rsplit(":", 1)[0]
        return f"sys/devices/pci{domain_bus}/{address}"

    def directory(self, name: str) -> str:
        self.path(name).mkdir(parents=True, exist_ok=True)
        return name

    def file(self, name: str, text: str) -> None:
        """Write a file, with the trailing newline that sysfs has."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n" if text else "", encoding="utf-8")

    def link(self, name: str, target: str) -> None:
        """Make or replace a relative symbolic link to ``target``, also a name below the root."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.remove(name)
        path.symlink_to(os.path.relpath(self.path(target), path.parent))

    def remove(self, name: str) -> None:
        """Remove a file, link or directory tree; nothing happens when there is none."""
        path = self.path(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def count(self, name: str, prefix: str) -> int:
        path = self.path(name)
        return sum(entry.startswith(prefix) for entry in os.listdir(path)) if path.is_dir() else 0
