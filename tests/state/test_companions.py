import pytest
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.companions import REMEMBERED_CONTAINERS, CompanionLog
from state.lists import first


def pod(name, **amounts):
    blocks = tuple(
        DeviceBlock(resource, (f"{name}-{resource}-{number}",), (number % 2,))
        for resource, amount in amounts.items()
        for number in range(amount)
    )
    return PodUse("ns", name, (ContainerUse("c", blocks),))


def learnt(*pods, log=None):
    return (log or CompanionLog()).after_list(first(pods).entries, frozenset(one.key for one in pods))


@pytest.mark.parametrize(
    ("pods", "size", "companions"),
    [
        pytest.param([], 1, {}, id="nothing-seen"),
        pytest.param([{"vf": 1, "gpu": 1}], 1, {"gpu": 1}, id="one-container-is-evidence"),
        pytest.param([{"vf": 1, "gpu": 1}], 2, {}, id="another-size-is-another-workload"),
        pytest.param([{"vf": 1, "gpu": 1}, {"vf": 1}], 1, {}, id="half-is-not-most"),
        pytest.param([{"vf": 1, "gpu": 1}, {"vf": 1}, {"vf": 1, "gpu": 1}], 1, {"gpu": 1}, id="most"),
        pytest.param([{"vf": 1, "gpu": 2}, {"vf": 1, "gpu": 4}], 1, {"gpu": 2}, id="smaller-of-two-amounts"),
        pytest.param([{"vf": 1, "gpu": 1, "nic": 2}], 1, {"gpu": 1, "nic": 2}, id="several-companions"),
    ],
)
def test_companions(pods, size, companions):
    log = learnt(*(pod(f"p{number}", **amounts) for number, amounts in enumerate(pods)))
    assert log.companions("vf", size) == companions


def test_a_pod_under_admission_teaches_nothing_yet():
    done, asking = pod("done", vf=1, gpu=1), pod("asking", vf=1)
    log = CompanionLog().after_list(first([done, asking]).entries, frozenset([done.key]))
    assert log.companions("vf", 1) == {"gpu": 1}
    assert log.after_list(first([done, asking]).entries, frozenset([done.key])) is log


def test_requests_outlive_their_pods_and_fade():
    log = learnt(pod("gone", vf=1, gpu=1))
    log = log.after_list({}, frozenset())
    assert log.companions("vf", 1) == {"gpu": 1}
    log = learnt(*(pod(f"n{number}", vf=1) for number in range(REMEMBERED_CONTAINERS)), log=log)
    assert log.companions("vf", 1) == {}
    assert len(log.requests) == REMEMBERED_CONTAINERS


def test_a_pod_counts_once_while_it_is_listed():
    pods = pod("a", vf=1, gpu=1), pod("b", vf=1)
    log = learnt(*pods)
    assert learnt(*pods, log=log) == log
