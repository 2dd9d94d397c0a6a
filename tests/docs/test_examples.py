"""What the documents show works: examples are accepted, links lead somewhere, tables agree with the cases."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numaplace.cli import run
from numaplace.config.fields import fields_of
from numaplace.config.load import Loaded, load_config
from numaplace.config.schema import Config
from numaplace.devices.declared.load import load_declared
from yaml_text import read_all_yaml, read_yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples"
DOCUMENTS = sorted(path for folder in (".", "docs", "e2e", "proto") for path in (ROOT / folder).glob("*.md"))
CONFIG_KEYS = {field.key for field in fields_of(Config)}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def accepted(text: str, folder: Path) -> Loaded:
    """Load a configuration; files of /etc/numaplace are those of docs/examples."""
    file = folder / "config.yaml"
    file.write_text(text.replace("/etc/numaplace/", f"{EXAMPLES}/"))
    return load_config(file, env={}, flags={})


def config_blocks() -> Iterator[Any]:
    for document in DOCUMENTS:
        for number, (language, text) in enumerate(_FENCE.findall(document.read_text())):
            if language != "yaml":
                continue
            parsed = read_yaml(text)
            if not isinstance(parsed, dict) or parsed.keys() & {"apiVersion", "steps"}:
                continue  # a Kubernetes object, or a scenario
            if parsed.keys() & CONFIG_KEYS:
                yield pytest.param(text, id=f"{document.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize("text", list(config_blocks()))
def test_configurations_in_documents_are_accepted(text: str, tmp_path: Path) -> None:
    assert accepted(text, tmp_path).warnings == ()


def test_example_configuration_is_accepted(tmp_path: Path) -> None:
    loaded = accepted((EXAMPLES / "config.yaml").read_text(), tmp_path)
    assert loaded.warnings == ()
    declared = [one.declared.file for one in loaded.config.resources if one.declared]
    assert all(load_declared(file) for file in declared)
    assert declared


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_example_files_are_yaml(file: Path) -> None:
    assert read_all_yaml(file.read_text())


@pytest.fixture
def manifests() -> dict[str, dict[str, Any]]:
    found = read_all_yaml((EXAMPLES / "daemonset.yaml").read_text())
    return {manifest["kind"]: manifest for manifest in found}


def test_daemonset_mounts_what_its_configuration_names(
    manifests: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    loaded = accepted(manifests["ConfigMap"]["data"]["config.yaml"], tmp_path)
    assert loaded.warnings == ()
    pod = manifests["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {Path(mount["mountPath"]): mount for mount in container["volumeMounts"]}
    kubelet, host = loaded.config.kubelet, loaded.config.host
    needed = [kubelet.device_plugin_directory, kubelet.pod_resources_socket.parent, host.sysfs, host.devfs]
    assert set(needed) <= mounted.keys()
    assert any(path.is_relative_to(host.procfs) for path in mounted)
    assert {mount["name"] for mount in mounted.values()} == {volume["name"] for volume in pod["volumes"]}
    writable = [path for path, mount in mounted.items() if not mount.get("readOnly")]
    assert writable == [kubelet.device_plugin_directory]


def test_daemonset_is_restricted_and_mounts_folders_only(manifests: dict[str, dict[str, Any]]) -> None:
    pod = manifests["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {volume["hostPath"]["type"] for volume in pod["volumes"] if "hostPath" in volume}
    assert kinds <= {"Directory", "DirectoryOrCreate"}


def test_commands_of_unit_and_daemonset_are_understood(manifests: dict[str, dict[str, Any]]) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(EXAMPLES / "numaplace.service")
    command = shlex.split(unit["Service"]["ExecStart"])
    (container,) = manifests["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    for arguments in (command[1:], container["args"]):
        assert arguments[0] == "run"
        assert run.parser().parse_args(arguments[1:]).config == "/etc/numaplace/config.yaml"


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives to headings: lower case, no punctuation, hyphens for spaces."""
    text = _FENCE.sub("", document.read_text())
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(text))
    return {title.strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    prose = _CODE.sub("", _FENCE.sub("", document.read_text()))
    broken = []
    for link in _LINK.findall(prose):
        path, _, anchor = link.partition("#")
        target = document if not path else document.parent / path
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def kep_rows() -> Iterator[Any]:
    cases = json.loads((ROOT / "tests/cases/engine/kep6007.json").read_text())
    for example in cases["examples"]:
        for row in example["rows"]:
            weights = f"`{row['weights']}`" if row["weights"] else "(none)"
            scores = [str(score) for _, score in sorted(row["aggregate"].items())]
            cells = [weights, f"`{row['strategy']}`", *scores, str(row["selected"])]
            yield pytest.param(f"| {' | '.join(cells)} |", id=f"{row['weights'] or 'none'}-{row['strategy']}")


@pytest.mark.parametrize("row", list(kep_rows()))
def test_concepts_show_the_worked_examples(row: str) -> None:
    assert row in (ROOT / "docs/concepts.md").read_text().splitlines()
