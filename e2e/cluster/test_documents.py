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
    text = pod.read_text().replace("busybox:1.37", IMAGE)
    pod.write_text(text.replace("spec:\n", "spec:\n  terminationGracePeriodSeconds: 0\n", 1))
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
        if shutil.which("jq") is None:
            command = command.partition(" | jq")[0]
        site.wait_rolled_out()
        said[command] = shell(_named(command, site), fails=row.get("exit", 0))
        print(f"$ {command}\n{said[command].out}")
    assert "NUMAPlaced" in said["kubectl get events --all-namespaces --field-selector source=numaplace"].out
    decisions = [
        json.loads(line)
        for command, text in said.items()
        if "jq -c" in command and "--tail 1000" in command
        for line in text.out.splitlines()
    ]
    assert not decisions or "default/train" in {one["pod"] for one in decisions}


def _named(command: str, site: Site) -> str:
    for name, real in (("worker-1", site.node.name), ("<node>", site.node.name)):
        command = command.replace(name, real)
    return command.replace("<pod>", site.node.daemon_pod()) if "<pod>" in command else command


def test_memory_is_as_documented(site: Site) -> None:
    """docs/benchmarks.md names the limit; here with the credentials of a pod."""
    for node in site.nodes:
        resident_mib = node.metrics(node.metrics_url())["process_resident_memory_bytes"] / (1 << 20)
        print(f"{node.name}: {resident_mib:.1f} MiB")
        assert resident_mib < 75
