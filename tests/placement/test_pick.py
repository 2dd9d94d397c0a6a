from pathlib import Path

import pytest
from numaplace.model.device import Device
from numaplace.model.names import Strategy
from numaplace.placement.index import index_devices
from numaplace.placement.pick import pick_devices
from yaml_text import read_yaml

CASES = read_yaml((Path(__file__).parents[1] / "cases/placement/devices.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_devices_inside_the_mask(case):
    devices = [
        Device(id=device_id, nodes=(0,), group=group)
        for group, ids in case["groups"].items()
        for device_id in ids
    ]
    index = index_devices(devices)
    musts = case.get("must_include", [])
    picked = pick_devices(
        index.ordered(set(case["free"]).difference(musts)),
        case["size"] - len(musts),
        index=index,
        strategy=Strategy(case["strategy"]),
        nodes=[0],
        taken=musts,
        freed_at=case.get("freed_at", {}),
    )
    assert sorted([*musts, *picked]) == case["expect"]


def test_nodes_are_filled_one_after_the_other():
    index = index_devices([Device(id=f"d{node}-{i}", nodes=(node,)) for node in (0, 1) for i in range(4)])
    picked = pick_devices(
        index.ordered(index.rank), 5, index=index, strategy=Strategy.NONE, nodes=[1, 0], freed_at={}
    )
    assert picked == ["d1-0", "d1-1", "d1-2", "d1-3", "d0-0"]


def test_many_devices_without_a_group_stay_cheap():
    index = index_devices([Device(id=f"d{i}") for i in range(4000)])
    picked = pick_devices(
        index.ordered(index.rank), 3000, index=index, strategy=Strategy.MOST_ALLOCATED, nodes=[], freed_at={}
    )
    assert picked == [f"d{i}" for i in range(3000)]
