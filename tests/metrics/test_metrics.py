from __future__ import annotations

import re
from pathlib import Path

import pytest
from numaplace.metrics import Alignment, FallbackReason, Metrics, RegistrationResult, ReloadResult
from numaplace.metrics.metrics import PREFIX
from numaplace.model.names import CPU, DeviceId, ResourceName, Strategy
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.placement.reasons import Outcome
from numaplace.state.snapshot import Snapshot, build_snapshot
from prometheus_client.parser import text_string_to_metric_families

VF = ResourceName("intel.com/vf")
GPU = ResourceName("nvidia.com/gpu")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock) -> Metrics:
    return Metrics(version="1.2.3", clock=clock)


def scrape(metrics: Metrics) -> dict[str, float]:
    """Return the samples as Prometheus reads them, by ``name{labels}``, without the prefix."""
    text = metrics.render()[0].decode()
    return {
        _name(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    }


def _name(name: str, labels: dict[str, str]) -> str:
    inner = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return name.removeprefix(f"{PREFIX}_") + (f"{{{inner}}}" if inner else "")


def snapshot(resource: ResourceName = VF, taken_at_seconds: float = 90.0) -> Snapshot:
    """Two NUMA nodes; one of node 0's two devices is in use, with CPU 0."""
    blocks = tuple(DeviceBlock(resource, (DeviceId(f"{n}a"), DeviceId(f"{n}b")), (n,)) for n in (0, 1))
    use = ContainerUse("c", (DeviceBlock(resource, (DeviceId("0a"),), (0,)),), cpus=frozenset({0}))
    return build_snapshot(
        topology=NumaTopology((0, 1), {0: frozenset({0, 1}), 1: frozenset({2, 3})}),
        allocatable=Allocatable(blocks, cpus=frozenset({0, 1, 2, 3})),
        pods=(PodUse("default", "p", (use,)),),
        devices={},
        taken_at_seconds=taken_at_seconds,
    )


def decide(metrics: Metrics, resource: ResourceName = VF, *, score_decided: bool = False) -> None:
    metrics.decided(
        resource,
        strategy=Strategy.MOST_ALLOCATED,
        outcome=Outcome.PLACED,
        score_decided=score_decided,
        duration_seconds=0.003,
    )


def test_a_decision_is_counted_with_its_duration(metrics):
    decide(metrics)
    decide(metrics, score_decided=True)
    found = scrape(metrics)
    assert found["decisions_total{outcome=placed,resource=intel.com/vf,strategy=most-allocated}"] == 2
    assert found["decision_duration_seconds_count{resource=intel.com/vf}"] == 2
    assert found["decision_duration_seconds_bucket{le=0.002,resource=intel.com/vf}"] == 0
    assert found["decision_duration_seconds_bucket{le=0.005,resource=intel.com/vf}"] == 2
    assert found["numa_score_selection_total{numa_allocation_strategy=most-allocated}"] == 1


@pytest.mark.parametrize("reason", FallbackReason)
def test_a_fallback_is_a_decision_too(reason, metrics):
    metrics.fell_back(VF, strategy=Strategy.NONE, reason=reason, duration_seconds=0.2)
    found = scrape(metrics)
    assert found["decisions_total{outcome=fallback,resource=intel.com/vf,strategy=none}"] == 1
    assert found[f"fallbacks_total{{reason={reason},resource=intel.com/vf}}"] == 1
    assert found["decision_duration_seconds_count{resource=intel.com/vf}"] == 1


def test_a_decision_on_old_state_is_counted_as_both(metrics):
    metrics.decided(
        VF,
        strategy=Strategy.NONE,
        outcome=Outcome.PLACED,
        score_decided=False,
        duration_seconds=0.1,
        degraded=FallbackReason.STALE,
    )
    found = scrape(metrics)
    assert found["decisions_total{outcome=placed,resource=intel.com/vf,strategy=none}"] == 1
    assert found["fallbacks_total{reason=stale,resource=intel.com/vf}"] == 1


def test_allocation_state_is_the_newest_snapshots(metrics, clock):
    assert not any(name.startswith("snapshot_age") for name in scrape(metrics))
    metrics.set_snapshot(snapshot())
    found = scrape(metrics)
    assert found["allocatable{numa_node=0,resource=intel.com/vf}"] == 2
    assert found["allocated{numa_node=0,resource=intel.com/vf}"] == 1
    assert found["score{numa_node=0,resource=intel.com/vf}"] == 50
    assert found["score{numa_node=1,resource=intel.com/vf}"] == 1
    assert found[f"allocated{{numa_node=0,resource={CPU}}}"] == 1
    assert found["largest_single_node_fit{resource=intel.com/vf}"] == 2
    assert found["numa_container_count{numa_node=0}"] == 1
    assert found["numa_container_count{numa_node=1}"] == 0
    assert found["snapshot_age_seconds"] == 10
    clock.now = 130.0
    assert scrape(metrics)["snapshot_age_seconds"] == 40


def test_resources_that_left_the_snapshot_leave_the_scrape(metrics):
    metrics.set_snapshot(snapshot(VF))
    metrics.set_snapshot(snapshot(GPU))
    found = scrape(metrics)
    assert not any("intel.com/vf" in name for name in found)
    assert found["allocatable{numa_node=1,resource=nvidia.com/gpu}"] == 2


def everything(metrics: Metrics, resource: ResourceName) -> None:
    decide(metrics, resource)
    reason = FallbackReason.DEADLINE
    metrics.fell_back(resource, strategy=Strategy.NONE, reason=reason, duration_seconds=0.2)
    metrics.aligned(resource, Alignment.ONE_NODE)
    metrics.set_devices(resource, healthy=3, unhealthy=1)
    metrics.set_scan(resource, left_out=2, matched_nothing=False, failed=True)
    metrics.registration(resource, result=RegistrationResult.ACCEPTED)
    metrics.set_registered(resource, registered=True)


def test_what_is_known_of_a_resource(metrics):
    everything(metrics, VF)
    found = scrape(metrics)
    assert found["devices{health=healthy,resource=intel.com/vf}"] == 3
    assert found["devices{health=unhealthy,resource=intel.com/vf}"] == 1
    assert found["devices_left_out{resource=intel.com/vf}"] == 2
    assert found["selectors_unmatched{resource=intel.com/vf}"] == 0
    assert found["device_scan_failed{resource=intel.com/vf}"] == 1
    assert found["registrations_total{resource=intel.com/vf,result=accepted}"] == 1
    assert found["registered{resource=intel.com/vf}"] == 1


def test_forgetting_a_resource_removes_its_series_and_no_others(metrics):
    everything(metrics, GPU)
    before = scrape(metrics)
    everything(metrics, VF)
    metrics.forget(VF)
    assert scrape(metrics) == before
    everything(metrics, VF)
    assert scrape(metrics)["registrations_total{resource=intel.com/vf,result=accepted}"] == 1


def test_forgetting_an_unknown_resource_does_nothing(metrics):
    metrics.forget(VF)


def test_what_a_peer_makes_up_makes_no_new_series(metrics):
    metrics.podresources_call("List", "OK")
    for number in range(100):
        metrics.podresources_call("List", f"CODE{number}")
    calls = {name: value for name, value in scrape(metrics).items() if name.startswith("podresources")}
    assert calls == {
        "podresources_calls_total{code=OK,method=List}": 1,
        "podresources_calls_total{code=OTHER,method=List}": 100,
    }


def test_life_cycle(metrics):
    metrics.restarted("poller")
    metrics.reloaded(ReloadResult.REFUSED)
    metrics.set_inotify(available=True)
    found = scrape(metrics)
    assert found["task_restarts_total{task=poller}"] == 1
    assert found["reloads_total{result=refused}"] == 1
    assert found["reloads_total{result=accepted}"] == 0
    assert found["inotify_available"] == 1
    assert found["build_info{version=1.2.3}"] == 1


def test_two_daemons_in_one_process_count_apart(metrics, clock):
    other = Metrics(version="1.2.3", clock=clock)
    decide(metrics)
    assert not any(name.startswith("decisions") for name in scrape(other))


def test_a_scraper_can_tell_the_format(metrics):
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"process_resident_memory_bytes" in body
    assert b"_created" not in body


def test_every_metric_is_documented_and_every_documented_one_exists(metrics):
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(numaplace_\w+)` \| (\w+) \|", page, flags=re.MULTILINE))
    everything(metrics, VF)
    metrics.set_snapshot(snapshot())
    families = text_string_to_metric_families(metrics.render()[0].decode())
    types = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in families
        if family.name.startswith(PREFIX)
    }
    assert rows == types
    assert set(rows) == {name for name in metrics.names() if name.startswith(PREFIX)}


def test_the_pages_label_values_are_the_codes(metrics):
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    values = [*Alignment, *FallbackReason, *RegistrationResult, *ReloadResult, *Outcome]
    assert [value for value in values if f"`{value}`" not in page] == []
