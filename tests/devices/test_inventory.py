from dataclasses import replace
from typing import Any

import pytest
from numaplace.devices.inventory import Hysteresis, Inventory, InventoryChange
from numaplace.devices.scan import LeftOut, Scan
from numaplace.model.device import ContainerEdits, Device
from numaplace.model.names import DeviceId

A, B = DeviceId("vf-2"), DeviceId("vf-10")
RULES = Hysteresis(turn_scans=2, turn_seconds=1.0, remove_scans=4, remove_seconds=10.0)


def scan(*ids: str, sick: tuple[str, ...] = ()) -> Scan:
    return Scan(tuple(Device(DeviceId(one), nodes=(0,), healthy=one not in sick) for one in ids))


class Host:
    """Feeds scans to an inventory, five seconds apart."""

    def __init__(self) -> None:
        self.now_seconds = 100.0
        self.inventory = Inventory(RULES)

    def see(self, seen: Scan, *, in_use: tuple[str, ...] = (), after_seconds: float = 5.0) -> InventoryChange:
        self.now_seconds += after_seconds
        used = frozenset(map(DeviceId, in_use))
        change = self.inventory.update(seen, in_use=used, now_seconds=self.now_seconds)
        self.inventory = change.inventory
        return change

    @property
    def health(self) -> dict[str, bool]:
        return {device.id: device.healthy for device in self.inventory.devices}


@pytest.fixture
def seen() -> Host:
    """Two devices, seen once."""
    fresh = Host()
    fresh.see(scan(B, A))
    return fresh


def test_new_devices_are_offered_at_once_in_natural_order() -> None:
    fresh = Host()
    change = fresh.see(scan(B, A, sick=(B,)))
    assert (change.added, change.changed) == ((A, B), True)
    assert fresh.health == {A: True, B: False}
    assert not fresh.inventory.unsettled


def test_the_same_scan_gives_the_same_inventory(seen: Host) -> None:
    before = seen.inventory
    change = seen.see(scan(A, B))
    assert change == InventoryChange(before)
    assert change.inventory is before


def test_health_turns_both_ways_after_two_scans(seen: Host) -> None:
    assert not seen.see(scan(A, B, sick=(A,))).changed
    assert seen.inventory.unsettled
    change = seen.see(scan(A, B, sick=(A,)))
    assert (change.turned_unhealthy, change.changed) == ((A,), True)
    assert not seen.inventory.unsettled
    assert not seen.see(scan(A, B)).changed
    change = seen.see(scan(A, B))
    assert (change.turned_healthy, change.changed) == ((A,), True)
    assert seen.health == {A: True, B: True}


def test_a_flapping_device_never_turns(seen: Host) -> None:
    for _ in range(5):
        assert not seen.see(scan(A, B, sick=(A,))).changed
        assert not seen.see(scan(A, B)).changed
    assert not seen.inventory.unsettled


def test_a_burst_of_scans_is_one_look(seen: Host) -> None:
    for _ in range(6):
        assert not seen.see(scan(B, sick=(B,)), after_seconds=0.01).changed
    change = seen.see(scan(B, sick=(B,)), after_seconds=1.0)
    assert change.turned_unhealthy == (A, B)


def test_a_vanished_device_turns_unhealthy_and_then_goes(seen: Host) -> None:
    changes = [seen.see(scan(B)) for _ in range(4)]
    assert [change.turned_unhealthy for change in changes] == [(), (A,), (), ()]
    assert [change.removed for change in changes] == [(), (), (), (A,)]
    assert [change.changed for change in changes] == [False, True, False, True]
    assert seen.health == {B: True}
    assert seen.see(scan(A, B)).added == (A,)


def test_a_device_that_comes_back_in_time_stays(seen: Host) -> None:
    seen.see(scan(B))
    assert not seen.see(scan(A, B)).changed
    for _ in range(3):
        seen.see(scan(B))
    assert seen.health == {A: False, B: True}
    assert not seen.see(scan(A, B)).changed
    assert seen.see(scan(A, B)).turned_healthy == (A,)


def test_a_sick_device_that_vanishes_starts_to_count_anew(seen: Host) -> None:
    seen.see(scan(A, B, sick=(A,)))
    assert not seen.see(scan(B)).changed
    assert seen.see(scan(B)).turned_unhealthy == (A,)


def test_a_device_in_use_stays_as_it_was_however_long_it_is_not_seen(seen: Host) -> None:
    before = seen.inventory
    for _ in range(20):
        assert seen.see(scan(B), in_use=(A,)).inventory is before
    changes = [seen.see(scan(B)) for _ in range(4)]
    assert changes[1].turned_unhealthy == (A,)
    assert changes[3].removed == (A,)


def test_a_device_in_use_that_shows_itself_sick_turns_unhealthy(seen: Host) -> None:
    seen.see(scan(A, B, sick=(A,)), in_use=(A,))
    assert seen.see(scan(A, B, sick=(A,)), in_use=(A,)).turned_unhealthy == (A,)


def test_an_id_in_use_that_was_never_seen_is_not_made_up(seen: Host) -> None:
    assert not seen.see(scan(A, B), in_use=("unknown",)).changed


def test_a_failed_scan_changes_nothing(seen: Host) -> None:
    before = seen.inventory
    for _ in range(10):
        change = seen.see(Scan(failed=True, warnings=("bad file",)))
        assert (change.inventory, change.changed) == (before, False)
    assert change.inventory is before


def test_what_a_device_gives_is_taken_over_at_once(seen: Host) -> None:
    moved = replace(scan(A).devices[0], nodes=(1,), edits=ContainerEdits(env={"A": "1"}))
    change = seen.see(Scan((moved, *scan(B).devices)))
    assert change.changed
    assert (change.added, change.removed, change.turned_unhealthy) == ((), (), ())
    assert seen.inventory.devices[0] == moved


def test_doubles_and_impossible_ids_are_left_out_with_a_reason() -> None:
    fresh = Host()
    long = "x" * 64
    found = replace(scan(A, long, A, ""), left_out=(LeftOut("pf", "a PF"),))
    change = fresh.see(found)
    assert change.added == (A,)
    assert [entry.id for entry in change.inventory.left_out] == ["pf", long, A, ""]
    assert change.inventory.left_out[1].reason == "the id has 64 characters; allowed: 1 to 63"
    assert "second device" in change.inventory.left_out[2].reason
    assert fresh.see(found).inventory is change.inventory


def test_a_change_of_the_reasons_alone_is_nothing_to_publish(seen: Host) -> None:
    change = seen.see(replace(scan(A, B), left_out=(LeftOut("vf-3", "no driver is bound"),)))
    assert not change.changed
    assert change.inventory.left_out[0].id == "vf-3"


@pytest.mark.parametrize("nodes", [(), (-1,), (64,), (0, 99)])
def test_a_device_without_topology_is_named_once(nodes: Any) -> None:
    fresh = Host()
    strange = Scan((Device(A, nodes=nodes), *scan(B).devices))
    change = fresh.see(strange)
    assert change.without_topology == (A,)
    assert fresh.inventory.devices[0].nodes == ()
    assert fresh.see(strange).without_topology == ()
    assert fresh.see(scan(A, B)).changed
    assert fresh.see(strange).without_topology == ()
