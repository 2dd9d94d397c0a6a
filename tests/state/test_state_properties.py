"""Invariants over arbitrary, odd input: the kubelet's reply is not trusted to make sense."""

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.model.device import Device
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.admission import AdmissionLog, held_nodes
from numaplace.state.ledger import Ledger
from numaplace.state.list_change import ListChange
from numaplace.state.snapshot import ContributionCache, build_snapshot
from state.lists import then

NODES = (0, 1, 3)
TOPOLOGY = NumaTopology(NODES, {node: frozenset(range(node * 4, node * 4 + 4)) for node in NODES})
RESOURCES = ("gpu", "vf", "vendor/x")
MASKS = range(1 << 5)

resources = st.sampled_from(RESOURCES)
ids = st.sampled_from([f"d{index}" for index in range(8)])
odd_nodes = st.lists(st.sampled_from([0, 1, 3, 3, -1, 2, 64, 1 << 62]), max_size=3).map(tuple)
cpus = st.frozensets(st.integers(-1, 20), max_size=4)
device_blocks = st.builds(DeviceBlock, resources, st.lists(ids, max_size=3).map(tuple), odd_nodes)
memory_blocks = st.builds(
    MemoryBlock, st.sampled_from(["memory", "hugepages-2Mi"]), st.integers(-1, 50), odd_nodes
)


def tuples(values, size=3):
    return st.lists(values, max_size=size).map(tuple)


containers = st.builds(
    ContainerUse, st.sampled_from("ab"), tuples(device_blocks), cpus, tuples(memory_blocks, 2)
)
pods = st.builds(
    PodUse, st.just("ns"), st.sampled_from("pqr"), tuples(containers), cpus, tuples(memory_blocks, 1)
)
allocatables = st.builds(Allocatable, tuples(device_blocks, 6), cpus, tuples(memory_blocks, 4))
own = st.dictionaries(
    st.sampled_from(RESOURCES[:2]),
    st.dictionaries(ids, st.tuples(odd_nodes, st.booleans())).map(
        lambda rows: {key: Device(key, nodes, healthy=ok) for key, (nodes, ok) in rows.items()}
    ),
)
id_sets = st.dictionaries(resources, st.frozensets(ids, max_size=4))
lists = st.lists(pods, max_size=5).map(tuple)


def build(listed, **given_values):
    return build_snapshot(topology=TOPOLOGY, pods=listed, taken_at_seconds=0.0, **given_values)


def observed(snapshot):
    names = (*RESOURCES, "cpu", "memory", "hugepages-2Mi")
    return (
        snapshot.resources,
        [snapshot.usage(name, mask) for name in names for mask in MASKS],
        [(snapshot.in_use(name), snapshot.devices(name)) for name in names],
        snapshot.containers_per_node(),
    )


@given(listed=lists, allocatable=allocatables, devices=own, granted=id_sets, offered=id_sets)
def test_a_set_of_nodes_is_at_most_the_sum_of_its_nodes(listed, allocatable, devices, granted, offered):
    snapshot = build(listed, allocatable=allocatable, devices=devices, granted=granted, offered=offered)
    for name in snapshot.resources:
        per_node = snapshot.per_node(name)
        for mask in MASKS:
            usage = snapshot.usage(name, mask)
            inside = [per_node[node] for node in NODES if mask >> node & 1]
            for one in inside:
                assert usage.allocatable >= one.allocatable
                assert usage.allocated >= one.allocated
            assert usage.allocatable <= sum(one.allocatable for one in inside)
            assert usage.allocated <= sum(one.allocated for one in inside)
            assert usage.free >= 0
            assert (snapshot.score(name, mask) == 0) == (usage.allocatable == 0)


@given(listed=lists, allocatable=allocatables, devices=own, granted=id_sets, offered=id_sets)
def test_figures_agree_with_the_devices_they_count(listed, allocatable, devices, granted, offered):
    snapshot = build(listed, allocatable=allocatable, devices=devices, granted=granted, offered=offered)
    for name in RESOURCES:
        states = snapshot.devices(name)
        assert {key for key, state in states.items() if state.allocated} == snapshot.in_use(name)
        assert not snapshot.in_use(name) & offered.get(name, frozenset())
        for mask in MASKS:
            here = [state for state in states.values() if state.healthy and state.mask & mask]
            usage = snapshot.usage(name, mask)
            assert usage.allocatable == len(here)
            assert usage.allocated == sum(state.allocated for state in here)


