"""What the kubelet's configuration says, where it is found, and whether a kubelet starts with it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from doctor_site import Patient
from hypothesis import given
from hypothesis import strategies as st
from numaplace.doctor.checks.kubelet_config import kubelet_config
from numaplace.doctor.facts import DaemonFact
from numaplace.doctor.findings import Level
from numaplace.doctor.steering_page import SteeringFact
from numaplace.kubelet.config.read import KubeletSettings, look_at_kubelet, settings_of


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
async def test_under_an_aligning_policy_the_kubelet_chooses(running: Patient, policy: str) -> None:
    running.kubelet_file(topologyManagerPolicy=policy, topologyManagerScope="pod")
    report = await running.examine()
    report.one("kubelet-config", Level.OK, f"policy {policy}, scope pod", "the kubelet chooses")
    assert report.ok


async def test_a_file_that_is_no_kubelet_configuration(running: Patient) -> None:
    running.kubelet_file(kind="Pod")
    report = await running.examine()
    assert "--kubelet-config" in report.problem("kubelet-config", "is not a KubeletConfiguration").advice
    for text in (b"a: [", b"\xff", b"a: 2024-13-45", b"[" * 5000, b"a: !!bool x", b"a: !!timestamp x"):
        (running.site.root / "kubelet.yaml").write_bytes(text)
        report = await running.examine()
        report.problem("kubelet-config", "is not YAML")


async def test_a_policy_that_no_kubelet_has(running: Patient) -> None:
    running.kubelet_file(topologyManagerPolicy="strict")
    report = await running.examine()
    assert "single-numa-node" in report.problem("kubelet-config", "'strict' is no").advice


@pytest.mark.parametrize(
    ("keys", "word", "advice"),
    [
        ({"cpuManagerPolicy": "static"}, "needs reserved CPUs", "reservedSystemCPUs"),
        ({"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "0"}}, "needs reserved CPUs", "kubeReserved"),
        ({"memoryManagerPolicy": "Static"}, "needs reservedMemory", "evictionHard"),
        ({"topologyManagerPolicyOptions": {"prefer-far": "true"}}, "prefer-far", "remove the option"),
        (
            {"topologyManagerPolicyOptions": {"numa-allocation-strategy": "most-allocated"}},
            "TopologyManagerPolicyAlphaOptions",
            "set its gate",
        ),
    ],
)
async def test_a_kubelet_that_does_not_start_with_it(
    patient: Patient, keys: dict[str, Any], word: str, advice: str
) -> None:
    patient.kubelet_file(**keys)
    report = await patient.examine()
    assert advice in report.problem("kubelet-config", "does not start", word).advice
    async with patient.kubelet:
        running = await patient.examine()
    assert "name the file that it runs with" in running.warning("kubelet-config", word, "running").advice


@pytest.mark.parametrize(
    "keys",
    [
        {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1"},
        {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "500m"}},
        {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": True}},
    ],
)
async def test_what_a_kubelet_starts_with(patient: Patient, keys: dict[str, Any]) -> None:
    patient.kubelet_file(**keys)
    report = await patient.examine()
    assert not [one for one in report.findings if "does not start" in one.summary]


async def test_a_switched_off_api(running: Patient) -> None:
    running.kubelet_file(featureGates={"KubeletPodResourcesGetAllocatable": False})
    report = await running.examine()
    assert "remove these gates" in report.problem("kubelet-config", "switched off").advice


async def test_a_file_that_the_running_kubelet_does_not_have(running: Patient) -> None:
    """PodResources of this kubelet shows no CPUs, so its CPU manager is not static."""
    running.kubelet_file(cpuManagerPolicy="static", reservedSystemCPUs="0")
    report = await running.examine()
    found = report.warning("kubelet-config", "does not run with this cpuManagerPolicy", "shows none")
    assert "restart the kubelet" in found.advice


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"followCPUs": False}, "followCPUs is false"), ({"cluster": {"enabled": False}}, "cluster.enabled is")],
)
async def test_cpus_apart_from_devices(running: Patient, changes: dict[str, Any], why: str) -> None:
    running.kubelet_file(cpuManagerPolicy="static", reservedSystemCPUs="0")
    report = await running.examine(**changes)
    found = report.warning("kubelet-config", "exclusive CPUs may be on another", why)
    assert "single-numa-node" in found.advice
    assert "followCPUs" in found.advice


async def test_devices_that_follow_the_cpus(running: Patient) -> None:
    running.kubelet_file(cpuManagerPolicy="static", reservedSystemCPUs="0")
    report = await running.examine(cluster={"enabled": "auto"}, strategy="most-allocated")
    report.one("kubelet-config", Level.OK, "devices are placed beside the exclusive CPUs")
    assert not [one for one in report.findings if "spreads devices less" in one.summary]


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({}, "set followCPUs: false and weights: {cpu: 0};"),
        ({"weights": "cpu=0"}, "set followCPUs: false;"),
        ({"followCPUs": False}, "set weights: {cpu: 0};"),
        ({"followCPUs": False, "weights": {"cpu": 0}}, ""),
        ({"strategy": "none"}, ""),
        ({"cluster": {"enabled": False}, "weights": {"cpu": 0}}, ""),
    ],
)
async def test_least_allocated_beside_cpus_that_nobody_aligns(
    running: Patient, changes: dict[str, Any], advice: str
) -> None:
    running.kubelet_file(cpuManagerPolicy="static", reservedSystemCPUs="0")
    settings = {"strategy": "least-allocated", "cluster": {"enabled": "auto"}, **changes}
    found = [
        one
        for one in (await running.examine(**settings)).findings
        if "least-allocated spreads devices less" in one.summary
    ]
    assert [advice in one.advice for one in found] == [True] * bool(advice)


async def test_under_an_aligning_policy_cpus_are_where_the_devices_are(running: Patient) -> None:
    running.kubelet_file(
        cpuManagerPolicy="static", reservedSystemCPUs="0", topologyManagerPolicy="restricted"
    )
    report = await running.examine(strategy="least-allocated")
    assert not [one for one in report.findings if "CPUs" in one.summary and one.check == "kubelet-config"]


async def test_the_running_kubelets_command_line_counts(running: Patient) -> None:
    """The file that it names, its drop-ins in the order of their names, and flags over all."""
    base = running.kubelet_file(
        "base.yaml", topologyManagerPolicy="restricted", featureGates={"A": True}, cpuManagerPolicy="none"
    )
    (running.site.root / "conf.d").mkdir()
    running.kubelet_file("conf.d/20.conf", topologyManagerScope="pod", featureGates={"B": True})
    running.kubelet_file("conf.d/10.conf", topologyManagerScope="container", memoryManagerPolicy="Static")
    running.kubelet_file("conf.d/30.txt", topologyManagerPolicy="none")
    words = (
        "/usr/bin/kubelet",
        f"--config={base}",
        "--config-dir",
        str(running.site.root / "conf.d"),
        "--topology_manager_policy=single-numa-node",
        "--feature-gates=A=false,C=true",
        "--v=2",
    )
    running.host.tree.file("proc/77/comm", "kubelet")
    running.host.tree.file("proc/77/cmdline", "\0".join(words) + "\0")
    running.host.tree.file("proc/9/comm", "kubelet-agent")
    fact = (await running.facts()).kubelet
    assert fact.settings is not None
    assert (fact.settings.policy, fact.settings.scope) == ("single-numa-node", "pod")
    assert fact.settings.memory_policy == "Static"
    assert fact.settings.gates == {"A": False, "B": True, "C": True}
    assert [source.rpartition("/")[2] for source in fact.sources[:3]] == ["base.yaml", "10.conf", "20.conf"]
    assert "process 77" in fact.sources[3]


def test_a_kubelet_with_flags_only(patient: Patient) -> None:
    patient.host.tree.file("proc/77/comm", "kubelet")
    patient.host.tree.file("proc/77/cmdline", "kubelet\0--cpu-manager-policy=static\0")
    fact = look_at_kubelet(
        file=None,
        folder=None,
        procfs=patient.host.roots.procfs,
        usual_file=patient.kubelet_file(),
    )
    assert fact.settings == KubeletSettings(cpu_policy="static")
    assert fact.sources == ("the command line of process 77",)


def test_the_flags_of_another_kubelet_do_not_count(patient: Patient) -> None:
    """A machine with several kubelets: each has its own file."""
    file = patient.kubelet_file(topologyManagerPolicy="restricted")
    other = patient.kubelet_file("other.yaml", topologyManagerPolicy="none")
    for process, config in ((5, other), (7, file)):
        patient.host.tree.file(f"proc/{process}/comm", "kubelet")
        patient.host.tree.file(
            f"proc/{process}/cmdline", f"kubelet\0--config={config}\0--topology-manager-scope=of-{process}\0"
        )
    fact = look_at_kubelet(file=file, folder=None, procfs=patient.host.roots.procfs)
    assert fact.settings == KubeletSettings("restricted", "of-7")


async def test_a_file_that_was_changed_after_the_kubelets_start(running: Patient) -> None:
    file = running.kubelet_file(topologyManagerPolicy="restricted")
    os.utime(file, None)
    os.utime(running.kubelet.device_plugins_dir / "kubelet.sock", (1, 1))
    report = await running.examine()
    assert "restart the kubelet" in report.warning("kubelet-config", "changed after", str(file)).advice


def test_a_gate_that_is_not_named_follows_the_group() -> None:
    settings = settings_of({"featureGates": {"AllAlpha": True, "AllBeta": False, "Named": False, "On": True}})
    assert (settings.alpha("Named"), settings.alpha("Other")) == (False, True)
    assert (settings.beta("On"), settings.beta("Other")) == (True, False)
    plain = KubeletSettings()
    assert (plain.alpha("Other"), plain.beta("Other")) == (False, True)


@pytest.mark.parametrize(
    ("cpu", "reserves"),
    [("500m", True), (1, True), ("0", False), ("0m", False), ("0.0", False), (None, False)],
)
def test_only_an_amount_above_zero_reserves_cpus(cpu: object, *, reserves: bool) -> None:
    assert settings_of({"systemReserved": {"cpu": cpu, "memory": "1Gi"}}).reserves_cpu is reserves


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [
        "topologyManagerPolicy",
        "topologyManagerPolicyOptions",
        "featureGates",
        "systemReserved",
        "reservedMemory",
    ]
)


@given(st.dictionaries(KEYS, JSON))
def test_any_document_can_be_read(document: dict[str, Any]) -> None:
    assert isinstance(settings_of(document), KubeletSettings)


@pytest.mark.parametrize(("policy", "word"), [("none", "numaplace chooses"), ("restricted", "scope pod")])
async def test_a_configuration_that_only_the_daemon_knows(running: Patient, policy: str, word: str) -> None:
    """In the daemon's pod no file may be seen, while the daemon has it from configz."""
    running.kubelet_file().unlink()
    facts = await running.facts()
    page = SteeringFact("auto", policy=policy, scope="pod", source="configz")
    (found,) = kubelet_config(replace(facts, daemon=DaemonFact("http://x", 200, steering=page)))
    assert found.level is Level.OK
    assert word in found.summary
    assert "configz" in found.detail
    (unknown,) = kubelet_config(facts)
    assert unknown.level is Level.UNKNOWN
