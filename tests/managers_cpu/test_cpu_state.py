"""What init containers leave, what comes back when containers end, and how full the hints say a node is."""

from __future__ import annotations

import pytest
from cpu_cases import TOPOLOGIES, container, cpus, pod, regular
from numaplace.engine.hint import Hint
from numaplace.managers.cpu.bits import cpu_list
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy, pod_exclusive_cpus
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Pod
from numaplace.model.names import CPU

NO_HINT = Hint(None, preferred=False)
INIT, SIDECAR = ContainerKind.INIT, ContainerKind.SIDECAR
SINGLE_SOCKET = StaticCpuPolicy.reserving(TOPOLOGIES["topoSingleSocketHT"], CpuPolicyOptions(), count=0)


def admit(policy: StaticCpuPolicy, state: CpuState, asked: Pod, affinity: Hint = NO_HINT) -> CpuState:
    for one in asked.in_order:
        state = policy.allocate(state, asked, one, affinity)
    return state


def test_init_cpus_are_used_again_and_the_rest_comes_back() -> None:
    """TestStaticPolicyReuseCPUs: SingleSocketHT, DeAllocOneInitContainer."""
    asked = pod("p", container("init", 4000, kind=INIT), container("app", 2000))
    state = admit(SINGLE_SOCKET, SINGLE_SOCKET.initial_state(), asked)
    assert cpu_list(state.default_bits) == "2-3,6-7"
    state = SINGLE_SOCKET.remove(state, asked.uid, "init")
    assert cpu_list(state.default_bits) == "1-3,5-7"
    assert state.cpus(asked.uid, "init") is None


def test_a_sidecar_keeps_its_cpus() -> None:
    """TestStaticPolicyDoNotReuseCPUs: Don't reuse CPUs of a restartable init container."""
    asked = pod("p", container("sidecar", 4000, kind=SIDECAR), container("app", 2000))
    state = admit(SINGLE_SOCKET, SINGLE_SOCKET.initial_state(), asked)
    assert cpu_list(state.default_bits) == "3,7"


@pytest.mark.parametrize(
    ("held", "shared", "ends", "left"),
    [
        ({"1": "1-3"}, "4-7", "1", "1-7"),
        ({"1": "1-3", "2": "4-7"}, "", "1", "1-3"),
        ({"1": "1,3,5", "2": "2,4"}, "6-7", "1", "1,3,5-7"),
        ({"1": "1,3,5"}, "2,4,6-7", "2", "2,4,6-7"),
    ],
    ids=["DeAllocOneContainer", "DeAllocOneContainer, BeginEmpty", "DeAllocTwoContainer", "NoDeAlloc"],
)
def test_the_end_of_a_container(held: dict[str, str], shared: str, ends: str, left: str) -> None:
    """TestStaticPolicyRemove."""
    uid = PodUid("fakePod")
    state = CpuState.of(cpus(shared), {(uid, name): cpus(ids) for name, ids in held.items()})
    assert cpu_list(SINGLE_SOCKET.remove(state, uid, ends).default_bits) == left


def test_what_init_containers_left_is_forgotten_when_another_pod_comes() -> None:
    first = pod("first", container("init", 4000, kind=INIT), container("app", 1000))
    second = pod("second", container("app", 1000))
    state = admit(SINGLE_SOCKET, SINGLE_SOCKET.initial_state(), first)
    assert state.reusable(first.uid)
    assert not admit(SINGLE_SOCKET, state, second).reusable(first.uid)


def test_a_container_that_has_cpus_keeps_them() -> None:
    asked = pod("p", container("app", 2000))
    state = admit(SINGLE_SOCKET, SINGLE_SOCKET.initial_state(), asked)
    assert admit(SINGLE_SOCKET, state, asked).assigned == state.assigned


def test_strictly_reserved_cpus_are_never_shared() -> None:
    options = CpuPolicyOptions(strict_reservation=True)
    policy = StaticCpuPolicy.reserving(TOPOLOGIES["topoSingleSocketHT"], options, count=2)
    assert policy.reserved == {0, 4}
    assert policy.initial_state().default == policy.allocatable == {1, 2, 3, 5, 6, 7}


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (pod("p", container("i", 0, kind=INIT), container("a", 0)), 0),
        (pod("p", container("i", 0, kind=INIT), container("a", 2000)), 0),
        (pod("p", container("i", 2000, kind=INIT), container("a", 5000)), 5),
        (pod("p", container("i", 5000, kind=INIT), container("a", 2000)), 5),
        (pod("p", container("s", 1000, kind=SIDECAR), container("a", 1000)), 2),
        (
            pod(
                "p",
                container("i", 5000, kind=INIT),
                container("s1", 1000, kind=SIDECAR),
                container("s2", 2000, kind=SIDECAR),
                container("j", 5000, kind=INIT),
                container("s3", 3000, kind=SIDECAR),
                container("a", 1000),
            ),
            8,
        ),
        (
            pod(
                "p",
                container("s", 10_000, kind=SIDECAR),
                container("i", 200_000, kind=INIT),
                container("a", 100_000),
            ),
            210,
        ),
        (pod("p", container("a", 1000, 2000), container("b", 2000)), 0),
        (pod("p", container("a", 2000, memory_bytes=0)), 0),
        (pod("p", container("a", 1500), container("b", 2000)), 2),
        (pod("p", container("a", 2000), pod_level=True), 0),
    ],
)
def test_how_many_exclusive_cpus_a_pod_needs(asked: Pod, wanted: int) -> None:
    """TestPodGuaranteedCPUs, and pods that get none."""
    assert pod_exclusive_cpus(asked) == wanted


def test_scores_are_the_exclusive_share_of_the_allocatable_cpus() -> None:
    policy = StaticCpuPolicy.reserving(
        regular(nodes=2, sockets=2, cores=4, threads=2),
        CpuPolicyOptions(),
        count=4,
        reserved_cpus=frozenset({0, 1, 8, 9}),
    )
    state = admit(policy, policy.initial_state(), pod("first", container("c", 3000)), Hint(1, preferred=True))
    asked = pod("second", container("c", 1000))
    hints = policy.container_hints(state, asked, asked.containers[0])[CPU]
    # Node 0: 3 of 4; node 1: none of 8, where 1 stands for empty; both: 3 of 12.
    assert hints == (
        Hint(1, preferred=True, score=75),
        Hint(2, preferred=True, score=1),
        Hint(3, preferred=False, score=25),
    )


def test_a_node_whose_cpus_are_all_reserved_has_no_score() -> None:
    policy = StaticCpuPolicy.reserving(
        regular(nodes=2, sockets=2, cores=1, threads=2),
        CpuPolicyOptions(),
        count=2,
        reserved_cpus=frozenset({0, 2}),
    )
    asked = pod("p", container("c", 1000))
    state = policy.initial_state()
    hints = policy.container_hints(state, asked, asked.containers[0])[CPU]
    assert hints == (Hint(2, preferred=True, score=1), Hint(3, preferred=False, score=1))
