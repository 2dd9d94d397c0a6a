from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.engine.options import PolicyOptions
from numaplace.engine.weights import parse_weights
from numaplace.model.device import Device
from numaplace.model.mask import mask_of, nodes_of, width
from numaplace.model.names import MEMORY, DeviceId, ResourceName, Strategy
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.placement.index import index_devices
from numaplace.placement.place import PlacementRequest, place
from numaplace.placement.reasons import Asker, Outcome
from numaplace.placement.text import why
from numaplace.state.snapshot import build_snapshot

GPU = ResourceName("nvidia.com/gpu")
VF = ResourceName("intel.com/sriov-nic")
GIB = 1 << 30


class Node:
    """A node in a given allocation state: ``used[node][resource]``, the same capacity on each NUMA node."""

    def __init__(self, used, *, cpus=64, memory=128, **counts):
        counts = {GPU: counts.get("gpu", 0), VF: counts.get("vf", 0)}
        nodes = tuple(sorted(used))
        self.topology = NumaTopology(
            nodes=nodes, cpus={n: frozenset(range(n * cpus, (n + 1) * cpus)) for n in nodes}
        )
        self.devices = {
            resource: {
                DeviceId(f"{n}-{i}"): Device(DeviceId(f"{n}-{i}"), nodes=(n,))
                for n in nodes
                for i in range(count)
            }
            for resource, count in counts.items()
            if count
        }
        self.allocatable = Allocatable(
            cpus=frozenset(range(len(nodes) * cpus)) if cpus else frozenset(),
            memory=tuple(MemoryBlock(ResourceName("memory"), memory * GIB, (n,)) for n in nodes),
        )
        self.pods = tuple(
            PodUse("default", f"on-{n}", (ContainerUse("c", *self._held(n, amounts, cpus)),))
            for n, amounts in used.items()
        )

    def _held(self, node, amounts, cpus):
        blocks = tuple(
            DeviceBlock(
                resource,
                tuple(DeviceId(f"{node}-{i}") for i in range(amounts.get(str(resource), 0))),
                (node,),
            )
            for resource in self.devices
        )
        held_cpus = frozenset(range(node * cpus, node * cpus + amounts.get("cpu", 0)))
        memory = (MemoryBlock(ResourceName("memory"), amounts.get("memory", 0) * GIB, (node,)),)
        return blocks, held_cpus, memory

    def place(self, resource, size, *, strategy, weights="", must_include=(), available=None, **asking):
        snapshot = build_snapshot(
            topology=self.topology,
            allocatable=self.allocatable,
            pods=self.pods,
            devices=self.devices,
            taken_at_seconds=0.0,
        )
        offered = set(self.devices[resource]) - snapshot.in_use(resource)
        return place(
            PlacementRequest(
                offered if available is None else available, must_include, size, Asker(**asking)
            ),
            index=index_devices(self.devices[resource].values()),
            topology=self.topology,
            snapshot=snapshot,
            options=PolicyOptions(strategy=Strategy(strategy), weights=parse_weights(weights)),
        )


KEP_EXAMPLE_1 = Node(
    {
        0: {"cpu": 48, "memory": 64, "nvidia.com/gpu": 1},
        1: {"cpu": 16, "memory": 32, "nvidia.com/gpu": 3},
    },
    gpu=4,
)
KEP_EXAMPLE_2 = Node(
    {
        0: {"cpu": 8, "memory": 32, "intel.com/sriov-nic": 6},
        1: {"cpu": 24, "memory": 96, "intel.com/sriov-nic": 2},
        2: {"cpu": 16, "memory": 64, "intel.com/sriov-nic": 4},
        3: {"cpu": 16, "memory": 64, "intel.com/sriov-nic": 4},
    },
    cpus=32,
    vf=8,
)


