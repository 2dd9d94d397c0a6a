"""A kubelet that restarts admits its running pods again, by what is published of their devices then."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.engine.options import PolicyName
from numaplace.managers.device_manager import PodUid
from numaplace.steering.published_topology import published
from steering_machine import GPU, VF, Hardware, Machine, per_node, request

POLICIES = [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED]
HARDWARE = Hardware(3, (6,) * 3, (12,) * 3, {GPU: per_node(3, 3, 3), VF: per_node(2, 2, 2)})
KINDS = [
    request(gpu=1, cpu=2, memory=2),
    request(gpu=2, vf=1, cpu=1, memory=1),
    request(vf=2, cpu=1, memory=1),
]


def admits_again(machine, name, *, in_use, withheld):
    for resource, table in machine.tables.items():
        nodes = published(table, in_use=in_use(resource), withheld=withheld.get(resource, 0))
        machine.devices.publish(resource, [replace(table[one], nodes=nodes[one]) for one in table])
    return machine.kubelet.admit(machine.kubelet.pods[PodUid(name)]).admitted


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    st.sampled_from(POLICIES),
    st.dictionaries(st.sampled_from([GPU, VF]), st.integers(0, 0b111), max_size=2),
)
def test_devices_in_use_keep_their_topology_so_running_pods_are_admitted(kinds, policy, withheld):
    machine = Machine(replace(HARDWARE, policy=policy))
    names = [f"p{number}" for number, one in enumerate(kinds) if machine.create(f"p{number}", one).admitted]
    for name in names:
        assert admits_again(machine, name, in_use=machine.devices.in_use, withheld=withheld)


def test_a_pod_whose_devices_read_as_free_would_be_refused():
    """Hence nothing is withheld until all pods are listed again."""
    machine = Machine(HARDWARE)
    assert machine.create("p", KINDS[0]).admitted
    assert not admits_again(machine, "p", in_use=lambda _: frozenset(), withheld={GPU: 0b1})
