"""``numaplace simulate`` and ``numaplace explain`` from the command line."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from numaplace.cli.console import Console
from numaplace.cli.main import main
from numaplace.cli.progress import Progress

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "docs" / "examples" / "scenario.yaml")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def call(*argv, out=None, err=None):
    console = Console(out=out or io.StringIO(), err=err or io.StringIO(), env={})
    code = main(argv, console)
    return code, console.out.getvalue(), console.err.getvalue()


def test_the_page_shows_what_the_commands_print(monkeypatch):
    """Every `numaplace simulate|explain` of the page is followed by its real output."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "simulate.md").read_text()
    shown = re.findall(
        r"^```sh\nnumaplace ((?:simulate|explain) [^\n]*)\n```\n\n```text\n(.*?)^```", page, re.M | re.S
    )
    assert len(shown) >= 3
    for command, output in shown:
        code, out, err = call(*command.split())
        assert (code, err) == (0, "")
        assert out == output, command
    assert f"```yaml\n{Path(EXAMPLE).read_text()}```" in page


def test_json(monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, _ = call("simulate", EXAMPLE, "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert [step["pod"] for step in document["steps"]] == ["infer", "train", "late"]
    assert [one["id"] for one in document["node"]["numaNodes"]] == [0, 1]


def test_a_wrong_file_is_bad_input(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("node: {numaNodes: [{id: 0}]}\nstep: []\n")
    for command in ("simulate", "explain"):
        code, out, err = call(command, str(file))
        assert (code, out) == (2, "")
        assert err.startswith(f'numaplace: the scenario is refused (1 to fix):\n{file}:2: unknown key "step"')


def test_a_scenario_without_steps_shows_the_node(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("node: {numaNodes: [{id: 0}, {id: 1}]}\n")
    assert call("simulate", str(file)) == (
        0,
        "NUMA nodes 0-1; nothing that a manager could allocate.\n",
        "",
    )
    code, _, err = call("explain", str(file))
    assert code == 2
    assert err == "numaplace: the scenario creates no pod (its pods: none)\n"


def test_explain_of_an_unknown_pod():
    code, _, err = call("explain", EXAMPLE, "--pod", "nobody")
    assert code == 2
    assert err == 'numaplace: the scenario creates no pod "nobody" (its pods: infer, train, late)\n'


def test_explain_names_the_vetoes_and_what_would_help():
    code, out, _ = call("explain", EXAMPLE, "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert document["admitted"] is False
    (decision,) = document["decisions"]
    vetoes = {tuple(mask["numa"]): mask["vetoes"] for mask in decision["masks"]}
    assert vetoes[(0,)] == ["nvidia.com/gpu"]
    assert vetoes[(1,)] == ["nvidia.com/gpu"]
    assert decision["masks"][0]["lacks"] == [{"resource": "nvidia.com/gpu", "free": 0, "requested": 1}]
    assert decision["wouldHelp"] == [
        "NUMA 0 would fit with 1 more nvidia.com/gpu.",
        "NUMA 1 would fit with 1 more nvidia.com/gpu.",
    ]


def test_explain_shows_scores_weights_and_the_rule():
    _, out, _ = call("explain", EXAMPLE, "--pod", "infer", "-o", "json")
    document = json.loads(out)
    (decision,) = document["decisions"]
    assert decision["affinity"] == [1]
    assert (decision["decidedBy"], decision["structural"]) == ("score", [0])
    weights = {one["name"]: one["weight"] for one in decision["resources"]}
    assert weights == {"nvidia.com/gpu": 10, "cpu": 1, "memory": 1}
    first, second, both = decision["masks"]
    assert (first["candidate"]["score"], first["lostBy"]) == (31, "score")
    assert (second["candidate"]["score"], second["chosen"]) == (66, True)
    assert both["candidate"] is None


SPLIT = """
node:
  numaNodes: [{id: 0, cpus: "0-5", memory: 16Gi}, {id: 1, cpus: "6-11", memory: 16Gi}]
kubelet:
  topologyManagerPolicy: POLICY
  topologyManagerScope: SCOPE
  cpuManagerPolicy: static
  reservedSystemCPUs: "0,6"
steps:
  - create: {name: a, containers: [{name: c, cpu: 4, memory: 1Gi}]}
  - create: {name: b, containers: [{name: c, cpu: 4, memory: 1Gi}]}
  - create: {name: late, containers: [{name: c, cpu: 2, memory: 1Gi}]}
"""


@pytest.mark.parametrize(
    ("policy", "scope", "texts"),
    [
        (
            "single-numa-node",
            "container",
            ["Container c: 2 CPUs", "NUMA 0 would fit with 1 more cpu.", "best-effort would admit it there"],
        ),
        (
            "restricted",
            "pod",
            ["All containers together: 2 CPUs", "but not preferred", "would admit it on NUMA 0-1."],
        ),
        ("best-effort", "container", ["NUMA 0-1, decided by: the only choice; not preferred"]),
        ("none", "container", ["policy is none"]),
    ],
)
def test_explain_says_it_in_words(tmp_path, policy, scope, texts):
    file = tmp_path / "s.yaml"
    file.write_text(SPLIT.replace("POLICY", policy).replace("SCOPE", scope))
    code, out, _ = call("explain", str(file))
    assert code == 0
    for text in texts:
        assert text in out


def test_explain_of_eight_nodes_stays_readable(tmp_path):
    nodes = ", ".join(f'{{id: {n}, cpus: "{4 * n}-{4 * n + 3}", memory: 8Gi}}' for n in range(8))
    file = tmp_path / "s.yaml"
    file.write_text(
        f"node: {{numaNodes: [{nodes}]}}\n"
        "kubelet: {topologyManagerPolicy: best-effort, cpuManagerPolicy: static, reservedSystemCPUs: '0'}\n"
        "steps: [{create: {name: p, containers: [{name: c, cpu: 2, memory: 1Gi}]}}]\n"
    )
    _, out, _ = call("explain", str(file))
    assert len(out.splitlines()) < 40
    assert "wider sets of NUMA nodes are not shown" in out


def test_a_long_run_shows_progress_on_a_terminal_only():
    now = iter(range(100))
    err = Terminal()
    progress = Progress(Console(err=err, env={}), 400, clock=lambda: float(next(now)))
    progress(200)
    assert "[###############...............] 200/400 steps" in err.getvalue()
    progress.finish()
    assert err.getvalue().endswith("\r\x1b[K")
    for quiet, total in ((io.StringIO(), 400), (Terminal(), 10)):
        progress = Progress(Console(err=quiet, env={}), total, clock=lambda: float(next(now)))
        progress(5)
        progress.finish()
        assert quiet.getvalue() == ""


def test_colour_on_a_terminal_only():
    _, plain, _ = call("simulate", EXAMPLE)
    _, coloured, _ = call("simulate", EXAMPLE, out=Terminal())
    assert "\x1b[" not in plain
    assert re.sub(r"\x1b\[\d*m", "", coloured).split() == plain.split()
