"""Whether steering can work on a node, and what the daemon says that it does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from doctor_site import GPU_ONLY, Patient, Report
from numaplace.doctor.checks.declared_requests import too_large
from numaplace.doctor.checks.steering import judged, reported
from numaplace.doctor.checks.table import examine
from numaplace.doctor.facts import DaemonFact, Facts
from numaplace.doctor.findings import Finding, Level
from numaplace.doctor.steering_page import SteeringFact, WithheldFact, read_steering
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, DeviceBlock, MemoryBlock

GPU = ResourceName("nvidia.com/gpu")


async def steered(patient: Patient, *, known: bool = True, **changes: Any) -> Facts:
    """Facts of a node whose daemon is told where the kubelet's configuration is, or not."""
    kubelet = {
        "devicePluginDirectory": str(patient.kubelet.device_plugins_dir),
        "podResourcesSocket": str(patient.kubelet.pod_resources_socket),
    }
    if known:
        kubelet["configFile"] = str(patient.site.root / "kubelet.yaml")
    return await patient.facts(kubelet=kubelet, **{"strategy": "least-allocated", **changes})


async def found(patient: Patient, keys: dict[str, Any], **changes: Any) -> Finding:
    """The first finding of the check on a kubelet with these keys."""
    patient.kubelet_file(**keys)
    return Report(examine(await steered(patient, **changes), CHECK)).findings[0]


def steering_only() -> Any:
    from numaplace.doctor.checks.table import CHECKS

    return {"steering": CHECKS["steering"]}


CHECK = steering_only()


@pytest.mark.parametrize(
    ("keys", "changes", "word"),
    [
        ({"topologyManagerPolicy": "none"}, {}, "not needed"),
        ({"topologyManagerPolicy": "restricted"}, {}, "can work under policy restricted"),
        ({"topologyManagerPolicy": "best-effort"}, {"strategy": "none"}, "no strategy"),
        ({"topologyManagerPolicy": "best-effort"}, {"steering": {"mode": "off"}}, "switched off"),
        (
            {
                "topologyManagerPolicy": "best-effort",
                "topologyManagerPolicyOptions": {"numa-allocation-strategy": "most-allocated"},
            },
            {},
            "the kubelet follows a strategy itself",
        ),
        (
            {"topologyManagerPolicy": "restricted"},
            {"strategy": "most-allocated", "steering": {"requests": [{"nvidia.com/gpu": 1}]}},
            "can work",
        ),
        (
            {"topologyManagerPolicy": "restricted"},
            {"steering": {"requests": [{"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}]}},
            "several sizes",
        ),
    ],
)
async def test_well_or_with_nothing_to_do(
    running: Patient, keys: dict[str, Any], changes: dict[str, Any], word: str
) -> None:
    finding = await found(running, keys, **changes)
    assert (finding.level, finding.advice) == (Level.OK, "")
    assert word in finding.summary


@pytest.mark.parametrize(
    ("keys", "changes", "word", "advice"),
    [
        ({}, {"known": False}, "unless the daemon knows", "kubelet.configFile: "),
        ({"cpuManagerPolicy": "static"}, {}, "another cpuManagerPolicy than static", "restart the kubelet"),
        (
            {"featureGates": {"PodLevelResourceManagers": True}},
            {},
            "PodLevelResourceManagers",
            "decides inside",
        ),
        ({"topologyManagerPolicyOptions": {"new": "true"}}, {}, "'new'", "decides inside"),
    ],
)
async def test_what_keeps_it_off(
    running: Patient, keys: dict[str, Any], changes: dict[str, Any], word: str, advice: str
) -> None:
    finding = await found(running, {"topologyManagerPolicy": "restricted", **keys}, **changes)
    assert finding.level is Level.WARNING
    assert word in finding.summary
    assert advice in finding.advice


async def test_it_needs_the_state(patient: Patient) -> None:
    finding = await found(patient, {"topologyManagerPolicy": "restricted"})
    assert (finding.level, "pod-resources" in finding.advice) == (Level.WARNING, True)


async def test_a_kubelet_that_only_the_daemon_knows(running: Patient) -> None:
    """In the daemon's pod doctor sees no configuration, while the daemon may have it from configz."""
    facts = await steered(running)
    unseen = replace(facts, kubelet=replace(facts.kubelet, settings=None, problem="not seen"))
    alone = judged(unseen)
    assert alone is not None
    assert alone.level is Level.UNKNOWN
    told = replace(
        unseen, daemon=DaemonFact("http://x", 200, steering=SteeringFact("auto", policy="restricted"))
    )
    assert judged(told) is None


def one(**page: Any) -> Finding:
    (finding,) = reported(SteeringFact(**{"mode": "auto", "policy": "restricted", **page}))
    return finding


def test_what_is_withheld_is_told() -> None:
    finding = one(withheld={GPU: WithheldFact((0, 1, 3))}, requests_source="seen", trips=2)
    assert finding.level is Level.OK
    assert "nvidia.com/gpu on NUMA 0-1,3" in finding.summary
    assert finding.detail == "requests: seen; the circuit breaker has opened 2 times"


def test_an_open_circuit_breaker_is_a_warning() -> None:
    finding = one(open_seconds=41.5, trips=1, refusals=(("held-off-after-a-refusal", "refused: ns/p"),))
    assert finding.level is Level.WARNING
    assert finding.summary.endswith("42 s more: refused: ns/p")
    assert "once" in finding.detail
    assert "steering.headroom" in finding.advice


def test_a_daemon_that_has_it_off() -> None:
    assert one(mode="off").level is Level.WARNING


@pytest.mark.parametrize(
    "code", ["nothing-to-gain", "no-common-set", "unsafe", "a-reason-of-a-later-version"]
)
def test_reasons_that_pass_are_no_trouble(code: str) -> None:
    finding = one(refusals=((code, "because"),))
    assert (finding.level, finding.summary) == (Level.OK, "nothing is withheld now: because")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("policy-unknown", "nodes/proxy"),
        ("several-sizes", "steering.mode: always"),
        ("requests-unknown", "steering.requests"),
        ("unknown-requests-may-span", "steering.requests"),
        ("no-dominant-node", "steering.requests"),
        ("nothing-steerable", "numaplace's resources"),
        ("failed", "report"),
    ],
)
def test_reasons_that_stay_are_warnings(code: str, advice: str) -> None:
    finding = one(policy="", refusals=((code, "because"),))
    assert (finding.level, finding.summary) == (Level.WARNING, "nothing is withheld: because")
    assert advice in finding.advice


def test_a_kubelet_that_is_known_and_not_predicted_is_not_asked_for_again() -> None:
    refusals = (("policy-unknown", "the feature gate X is not predicted"),)
    assert "kubelet.configFile" in one(policy="", refusals=refusals).advice
    assert "kubelet.configFile" not in one(policy="restricted", refusals=refusals).advice


async def test_what_cannot_be_predicted_is_told_once(running: Patient) -> None:
    """Doctor and the daemon come to the same conclusion."""
    running.kubelet_file(topologyManagerPolicy="restricted", featureGates={"PodLevelResourceManagers": True})
    facts = await steered(running)
    page = SteeringFact("auto", policy="restricted", refusals=(("policy-unknown", "because"),))
    told = replace(facts, daemon=DaemonFact("http://x", 200, steering=page))
    (warning,) = (one for one in examine(told, CHECK) if one.level is Level.WARNING)
    assert "PodLevelResourceManagers" in warning.summary


async def test_a_file_that_the_running_kubelet_has_not_read(running: Patient) -> None:
    running.kubelet_file(topologyManagerPolicy="restricted")
    facts = await steered(running)
    changed = replace(facts, kubelet=replace(facts.kubelet, changed="/etc/k.yaml"), daemon=None)
    finding = judged(changed)
    assert finding is not None
    assert (finding.level, "restart the kubelet" in finding.advice) == (Level.WARNING, True)
    told = replace(changed, daemon=DaemonFact("http://x", 200, steering=SteeringFact("auto")))
    assert judged(told) is None


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({GPU: 2, "cpu": 4, "memory": 4 << 30}, []),
        ({GPU: 3}, ["3 nvidia.com/gpu of 2"]),
        ({GPU: 1, "cpu": 5, "memory": 5 << 30}, ["5 cpu of 4", "5Gi memory of 4Gi"]),
        ({GPU: 1, "hugepages-1Gi": 1 << 30}, ["1Gi hugepages-1Gi of 0"]),
        ({"amd.com/gpu": 1}, ["1 amd.com/gpu of 0"]),
    ],
)
def test_requests_that_the_whole_node_cannot_hold(request_: dict[Any, int], said: list[str]) -> None:
    memory = tuple(MemoryBlock(ResourceName("memory"), 2 << 30, (node,)) for node in (0, 1))
    gpus = (DeviceBlock(GPU, (DeviceId("a"),), (0,)), DeviceBlock(GPU, (DeviceId("b"),), (1,)))
    findings = list(too_large([{GPU: 1}, request_], Allocatable(gpus, frozenset(range(4)), memory)))
    assert [one.summary.partition("has: ")[2].split(", ") for one in findings] == ([said] if said else [])
    assert all("steering.requests[1]" in one.summary for one in findings)


