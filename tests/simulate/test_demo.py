"""``numaplace demo``: the promise of the first page of the README."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from in_memory import PLACE
from numaplace.cli.demo import run_table, summary
from numaplace.model.names import ResourceName
from numaplace.simulate.demo import DemoRun, Landing, reason_of
from numaplace.simulate.process import DaemonProcess
from numaplace.simulate.story import ARRIVING, PER_NODE, RUNNING, SETTINGS

ROOT = Path(__file__).parents[2]

HANG_SECONDS = 90.0
"""No promise of speed: five daemons start, and the machine may be busy. A demo that takes longer hangs."""

# The first test waits for the demo as well.
pytestmark = pytest.mark.timeout(HANG_SECONDS + 30)


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """The demo's document."""
    done = subprocess.run(
        [sys.executable, "-m", "numaplace", "demo", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        env={**os.environ, "NUMAPLACE_STRATEGY": "bogus", "TMPDIR": PLACE},
    )
    assert done.stderr == ""
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def runs(shown: dict[str, Any]) -> dict[tuple[Any, str], dict[str, Any]]:
    """Pods by name, by (strategy, weights)."""
    return {
        (run["strategy"], run["weights"]): {one["name"]: one for one in run["pods"]} for run in shown["runs"]
    }


def test_it_ends_with_every_setting_shown(shown: dict[str, Any]) -> None:
    shown_settings = [(run["strategy"], run["weights"]) for run in shown["runs"]]
    assert shown_settings == [(one.strategy, one.weights) for one in SETTINGS]


def test_every_pod_runs_under_every_setting(runs: dict[Any, Any]) -> None:
    assert len(runs) == len(SETTINGS)
    for pods in runs.values():
        assert list(pods) == [pod.name for pod in ARRIVING]
        for pod in pods.values():
            assert {name: len(ids) for name, ids in pod["devices"].items()} == pod["requests"]
            assert pod["why"].keys() == pod["requests"].keys()
            assert pod["numaNodes"]
            assert all(pod["why"].values())


def landed(pods: dict[str, Any]) -> list[list[int]]:
    return [pod["numaNodes"] for pod in pods.values()]


def test_the_same_pods_land_differently(runs: dict[Any, Any]) -> None:
    plain = [landed(runs[strategy, ""]) for strategy in ("none", "most-allocated", "least-allocated")]
    assert plain[0] != plain[1] != plain[2] != plain[0]
    weighted = landed(runs["most-allocated", "intel.com/sriov_vf=10"])
    assert weighted != plain[1], "weights alone change the choice"


def test_packing_keeps_room_for_the_large_pod(runs: dict[Any, Any]) -> None:
    assert runs["most-allocated", ""]["train"]["numaNodes"] == [0]
    assert runs["most-allocated", ""]["train"]["why"]["nvidia.com/gpu"] == (
        "the kubelet offered devices of NUMA 0 only: notebook, encoder, infer, stream fill NUMA 1"
    )
    assert runs["none", ""]["train"]["numaNodes"] == [0, 1]
    assert runs["none", ""]["train"]["why"]["nvidia.com/gpu"] == "only NUMA 0,1 together can hold the request"


def test_gpu_and_vf_share_a_node_but_with_the_kubelet_alone(runs: dict[Any, Any]) -> None:
    for (strategy, _), pods in runs.items():
        assert (len(pods["stream"]["numaNodes"]) == 1) == (strategy is not None)


def test_the_kubelet_alone_gives_no_reason(runs: dict[Any, Any]) -> None:
    reasons = {text for pod in runs[None, ""].values() for text in pod["why"].values()}
    assert reasons == {"the kubelet picks at random"}


def demo_run(index: int, pods: dict[str, Any]) -> DemoRun:
    landings = (
        Landing(pod, tuple(pods[pod.name]["numaNodes"]), pods[pod.name]["devices"], pods[pod.name]["why"])
        for pod in ARRIVING
    )
    return DemoRun(SETTINGS[index], tuple(landings))


def test_the_readme_shows_what_it_prints(runs: dict[Any, Any]) -> None:
    made = [demo_run(index, pods) for index, pods in enumerate(runs.values())]
    printed = f"{run_table(made[2], colour=False)}\n{summary(made, colour=False)}"
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"^```\w*\n(strategy: .*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert shown
    assert [line.rstrip() for line in printed.splitlines()] == shown[1].splitlines()


@pytest.mark.parametrize(("side", "strategy"), [("alone", None), ("packed", "most-allocated")])
def test_the_picture_shows_where_the_pods_are(side: str, strategy: str | None, runs: dict[Any, Any]) -> None:
    svg = ElementTree.parse(ROOT / "docs/images/before-after.svg")
    kinds = {
        node: Counter(rect.get("class") for rect in svg.findall(f".//*[@id='{side}-{node}']/{{*}}rect"))
        for node in (0, 1)
    }
    for pod in ARRIVING:
        found = {node: kinds[node][pod.name] for node in kinds if kinds[node][pod.name]}
        assert sorted(found) == runs[strategy, ""][pod.name]["numaNodes"]
        assert sum(found.values()) == sum(pod.devices.values())
    running = Counter(dict.fromkeys(kinds, 0))
    for pod in RUNNING:
        running[pod.running_on] += sum(pod.devices.values())
    assert {node: kinds[node]["running"] for node in kinds} == running
    assert all(sum(kinds[node].values()) - kinds[node]["node"] == sum(PER_NODE.values()) for node in kinds)


async def test_the_reason_is_that_of_the_pods_own_devices() -> None:
    """The daemon logs a decision after its answer: the line of the pod before may come late."""
    gpu = ResourceName("nvidia.com/gpu")
    daemon: Any = DaemonProcess(SimpleNamespace())
    for id_, why in (("gpu-7", "another's"), ("gpu-1", "its own")):
        daemon.lines.append({"event": "decision", "resource": gpu, "ids": [id_], "why": why})
    asked = SimpleNamespace(method="GetPreferredAllocation", resource=gpu)
    admission: Any = SimpleNamespace(calls=[asked], containers={"main": {gpu: ("gpu-1",)}})
    assert await reason_of(gpu, admission, daemon) == "its own"
