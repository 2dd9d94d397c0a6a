"""The static policy's options, and the policies by name: what is taken and what is refused, in words."""

from __future__ import annotations

import pytest
from cpu_cases import container, pod, regular
from numaplace.engine.hint import Hint
from numaplace.errors import InputError, OptionError
from numaplace.managers.cpu.options import (
    CPU_OPTIONS,
    CpuPolicyOptions,
    check_cpu_options,
    parse_cpu_options,
)
from numaplace.managers.cpu.policy import CPU_POLICIES, CpuPolicyConfig, cpu_policy_for
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology

TWO_SOCKETS = regular(nodes=2, sockets=2, cores=4, threads=2)
STABLE = ("full-pcpus-only", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache")
ALPHA = ("align-by-socket", "distribute-cpus-across-cores")


@pytest.mark.parametrize("name", STABLE)
@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_stable_options_need_no_gate(name: str, text: str) -> None:
    assert parse_cpu_options({name: text}, beta=False) != CpuPolicyOptions()


@pytest.mark.parametrize("name", ALPHA)
def test_alpha_options_need_their_gate(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}.*CPUManagerPolicyAlphaOptions"):
        parse_cpu_options({name: "true"})
    assert parse_cpu_options({name: "true"}, alpha=True) != CpuPolicyOptions()


def test_the_beta_option_is_on_unless_its_gate_is_off() -> None:
    assert parse_cpu_options({"distribute-cpus-across-numa": "true"}).distribute_across_numa
    with pytest.raises(OptionError, match="CPUManagerPolicyBetaOptions"):
        parse_cpu_options({"distribute-cpus-across-numa": "true"}, beta=False)


@pytest.mark.parametrize("name", CPU_OPTIONS)
def test_off_is_as_if_not_given(name: str) -> None:
    assert parse_cpu_options({name: "false"}, alpha=True) == CpuPolicyOptions()


@pytest.mark.parametrize("text", ["", "yes", "tRUE", " true", "2"])
def test_a_wrong_value_is_named(text: str) -> None:
    with pytest.raises(OptionError, match=r"full-pcpus-only.*true or false"):
        parse_cpu_options({"full-pcpus-only": text})


def test_an_unknown_option_is_answered_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown.*'fullPCPUsOnly'.*align-by-socket.*full-pcpus-only"):
        parse_cpu_options({"fullPCPUsOnly": "true"})


@pytest.mark.parametrize(
    "names",
    [
        ("full-pcpus-only", "distribute-cpus-across-cores"),
        ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
    ],
)
def test_options_that_exclude_each_other(names: tuple[str, str]) -> None:
    one, other = names
    with pytest.raises(OptionError, match="exclude each other") as refused:
        parse_cpu_options({one: "true", other: "true"}, alpha=True)
    assert one in str(refused.value)
    assert other in str(refused.value)
    parse_cpu_options({one: "true", other: "false"}, alpha=True)


def test_align_by_socket_needs_another_topology_manager_policy() -> None:
    options = CpuPolicyOptions(align_by_socket=True)
    with pytest.raises(OptionError, match="single-numa-node"):
        check_cpu_options(options, TWO_SOCKETS, topology_manager_policy="single-numa-node")
    for name in ("none", "best-effort", "restricted"):
        check_cpu_options(options, TWO_SOCKETS, topology_manager_policy=name)


def test_align_by_socket_needs_sockets_that_hold_numa_nodes() -> None:
    machine = CpuTopology.of({cpu: CpuDetail(0, cpu // 2, cpu, 0) for cpu in range(4)})
    with pytest.raises(OptionError, match="2 sockets and 1 NUMA nodes"):
        check_cpu_options(
            CpuPolicyOptions(align_by_socket=True), machine, topology_manager_policy="restricted"
        )


def test_the_none_policy_prefers_nothing_and_takes_no_options() -> None:
    policy = cpu_policy_for("none", TWO_SOCKETS, config=CpuPolicyConfig())
    asked, state = pod("p", container("c", 2000)), policy.initial_state()
    assert not policy.allocatable
    assert not policy.container_hints(state, asked, asked.containers[0])
    assert not policy.pod_hints(state, asked)
    assert policy.allocate(state, asked, asked.containers[0], Hint(1, preferred=True)) == state
    assert policy.remove(state, asked.uid, "c") == state
    with pytest.raises(OptionError, match=r"'none' takes no options.*full-pcpus-only"):
        cpu_policy_for("none", TWO_SOCKETS, config=CpuPolicyConfig(options={"full-pcpus-only": "true"}))


def test_an_unknown_policy_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"dynamic.*none, static"):
        cpu_policy_for("dynamic", TWO_SOCKETS, config=CpuPolicyConfig())
    assert set(CPU_POLICIES) == {"none", "static"}


@pytest.mark.parametrize(
    ("millicores", "reserved"),
    [(1, {0}), (1000, {0}), (1001, {0, 8}), (2500, {0, 1, 8}), (8000, {0, 1, 2, 3, 8, 9, 10, 11})],
)
def test_a_reservation_is_rounded_up_and_taken_from_the_first_cores(
    millicores: int, reserved: set[int]
) -> None:
    config = CpuPolicyConfig(reserved_millicores=millicores)
    policy = cpu_policy_for("static", TWO_SOCKETS, config=config)
    assert policy.allocatable == TWO_SOCKETS.cpus - reserved


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (CpuPolicyConfig(), "greater than zero"),
        (CpuPolicyConfig(reserved_millicores=17_000), "17 CPUs cannot be reserved"),
        (CpuPolicyConfig(reserved_millicores=2000, reserved_cpus=frozenset({3})), "2 CPUs, but 3 would"),
        (CpuPolicyConfig(reserved_millicores=1000, reserved_cpus=frozenset({99})), "does not have: 99"),
        (
            CpuPolicyConfig(
                reserved_millicores=1000,
                options={"align-by-socket": "true"},
                alpha=True,
                topology_manager_policy="single-numa-node",
            ),
            "single-numa-node",
        ),
    ],
)
def test_configurations_with_which_the_kubelet_does_not_start(config: CpuPolicyConfig, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cpu_policy_for("static", TWO_SOCKETS, config=config)


@pytest.mark.parametrize(
    ("details", "numbers"),
    [
        ({}, {}),
        ({0: CpuDetail(0, 0, 0, 0)}, {"num_cores": 2}),
        ({0: CpuDetail(0, 0, 0, 0)}, {"num_cores": 0}),
    ],
)
def test_impossible_machines_are_refused(details: dict[int, CpuDetail], numbers: dict[str, int]) -> None:
    with pytest.raises(InputError, match="CPU topology"):
        CpuTopology.of(details, **numbers)
