"""The commands of the documents, as they are there, on a real cluster.

Which, and in which order: ``tests/cases/docs/commands.yaml``. Names that a reader has to know are replaced by
those of this cluster, and the pod that the documents call ``train`` is there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from cluster.anycluster import IMAGE
from cluster.shell import REPOSITORY, Said, Shell
from cluster.testsite import Site
from harness.flows import run_one_by_one
from harness.hardware import NVIDIA
from harness.pods import Pod

_TABLE: list[dict[str, Any]] = yaml.safe_load((REPOSITORY / "tests/cases/docs/commands.yaml").read_text())
ROWS = [row for row in _TABLE if "cluster" in row]


@pytest.fixture(scope="module")
def shell(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """In a checkout, with the reader's own values beside it."""
    site.configure("most-allocated")
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("charts", "docs/examples"):
        shutil.copytree(REPOSITORY / name, folder / name)
    pod = folder / "docs/examples/test-pod.yaml"
    pod.write_text(pod.read_text().replace("busybox:1.37", IMAGE))
    (folder / "values.yaml").write_text(yaml.safe_dump(site.values("most-allocated")))
    return Shell(site, folder)


@pytest.fixture
def train(site: Site) -> Iterator[None]:
    pod = Pod.of("train", {NVIDIA: 1})
    run_one_by_one(site.node, [pod])
    yield
    site.both.clear()


def test_commands_work(site: Site, shell: Shell, train: None) -> None:
    said: dict[str, Said] = {}
    for row in ROWS:
        command = row["command"]
        site.wait_rolled_out()
        said[command] = shell(_named(command, site), fails=row.get("exit", 0))
        print(f"$ {command}\n{said[command].out}")
    assert "NUMAPlaced" in said["kubectl get events --all-namespaces --field-selector source=numaplace"].out
    (decision,) = (
        one
        for command, text in said.items()
        if 'select(.event == "decision") |' in command and "--tail" in command
        for one in map(json.loads, text.out.splitlines())
        if one["pod"] == "default/train"
    )
    assert decision["resource"] == NVIDIA


def _named(command: str, site: Site) -> str:
    for name, real in (("worker-1", site.node.name), ("<node>", site.node.name)):
        command = command.replace(name, real)
    return command.replace("<pod>", site.node.daemon_pod()) if "<pod>" in command else command
