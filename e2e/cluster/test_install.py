"""The chart, installed with helm on every node."""

from __future__ import annotations

import json

from cluster.testsite import Site
from harness.hardware import NVIDIA, NVIDIA_PER_NODE
from harness.waiters import until


def test_install(site: Site) -> None:
    for node in site.nodes:
        expected = {name: str(len(devices)) for name, devices in node.hardware.devices.items()}
        until(
            lambda node=node, expected=expected: node.capacity() == expected,
            f"the status of {node.name} to have all devices",
            detail=node.capacity,
        )
    assert "successfully rolled out" in site.kubectl("rollout", "status", "ds/numaplace")


def test_daemon_has_no_privilege(site: Site) -> None:
    status = site.node.execute("cat", "/proc/1/status")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    capabilities = {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert capabilities == {"0" * 16}
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"


def test_inspect_in_each_daemon(site: Site) -> None:
    for node in site.nodes:
        node.deploy(f"shown-{node.name}", {NVIDIA: 3}, replicas=1)
        report = json.loads(node.execute("numaplace", "inspect", "--sysfs", "/host/sys", "--output", "json"))
        (gpus,) = (resource for resource in report["resources"] if resource["name"] == NVIDIA)
        assert gpus["largestSingleNodeFit"] == NVIDIA_PER_NODE
        assert NVIDIA in node.execute("numaplace", "inspect", "--sysfs", "/host/sys")
