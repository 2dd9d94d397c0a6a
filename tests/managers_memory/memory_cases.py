"""Reads the memory manager's case files into the values that the policies take.

A pod is ``{uid, init, containers, pod_level}``, a container ``{name, requests, limits, sidecar}``, where
missing limits equal the requests. A block is ``[type, bytes, [nodes]]``. A mask is written as its number;
with ``p`` behind it, it is preferred; ``any`` stands for no affinity.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numaplace.engine.hint import Hint
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.memory.hints import Hints
from numaplace.managers.memory.machine import MachineMemory, MemoryTable, NodeMemory, machine_memory
from numaplace.managers.memory.reuse import Assigned
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, ResourceName
from numaplace.model.podresources import MemoryBlock
from yaml_text import read_yaml

CASES = Path(__file__).parent.parent / "cases" / "managers_memory"
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def load(name: str) -> list[dict[str, Any]]:
    text = (CASES / name).read_text(encoding="utf-8")
    return read_yaml(text) if name.endswith(".yaml") else json.loads(text)


def quantity(text: int | str) -> int:
    if isinstance(text, int):
        return text
    return int(text[:-2]) * UNITS[text[-2:]] if text[-2:] in UNITS else int(text)


def sizes(amounts: Mapping[str, int | str]) -> dict[ResourceName, int]:
    return {ResourceName(name): quantity(amount) for name, amount in amounts.items()}


def to_container(row: Mapping[str, Any], kind: ContainerKind) -> Container:
    requests = sizes(row["requests"])
    return Container(
        name=row["name"],
        requests=requests,
        limits=sizes(row["limits"]) if "limits" in row else requests,
        kind=ContainerKind.SIDECAR if row.get("sidecar") else kind,
    )


def to_pod(row: Mapping[str, Any]) -> Pod:
    return Pod(
        uid=PodUid(row["uid"]),
        namespace="default",
        name=row["uid"],
        containers=tuple(to_container(one, ContainerKind.APP) for one in row["containers"]),
        init_containers=tuple(to_container(one, ContainerKind.INIT) for one in row.get("init", ())),
        pod_level=row.get("pod_level", False),
    )


def one_container_pod(uid: str, **amounts: int | str) -> Pod:
    """A Guaranteed pod of one container; ``hugepages_1Gi`` is written with an underscore."""
    requests = {CPU: 1000, **sizes({name.replace("_", "-"): amount for name, amount in amounts.items()})}
    container = Container(name="c", requests=requests, limits=requests)
    return Pod(uid=PodUid(uid), namespace="default", name=uid, containers=(container,))


def to_machine(row: Mapping[str, Any]) -> MachineMemory:
    """A machine with its use: tables are total, system reserved, allocatable, reserved, free."""
    return MachineMemory(
        {
            int(id_): NodeMemory(
                tables={ResourceName(type_): MemoryTable(*table) for type_, table in node["tables"].items()},
                cells=tuple(node["cells"]),
                assignments=node["assignments"],
            )
            for id_, node in row.items()
        }
    )


def unused_machine(row: Mapping[str, Any]) -> MachineMemory:
    return machine_memory(
        {int(id_): sizes(amounts) for id_, amounts in row["nodes"].items()},
        {int(id_): sizes(amounts) for id_, amounts in row["reserved"].items()},
    )


def to_assigned(row: Mapping[str, Any]) -> Assigned:
    return {
        (PodUid(uid), name): tuple(
            MemoryBlock(type=ResourceName(type_), size_bytes=size, nodes=tuple(nodes))
            for type_, size, nodes in blocks
        )
        for uid, containers in row.items()
        for name, blocks in containers.items()
    }


def in_type_order(assigned: Assigned) -> dict[tuple[PodUid, str], list[MemoryBlock]]:
    """The kubelet's blocks come in random order."""
    return {key: sorted(blocks, key=lambda block: block.type) for key, blocks in assigned.items()}


def to_hint(text: str) -> Hint:
    mask = text.removesuffix("p")
    return Hint(None if mask in ("", "any") else int(mask), preferred=text.endswith("p"))


def hint_texts(hints: Iterable[Hint]) -> str:
    return " ".join(f"{hint.mask}{'p' if hint.preferred else ''}" for hint in hints)


def common_hints(hints: Hints) -> str:
    """The one list of hints that all types share."""
    texts = {hint_texts(of_type) for of_type in hints.values()}
    assert len(texts) <= 1
    return texts.pop() if texts else ""
