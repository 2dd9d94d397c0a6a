"""Who asks for what, by List and specs; the specs come as the API server writes them."""

import json
import re

import pytest
from numaplace.cluster.objects import read_list
from numaplace.cluster.pods import PodStore
from numaplace.model.mask import nodes_of
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.admission import AdmissionLog
from numaplace.state.attribution import attribute, attributed_nodes
from numaplace.state.snapshot import build_snapshot
from state.lists import first
from state.stateio import cases

TOPOLOGY = NumaTopology((0, 1), {0: frozenset({0}), 1: frozenset({1})})
NATIVE = re.compile(r"cpu|memory|hugepages-.*|ephemeral-storage")


def full(name):
    return name if NATIVE.fullmatch(name) else f"example.com/{name}"


def listed(name, containers):
    def use(index, held):
        blocks = tuple(DeviceBlock(full(one[:-1]), (one,), (int(one[-1]),)) for one in held if one != "cpu")
        return ContainerUse(f"c{index}", blocks, frozenset({0}) if "cpu" in held else frozenset())

    return PodUse("ns", name, tuple(use(index, held) for index, held in enumerate(containers)))


def specs_of(case):
    def container(key, limits):
        kind, _, name = key.rpartition("/")
        found = {"name": name, "resources": {"limits": {full(one): str(n) for one, n in limits.items()}}}
        return kind, found | ({"restartPolicy": "Always"} if kind == "side" else {})

    items = []
    for name, containers in case["specs"].items():
        made = [container(key, limits) for key, limits in containers.items()]
        spec = {
            "containers": [c for kind, c in made if not kind],
            "initContainers": [c for k, c in made if k],
        }
        phase = "Failed" if name in case.get("ended", ()) else "Pending"
        items.append(
            {"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": {"phase": phase}}
        )
    store = PodStore()
    store.replace(read_list(json.dumps({"metadata": {}, "items": items}).encode())[1])
    return store.specs


@pytest.mark.parametrize("case", cases("attribution.yaml"), ids=lambda case: case["id"])
def test_who_asks_for_what(case):
    pods = tuple(listed(name, containers) for name, containers in case["list"].items())
    resource, size = full(case["ask"][0]), case["ask"][1]
    found = attribute(
        AdmissionLog().admission_for(first(pods).entries, resource), resource, size, specs=specs_of(case)
    )
    assert (found.admission.pod.name if found.admission.pod else None) == case["is"]
    if "of" in case:
        assert [name for _, name in found.admission.candidates] == case["of"]
    if "container" in case:
        assert found.container == case["container"]
    wanted = case.get("request")
    assert found.request == (wanted and {full(name): amount for name, amount in wanted.items()})
    if "rest" in case:
        assert found.rest == {full(name): amount for name, amount in case["rest"].items()}
    if "later" in case:
        assert found.later == {full(name): amount for name, amount in case["later"].items()}
    if "held" in case:
        snapshot = build_snapshot(
            topology=TOPOLOGY, allocatable=Allocatable(), pods=pods, devices={}, taken_at_seconds=0
        )
        assert list(nodes_of(attributed_nodes(found, snapshot=snapshot))) == case["held"]
