from __future__ import annotations

import pytest
from effort import examples
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from kubelet_side import pod
from numaplace.errors import PeerError
from numaplace.kubelet.api import podresources_pb2 as pr
from numaplace.kubelet.podresources.convert import (
    MAX_FORMS,
    ListDecoder,
    decode_allocatable,
    decode_pod,
    pods_of,
)
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse

names = st.text(max_size=6)
node_ids = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 4)
topologies = (
    st.builds(pr.TopologyInfo, nodes=st.lists(st.builds(pr.NUMANode, ID=node_ids), max_size=3)) | st.none()
)
cpus = st.lists(st.integers(0, 300), max_size=4)
memories = st.lists(
    st.builds(pr.ContainerMemory, memory_type=names, size=st.integers(0, 2**64 - 1), topology=topologies),
    max_size=2,
)
devices = st.lists(
    st.builds(
        pr.ContainerDevices, resource_name=names, device_ids=st.lists(names, max_size=3), topology=topologies
    ),
    max_size=3,
)
claims = st.lists(st.builds(pr.DynamicResource, claim_name=names, claim_namespace=names), max_size=2)
containers = st.lists(
    st.builds(
        pr.ContainerResources,
        name=names,
        devices=devices,
        cpu_ids=cpus,
        memory=memories,
        dynamic_resources=claims,
    ),
    max_size=3,
)
pods = st.builds(
    pr.PodResources, name=names, namespace=names, containers=containers, cpu_ids=cpus, memory=memories
)
replies = st.lists(pods, max_size=4).map(
    lambda some: pr.ListPodResourcesResponse(pod_resources=some).SerializeToString()
)


often = settings(max_examples=examples(60))


def plainly(raw: bytes) -> tuple[PodUse, ...] | None:
    try:
        return pods_of(pr.ListPodResourcesResponse.FromString(raw))
    except DecodeError:
        return None


def decoded(decoder: ListDecoder, raw: bytes) -> tuple[PodUse, ...] | None:
    try:
        return decoder.decode(raw)
    except PeerError:
        return None


@often
@given(st.lists(replies, min_size=1, max_size=4))
def test_decoding_a_series_of_replies_equals_converting_each(series):
    decoder = ListDecoder()
    for raw in series:
        assert decoder.decode(raw) == plainly(raw)


@often
@given(replies, st.binary(max_size=12), st.integers(0, 400))
def test_damaged_replies_are_judged_as_the_full_parser_does(raw, damage, at):
    damaged = raw[:at] + damage + raw[at + 1 :]
    decoder = ListDecoder()
    decoder.decode(raw)
    assert decoded(decoder, damaged) == plainly(damaged)
    assert decoder.decode(raw) == plainly(raw)


@often
@given(st.binary(max_size=40))
def test_any_bytes_are_judged_as_the_full_parser_does(raw):
    assert decoded(ListDecoder(), raw) == plainly(raw)


def reply(*some: pr.PodResources) -> bytes:
    return pr.ListPodResourcesResponse(pod_resources=some).SerializeToString()


def test_the_same_reply_gives_the_same_tuple():
    decoder = ListDecoder()
    raw = reply(pod("a"), pod("b"))
    assert decoder.decode(raw) is decoder.decode(bytes(bytearray(raw)))


def test_unchanged_pods_of_a_changed_reply_are_the_same_objects():
    decoder = ListDecoder()
    a, b, c = decoder.decode(reply(pod("a"), pod("b"), pod("c")))
    after = decoder.decode(reply(pod("c"), pod("b", resource="x/y", ids=("1",)), pod("a"), pod("d")))
    assert after[0] is c
    assert after[1] != b
    assert after[2] is a


def test_only_the_previous_reply_is_remembered():
    decoder = ListDecoder()
    (first,) = decoder.decode(reply(pod("a")))
    decoder.decode(reply())
    (again,) = decoder.decode(reply(pod("a")))
    assert again == first
    assert again is not first


def test_a_top_level_field_of_a_newer_kubelet_is_skipped():
    raw = reply(pod("a")) + b"\x12\x03new"
    assert [one.name for one in ListDecoder().decode(raw)] == ["a"]


