"""The offline optimum is what brute force finds, and nobody beats it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import part

from study.arms import arms_for
from study.fate import Fate
from study.optimum import optimum, optimum_by_enumeration
from study.play import play
from study.traces import Job, generate
from study.worlds import GPU, SHORT_WORLDS, World

GPUS, VFS = SHORT_WORLDS
JOBS = {GPUS.name: 7, VFS.name: 5}


@pytest.mark.parametrize("may_refuse", [True, False])
@pytest.mark.parametrize("seed", range(part(8)))
@pytest.mark.parametrize("world", SHORT_WORLDS, ids=lambda world: world.name)
def test_equals_brute_force(world: World, seed: int, may_refuse: bool) -> None:
    trace = generate(world, 5.0, seed=seed, jobs=JOBS[world.name])
    assert optimum(world, trace, may_refuse=may_refuse) == optimum_by_enumeration(
        world, trace, may_refuse=may_refuse
    )


@pytest.mark.parametrize("world", SHORT_WORLDS, ids=lambda world: world.name)
def test_no_arm_beats_it(world: World) -> None:
    for seed in range(3):
        trace = generate(world, 3.0, seed=seed, jobs=12)
        bound = optimum(world, trace)
        assert optimum(world, trace, may_refuse=False) <= bound
        for arm in arms_for(world):
            jobs = play(world, arm, trace, seed=seed).jobs
            assert sum(job.fate is Fate.ALIGNED for job in jobs) <= bound


def test_a_long_job_is_refused_for_two_short_ones() -> None:
    small = replace(GPUS, nodes=1)
    trace = [Job(0.0, 9.0, {GPU: 4}), Job(1.0, 2.0, {GPU: 4}), Job(3.0, 4.0, {GPU: 4})]
    assert optimum(small, trace) == 2
    assert optimum(small, trace, may_refuse=False) == 1


def test_knowing_the_future_pays_in_placement_alone() -> None:
    # Packed next to the short job, the long one leaves the second node to the four GPUs that come at 2.
    trace = [
        Job(0.0, 9.0, {GPU: 2}),
        Job(0.1, 1.0, {GPU: 3}),
        Job(0.2, 9.0, {GPU: 2}),
        Job(2.0, 9.0, {GPU: 4}),
    ]
    assert optimum(GPUS, trace, may_refuse=False) == 4
