"""A played trace: what is counted, against small traces whose outcome can be seen by hand."""

from __future__ import annotations

import pytest
from effort import part
from numaplace.engine.options import PolicyName
from numaplace.model.names import CPU, Strategy
from numaplace.simulate.scenario.records import Enforcement

from study.arms import Arm, arms_for
from study.fate import ADMITTED, Fate
from study.measures import measure
from study.play import play
from study.steering import is_off
from study.traces import Job, events, generate
from study.worlds import GPU, VF, WORLDS, World

BY_NAME = {world.name: world for world in WORLDS}
GPUS = BY_NAME["gpu-2x4"]
SINGLE = PolicyName.SINGLE_NUMA_NODE
STOCK = Arm(SINGLE)
PACKING = Arm(SINGLE, Enforcement.KUBELET, Strategy.MOST_ALLOCATED)
SPREADING = Arm(SINGLE, Enforcement.KUBELET, Strategy.LEAST_ALLOCATED)
FOREVER = 99.0


def fates(world: World, arm: Arm, *jobs: Job, seed: int = 0) -> list[Fate]:
    return [job.fate for job in play(world, arm, jobs, seed=seed).jobs]


def test_spreading_leaves_no_node_for_four_gpus() -> None:
    jobs = (Job(0, FOREVER, {GPU: 1}), Job(1, FOREVER, {GPU: 1}), Job(2, FOREVER, {GPU: 4}))
    assert fates(GPUS, SPREADING, *jobs) == [Fate.ALIGNED, Fate.ALIGNED, Fate.FRAGMENTED]
    assert fates(GPUS, PACKING, *jobs) == [Fate.ALIGNED, Fate.ALIGNED, Fate.ALIGNED]


def test_the_lowest_id_breaks_an_empty_node_that_packing_keeps() -> None:
    jobs = (
        Job(0, 3, {GPU: 4}),
        Job(1, FOREVER, {GPU: 2}),
        Job(4, FOREVER, {GPU: 1}),
        Job(5, FOREVER, {GPU: 4}),
    )
    assert fates(GPUS, STOCK, *jobs)[3] is Fate.FRAGMENTED
    assert fates(GPUS, PACKING, *jobs)[3] is Fate.ALIGNED


def test_a_job_without_room_is_not_called_fragmented() -> None:
    jobs = (Job(0, FOREVER, {GPU: 4}), Job(1, FOREVER, {GPU: 4}), Job(2, FOREVER, {GPU: 1}))
    assert fates(GPUS, STOCK, *jobs)[2] is Fate.FULL


def test_a_departure_makes_room() -> None:
    jobs = (Job(0, 1.5, {GPU: 4}), Job(1, FOREVER, {GPU: 4}), Job(2, FOREVER, {GPU: 4}))
    assert fates(GPUS, STOCK, *jobs)[2] is Fate.ALIGNED


def test_a_job_of_the_whole_machine() -> None:
    world, job = BY_NAME["gpu-2x4-with-8"], Job(0, FOREVER, {GPU: 8})
    assert fates(world, STOCK, job) == [Fate.OVERSIZED]
    assert fates(world, Arm(PolicyName.BEST_EFFORT), job) == [Fate.ALIGNED]
    assert fates(world, Arm(PolicyName.NONE), job) == [Fate.ALIGNED]


def test_the_kubelet_alone_splits_jobs_needlessly_and_the_plugin_does_not() -> None:
    trace = generate(GPUS, 1.2, seed=1, jobs=80)
    random = play(GPUS, Arm(PolicyName.NONE), trace, seed=1).jobs
    placed = play(GPUS, Arm(PolicyName.NONE, Enforcement.PREFERRED), trace, seed=1).jobs
    assert any(job.needless for job in random)
    assert not any(job.needless for job in placed)


def test_without_a_topology_manager_cpus_may_be_elsewhere() -> None:
    world = BY_NAME["vf-4x8"]
    spread = Arm(PolicyName.NONE, Enforcement.PREFERRED, Strategy.LEAST_ALLOCATED)
    jobs = [Job(number, FOREVER, {VF: 1, CPU: 4}) for number in range(4)]
    assert fates(world, spread, *jobs) == [Fate.ALIGNED] * 4  # the plugin puts the VF where the CPUs will be
    assert Fate.ASTRAY in fates(world, Arm(PolicyName.NONE), *jobs)


