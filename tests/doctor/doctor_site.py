"""A node to examine: a fake host and an emulated kubelet, both to be spoiled, and the findings in reach."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from daemon.daemon_site import Site, build_site
from numaplace.cli.doctor import reach_of
from numaplace.devices.fake import FakeHost
from numaplace.doctor.checks.table import examine
from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level, is_ok
from numaplace.doctor.look import look
from numaplace.kubelet.emulator import EmulatedNode, KubeletEmulator
from numaplace.model.topology import NumaTopology

TOPOLOGY = NumaTopology((0, 1), {0: frozenset(range(8)), 1: frozenset(range(8, 16))})
VF_ONLY = [{"name": "intel.com/vf", "sriov": {"drivers": ["iavf"]}}]
GPU_ONLY = [{"name": "nvidia.com/gpu", "gpu": {"vendor": "nvidia"}}]


@dataclass(frozen=True)
class Report:
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return is_ok(self.findings)

    def worse_than_ok(self) -> list[Finding]:
        return [one for one in self.findings if one.level is not Level.OK]

    def one(self, check: str, level: Level, *words: str) -> Finding:
        """The only finding of that check and level whose summary or detail has all the words."""
        found = [
            one
            for one in self.findings
            if (one.check, one.level) == (check, level)
            and all(word in f"{one.summary}\n{one.detail}" for word in words)
        ]
        assert len(found) == 1, "\n".join(map(str, self.findings))
        return found[0]

    def problem(self, check: str, *words: str) -> Finding:
        assert not self.ok
        return self.one(check, Level.PROBLEM, *words)

    def warning(self, check: str, *words: str) -> Finding:
        return self.one(check, Level.WARNING, *words)


@dataclass
class Patient:
    """``facts`` and ``examine`` take changes of the daemon's configuration, by top key."""

    site: Site

    @property
    def host(self) -> FakeHost:
        return self.site.host

    @property
    def kubelet(self) -> KubeletEmulator:
        return self.site.kubelet

    def kubelet_file(self, name: str = "kubelet.yaml", **keys: Any) -> Path:
        file = self.site.root / name
        document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **keys}
        file.write_text(yaml.safe_dump(document))
        os.utime(file, (0, 0))  # from before the kubelet's start
        return file

    async def facts(self, *, reach: Mapping[str, Any] | None = None, **changes: Any) -> Facts:
        loaded = self.site.load(**changes)
        given = {
            "own_procfs": self.host.roots.procfs,
            "usual_kubelet_file": self.site.root / "kubelet.yaml",
            "clock": time.perf_counter,
            "timeout_seconds": 2.0,
            "uid": 0,
            **(reach or {}),
        }
        made = reach_of(loaded, file=None, folder=None)
        fields = {name: getattr(made, name) for name in type(made).__dataclass_fields__}
        return await look(type(made)(**{**fields, **given}))

    async def examine(self, *, reach: Mapping[str, Any] | None = None, **changes: Any) -> Report:
        return Report(examine(await self.facts(reach=reach, **changes)))


def build_patient(root: Path) -> Patient:
    """Two NUMA nodes with 8 VFs and 4 GPUs each; the kubelet without static policies."""
    site = build_site(root)
    plain = EmulatedNode(TOPOLOGY, static_cpus=False, static_memory=False)
    site.kubelet = KubeletEmulator(root, plain, seed=5)
    site.host.tree.file("proc/sys/fs/inotify/max_user_instances", "128")
    site.host.tree.file("proc/sys/fs/inotify/max_user_watches", "65536")
    patient = Patient(site)
    patient.kubelet_file(topologyManagerPolicy="none")
    return patient
