from hypothesis import given
from hypothesis import strategies as st
from numaplace.devices.inventory import Hysteresis, Inventory
from numaplace.devices.scan import Scan
from numaplace.model.device import Device
from numaplace.model.names import DeviceId

IDS = [DeviceId(f"vf-{number}") for number in range(5)]

devices = st.builds(
    Device,
    st.sampled_from(IDS),
    nodes=st.sampled_from([(), (0,), (1,)]),
    healthy=st.booleans(),
)
scans = st.builds(
    Scan,
    st.lists(devices, max_size=6).map(tuple),
    failed=st.integers(0, 5).map(lambda number: number == 0),
)
in_use = st.frozensets(st.sampled_from(IDS))
steps = st.lists(st.tuples(scans, in_use, st.floats(0, 30)), max_size=12)


def after(history: list[tuple[Scan, frozenset[DeviceId], float]]) -> tuple[Inventory, float]:
    inventory, now_seconds = Inventory(), 0.0
    for scan, used, waited_seconds in history:
        now_seconds += waited_seconds
        inventory = inventory.update(scan, in_use=used, now_seconds=now_seconds).inventory
    return inventory, now_seconds


@given(steps, scans, in_use)
def test_a_device_in_use_is_never_removed(history, scan, used) -> None:
    inventory, now_seconds = after(history)
    for _ in range(6):
        now_seconds += 30.0
        change = inventory.update(scan, in_use=used, now_seconds=now_seconds)
        assert not used & set(change.removed)
        assert used & inventory.tracked.keys() <= change.inventory.tracked.keys()
        unseen = used - {device.id for device in scan.devices}
        assert not unseen & set(change.turned_unhealthy)
        inventory = change.inventory


@given(steps, scans, in_use)
def test_the_same_look_again_and_again_settles_on_what_it_shows(history, scan, used) -> None:
    inventory, now_seconds = after(history)
    rules = Hysteresis()
    for _ in range(rules.turn_scans + rules.remove_scans):
        now_seconds += rules.remove_seconds
        inventory = inventory.update(scan, in_use=used, now_seconds=now_seconds).inventory
    change = inventory.update(scan, in_use=used, now_seconds=now_seconds)
    assert change.inventory is inventory
    assert not change.changed
    if scan.failed:
        return
    assert not inventory.unsettled
    shown = {device.id: device for device in reversed(scan.devices)}
    assert {device.id: device for device in inventory.devices}.items() >= shown.items()
    assert inventory.tracked.keys() <= shown.keys() | used


@given(steps, scans, in_use, st.floats(0, 30))
def test_a_change_tells_exactly_what_differs(history, scan, used, waited_seconds) -> None:
    before, now_seconds = after(history)
    change = before.update(scan, in_use=used, now_seconds=now_seconds + waited_seconds)
    old = {device.id: device for device in before.devices}
    new = {device.id: device for device in change.inventory.devices}
    assert change.changed == (old != new)
    assert set(change.added) == new.keys() - old.keys()
    assert set(change.removed) == old.keys() - new.keys()
    for device_id in old.keys() & new.keys():
        assert (device_id in change.turned_healthy) == (new[device_id].healthy and not old[device_id].healthy)
        assert (device_id in change.turned_unhealthy) == (
            old[device_id].healthy and not new[device_id].healthy
        )


@given(steps)
def test_what_is_published_is_always_acceptable_to_the_kubelet(history) -> None:
    inventory, _ = after(history)
    ids = [device.id for device in inventory.devices]
    assert len(ids) == len(set(ids))
    assert inventory.named_without_topology >= {d.id for d in inventory.devices if not d.nodes}
