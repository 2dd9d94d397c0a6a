"""``kubectl numaplace`` with a kubectl that answers from a file. The real one: e2e/cluster."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from numaplace import __version__

FOLDER = Path(__file__).parents[2] / "kubectl-plugin"
FAKE = Path(__file__).with_name("fake_kubectl.py")
FILE = "/etc/numaplace/config.yaml"


def pod(node: str, name: str, *, phase: str = "Running", deleted: str = "", ready: str = "true") -> str:
    return f'{node}|{name}|{phase}|{deleted}|{ready}|["run","--config","{FILE}"]'


ONE = (pod("worker-1", "np-1"),)
TWO = (*ONE, pod("worker-2", "np-2"))


@dataclass
class Done:
    code: int
    out: str
    err: str


@dataclass
class Plugin:
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def site(
        self,
        pods: Sequence[str],
        *,
        said: Mapping[str, tuple[str, str, int]] | None = None,
        refused: Sequence[str] = (),
        nodes: Sequence[str] = ("worker-1", "worker-2", "worker-3"),
    ) -> None:
        site = {"pods": pods, "said": said or {}, "refused": refused, "nodes": nodes}
        (self.folder / "site.json").write_text(json.dumps(site))

    def __call__(self, *arguments: str, program: str = "kubectl-numaplace") -> Done:
        path = f"{self.folder}:{FOLDER}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(FOLDER / program), *arguments],
            env={"PATH": path, "HOME": "/nonexistent", **self.env},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def calls(self, verb: str) -> list[list[str]]:
        """The calls of kubectl with this verb."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [call for call in map(json.loads, lines) if verb in call]

    def ran(self) -> list[list[str]]:
        """What was run in pods."""
        return [call[call.index("--") + 1 :] for call in self.calls("exec")]


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(FAKE), str(tmp_path)])} "$@"\n')
    kubectl.chmod(0o755)
    return Plugin(tmp_path)


