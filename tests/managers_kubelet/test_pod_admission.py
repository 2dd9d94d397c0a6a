"""Scopes, the order of the managers, and what becomes of their errors."""

from __future__ import annotations

import pytest
from numaplace.engine.hint import Hint
from numaplace.engine.options import PolicyOptions
from numaplace.engine.policy import POLICIES
from numaplace.errors import AllocationError
from numaplace.managers.admission import NO_AFFINITY, Scope, admit
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.model.topology import NumaTopology

TOPOLOGY = NumaTopology((0, 1))
GPU = ResourceName("example.com/gpu")


class Provider:
    """A manager that offers the given masks, as preferred ones, and notes what it is asked."""

    def __init__(self, name, resource, offers, log, *, error=None):
        self.name, self.resource, self.offers, self.log, self.error = name, resource, offers, log, error

    def _hints(self, what):
        self.log.append((self.name, "hints", what))
        if self.offers is None:
            return {}
        return {self.resource: [Hint(mask, preferred=True) for mask in self.offers]}

    def container_hints(self, pod, container):
        return self._hints(container.name)

    def pod_hints(self, pod):
        return self._hints("whole pod")

    def allocate(self, pod, container, affinity):
        self.log.append((self.name, "allocate", container.name, affinity.mask))
        if self.error is not None and container.name == "b":
            raise self.error


def make_pod():
    return Pod(
        PodUid("uid"),
        "default",
        "pod",
        (Container("a"), Container("b")),
        (Container("i", kind=ContainerKind.INIT),),
    )


def run(policy, scope=Scope.CONTAINER, *, gpu=(1, 2), cpu=(1, 2), error=None):
    log = []
    providers = (
        Provider("devices", GPU, gpu, log),
        Provider("cpu", CPU, cpu, log, error=error),
        Provider("memory", MEMORY, None, log),
    )
    merge = None
    if policy != "none":

        def merge(hints):
            return POLICIES[policy].merge(hints, TOPOLOGY, PolicyOptions())

    return admit(make_pod(), providers, merge=merge, scope=scope), log


def test_container_scope_asks_and_allocates_container_by_container_init_containers_first():
    outcome, log = run("restricted")
    assert outcome.admitted
    asked = [entry for entry in log if entry[0] == "devices"]
    assert asked == [
        ("devices", "hints", "i"),
        ("devices", "allocate", "i", 1),
        ("devices", "hints", "a"),
        ("devices", "allocate", "a", 1),
        ("devices", "hints", "b"),
        ("devices", "allocate", "b", 1),
    ]
    assert [entry[0] for entry in log[:6]] == ["devices", "cpu", "memory"] * 2


def test_pod_scope_asks_once_and_gives_every_container_the_same_affinity():
    outcome, log = run("restricted", Scope.POD, gpu=(2,))
    assert outcome.admitted
    assert [entry for entry in log if entry[1] == "hints"] == [
        ("devices", "hints", "whole pod"),
        ("cpu", "hints", "whole pod"),
        ("memory", "hints", "whole pod"),
    ]
    assert {entry[3] for entry in log if entry[1] == "allocate"} == {2}
    assert [decision.container for decision in outcome.decisions] == [""]


def test_policy_none_asks_nobody():
    outcome, log = run("none")
    assert outcome.admitted
    assert outcome.decisions == ()
    assert {entry[1] for entry in log} == {"allocate"}
    assert set(outcome.affinities.values()) == {NO_AFFINITY}


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_what_cannot_be_aligned_is_refused_before_anything_is_allocated(policy, scope):
    outcome, log = run(policy, scope, gpu=(1,), cpu=(2,))
    assert not outcome.admitted
    assert outcome.reason == "TopologyAffinityError"
    assert outcome.message == "Resources cannot be allocated with Topology locality"
    assert {entry[1] for entry in log} == {"hints"}


def test_best_effort_admits_what_cannot_be_aligned():
    outcome, log = run("best-effort", gpu=(1,), cpu=(2,))
    assert outcome.admitted
    assert {entry[3] for entry in log if entry[1] == "allocate"} == {3}


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("too-few-devices", "UnexpectedAdmissionError"), ("SMTAlignmentError", "SMTAlignmentError")],
)
def test_a_managers_error_refuses_the_pod_and_ends_the_admission(reason, shown):
    outcome, log = run("restricted", error=AllocationError("there is none", reason=reason))
    assert not outcome.admitted
    assert outcome.reason == shown
    assert "there is none" in outcome.message
    assert log[-1] == ("cpu", "allocate", "b", 1)
    assert list(outcome.affinities) == ["i", "a", "b"]