@given(listed=lists, order=st.randoms(use_true_random=False), allocatable=allocatables, devices=own)
def test_the_order_of_the_list_does_not_matter(listed, order, allocatable, devices):
    shuffled = order.sample(listed, len(listed))
    same = {"allocatable": allocatable, "devices": devices}
    assert observed(build(tuple(shuffled), **same)) == observed(build(listed, **same))


@given(
    steps=st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=6), st.booleans(), id_sets), max_size=6),
    pool=st.lists(pods, min_size=6, max_size=6),
    allocatable=st.lists(allocatables, min_size=2, max_size=2),
    devices=st.lists(own, min_size=2, max_size=2),
)
def test_a_cache_changes_no_answer(steps, pool, allocatable, devices):
    cache = ContributionCache()
    for chosen, changed, granted in steps:
        listed = tuple(pool[index] for index in chosen)
        same = {
            "allocatable": allocatable[changed],
            "devices": devices[changed],
            "granted": granted,
        }
        cached, plain = build(listed, **same, cache=cache), build(listed, **same)
        assert cached == plain
        assert observed(cached) == observed(plain)


@given(blocks=tuples(memory_blocks, 8), allocatable=allocatables)
def test_no_allocated_byte_is_lost(blocks, allocatable):
    pod = PodUse("ns", "p", (ContainerUse("c", memory=blocks),))
    snapshot = build((pod,), allocatable=allocatable, devices={})
    for name in ("memory", "hugepages-2Mi"):
        placed = [
            block.size_bytes
            for block in blocks
            if block.type == name and block.size_bytes > 0 and set(block.nodes) & set(NODES)
        ]
        assert snapshot.usage(name, TOPOLOGY.mask).allocated == sum(placed)


events = st.one_of(
    st.tuples(st.just("list"), lists),
    st.tuples(st.just("grant"), resources, st.frozensets(ids, max_size=3)),
    st.tuples(st.just("offer"), resources, st.frozensets(ids, max_size=8)),
)


@settings(max_examples=examples(60))
@given(history=st.lists(st.tuples(st.integers(0, 40), events), max_size=12))
def test_the_ledger_and_the_log_take_any_history(history):
    ledger, log, cache, now = Ledger(), AdmissionLog(), ContributionCache(), 0.0
    listed, change = (), ListChange()
    for wait, (kind, *what) in history:
        now += wait
        if kind == "list":
            listed = what[0]
            change = then(change, listed, at=now, cache=cache)
            ledger, log = ledger.after_list(change), log.after_list(change)
            assert ledger.after_list(then(change, listed, at=now)) is ledger
        elif kind == "grant":
            ledger = ledger.granted(what[0], what[1], now_seconds=now)
            assert what[1] <= ledger.in_flight().get(what[0], frozenset())
            assert not what[1] & ledger.freed_at(what[0]).keys()
        else:
            held = change.devices.held
            ledger = ledger.offered(what[0], what[1], listed=held, now_seconds=now)
            assert not what[1] & ledger.in_flight().get(what[0], frozenset())
            assert ledger.offered(what[0], what[1], listed=held, now_seconds=now) is ledger
        for name in RESOURCES:
            assert not ledger.in_flight().get(name, frozenset()) & ledger.freed_at(name).keys()
            assert all(0 <= at <= now for at in ledger.freed_at(name).values())
        admission = log.admission_for(change.entries, "gpu", latest=ledger.latest)
        assert admission.pod is None or admission.candidates == (admission.pod.key,)
        snapshot = build(
            listed,
            allocatable=Allocatable(),
            devices={},
            granted=ledger.in_flight(),
        )
        assert held_nodes(admission, "gpu", snapshot=snapshot, latest=ledger.latest) & ~TOPOLOGY.mask == 0
        log = log.decided(admission, change.entries, now_seconds=now)