def test_cpus_and_memory_that_the_kubelet_does_not_count_by_numa_node_lack_nowhere() -> None:
    huge: dict[Any, int] = {GPU: 1, "cpu": 64, "memory": 1 << 40}
    assert not list(too_large([huge], Allocatable((DeviceBlock(GPU, (DeviceId("a"),)),))))


async def test_they_are_told_of_in_the_check(running: Patient) -> None:
    running.kubelet_file(topologyManagerPolicy="restricted")
    facts = await steered(running, steering={"requests": [{"nvidia.com/gpu": 1000}]})
    assert any("1000 nvidia.com/gpu of" in one.summary for one in examine(facts, CHECK))


def test_one_reason_for_several_resources_is_told_once() -> None:
    reasons = [
        {"reason": "several-sizes", "resources": ["b"], "text": "several sizes, x and y"},
        {"reason": "several-sizes", "resources": ["a"], "text": "several sizes, x and y"},
        {"reason": "several-sizes", "resources": ["c"], "text": "several sizes, x and z"},
        {"reason": "nothing-to-gain", "resources": [], "text": "nothing"},
    ]
    fact = read_steering(json.dumps({"mode": "auto", "refusals": reasons}))
    assert fact is not None
    assert [text for _, text in fact.refusals] == [
        "a, b: several sizes, x and y",
        "c: several sizes, x and z",
        "nothing",
    ]


async def test_withheld_devices_are_not_called_broken(running: Patient) -> None:
    """The kubelet shows them without NUMA nodes; the host has them where they are."""
    running.kubelet_file(topologyManagerPolicy="none")
    async with running.site.serving(resources=GPU_ONLY):
        facts = await running.facts(resources=GPU_ONLY)
        capacity = facts.pod_resources.capacity
        assert capacity is not None
        bare = replace(capacity, devices=tuple(replace(block, nodes=()) for block in capacity.devices))
        withheld = replace(facts, pod_resources=replace(facts.pod_resources, capacity=bare))
        assert examine(withheld) == examine(facts)
