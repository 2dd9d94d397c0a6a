from dataclasses import replace

import pytest
from numaplace.model.device import Device
from numaplace.model.mask import mask_of
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.snapshot import ContributionCache, DeviceState, Usage, build_snapshot
from state.stateio import cases, snapshot_input

SNAPSHOT_CASES = cases("snapshot.yaml")


def mask(text):
    return mask_of(int(node) for node in text.split(","))


@pytest.mark.parametrize("case", SNAPSHOT_CASES, ids=lambda case: case["id"])
def test_pitfall(case):
    snapshot = build_snapshot(**snapshot_input(case))
    for resource, sets in case.get("usage", {}).items():
        found = {nodes: snapshot.usage(resource, mask(nodes)) for nodes in sets}
        assert found == {nodes: Usage(*amounts) for nodes, amounts in sets.items()}, resource
    for resource, sets in case.get("free", {}).items():
        assert {nodes: snapshot.usage(resource, mask(nodes)).free for nodes in sets} == sets
    for resource, ids in case.get("in_use", {}).items():
        assert sorted(snapshot.in_use(resource)) == ids
    for resource, size in case.get("fits", {}).items():
        assert snapshot.largest_single_node_fit(resource) == size
    if "containers" in case:
        assert snapshot.containers_per_node() == case["containers"]
    if "resources" in case:
        assert list(snapshot.resources) == case["resources"]


def small_node(**changes):
    given = {
        "topology": NumaTopology((0, 1), {0: frozenset({0, 1}), 1: frozenset({2, 3})}),
        "allocatable": Allocatable((DeviceBlock("vendor/x", ("x",), (1,)),), frozenset({1, 2, 3})),
        "pods": (PodUse("ns", "p", (ContainerUse("c", (DeviceBlock("gpu", ("a", "lost"), (0,)),)),)),),
        "devices": {
            "gpu": {"a": Device("a", (0,)), "b": Device("b", (0, 1)), "c": Device("c", (), healthy=False)}
        },
        "taken_at_seconds": 100.0,
    }
    return build_snapshot(**{**given, **changes})


def test_devices_say_nodes_health_and_use():
    assert small_node().devices("gpu") == {
        "a": DeviceState(mask=0b01, healthy=True, allocated=True),
        "b": DeviceState(mask=0b11, healthy=True, allocated=False),
        "c": DeviceState(mask=0, healthy=False, allocated=False),
        "lost": DeviceState(mask=0b01, healthy=False, allocated=True),
    }
    assert small_node().devices("vendor/x") == {"x": DeviceState(mask=0b10, healthy=True, allocated=False)}


def test_scores_are_those_of_the_kep():
    snapshot = small_node()
    assert [snapshot.score("gpu", nodes) for nodes in (0b01, 0b10, 0b11)] == [50, 1, 50]
    assert snapshot.score("vendor/x", 0b01) == 0, "no capacity there: no signal"
    assert snapshot.score("cpu", 0b10) == 1, "nothing allocated is scored, and is not 0"


def test_unknown_names_and_empty_masks_read_as_empty():
    snapshot = small_node()
    assert snapshot.usage("nobody/has-it", 0b11) == Usage(0, 0)
    assert snapshot.usage("gpu", 0) == Usage(0, 0)
    assert snapshot.in_use("nobody/has-it") == frozenset()
    assert snapshot.devices("nobody/has-it") == {}
    assert snapshot.largest_single_node_fit("nobody/has-it") == 0
    assert snapshot.largest_single_node_fit("gpu") == 1


def test_resources_are_sorted_and_include_ours_without_devices():
    snapshot = small_node(devices={"z/empty": {}, "gpu": {}})
    assert snapshot.resources == ("cpu", "gpu", "vendor/x", "z/empty")
    assert snapshot.per_node("z/empty") == {0: Usage(0, 0), 1: Usage(0, 0)}


def test_age_never_reads_negative():
    assert small_node().age_seconds(100.25) == 0.25
    assert small_node().age_seconds(99.0) == 0.0


def test_a_cache_notices_new_devices_and_health():
    cache = ContributionCache()
    before = {"gpu": {"a": Device("a", (0,)), "b": Device("b", (0,))}}
    assert small_node(devices=before, cache=cache).usage("gpu", 0b01) == Usage(2, 1)
    sick = {"gpu": {**before["gpu"], "a": replace(before["gpu"]["a"], healthy=False)}}
    assert small_node(devices=sick, cache=cache).usage("gpu", 0b01) == Usage(1, 0)


def test_a_cache_keeps_only_listed_pods():
    cache = ContributionCache()
    pods = [PodUse("ns", f"p{index}", (ContainerUse("c"),)) for index in range(20)]
    small_node(pods=tuple(pods), cache=cache)
    small_node(pods=tuple(pods[:3]), cache=cache)
    assert len(cache._pods) == 3
