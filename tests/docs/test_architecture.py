"""The tree in the page on architecture is the tree of the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugin" / "numaplace"
PAGE = (ROOT / "docs/architecture.md").read_text()


def folders(tree: str) -> Iterator[str]:
    """The folders of the tree: those of one level deeper belong to the one before."""
    parent = ""
    for line in tree.splitlines():
        names = re.findall(r"([a-z]+)/(?=\s|$)", line)
        if line.startswith(" "):
            yield from (f"{parent}/{name}" for name in names)
        else:
            parent = names[0]
            yield parent


def test_the_tree_is_the_tree() -> None:
    [tree] = re.findall(r"## The tree\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    packages = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py")} - {"."}
    assert set(folders(tree)) == packages


def test_modules_that_the_page_names_exist() -> None:
    """``room.module`` in prose: the module is there, in that room of that name."""
    modules = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")
    } | {".".join(path.parent.relative_to(PACKAGE).parts) for path in PACKAGE.rglob("__init__.py")}
    rooms = {name.split(".")[0] for name in modules}
    named = {one for one in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", PAGE) if one.split(".")[0] in rooms}
    missing = {
        one
        for one in named
        if one not in modules and one.rpartition(".")[0] not in modules and not _is_abbreviated(one, modules)
    }
    assert missing == set()


def _is_abbreviated(name: str, modules: set[str]) -> bool:
    return any(module.endswith(f".{name}") for module in modules)
