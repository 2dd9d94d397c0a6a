"""What docs/simulate.md shows after a command is what the command prints."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from doc_commands import blocks
from numaplace.cli.console import Console
from numaplace.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/simulate.md"


def shown() -> Iterator[tuple[str, str]]:
    found = list(blocks(PAGE))
    for (language, command), (after, output) in pairwise(found):
        if (language, after) == ("sh", "text"):
            yield command, output


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.mark.parametrize(("command", "output"), [pytest.param(*one, id=one[0]) for one in shown()])
def test_the_page_shows_what_is_printed(command: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    out = io.StringIO()
    assert main(shlex.split(command)[1:], Console(out=out, err=io.StringIO(), env={})) == 0
    assert lines(out.getvalue()) == lines(output)


def test_there_are_some() -> None:
    assert len(list(shown())) >= 5
