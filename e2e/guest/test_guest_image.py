"""The daemon as the chart's pod: a container of the image, with no more rights than the chart gives it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from guest.daemon import BASE
from guest.site import NET, POD_SECONDS, SOURCES, VFIO, Site
from harness.flows import run_one_by_one
from harness.kubelet import KubeletOptions
from harness.pods import Pod, unique
from harness.report import Report
from harness.waiters import until

CHART = Path(__file__).resolve().parents[2] / "charts/numaplace"
REPOSITORY, TAG = "localhost/numaplace", "e2e"
CONFIGURATION = "/run/chart/config.yaml"
NAME = "daemon"
# Starting Python from an image that was just unpacked, emulated.
START_SECONDS = 180.0


@pytest.fixture
def daemon_pod(site: Site, built: Mapping[str, Path], scratch: Path) -> Iterator[None]:
    """The daemon of the chart as a static pod; the one that runs as a process is away."""
    site.under(KubeletOptions())
    site.daemon.kill()
    site.runtime.ctr("images", "import", site.guest.image_device, seconds=300)
    resources = [{"name": name, **source} for name, source in SOURCES.items()]
    values = {
        "image": {"repository": REPOSITORY, "tag": TAG},
        "config": {**BASE, "strategy": "least-allocated", "resources": resources},
    }
    objects = rendered(built["helm"], scratch / "helm", values)
    (configuration,) = (one["data"]["config.yaml"] for one in objects if one["kind"] == "ConfigMap")
    (pod,) = (one["spec"]["template"] for one in objects if one["kind"] == "DaemonSet")
    site.guest.agent.write(CONFIGURATION, configuration)
    site.node.create_manifest(NAME, static(pod))
    yield
    # The kubelet forgets a pod before its containers have ended.
    site.node.clear()
    site.daemon.wait_gone()


def rendered(helm: Path, folder: Path, values: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the chart's objects."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    homes = {f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    command = [str(helm), "template", "numaplace", str(CHART), "--values", str(folder / "values.yaml")]
    done = subprocess.run(command, env=os.environ | homes, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def static(template: Mapping[str, Any]) -> dict[str, object]:
    """Return the pod as a node without an API server and without a pod network can run it."""
    spec = {**template["spec"], "hostNetwork": True}
    del spec["serviceAccountName"]
    for volume in spec["volumes"]:
        if volume.pop("configMap", None):
            volume["hostPath"] = {"path": str(Path(CONFIGURATION).parent), "type": "Directory"}
    for container in spec["containers"]:
        for probe in ("livenessProbe", "readinessProbe"):
            # An emulated processor takes its time.
            container[probe] |= {"timeoutSeconds": 30, "failureThreshold": 20}
    metadata = {"name": NAME, "namespace": "default", "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("daemon_pod")
def test_daemon_in_a_container(site: Site, report: Report) -> None:
    until(
        lambda: all(site.daemon.metric("numaplace_registered", resource=name) == 1 for name in SOURCES),
        "the daemon's container to be registered",
        limit_seconds=START_SECONDS,
        every_seconds=1,
        detail=lambda: site.guest.agent.read(f"/var/log/pods/default_{NAME}-*/*/*.log")[-2000:],
    )
    site.wait_for(NET, site.vfs(NET))
    site.wait_for(VFIO, site.vfs(VFIO))
    pods = [Pod.of(unique("p"), {NET: 1, VFIO: 1}) for _ in range(2)]
    run_one_by_one(site.node, pods, limit_seconds=POD_SECONDS)
    sequence = site.placement().node_sequence(pods, NET)
    report.rows("Topology Manager none, two VFs, the daemon in a container", {"least-allocated": sequence})
    assert sequence == [(0,), (1,)]
    for pod in pods:
        assert [one["problem"] for one in site.node.given(pod.name, "main").vfio.values()] == [""]
    assert_no_privilege(site)


def assert_no_privilege(site: Site) -> None:
    status = site.guest.agent.shell(
        "for process in /proc/[0-9]*; do"
        ' if [ "$(cat $process/comm)" = numaplace ]; then cat $process/status; break; fi; done'
    )
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    capabilities = {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert capabilities == {"0" * 16}
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"