@pytest.mark.parametrize(
    ("node", "resource", "strategy", "weights", "scores", "selected"),
    [
        (KEP_EXAMPLE_1, GPU, "most-allocated", "", [50, 41], 0),
        (KEP_EXAMPLE_1, GPU, "most-allocated", "nvidia.com/gpu=10", [31, 66], 1),
        (KEP_EXAMPLE_1, GPU, "most-allocated", "cpu=3,memory=1,nvidia.com/gpu=6", [42, 55], 1),
        (KEP_EXAMPLE_1, GPU, "most-allocated", "nvidia.com/gpu=10,cpu=0", [27, 70], 1),
        (KEP_EXAMPLE_1, GPU, "least-allocated", "nvidia.com/gpu=10", [31, 66], 0),
        (KEP_EXAMPLE_1, GPU, "none", "nvidia.com/gpu=10", [0, 0], 0),
        (KEP_EXAMPLE_2, VF, "least-allocated", "", [41, 58, 50, 50], 0),
        (KEP_EXAMPLE_2, VF, "least-allocated", "cpu=0,memory=0", [75, 25, 50, 50], 1),
    ],
)
def test_kep_worked_examples(node, resource, strategy, weights, scores, selected):
    placement = node.place(resource, 1, strategy=strategy, weights=weights)
    assert [candidate.score for candidate in placement.choice.candidates] == scores
    assert nodes_of(placement.choice.mask) == (selected,)
    assert placement.ids[0].startswith(f"{selected}-")
    assert placement.choice.score_decided == (selected != 0)


def test_pytorch_ci_infra_696_packing_keeps_a_socket_whole():
    node = Node({0: {}, 1: {"nvidia.com/gpu": 2}}, gpu=4)
    packed = node.place(GPU, 1, strategy="most-allocated", weights="cpu=0,memory=0")
    spread = node.place(GPU, 1, strategy="least-allocated", weights="cpu=0,memory=0")
    assert (nodes_of(packed.choice.mask), nodes_of(spread.choice.mask)) == ((1,), (0,))
    assert node.place(GPU, 4, strategy="most-allocated").ids == ("0-0", "0-1", "0-2", "0-3")


def test_the_second_resource_follows_the_first_one():
    node = Node({0: {}, 1: {"nvidia.com/gpu": 2}}, gpu=4, vf=8)
    alone = node.place(VF, 1, strategy="least-allocated")
    following = node.place(VF, 1, strategy="least-allocated", held=mask_of([1]))
    assert (nodes_of(alone.choice.mask), nodes_of(following.choice.mask)) == ((0,), (1,))
    assert "beside the container's other devices: NUMA 1" in why(following)


def test_room_for_what_such_containers_ask_for_beside_it():
    node = Node({0: {"nvidia.com/gpu": 4, "intel.com/sriov-nic": 4}, 1: {}}, gpu=4, vf=8)
    alone = node.place(VF, 1, strategy="most-allocated")
    paired = node.place(VF, 1, strategy="most-allocated", rest={GPU: 1})
    assert (nodes_of(alone.choice.mask), nodes_of(paired.choice.mask)) == ((0,), (1,))
    assert why(paired).startswith("NUMA 1 alone has 1 nvidia.com/gpu free too")


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param({GPU: 5}, id="no-node-has-that-much"),
        pytest.param({ResourceName("example.com/unseen"): 1}, id="a-resource-without-state"),
        pytest.param({GPU: 1}, id="every-node-has-it"),
    ],
)
def test_a_rest_that_tell_no_nodes_apart_change_nothing(rest):
    node = Node({0: {}, 1: {"nvidia.com/gpu": 2}}, gpu=4, vf=8)
    placement = node.place(VF, 1, strategy="most-allocated", rest=rest)
    assert (nodes_of(placement.choice.mask), placement.asker.rest) == ((1,), {})


def test_the_containers_own_request_is_given_as_the_reason():
    node = Node({0: {"nvidia.com/gpu": 4, "intel.com/sriov-nic": 4}, 1: {}}, gpu=4, vf=8)
    placement = node.place(
        VF, 1, strategy="most-allocated", rest={GPU: 1}, requested=frozenset({VF, GPU, "cpu"})
    )
    assert nodes_of(placement.choice.mask) == (1,)
    assert why(placement).startswith(
        "NUMA 1 alone has 1 nvidia.com/gpu free too, which the container also asks for"
    )