@pytest.mark.parametrize(
    ("asked", "ran"),
    [
        (("inspect",), ["numaplace", "inspect", "--config", FILE]),
        (("inspect", "-o", "json"), ["numaplace", "inspect", "--config", FILE, "-o", "json"]),
        (("doctor", "--node", "worker-1"), ["numaplace", "doctor", "--config", FILE]),
        (("--node=worker-1", "doctor", "-ojson"), ["numaplace", "doctor", "--config", FILE, "-ojson"]),
        (("config", "check"), ["numaplace", "config", "check", FILE]),
        (("config", "check", "-o", "json"), ["numaplace", "config", "check", FILE, "-o", "json"]),
        (("doctor", "--socket", "/a b"), ["numaplace", "doctor", "--config", FILE, "--socket", "/a b"]),
        (("inspect", "--", "--node"), ["numaplace", "inspect", "--config", FILE, "--node"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_runs_the_command_in_the_pod_and_passes_what_it_says(
    plugin: Plugin, asked: tuple[str, ...], ran: list[str]
) -> None:
    plugin.site(ONE, said={"np-1": ("a table\n\nand one more\n", "a warning\n", 1)})
    done = plugin(*asked)
    assert done == Done(1, "a table\n\nand one more\n", "a warning\n")
    assert plugin.ran() == [ran]
    (call,) = plugin.calls("exec")
    assert call[:6] == ["exec", "--namespace", "numaplace", "np-1", "--container", "numaplace"]


@pytest.mark.parametrize(
    "argument", ["--config=/a b/c.yaml", '--config","/a b/c.yaml', '--http","off","--config","/a b/c.yaml']
)
def test_the_configuration_file_is_the_one_of_the_daemon(plugin: Plugin, argument: str) -> None:
    plugin.site((f'worker-1|np-1|Running||true|["run","{argument}"]',), said={"np-1": ("", "", 0)})
    assert plugin("config", "check").code == 0
    assert plugin.ran() == [["numaplace", "config", "check", "/a b/c.yaml"]]


def test_a_daemon_without_a_configuration_file(plugin: Plugin) -> None:
    plugin.site(('worker-1|np-1|Running||true|["run"]',), said={"np-1": ("fine\n", "", 0)})
    assert plugin("doctor").out == "fine\n"
    assert plugin.ran() == [["numaplace", "doctor"]]
    done = plugin("config", "check")
    assert (done.code, done.out) == (1, "")
    assert "names no configuration file" in done.err


def test_options_of_kubectl_and_the_way_to_the_pods(plugin: Plugin) -> None:
    plugin.site(ONE, said={"np-1": ("", "", 0)})
    plugin("inspect", "--context", "one of two", "-n", "kube-system", "-l", "app=np", "--container=np")
    for call in plugin.calls("--context=one of two"):
        assert call[call.index("--namespace") + 1] == "kube-system"
    (listed,) = plugin.calls("get")
    assert listed[listed.index("--selector") + 1] == "app=np"
    (ran,) = plugin.calls("exec")
    assert ran[ran.index("--container") + 1] == "np"
    plugin.env["NUMAPLACE_NAMESPACE"] = "infra"
    plugin("inspect")
    assert "infra" in plugin.calls("exec")[-1]


def test_several_nodes_have_their_name_above_and_the_worst_code(plugin: Plugin) -> None:
    plugin.site(TWO, said={"np-1": ("fine\n", "", 0), "np-2": ("not fine\n", "", 1)})
    done = plugin("doctor", "--all-nodes")
    assert done == Done(1, "=== worker-1 ===\nfine\n\n=== worker-2 ===\nnot fine\n", "")
    again = plugin("doctor", "--node", "worker-2", "--node", "worker-1")
    assert again.out == "=== worker-2 ===\nnot fine\n\n=== worker-1 ===\nfine\n"


def test_many_nodes_are_told_in_order_and_each_once(plugin: Plugin) -> None:
    names = [f"worker-{number:02}" for number in range(19)]
    said = {f"np-{name}": (f"{name}\n", f"error of {name}\n", 0) for name in names}
    plugin.site([pod(name, f"np-{name}") for name in reversed(names)], said=said)
    done = plugin("inspect", "--all-nodes")
    assert done.code == 0
    assert done.out == "\n".join(f"=== {name} ===\n{name}\n" for name in names)
    assert done.err.split("\n") == [*(f"error of {name}" for name in names), ""]


def test_several_nodes_as_json_are_one_object(plugin: Plugin) -> None:
    pods = (*TWO, pod("worker-3", "np-3", phase="Pending", ready=""))
    said: dict[str, tuple[str, str, int]] = {
        "np-1": ('{"ok":\n true}\n', "", 0),
        "np-2": ("", "numaplace: refused\n", 2),
    }
    plugin.site(pods, said=said)
    done = plugin("doctor", "--all-nodes", "-o", "json")
    assert json.loads(done.out) == {"worker-1": {"ok": True}, "worker-2": None, "worker-3": None}
    assert done.code == 2
    assert "numaplace: refused" in done.err
    assert "worker-3 is not running (pod np-3: Pending)" in done.err


def test_one_of_several_has_to_be_named(plugin: Plugin) -> None:
    plugin.site(TWO)
    done = plugin("inspect")
    assert (done.code, done.out) == (2, "")
    assert "several nodes have a daemon: worker-1 worker-2. Name one with --node" in done.err


def test_the_pod_that_runs_is_asked_and_not_the_one_that_ends(plugin: Plugin) -> None:
    pods = (
        pod("worker-1", "old", deleted="2026-11-30T00:00:00Z"),
        pod("worker-1", "failed", phase="Failed", ready="false"),
        pod("worker-1", "new"),
    )
    plugin.site(pods, said={"new": ("fine\n", "", 0)})
    assert plugin("inspect") == Done(0, "fine\n", "")


def case(text: str, *arguments: str, code: int = 1, **site: Any) -> Any:
    return pytest.param(arguments, {"pods": TWO, **site}, code, text, id=text)


@pytest.mark.parametrize(
    ("arguments", "site", "code", "text"),
    [
        case("there is no node nowhere; these have a daemon: worker-1 worker-2", "doctor", "--node=nowhere"),
        case("node worker-3 has no daemon in namespace numaplace", "doctor", "--node", "worker-3"),
        case(
            "node nowhere has no daemon in namespace numaplace",
            "doctor", "--node", "nowhere", refused=["get nodes"],
        ),
        case("there is no pod with app.kubernetes.io/name=numaplace", "doctor", pods=()),
        case("Another namespace: --namespace NAME", "doctor", "--node", "worker-1", pods=()),
        case("Another namespace: --namespace", "nodes", pods=()),
        case(
            "is not running (pod np-1: being deleted, Running)",
            "doctor", "--node", "worker-1", pods=(pod("worker-1", "np-1", deleted="2026-11-30T00:00:00Z"),),
        ),
        case("this user may not list pods in namespace numaplace", "doctor", refused=["list pods"]),
        case(
            "this user may not exec there; it takes: get and list on pods, get and create on pods/exec",
            "doctor", "--node", "worker-1", refused=["create pods exec"],
        ),
        case(
            "this user may not read logs there",
            "logs", "--node", "worker-1", refused=["logs pods", "get pods log"],
        ),
        case(
            "pod np-1 is not Ready. Its log: kubectl --namespace numaplace logs np-1",
            "doctor",
            pods=(pod("worker-1", "np-1", ready="false"),), said={"np-1": ("", "container not found\n", 1)},
        ),
        case("unknown command: run", "run", code=2),
        case("unknown command: demo", "demo", code=2),
        case("config has one subcommand: check", "config", code=2),
        case("--node needs a value", "doctor", "--node", code=2),
        case("--namespace needs a value", "doctor", "--namespace=", code=2),
        case("either --node or --all-nodes", "doctor", "--node", "worker-1", "--all-nodes", code=2),
        case("nodes takes no argument: -o", "nodes", "-o", "json", code=2),
        case("usage: kubectl numaplace", code=2),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    plugin: Plugin, arguments: tuple[str, ...], site: dict[str, Any], code: int, text: str
) -> None:
    plugin.site(**site)
    done = plugin(*arguments)
    assert done.code == code
    assert done.out == ""
    assert text in done.err


def test_nothing_runs_in_a_pod_that_is_not_a_question(plugin: Plugin) -> None:
    plugin.site(ONE, said={"np-1": ("", "", 0)})
    for command in ("run", "demo", "simulate", "explain", "config set", "sh"):
        assert plugin(*command.split()).code == 2
    assert not (plugin.folder / "calls").exists()


def test_no_kubectl(plugin: Plugin) -> None:
    plugin.env["KUBECTL"] = "kubectl-of-nowhere"
    done = plugin("inspect")
    assert (done.code, done.err) == (1, "kubectl numaplace: there is no kubectl-of-nowhere on the PATH\n")


def test_nodes(plugin: Plugin) -> None:
    plugin.site((*reversed(TWO), pod("", "np-3", phase="Pending", ready="")))
    lines = [line.split() for line in plugin("nodes").out.splitlines()]
    assert lines == [
        ["NODE", "POD", "PHASE", "READY"],
        ["worker-1", "np-1", "Running", "true"],
        ["worker-2", "np-2", "Running", "true"],
        ["-", "np-3", "Pending", "-"],
    ]


def test_logs_pass_arguments_to_kubectl(plugin: Plugin) -> None:
    plugin.site(ONE, said={"np-1": ("{}\n", "", 0)})
    assert plugin("logs", "--tail", "1", "-f") == Done(0, "{}\n", "")
    assert plugin.calls("logs")[0][-3:] == ["--tail", "1", "-f"]


@pytest.mark.parametrize("arguments", [("--help",), ("inspect", "-h"), ("nonsense", "--help")])
def test_help_asks_nobody(plugin: Plugin, arguments: tuple[str, ...]) -> None:
    done = plugin(*arguments)
    assert (done.code, done.err) == (0, "")
    for word in ("inspect", "doctor", "config check", "--node", "--all-nodes", "exit codes"):
        assert word in done.out
    assert not (plugin.folder / "calls").exists()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("",), ["inspect", "doctor", "config", "logs", "nodes"]),
        (("config", ""), ["check"]),
        (("doctor", "--node", "w"), ["worker-1", "worker-2"]),
        (("doctor", "-o", ""), ["table", "json"]),
    ],
)
def test_completion(plugin: Plugin, words: tuple[str, ...], offered: list[str]) -> None:
    plugin.site(TWO)
    done = plugin(*words, program="kubectl_complete-numaplace")
    assert (done.code, done.out.split()) == (0, [*offered, ":4"])


def test_package_for_krew(tmp_path: Path) -> None:
    """What krew does with it: fetch, compare the checksum, unpack, link the program."""
    for name in ("first", "again"):
        subprocess.run([str(FOLDER / "package.sh"), str(tmp_path / name)], check=True, capture_output=True)
    archive = tmp_path / "first/kubectl-numaplace.tar.gz"
    assert archive.read_bytes() == (tmp_path / "again/kubectl-numaplace.tar.gz").read_bytes()
    manifest = yaml.safe_load((tmp_path / "first/numaplace.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert manifest["spec"]["version"] == f"v{__version__}"
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
        assert {one["from"] for one in platform["files"]} == set(packed.getnames())
    done = subprocess.run(
        [str(tmp_path / platform["bin"]), "--help"], check=True, capture_output=True, text=True
    )
    assert "kubectl numaplace COMMAND" in done.stdout
