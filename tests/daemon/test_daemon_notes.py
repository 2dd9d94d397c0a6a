"""The words of Events, and that an Event says what List showed, whoever chose it."""

from __future__ import annotations

from numaplace.daemon.cluster.event_texts import REMEMBERED_SECONDS, Answers, notes_of
from numaplace.engine.options import PolicyOptions
from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Pod
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.placement.index import index_devices
from numaplace.placement.place import PlacementRequest, place
from numaplace.state.snapshot import build_snapshot
from numaplace.steering.decision import WithoutSteering
from numaplace.steering.text import steered_text

VF, NIC = ResourceName("intel.com/vf"), ResourceName("vendor.com/nic")
TOPOLOGY = NumaTopology((0, 1), {0: frozenset({0}), 1: frozenset({1})})
DEVICES = {DeviceId(f"vf-{i}"): Device(DeviceId(f"vf-{i}"), nodes=(i // 4,)) for i in range(8)}
SPEC = Pod(PodUid("uid"), "ns", "p", ())
BUSY = PodUse("ns", "busy", (ContainerUse("c", (DeviceBlock(VF, ("vf-0", "vf-1")),)),))


def snapshot(*pods: PodUse):
    foreign = Allocatable(devices=(DeviceBlock(NIC, ("nic-0",), (0,)), DeviceBlock(NIC, ("nic-1",), (1,))))
    return build_snapshot(
        topology=TOPOLOGY, allocatable=foreign, pods=pods, devices={VF: DEVICES}, taken_at_seconds=0
    )


def use(*blocks: tuple[ResourceName, tuple[str, ...]]) -> PodUse:
    # Without NUMA nodes, as List shows devices whose topology is withheld.
    devices = tuple(DeviceBlock(name, tuple(map(DeviceId, ids))) for name, ids in blocks)
    return PodUse("ns", "p", (ContainerUse("main", devices), ContainerUse("helper")))


def told(pod: PodUse, answers: Answers):
    return list(notes_of(pod, SPEC, ours={VF}, snapshot=snapshot(BUSY, pod), answers=answers))


def answered(answers: Answers, strategy: Strategy) -> tuple[str, ...]:
    placement = place(
        PlacementRequest(set(DEVICES) - {"vf-0", "vf-1"}, (), 1),
        index=index_devices(DEVICES.values()),
        topology=TOPOLOGY,
        snapshot=snapshot(BUSY),
        options=PolicyOptions(strategy=strategy),
    )
    answers.note(VF, placement)
    return placement.ids


def test_where_and_why_and_what_it_would_have_been() -> None:
    answers = Answers(lambda: 0.0)
    (note,) = told(use((VF, answered(answers, Strategy.LEAST_ALLOCATED))), answers)
    assert (note.reason, note.warning, note.container) == ("NUMAPlaced", False, "main")
    assert note.message == (
        "Container main: 1 intel.com/vf (vf-4) on NUMA 1. intel.com/vf: least-allocated: NUMA 1 scores 1, "
        "NUMA 0 25; without scores it would be NUMA 0"
    )


def test_the_strategy_is_named_where_it_did_not_decide() -> None:
    answers = Answers(lambda: 0.0)
    (note,) = told(use((VF, answered(answers, Strategy.NONE))), answers)
    assert note.message.endswith("lowest id: NUMA 0 (strategy none)")


def test_what_the_kubelet_chose_is_told_as_such() -> None:
    answers = Answers(lambda: 0.0)
    answered(answers, Strategy.NONE)
    (note,) = told(use((VF, ("vf-7",))), answers)
    assert (
        note.message == "Container main: 1 intel.com/vf (vf-7) on NUMA 1. intel.com/vf: chosen by the kubelet"
    )


def test_an_answer_counts_once_and_not_for_ever() -> None:
    now = 0.0
    answers = Answers(lambda: now)
    pod = use((VF, answered(answers, Strategy.NONE)))
    assert "lowest id" in told(pod, answers)[0].message
    assert "chosen by the kubelet" in told(pod, answers)[0].message
    answered(answers, Strategy.NONE)
    now = REMEMBERED_SECONDS
    assert "chosen by the kubelet" in told(pod, answers)[0].message


def test_devices_on_several_nodes_are_a_warning() -> None:
    (note,) = told(use((VF, ("vf-2", "vf-5"))), Answers(lambda: 0.0))
    assert (note.reason, note.warning) == ("NUMASplit", True)
    assert "2 intel.com/vf (vf-2, vf-5) on NUMA 0,1 (devices of one container on several NUMA" in note.message


def test_devices_of_other_plugins_count_for_a_split() -> None:
    (note,) = told(use((VF, ("vf-5",)), (NIC, ("nic-0",))), Answers(lambda: 0.0))
    assert note.reason == "NUMASplit"
    assert "1 vendor.com/nic (nic-0) on NUMA 0" in note.message
    (note,) = told(use((VF, ("vf-5",)), (NIC, ("nic-1",))), Answers(lambda: 0.0))
    assert note.reason == "NUMAPlaced"


def test_pods_without_our_devices_are_not_told_of() -> None:
    assert told(use((NIC, ("nic-0",))), Answers(lambda: 0.0)) == []
    assert told(use(), Answers(lambda: 0.0)) == []


def test_many_devices_are_not_all_named() -> None:
    (note,) = told(use((VF, tuple(f"vf-{i}" for i in range(7)))), Answers(lambda: 0.0))
    assert "7 intel.com/vf (vf-0, vf-1, vf-2, vf-3 and 3 more) on NUMA 0,1" in note.message


def test_what_steering_changed_comes_before_what_was_left_to_choose() -> None:
    answers = Answers(lambda: 0.0)
    ids = answered(answers, Strategy.LEAST_ALLOCATED)

    def steered(resource: ResourceName, found: object, mask: int) -> str:
        assert (resource, found) == (VF, ids)
        return steered_text(
            mask, instead_of=WithoutSteering(0b01, {0b10: 12, 0b01: 37}), strategy=Strategy.LEAST_ALLOCATED
        )

    pod = use((VF, ids))
    (note,) = notes_of(pod, SPEC, ours={VF}, snapshot=snapshot(BUSY, pod), answers=answers, steered=steered)
    assert note.message.endswith(
        "intel.com/vf: steered: NUMA 1 instead of NUMA 0 (least-allocated: NUMA 1 scores 12, NUMA 0 37)"
    )