@pytest.mark.parametrize(
    ("requested", "scores", "selected"),
    [
        pytest.param(None, [41, 58, 50, 50], 0, id="unknown: all that have state"),
        pytest.param({VF}, [75, 25, 50, 50], 1, id="devices alone"),
        pytest.param({VF, "cpu"}, [50, 50, 50, 50], 0, id="with exclusive CPUs"),
        pytest.param({VF, "cpu", "memory"}, [41, 58, 50, 50], 0, id="Guaranteed"),
    ],
)
def test_only_requested_resources_are_scored(requested, scores, selected):
    """KEP-6007: a resource that the container does not ask for has no hint, so no score."""
    placement = KEP_EXAMPLE_2.place(
        VF, 1, strategy="least-allocated", requested=requested and frozenset(requested)
    )
    assert [candidate.score for candidate in placement.choice.candidates] == scores
    assert nodes_of(placement.choice.mask) == (selected,)


CPU_AND_MEMORY = {ResourceName("cpu"): 4, ResourceName("memory"): 2 * GIB}


@pytest.mark.parametrize(
    ("full", "lacking"),
    [
        pytest.param({"cpu": 61}, "4 cpu and 2Gi memory", id="cpus"),
        pytest.param({"memory": 127}, "4 cpu and 2Gi memory", id="memory"),
    ],
)
def test_a_node_without_room_for_the_known_cpus_and_memory_is_passed_over(full, lacking):
    """They could not be beside the devices there, wherever the kubelet takes them from."""
    node = Node({0: {"nvidia.com/gpu": 1, **full}, 1: {}}, gpu=4)
    placement = node.place(
        GPU, 1, strategy="most-allocated", rest=CPU_AND_MEMORY, requested=frozenset({GPU, *CPU_AND_MEMORY})
    )
    assert nodes_of(placement.choice.mask) == (1,)
    assert why(placement).startswith(
        f"NUMA 1 alone has {lacking} free too, which the container also asks for"
    )


@pytest.mark.parametrize(
    ("held_from", "expected"),
    [
        pytest.param((1,), (1,), id="one-node"),
        pytest.param((0, 1), (2,), id="two-nodes-of-which-one-alone-gives-nothing-any-more"),
    ],
)
def test_memory_that_the_kubelet_takes_from_several_nodes_together(held_from, expected):
    """There is room on NUMA 1 in both cases."""
    node = Node({0: {"memory": 100}, 1: {"nvidia.com/gpu": 1, "memory": 0}, 2: {}}, gpu=4)
    block = MemoryBlock(MEMORY, 40 * GIB, held_from)
    node.pods += (PodUse("default", "large", (ContainerUse("c", memory=(block,)),)),)
    placement = node.place(
        GPU,
        1,
        strategy="most-allocated",
        weights="memory=0",
        rest={MEMORY: 40 * GIB},
        requested={GPU, MEMORY},
    )
    assert nodes_of(placement.choice.mask) == expected


def test_memory_of_several_nodes_together_is_beside_devices_of_them_all():
    node = Node({0: {}, 1: {}, 2: {"memory": 120}}, gpu=2)
    block = MemoryBlock(MEMORY, 200 * GIB, (0, 1))
    node.pods += (PodUse("default", "large", (ContainerUse("c", memory=(block,)),)),)
    rest = {MEMORY: 40 * GIB}
    placement = node.place(GPU, 3, strategy="none", rest=rest, requested={GPU, MEMORY})
    assert (nodes_of(placement.choice.mask), placement.asker.rest) == ((0, 1), rest)


def test_room_for_devices_counts_more_than_room_for_cpus():
    node = Node({0: {"nvidia.com/gpu": 4}, 1: {"cpu": 64}}, gpu=4, vf=8)
    rest = {GPU: 1, ResourceName("cpu"): 4}
    placement = node.place(VF, 1, strategy="none", rest=rest, requested=frozenset({VF, *rest}))
    assert (nodes_of(placement.choice.mask), placement.asker.rest) == ((1,), {GPU: 1})


