"""What can be checked of kind where there is no docker, and of the scripts without running them."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from cluster.helm import CHART
from cluster.kind import CONFIGURATION, EQUIP, chart_values, kind_cluster, write_trees
from cluster.kubeconfig import read_credentials
from cluster.testsite import chart_configuration, merged

_E2E = Path(__file__).resolve().parents[1]

# Answers what kind asks before it makes a node's container, tells what it would make, and then fails.
_DOCKER = """#!/bin/sh
case "$1" in
    -v) echo "Docker version 28.0.0, build 0" ;;
    info) echo '{}' ;;
    network) [ "$2" != ls ] || echo kind ;;
    ps | inspect | image) ;;
    run)
        shift
        for argument; do printf '%s\\n' "$argument"; done >"$TOLD/.$$"
        mv "$TOLD/.$$" "$TOLD/$$"
        # kind gives up at the first failure: all three have to be told by then.
        for _ in $(seq 100); do [ "$(ls "$TOLD" | wc -l)" -lt 3 ] || exit 1; sleep 0.05; done
        exit 1 ;;
esac
"""
# Tells its own name and arguments, one command on each line.
_TELLS = """#!/bin/sh
echo "$(basename "$0") $*" >>"$TOLD/commands"
[ "$1 $2" != "docker inspect" ] || echo 1
cat >>"$TOLD/input"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ``bin`` is searched for commands first; what stubs tell goes to ``told``."""
    for name in ("bin", "told"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def stub(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(script)
    path.chmod(0o755)


def create(folder: Path, configuration: Path) -> subprocess.CompletedProcess[str]:
    """Run the real kind up to the moment at which it makes containers."""
    stub(folder, "docker", _DOCKER)
    command = [os.environ["NUMAPLACE_CLUSTER_KIND"], "create", "cluster", f"--config={configuration}"]
    kubeconfig = f"--kubeconfig={folder / 'kubeconfig'}"
    return subprocess.run(
        [*command, kubeconfig], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_scripts() -> None:
    scripts = [str(path) for path in sorted(_E2E.rglob("*.sh"))]
    done = subprocess.run(
        ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--severity=warning", *scripts],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_script_for_the_nodes_of_kind() -> None:
    command = ["shellcheck", "--shell=sh", "-"]
    done = subprocess.run(command, input=EQUIP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_kind_mounts_the_trees_into_the_workers(folder: Path) -> None:
    write_trees(folder)
    done = create(folder, CONFIGURATION)
    containers = [path.read_text().splitlines() for path in (folder / "told").iterdir()]
    assert len(containers) == 3, done.stderr
    mounts = {
        one[one.index("--hostname") + 1]: sorted(
            argument.removeprefix("--volume=")
            for argument in one
            if argument.startswith(f"--volume={folder}")
        )
        for one in containers
    }
    assert mounts == {
        "numaplace-e2e-control-plane": [],
        "numaplace-e2e-worker": _mounts(folder / "n1/host"),
        "numaplace-e2e-worker2": _mounts(folder / "n2/host"),
    }
    for mount in [mount for one in mounts.values() for mount in one]:
        assert Path(mount.partition(":")[0]).is_dir()


def _mounts(trees: Path) -> list[str]:
    system = "sys/devices/system"
    return [f"{trees}/{system}/{one}:/{system}/{one}:ro" for one in ("cpu", "node")] + [
        f"{trees}:/simulated:ro"
    ]


def test_kind_knows_every_key_of_the_configuration(folder: Path) -> None:
    wrong = folder / "wrong.yaml"
    wrong.write_text(CONFIGURATION.read_text().replace("extraMounts", "extraMount"))
    done = create(folder, wrong)
    assert not list((folder / "told").iterdir())
    assert "field extraMount not found" in done.stderr


def test_a_kind_cluster_is_made_equipped_and_deleted(folder: Path) -> None:
    kubeconfig = folder / "kubeconfig"
    for name in ("kind", "docker"):
        stub(folder, name, _TELLS)
    with kind_cluster(folder / "image.tar", folder) as cluster:
        assert [node.name for node in cluster.nodes] == ["numaplace-e2e-worker", "numaplace-e2e-worker2"]
        assert [len(set(node.hardware.node_of.values())) for node in cluster.nodes] == [2, 4]
        wanted = (folder / "told/input").read_text().splitlines()
        assert {"/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd"} <= set(wanted)
    told = (folder / "told/commands").read_text()
    named = f"--name=numaplace-e2e --kubeconfig={kubeconfig}"
    assert told.startswith(f"kind create cluster {named} --config={CONFIGURATION}")
    assert f"kind load image-archive {folder}/image.tar --name=numaplace-e2e" in told
    assert told.endswith(f"kind delete cluster {named}\n")


@pytest.mark.parametrize("inline", [True, False])
def test_credentials_of_a_kubeconfig_file(folder: Path, inline: bool) -> None:
    """As kind writes it: a client's certificate, in the file itself."""
    certificate, key = folder / "client.crt", folder / "client.key"
    made = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=admin"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)

    def told(name: str, path: Path) -> dict[str, str]:
        if inline:
            return {f"{name}-data": base64.b64encode(path.read_bytes()).decode()}
        return {name: str(path)}

    cluster = {"server": "https://127.0.0.1:6443", **told("certificate-authority", certificate)}
    user = {**told("client-certificate", certificate), **told("client-key", key)}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "kind", "cluster": cluster}],
                "users": [{"name": "kind", "user": user}],
                "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}],
                "current-context": "kind",
            }
        )
    )
    known = read_credentials(kubeconfig)
    assert known.server == "https://127.0.0.1:6443"
    assert known.context.cert_store_stats()["x509"] == 1
    assert not known.headers


def test_chart_takes_the_values_for_kind(folder: Path) -> None:
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(merged(chart_configuration("most-allocated"), chart_values())))
    helm = [os.environ["NUMAPLACE_CLUSTER_HELM"], "template", "numaplace", str(CHART), f"--values={values}"]
    done = subprocess.run(helm, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (daemon_set,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "DaemonSet")
    spec = daemon_set["spec"]["template"]["spec"]
    paths = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert len(paths) == len(set(paths))
    assert {f"/host/sys/{name}" for name in ("bus", "class", "devices", "kernel")} <= set(paths)
    assert spec["nodeSelector"]["example.com/simulated"] == "true"
