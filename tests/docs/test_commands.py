"""Every shell command in the documents for users is known: run here, by another test, or on a real cluster.

``cases/docs/commands.yaml`` says for each how that is known. A command that is not in it fails, and one that
no document has any more does, too.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doc_commands import LANGUAGES, blocks, commands
from numaplace.cli.console import Console
from numaplace.cli.main import COMMANDS, main
from yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TABLE: list[dict[str, Any]] = read_yaml((ROOT / "tests/cases/docs/commands.yaml").read_text())
KNOWN = {row["command"]: row for row in TABLE}
SHOWN = {command: document for document in DOCUMENTS for command in commands(document)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_document_are_known(document: Path) -> None:
    unknown = [command for command in commands(document) if command not in KNOWN]
    assert unknown == [], "say in tests/cases/docs/commands.yaml how these are known to work"


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_code_blocks_say_what_they_are(document: Path) -> None:
    """Otherwise a command could pass as output."""
    assert {language for language, _ in blocks(document)} <= LANGUAGES


def test_the_table_has_each_command_once_and_none_that_nobody_shows() -> None:
    assert len(KNOWN) == len(TABLE)
    assert [command for command in KNOWN if command not in SHOWN] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_words_of_the_text_that_are_commands_exist(document: Path) -> None:
    text = document.read_text()
    plugin = (ROOT / "kubectl-plugin/kubectl-numaplace").read_text()
    for before, word in re.findall(r"`(kubectl )?numaplace ([a-z][a-z-]*)", text):
        assert re.search(rf"^  {word}\b", plugin, re.MULTILINE) if before else word in COMMANDS, word


def by_test(value: str) -> None:
    path, _, name = value.partition("::")
    text = (ROOT / path).read_text()
    assert not name or re.search(rf"^(async )?def {name}\(|^{name}\(\)", text, re.MULTILINE), value


def by_target(value: str) -> None:
    """Run by whoever runs that make target."""
    assert re.search(rf"^{value}:", (ROOT / "Makefile").read_text(), re.MULTILINE), value


def by_cluster(value: str) -> None:
    """Run by e2e/cluster/test_documents.py."""
    assert value == "literally"


def by_reason(value: str) -> None:
    """Not run: a sentence that says why."""
    assert value.endswith(".")
    assert len(value.split()) > 4


PROOFS: dict[str, Callable[[str], None]] = {
    "test": by_test,
    "target": by_target,
    "cluster": by_cluster,
    "not run": by_reason,
}


@pytest.mark.parametrize("row", [row for row in TABLE if "run" not in row], ids=lambda row: row["command"])
def test_how_a_command_is_known_to_work(row: dict[str, Any]) -> None:
    proofs = row.keys() - {"command", "exit"}
    assert len(proofs) == 1
    (proof,) = proofs
    PROOFS[proof](row[proof])


@pytest.mark.parametrize("row", [row for row in TABLE if "run" in row], ids=lambda row: row["command"])
def test_command_works(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the repository's root, with the files of docs/examples in /etc/numaplace."""
    monkeypatch.chdir(ROOT)
    for file in (ROOT / "docs/examples").glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text().replace("/etc/numaplace/", f"{tmp_path}/"))
    command = row["command"].replace("/etc/numaplace/", f"{tmp_path}/").removeprefix("/opt/numaplace/bin/")
    program, *arguments = shlex.split(command)
    assert program == "numaplace"
    console = Console(out=io.StringIO(), err=io.StringIO(), env={})
    assert main(arguments, console) == row["run"]["exit"], console.err.getvalue()
    assert row["run"]["prints"] in console.out.getvalue() + console.err.getvalue()
