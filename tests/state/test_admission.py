import re

import pytest
from numaplace.model.mask import nodes_of
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.admission import AdmissionLog, held_nodes
from numaplace.state.ledger import Ledger
from numaplace.state.list_change import ListChange
from numaplace.state.snapshot import build_snapshot
from state.lists import first, then
from state.stateio import cases

TOPOLOGY = NumaTopology((0, 1, 2), {node: frozenset({node}) for node in range(3)})


def block(device):
    resource, node = re.fullmatch(r"([a-z]+)(\d)", device).groups()
    return DeviceBlock(resource, (device,), (int(node),))


def container(held, index):
    devices = tuple(block(one) for one in held if one != "cpu")
    return ContainerUse(f"c{index}", devices, frozenset({0}) if "cpu" in held else frozenset())


def pod(name, containers):
    return PodUse("ns", name, tuple(container(held, index) for index, held in enumerate(containers)))


@pytest.mark.parametrize("case", cases("admission.yaml"), ids=lambda case: case["id"])
def test_who_is_asking(case):
    log, ledger, change, pods = AdmissionLog(), Ledger(), ListChange(), ()
    for now, step in enumerate(case["steps"]):
        if "list" in step:
            pods = tuple(pod(name, containers) for name, containers in step["list"].items())
            change = then(change, pods, at=now)
            log, ledger = log.after_list(change), ledger.after_list(change)
        elif "grant" in step:
            resource = block(step["grant"][0]).resource
            ledger = ledger.granted(resource, step["grant"], now_seconds=now)
        else:
            admission = log.admission_for(change.entries, step["ask"], latest=ledger.latest)
            assert (admission.pod.name if admission.pod else None) == step["is"]
            if "of" in step:
                assert [name for _, name in admission.candidates] == step["of"]
            if "held" in step:
                snapshot = build_snapshot(
                    topology=TOPOLOGY, allocatable=Allocatable(), pods=pods, devices={}, taken_at_seconds=now
                )
                mask = held_nodes(admission, step["ask"], snapshot=snapshot, latest=ledger.latest)
                assert list(nodes_of(mask)) == step["held"]
            log = log.decided(admission, change.entries, now_seconds=now)


def test_a_finished_pod_beside_its_successor_of_the_same_name():
    """P15 and kubernetes/kubernetes#119423: both are listed, without UID."""
    finished, successor, other = pod("web-0", [["vf0"]]), pod("web-0", [[]]), pod("other", [[]])
    before = first((finished, other))
    change = then(before, (other, finished, successor))
    log = AdmissionLog().after_list(before).after_list(change)
    assert log.admission_for(change.entries, "vf").pod is successor


def test_the_same_list_again_changes_nothing():
    pods = (pod("p", [[]]),)
    log = AdmissionLog().after_list(first(pods))
    assert log.after_list(then(first(pods), (pod("p", [[]]),))) is log


def asking(*pods):
    return AdmissionLog().admission_for(first(pods).entries, "vf")


def test_a_pod_listed_without_containers_may_be_asking():
    assert asking(PodUse("ns", "p")).candidates == (("ns", "p"),)


def test_candidates_are_sorted_whatever_the_order_of_the_list():
    pods = (pod("b", [[]]), pod("a", [[]]))
    assert asking(*pods).candidates == asking(*pods[::-1]).candidates == (("ns", "a"), ("ns", "b"))