def test_steering_leaves_several_sizes_to_the_kubelet() -> None:
    trace = generate(GPUS, 1.2, seed=1, jobs=60)
    stock = play(GPUS, STOCK, trace, seed=1)
    for strategy in (Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED):
        arm = Arm(SINGLE, Enforcement.STEERING, strategy)
        assert is_off(GPUS, arm)
        assert play(GPUS, arm, trace, seed=1) == stock


def test_steering_costs_nothing_where_pods_differ_in_what_never_runs_out() -> None:
    world = BY_NAME["vf-4x8-even"]
    trace = generate(world, 0.9, seed=1, jobs=120)
    stock = play(world, STOCK, trace, seed=1)
    for strategy in (Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED):
        arm = Arm(SINGLE, Enforcement.STEERING, strategy)
        assert not is_off(world, arm)
        steered = play(world, arm, trace, seed=1)
        assert steered.jobs == stock.jobs
        assert steered == play(world, Arm(SINGLE, Enforcement.KUBELET, strategy), trace, seed=1)
        assert steered.imbalance != stock.imbalance


def test_a_socket_is_the_domain_where_each_gpu_has_its_own_node() -> None:
    world = BY_NAME["gpu-8x1"]
    jobs = (Job(0, FOREVER, {GPU: 1}), Job(1, FOREVER, {GPU: 4}))
    lowest, closest = Arm(PolicyName.BEST_EFFORT), Arm(PolicyName.BEST_EFFORT, closest=True)
    assert fates(world, lowest, *jobs) == [Fate.ALIGNED, Fate.SPLIT]
    assert fates(world, closest, *jobs) == [Fate.ALIGNED, Fate.ALIGNED]


def test_use_and_imbalance_are_means_over_time() -> None:
    jobs = (Job(0, 3, {GPU: 4}), Job(1, FOREVER, {GPU: 2}), Job(4, FOREVER, {GPU: 1}))
    # From 0 to 1: 4 and 0 of 4; from 1 to 3: 4 and 2; from 3 to 4: 0 and 2.
    values = measure(play(GPUS, STOCK, jobs, seed=0))
    assert values["imbalance"] == pytest.approx(100 * (1 + 0.5 + 0.5 + 0.5) / 4)
    assert values["used"] == pytest.approx(100 * (0.5 + 0.75 + 0.75 + 0.25) / 4)


def test_the_warm_up_is_played_and_not_counted() -> None:
    jobs = (Job(0, FOREVER, {GPU: 4}), Job(1, FOREVER, {GPU: 4}), Job(2, FOREVER, {GPU: 1}))
    record = play(GPUS, STOCK, jobs, seed=0, warm_up=2)
    assert [job.fate for job in record.jobs] == [Fate.FULL]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_every_arm_of_every_world(world: World) -> None:
    trace = generate(world, world.loads[0], seed=3, jobs=part(40))
    for arm in arms_for(world):
        jobs = play(world, arm, trace, seed=3).jobs
        found = {job.fate for job in jobs}
        assert Fate.OTHER not in found
        assert len(jobs) == len(trace)
        if arm.policy is SINGLE:
            assert not found & (ADMITTED - {Fate.ALIGNED})
        else:
            assert not found & {Fate.FRAGMENTED, Fate.OVERSIZED}


def test_names_of_arms_are_distinct_within_a_policy() -> None:
    for world in WORLDS:
        names = [(arm.policy, arm.name) for arm in arms_for(world)]
        assert len(set(names)) == len(names)


def test_a_trace_is_repeatable_and_offers_the_load() -> None:
    world = BY_NAME["vf-4x8"]
    trace = generate(world, 0.8, seed=5, jobs=4000)
    assert trace == generate(world, 0.8, seed=5, jobs=4000)
    assert trace != generate(world, 0.8, seed=6, jobs=4000)
    offered = sum(job.amounts[VF] * (job.leaves - job.arrives) for job in trace)
    assert offered / trace[-1].arrives / 32 == pytest.approx(0.8, rel=0.05)


def test_a_job_leaves_before_another_takes_its_place() -> None:
    assert events([Job(0, 1, {}), Job(1, 2, {})]) == [(0, 1, 0), (1, 0, 0), (1, 1, 1)]
