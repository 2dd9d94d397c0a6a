from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from cluster_tools import pod_json
from numaplace.cluster.objects import read_change, read_list
from numaplace.cluster.pods import PodStore
from numaplace.managers.device_manager import ContainerKind


def text(*pods: dict[str, Any]) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "7"}, "items": pods}).encode()


def event(kind: str, pod: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": pod}).encode()


def test_amounts_and_kinds_of_containers() -> None:
    spec = {
        "initContainers": [
            {"name": "setup", "image": "x", "resources": {}},
            {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        ],
    }
    limits = {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi", "a.com/x": "3"}
    version, (known,) = read_list(text(pod_json("p", limits, **spec)))
    assert version == "7"
    setup, proxy, main = known.pod.in_order
    assert (setup.kind, proxy.kind, main.kind) == (
        ContainerKind.INIT,
        ContainerKind.SIDECAR,
        ContainerKind.APP,
    )
    assert proxy.requests == {"cpu": 100}
    assert main.requests == main.limits
    assert main.limits == {"cpu": 2000, "memory": 1 << 30, "hugepages-2Mi": 4 << 20, "a.com/x": 3}


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {}},
        {"spec": {"containers": [], "initContainers": None, "resources": None}},
        {"status": None},
        {"spec": {"containers": [{"name": "a", "resources": None}]}},
        {"spec": {"containers": [{"name": "a", "resources": {"limits": None}}]}},
        {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 2}}}]}},
    ],
)
def test_what_may_be_left_out(changes: dict[str, Any]) -> None:
    assert len(read_list(text({**pod_json("p"), **changes}))[1]) == 1


def test_a_pod_with_an_amount_that_is_none_is_left_out() -> None:
    version, pods = read_list(text(pod_json("bad", {"a.com/x": "two"}), pod_json("good")))
    assert (version, [pod.pod.name for pod in pods]) == ("7", ["good"])


def test_a_bookmark_has_a_version_and_no_containers() -> None:
    """As kube-apiserver 1.37 sends it: an empty pod, written out."""
    item = {"metadata": {"resourceVersion": "9"}, "spec": {"containers": None}, "status": {}}
    change = read_change(event("BOOKMARK", item))
    assert (change.version, change.pod, change.error) == ("9", None, 0)


@pytest.mark.parametrize("line", [b"", b"[]", b'{"type": "ADDED"}', b'{"type":"ADDED","object":3}', b"\xff"])
def test_nonsense_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_change(line)
    with pytest.raises(msgspec.DecodeError):
        read_list(line)


def test_the_deletion_of_a_namesake_that_is_gone_already_removes_nobody() -> None:
    store = PodStore()
    store.apply(read_change(event("ADDED", pod_json("web-0", uid="old"))))
    store.apply(read_change(event("MODIFIED", pod_json("web-0", uid="old", phase="Failed"))))
    assert set(store.specs.pods) == set()
    store.apply(read_change(event("ADDED", pod_json("web-0", uid="new"))))
    store.apply(read_change(event("DELETED", pod_json("web-0", uid="old"))))
    assert set(store.specs.pods) == {("default", "web-0")}
    store.apply(read_change(event("DELETED", pod_json("web-0", uid="new"))))
    assert set(store.specs.pods) == set()