@pytest.mark.parametrize(
    ("cpus", "asked", "expected"),
    [
        pytest.param({1}, 1, (1,), id="there"),
        pytest.param({1, 2}, 1, (1,), id="on-two-nodes-either-will-do"),
        pytest.param({1, 2}, 5, (1, 2), id="on-two-nodes-and-so-are-the-devices"),
        pytest.param({3}, 1, (0,), id="where-no-device-is"),
        pytest.param(set(), 1, (0,), id="unknown"),
    ],
)
def test_devices_go_where_the_cpus_will_be(cpus, asked, expected):
    node = Node({0: {"nvidia.com/gpu": 1}, 1: {}, 2: {}, 3: {"nvidia.com/gpu": 4}}, gpu=4)
    placement = node.place(GPU, asked, strategy="most-allocated", cpus=mask_of(cpus))
    assert nodes_of(placement.choice.mask) == expected


def test_the_reason_names_the_cpus():
    node = Node({0: {"nvidia.com/gpu": 1}, 1: {}}, gpu=4)
    placement = node.place(GPU, 1, strategy="most-allocated", cpus=mask_of([1]))
    assert why(placement) == "beside the CPUs that the kubelet will give the container: NUMA 1"


def test_cpus_that_no_node_has_free_leave_the_choice_to_the_strategy():
    node = Node({0: {"cpu": 64, "nvidia.com/gpu": 1}, 1: {"cpu": 64}}, gpu=4)
    rest = {ResourceName("cpu"): 4}
    placement = node.place(GPU, 1, strategy="most-allocated", rest=rest, requested=frozenset({GPU, *rest}))
    assert (nodes_of(placement.choice.mask), placement.asker.rest) == ((0,), {})


def test_what_is_held_counts_more_than_what_may_come():
    node = Node({0: {"nvidia.com/gpu": 4}, 1: {}}, gpu=4, vf=8)
    placement = node.place(VF, 1, strategy="none", held=mask_of([0]), rest={GPU: 1})
    assert nodes_of(placement.choice.mask) == (0,)


def test_a_request_that_no_single_node_holds_stays_near_what_is_held():
    node = Node({0: {}, 1: {}, 2: {}}, vf=2)
    placement = node.place(VF, 3, strategy="none", held=mask_of([2]))
    assert nodes_of(placement.choice.mask) == (0, 2)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("most-allocated", {0: 2, 1: 2}),
        ("least-allocated", {0: 2, 1: 2}),
        ("none", {0: 3, 1: 1}),
    ],
)
def test_devices_of_several_nodes_empty_the_fullest_first(strategy, expected):
    node = Node({0: {"nvidia.com/gpu": 1}, 1: {"nvidia.com/gpu": 2}}, gpu=4)
    placement = node.place(GPU, 4, strategy=strategy, weights="cpu=0,memory=0")
    assert nodes_of(placement.choice.mask) == (0, 1)
    assert Counter(node.devices[GPU][one].nodes[0] for one in placement.ids) == expected


def test_fragmented_devices_still_stay_near_what_is_held():
    node = Node({n: {"nvidia.com/gpu": 3} for n in range(3)}, gpu=4)
    placement = node.place(GPU, 2, strategy="none", held=mask_of([2]))
    assert nodes_of(placement.choice.mask) == (0, 2)


def test_all_offered_are_returned_without_more_work():
    placement = KEP_EXAMPLE_1.place(GPU, 4, strategy="most-allocated", must_include=["1-3"])
    assert placement.outcome is Outcome.ALL
    assert placement.ids == ("1-3", "0-1", "0-2", "0-3")


def test_devices_without_topology_are_placed_too():
    placement = place(
        PlacementRequest({"b", "a", "c"}, must_include=[], size=2),
        index=index_devices([Device("a"), Device("b"), Device("c")]),
        topology=NumaTopology(nodes=(0, 1)),
        snapshot=None,
        options=PolicyOptions(strategy=Strategy.MOST_ALLOCATED),
    )
    assert (placement.ids, placement.outcome, placement.choice.mask) == (
        ("a", "b"),
        Outcome.NO_TOPOLOGY,
        None,
    )


