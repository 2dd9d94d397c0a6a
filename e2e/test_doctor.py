"""``numaplace doctor`` beside a real kubelet: no problem on a healthy node, and what is broken."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from harness.backend import Tools
from harness.daemon import COMMAND, Daemon
from harness.equipped import EquippedNode, equipped_node
from harness.flows import run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.plugin import SmallPlugin
from harness.pods import Pod, unique
from harness.waiters import until


@dataclass(frozen=True, slots=True)
class Report:
    """What doctor says: exit code, and the findings."""

    code: int
    findings: list[dict[str, str]]

    def of(self, check: str) -> list[str]:
        """What is not as it should be there, as "level: summary"."""
        return [
            f"{one['level']}: {one['summary']}"
            for one in self.findings
            if one["check"] == check and one["level"] != "ok"
        ]

    def summaries(self, check: str) -> str:
        return "\n".join(one["summary"] for one in self.findings if one["check"] == check)


@pytest.fixture(scope="module")
def site(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with equipped_node(tools, scratch, numa_nodes=2, options=KubeletOptions(), logs=logs) as site:
        yield site


def examine(site: EquippedNode, config: Path, *, kubelet_config: Path | None = None) -> Report:
    """Run doctor on the node, with its report of every finding."""
    command = [
        str(COMMAND), "doctor", "-o", "json",
        "--config", str(config),
        "--kubelet-config", str(kubelet_config or site.node.folder / "kubelet.yaml"),
    ]  # fmt: skip
    env = {key: value for key, value in os.environ.items() if not key.startswith("NUMAPLACE_")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0)
    assert all(one["advice"] for one in report["findings"] if one["level"] in ("warning", "problem"))
    return Report(done.returncode, report["findings"])


def somewhere_else(site: EquippedNode, folder: Path) -> Path:
    """A configuration for this node, with pages at an address that nobody has."""
    document = site.configuration("most-allocated") | {"http": {"address": "127.0.0.1:1"}}
    file = folder / "numaplace.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_before_a_daemon_runs(site: EquippedNode, tmp_path: Path) -> None:
    report = examine(site, somewhere_else(site, tmp_path))
    # It may be about to be installed: no problem of the node's.
    assert report.code == 0
    assert report.of("daemon") == ["warning: numaplace does not run on this node"]
    assert report.of("registration") == report.of("other-plugins") == report.of("devices") == []


@pytest.fixture(scope="module")
def daemon(site: EquippedNode) -> Iterator[Daemon]:
    with site.daemon("most-allocated") as daemon:
        daemon.wait_ready()
        yield daemon


def test_healthy_node(site: EquippedNode, daemon: Daemon) -> None:
    run_one_by_one(site.node, [Pod.of(unique("well"), {VF: 1, NVIDIA: 2})])
    report = examine(site, daemon.config_file)
    # The limits are those of the machine that the tests run on.
    odd = [one for one in report.findings if one["level"] != "ok" and one["check"] != "limits"]
    assert odd == []
    assert report.code == 0
    assert "the kubelet listens for registrations" in report.summaries("registration")
    assert "Get is served" in report.summaries("pod-resources")
    assert "Topology Manager policy none: numaplace chooses" in report.summaries("kubelet-config")
    assert f"{NVIDIA}: {site.hardware.count(NVIDIA)} devices found" in report.summaries("devices")


def test_another_plugin_for_a_resource(site: EquippedNode, daemon: Daemon) -> None:
    """The kubelet takes a second plugin for the same name, and its devices besides."""
    rival = SmallPlugin(site.node.kubelet.device_plugins, NVIDIA, {"GPU-of-the-rival": (0,)})
    rival.register()
    try:
        until(
            lambda: "GPU-of-the-rival" in site.node.allocatable().get(NVIDIA, ()),
            "the kubelet to have the rival's device",
            detail=site.node.allocatable,
        )
        report = examine(site, daemon.config_file)
    finally:
        rival.stop()
    assert report.code == 1
    assert f"problem: {NVIDIA}: the kubelet has devices of it that numaplace does not find" in "\n".join(
        report.of("other-plugins")
    )


def test_a_kubelet_configuration_that_does_not_run(
    site: EquippedNode, daemon: Daemon, tmp_path: Path
) -> None:
    """PodResources tells that this kubelet has no static CPU manager, whatever the file says."""
    document = yaml.safe_load((site.node.folder / "kubelet.yaml").read_text())
    other = tmp_path / "kubelet.yaml"
    other.write_text(
        yaml.safe_dump(document | {"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"})
    )
    report = examine(site, daemon.config_file, kubelet_config=other)
    assert "warning: the kubelet does not run with this cpuManagerPolicy: static" in report.of(
        "kubelet-config"
    )


def test_the_kubelet_is_away(site: EquippedNode, daemon: Daemon) -> None:
    site.node.kubelet.kill()
    try:
        report = examine(site, daemon.config_file)
    finally:
        site.node.kubelet.start()
        site.wait_registered(daemon)
    assert report.code == 1
    assert any("nothing listens on kubelet.sock" in one for one in report.of("registration"))
    assert any("the PodResources API cannot be reached" in one for one in report.of("pod-resources"))
    assert report.of("devices") == []


def test_pages_of_the_daemon_that_cannot_be_reached(
    site: EquippedNode, daemon: Daemon, tmp_path: Path
) -> None:
    report = examine(site, somewhere_else(site, tmp_path))
    assert report.of("daemon") == ["unknown: the daemon runs, but its pages cannot be reached from here"]