def test_nodes_that_no_mask_can_hold_are_no_topology():
    raw = reply(
        pod("a", resource="x/y", ids=("1",), nodes=(-1,)),
        pod("b", resource="x/y", ids=("2",), nodes=(64,)),
        pod("c", resource="x/y", ids=("3",), nodes=(3, -1, 1, 3)),
    )
    assert [one.containers[0].devices[0].nodes for one in ListDecoder().decode(raw)] == [(), (), (1, 3)]


def test_a_pod_with_everything():
    message = pod("p", resource="x/y", ids=("1", "2"), nodes=(0,))
    container = message.containers[0]
    container.devices.add(resource_name="x/y", device_ids=["3"]).topology.nodes.add(ID=1)
    container.cpu_ids.extend([4, 5])
    container.memory.add(memory_type="hugepages-2Mi", size=4 << 20).topology.nodes.extend(
        [pr.NUMANode(ID=0), pr.NUMANode(ID=1)]
    )
    container.dynamic_resources.add(claim_name="c", claim_namespace="n")
    message.cpu_ids.extend([4, 5, 6])
    (use,) = ListDecoder().decode(reply(message))
    assert use == PodUse(
        namespace="default",
        name="p",
        containers=(
            ContainerUse(
                name="main",
                devices=(DeviceBlock("x/y", ("1", "2"), (0,)), DeviceBlock("x/y", ("3",), (1,))),
                cpus=frozenset({4, 5}),
                memory=(MemoryBlock("hugepages-2Mi", 4 << 20, (0, 1)),),
                claims=("n/c",),
            ),
        ),
        cpus=frozenset({4, 5, 6}),
    )


def test_allocatable_keeps_all_nodes_of_a_block():
    message = pr.AllocatableResourcesResponse(cpu_ids=[0, 1])
    message.devices.add(resource_name="x/y", device_ids=["1"]).topology.nodes.extend(
        [pr.NUMANode(ID=1), pr.NUMANode(ID=0)]
    )
    assert decode_allocatable(message.SerializeToString()) == Allocatable(
        devices=(DeviceBlock("x/y", ("1",), (0, 1)),), cpus=frozenset({0, 1})
    )


@pytest.mark.parametrize("decode", [ListDecoder().decode, decode_allocatable, decode_pod])
def test_nonsense_is_named_as_such(decode):
    with pytest.raises(PeerError) as caught:
        decode(b"\x0a\xff\xff\xff")
    assert caught.value.code == "DECODE"


@pytest.mark.parametrize("cpu", [-1, 1 << 20, (1 << 63) - 1])
def test_cpus_that_no_machine_has_are_nonsense(cpu):
    """Counted with, one such id would take all memory."""
    broken, good = pr.PodResources(name="p", namespace="n"), pod("a")
    broken.containers.add(name="main", cpu_ids=[0, cpu])
    decoder = ListDecoder()
    answers = (
        (decoder.decode, reply(good, broken)),
        (decode_pod, pr.GetPodResourcesResponse(pod_resources=broken).SerializeToString()),
        (decode_allocatable, pr.AllocatableResourcesResponse(cpu_ids=[cpu]).SerializeToString()),
    )
    for decode, raw in answers:
        with pytest.raises(PeerError) as caught:
            decode(raw)
        assert caught.value.code == "DECODE"
    assert decoder.decode(reply(good)) == pods_of(pr.ListPodResourcesResponse(pod_resources=[good]))


def test_a_pod_whose_blocks_and_cpus_come_in_another_order_is_the_same_object():
    first, other = pr.PodResources(name="p", namespace="n"), pr.PodResources(name="p", namespace="n")
    for message, order in ((first, (1, 2, 3)), (other, (3, 1, 2))):
        container = message.containers.add(name="main", cpu_ids=order)
        for number in order:
            container.devices.add(resource_name="x/y", device_ids=[str(number)])
    decoder = ListDecoder()
    (before,) = decoder.decode(reply(first))
    (after,) = decoder.decode(reply(other))
    assert after is before


def test_the_orders_of_a_pod_do_not_pile_up():
    decoder = ListDecoder()
    seen = set()
    for start in range(3 * MAX_FORMS):
        message = pr.PodResources(name="p", namespace="n")
        message.containers.add(name="main", cpu_ids=[start, *range(start), *range(start + 1, 200)])
        seen.add(id(decoder.decode(reply(message))[0]))
    assert len(seen) == 1
    decoder.decode(reply())
    assert decoder.decode(reply(pod("a")))[0].name == "a"