def test_without_a_snapshot_the_structural_rule_decides():
    placement = place(
        PlacementRequest({"a", "b"}, must_include=[], size=1),
        index=index_devices([Device("a", nodes=(1,)), Device("b", nodes=(0,))]),
        topology=NumaTopology(nodes=(0, 1)),
        snapshot=None,
        options=PolicyOptions(strategy=Strategy.LEAST_ALLOCATED),
    )
    assert placement.ids == ("b",)
    assert why(placement) == "lowest id: NUMA 0"


@pytest.mark.parametrize(
    ("strategy", "size", "text"),
    [
        (
            "most-allocated",
            1,
            "most-allocated: NUMA 1 scores 66, NUMA 0 31; without scores it would be NUMA 0",
        ),
        ("least-allocated", 1, "least-allocated: NUMA 0 scores 31, NUMA 1 66"),
        ("none", 1, "lowest id: NUMA 0"),
        ("most-allocated", 3, "only NUMA 0 can hold the request"),
        ("most-allocated", 4, "as many were asked for as are offered"),
    ],
)
def test_it_says_why(strategy, size, text):
    assert why(KEP_EXAMPLE_1.place(GPU, size, strategy=strategy, weights="nvidia.com/gpu=10")) == text


def test_a_choice_that_the_kubelet_had_made_is_told_as_such():
    node = Node({0: {}, 1: {}}, gpu=4)
    of_one = [id_ for id_, device in node.devices[GPU].items() if device.nodes == (1,)]
    placement = node.place(GPU, 2, strategy="least-allocated", available=of_one)
    assert why(placement) == "the kubelet offered devices of NUMA 1 only"


device_ids = st.integers(0, 23).map(lambda number: DeviceId(f"d{number}"))


@given(
    offered=st.sets(device_ids, max_size=24),
    musts=st.lists(device_ids, max_size=3),
    size=st.integers(-1, 26),
    strategy=st.sampled_from(Strategy),
    nodes=st.lists(st.lists(st.integers(0, 5), max_size=2, unique=True), min_size=20, max_size=20),
    groups=st.lists(st.sampled_from(["", "a", "b"]), min_size=20, max_size=20),
    held=st.integers(0, 63),
    used=st.sets(device_ids, max_size=12),
    rest=st.dictionaries(st.sampled_from([GPU, VF]), st.integers(1, 9)),
)
def test_any_request_gets_a_valid_answer(offered, musts, size, strategy, nodes, groups, held, used, rest):
    devices = [
        Device(DeviceId(f"d{i}"), nodes=tuple(sorted(on)), group=group)
        for i, (on, group) in enumerate(zip(nodes, groups, strict=True))
    ]
    topology = NumaTopology(nodes=tuple(range(6)))
    snapshot = build_snapshot(
        topology=topology,
        allocatable=Allocatable(),
        pods=(PodUse("ns", "p", (ContainerUse("c", (DeviceBlock(GPU, tuple(sorted(used))),)),)),),
        devices={GPU: {device.id: device for device in devices}},
        taken_at_seconds=0.0,
    )

    def answer(order):
        return place(
            PlacementRequest(order(offered | set(musts)), musts, size, Asker(held=held, rest=rest)),
            index=index_devices(devices),
            topology=topology,
            snapshot=snapshot,
            options=PolicyOptions(strategy=strategy),
        )

    placement = answer(sorted)
    assert len(placement.ids) == len(set(placement.ids)) == min(max(size, 0), len(offered | set(musts)))
    assert set(placement.ids) <= offered | set(musts)
    assert set(musts) <= set(placement.ids) or size < len(set(musts))
    assert placement == answer(lambda ids: sorted(ids, reverse=True))
    assert why(placement)
    if placement.choice.mask is not None and placement.choice.structural is not None:
        assert width(placement.choice.mask) == width(placement.choice.structural)
