"""``reservedMemory`` as the kubelet accepts it or exits over it."""

from __future__ import annotations

import re

import pytest
from memory_cases import quantity
from numaplace.errors import InputError
from numaplace.managers.memory.reserved import (
    MemoryReservation,
    node_allocatable_reservation,
    reserved_memory,
)
from numaplace.model.names import CPU, MEMORY, ResourceName

SMALL, LARGE = ResourceName("hugepages-2Mi"), ResourceName("hugepages-1Gi")
BOTH = [
    MemoryReservation(0, {MEMORY: 12, SMALL: 70, LARGE: 13}),
    MemoryReservation(1, {MEMORY: 5, SMALL: 7}),
]


@pytest.mark.parametrize(
    ("reservation", "reservations", "expected"),
    [
        pytest.param({}, [], {0: {}, 1: {}}, id="Node Allocatable not set, reserved not set"),
        pytest.param(
            {MEMORY: 17, SMALL: 77, LARGE: 13},
            BOTH,
            {0: {MEMORY: 12, SMALL: 70, LARGE: 13}, 1: {MEMORY: 5, SMALL: 7}},
            id="Reserved total equal to Node Allocatable",
        ),
        pytest.param({CPU: 500}, [], {0: {}, 1: {}}, id="other resources do not count"),
    ],
)
def test_accepted(
    reservation: dict[ResourceName, int],
    reservations: list[MemoryReservation],
    expected: dict[int, dict[ResourceName, int]],
) -> None:
    assert reserved_memory(reservations, nodes=(0, 1), reservation=reservation) == expected


@pytest.mark.parametrize(
    ("reservation", "reservations", "problems"),
    [
        pytest.param(
            {},
            [MemoryReservation(0, {MEMORY: 12})],
            ["memory adds up to 12 .* must be 0"],
            id="Node Allocatable not set (equal zero), reserved set",
        ),
        pytest.param(
            {SMALL: 5},
            [],
            ["hugepages-2Mi adds up to 0 .* must be 5"],
            id="Node Allocatable set, reserved not set",
        ),
        pytest.param(
            {MEMORY: 5},
            [MemoryReservation(0, {MEMORY: 12})],
            ["memory adds up to 12 .* must be 5"],
            id="Reserved not equal to Node Allocatable",
        ),
        pytest.param(
            {MEMORY: 17},
            [MemoryReservation(0, {MEMORY: 12}), MemoryReservation(2, {MEMORY: 5})],
            ["NUMA node 2: the machine has no such NUMA node, only 0, 1"],
            id="Reserved contains the NUMA node that does not exist under the machine",
        ),
        pytest.param(
            {MEMORY: 17, SMALL: 14, LARGE: 13},
            BOTH,
            ["hugepages-2Mi adds up to 77 .* must be 14"],
            id="Reserved total hugapages-2M not equal to Node Allocatable",
        ),
        pytest.param(
            {MEMORY: 3},
            [
                MemoryReservation(0, {MEMORY: 0, CPU: 2}),
                MemoryReservation(1, {MEMORY: 1}),
                MemoryReservation(1, {MEMORY: 2}),
            ],
            ["memory must be more than 0", "cpu cannot be reserved", "memory is given twice"],
            id="TestValidateReservedMemoryConfiguration",
        ),
        pytest.param(
            {MEMORY: quantity("993Mi")},
            [],
            ["memory adds up to 0 bytes .* must be 1041235968"],
            id="kubernetes/kubernetes#109766",
        ),
    ],
)
def test_refused(
    reservation: dict[ResourceName, int], reservations: list[MemoryReservation], problems: list[str]
) -> None:
    with pytest.raises(InputError) as refused:
        reserved_memory(reservations, nodes=(0, 1), reservation=reservation)
    lines = str(refused.value).splitlines()
    assert len(lines) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert re.search(problem, line)


def test_reservation_is_the_sum_of_three() -> None:
    assert node_allocatable_reservation(
        system_reserved={MEMORY: quantity("500Mi"), CPU: 1000},
        kube_reserved={MEMORY: quantity("393Mi"), LARGE: 0},
        hard_eviction_bytes=quantity("100Mi"),
    ) == {MEMORY: quantity("993Mi")}
