"""``kubectl numaplace``, as kubectl finds it on the PATH, and with the rights that its page names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml
from cluster.shell import REPOSITORY, Said, Shell
from cluster.testsite import NAMESPACE, Site
from harness.hardware import NVIDIA, VF

_USER = "asker"
_BINDINGS = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
_ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"


@pytest.fixture(scope="module")
def shell(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    site.configure("most-allocated")
    return Shell(site, tmp_path_factory.mktemp("shell"))


def test_shellcheck_finds_nothing(shell: Shell) -> None:
    scripts = (REPOSITORY / "kubectl-plugin").iterdir()
    shell(f"shellcheck {' '.join(str(path) for path in scripts)}")


def test_kubectl_knows_the_plugin(shell: Shell) -> None:
    assert "kubectl-numaplace" in shell("kubectl plugin list").out
    assert "who holds what" in shell("kubectl numaplace --help").out


def test_nodes(site: Site, shell: Shell) -> None:
    lines = [line.split() for line in shell("kubectl numaplace nodes").out.splitlines()]
    assert lines[1:] == [[node.name, node.daemon_pod(), "Running", "true"] for node in site.nodes]


def test_inspect_says_what_the_kubelets_say(site: Site, shell: Shell) -> None:
    for node in site.nodes:
        node.deploy(f"asked-{node.name}", {NVIDIA: 2, VF: 1}, replicas=1)
    said = json.loads(shell("kubectl numaplace inspect --all-nodes -o json").out)
    assert list(said) == [node.name for node in site.nodes]
    for node in site.nodes:
        ((pod, held),) = node.held_by(f"asked-{node.name}").items()
        (shown,) = (one for one in said[node.name]["pods"] if one["name"] == pod)
        (container,) = shown["containers"]
        devices = {one["resource"]: set(one["ids"]) for one in container["devices"]}
        assert devices == {name: set(ids) for name, ids in held["main"].devices.items()}
        one = json.loads(shell(f"kubectl numaplace inspect --node {node.name} -o json").out)
        assert one["pods"] == said[node.name]["pods"]
    text = shell("kubectl numaplace inspect --all-nodes").out
    assert re.findall(r"^=== (.*) ===$", text, re.MULTILINE) == [node.name for node in site.nodes]


def test_doctor_finds_nothing_to_fix(site: Site, shell: Shell) -> None:
    said = json.loads(shell("kubectl numaplace doctor --all-nodes -o json").out)
    mended = {
        name: {one["check"] for one in report["findings"] if one["level"] in ("problem", "warning")}
        for name, report in said.items()
    }
    # A daemon that may not see the kubelet's configuration cannot steer, and says so.
    assert all(checks <= {"steering"} for checks in mended.values()), mended
    assert list(mended) == [node.name for node in site.nodes]
    print(shell(f"kubectl numaplace doctor --node {site.node.name}").out)


def test_config_check(site: Site, shell: Shell) -> None:
    said = shell(f"kubectl numaplace config check --node {site.node.name}")
    assert "/etc/numaplace/config.yaml: valid" in said.out
    found = json.loads(shell(f"kubectl numaplace config check --node {site.node.name} -o json").out)
    assert found["strategy"] == "most-allocated"


def test_logs_and_completion(site: Site, shell: Shell) -> None:
    lines = shell(f"kubectl numaplace logs --node {site.node.name} --tail 5").out.splitlines()
    assert len(lines) == 5
    assert all(json.loads(line)["event"] for line in lines)
    # What kubectl's own completion runs for the words of a plugin.
    offered = shell("kubectl __complete numaplace inspect --node ''").out.split()
    assert {node.name for node in site.nodes} <= set(offered)


def test_what_is_wrong_is_said(site: Site, shell: Shell) -> None:
    names = " ".join(node.name for node in site.nodes)
    _refused(shell("kubectl numaplace inspect", fails=2), f"several nodes have a daemon: {names}")
    _refused(
        shell("kubectl numaplace inspect --node n9", fails=1), f"no node n9; these have a daemon: {names}"
    )
    _refused(shell("kubectl numaplace inspect -n default", fails=1), "in namespace default")
    refused = shell("kubectl numaplace inspect --node n1 --as nobody", fails=1)
    _refused(refused, "this user may not list pods in namespace numaplace")


@pytest.fixture
def role(site: Site) -> Iterator[None]:
    """The Role of docs/kubectl.md, for a user."""
    page = (REPOSITORY / "docs/kubectl.md").read_text()
    (manifest,) = (
        yaml.safe_load(text)
        for text in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "kind: Role" in text
    )
    name = manifest["metadata"]["name"]
    site.api.create(_ROLES, manifest)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": _USER}],
    }
    site.api.create(_BINDINGS, binding)
    yield
    site.api.delete(f"{_BINDINGS}/{name}")
    site.api.delete(f"{_ROLES}/{name}")


def test_the_documented_role_is_enough(shell: Shell, role: None) -> None:
    for command in ("inspect", "doctor", "config check"):
        assert shell(f"kubectl numaplace {command} --all-nodes --as {_USER}").out
    assert shell(f"kubectl numaplace logs --node n1 --tail 1 --as {_USER}").out


def test_who_may_not_exec_is_told(shell: Shell, role: None, site: Site) -> None:
    name = "numaplace-ask"
    site.api.patch(
        f"{_ROLES}/{name}", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}
    )
    _refused(
        shell(f"kubectl numaplace inspect --node n1 --as {_USER}", fails=1), "this user may not exec there"
    )
    _refused(
        shell(f"kubectl numaplace logs --node n1 --as {_USER}", fails=1), "this user may not read logs there"
    )


def _refused(said: Said, text: str) -> None:
    assert text in said.err
    assert said.out == ""
