"""A fake host that is made once, and written again for each test in a fraction of the time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.fake import FakeHost


@dataclass(frozen=True)
class HostModel:
    """The host, and what lies below its root: folders from the top down, files, and links."""

    host: FakeHost
    folders: tuple[str, ...]
    files: Mapping[str, bytes]
    links: Mapping[str, str]

    @classmethod
    def of(cls, host: FakeHost) -> HostModel:
        root = host.tree.root
        folders, files, links = [], {}, {}
        for path, below, names in os.walk(root):
            for name in (*below, *names):
                one = Path(path, name)
                key = str(one.relative_to(root))
                if one.is_symlink():
                    links[key] = os.readlink(one)
                elif one.is_dir():
                    folders.append(key)
                else:
                    files[key] = one.read_bytes()
        return cls(host, tuple(folders), files, links)

    def written_to(self, root: Path) -> FakeHost:
        """Make the same host below another root."""
        empty = FakeHost(root)
        for name in self.folders:
            if not os.path.isdir(path := f"{root}/{name}"):
                os.mkdir(path)
        for name, content in self.files.items():
            file = os.open(f"{root}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(file, content)
            os.close(file)
        for name, target in self.links.items():
            os.symlink(target, f"{root}/{name}")
        made = deepcopy(self.host)
        made.tree, made.roots = empty.tree, empty.roots
        return made
