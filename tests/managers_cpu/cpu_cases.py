"""Read the CPU manager's cases: CPU lists, machines, policies, states and pods from data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numaplace.managers.cpu.options import CpuPolicyOptions, check_cpu_options, parse_cpu_options
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY
from yaml_text import read_yaml

CASES = Path(__file__).parents[1] / "cases/managers_cpu"

Case = Mapping[str, Any]


def load(name: str) -> list[Case]:
    """Return the rows of a YAML file."""
    rows: list[Case] = read_yaml((CASES / name).read_text())
    return rows


def name_of(case: Case) -> str:
    """Return the case's id, for pytest."""
    return str(case["id"])


def sequence(text: str) -> list[int]:
    """Read ``0-3,8*2`` as 0, 1, 2, 3, 8, 8."""
    values: list[int] = []
    for part in filter(None, text.split(",")):
        value, _, times = part.partition("*")
        first, _, last = value.partition("-")
        values += list(range(int(first), int(last or first) + 1)) * int(times or 1)
    return values


def cpus(text: str) -> frozenset[int]:
    """Read a CPU list."""
    return frozenset(sequence(text))


def topology_of(record: Case) -> CpuTopology:
    """Read a machine: parallel sequences by ascending CPU id, and the numbers that go with it."""
    columns = [sequence(record[key]) for key in ("numa", "socket", "core", "uncore")]
    rows = zip(sequence(record["cpus"]), *columns, strict=True)
    return CpuTopology.of(
        {cpu: CpuDetail(numa, socket, core, uncore) for cpu, numa, socket, core, uncore in rows},
        **record["counts"],
    )


TOPOLOGIES = {
    name: topology_of(record) for name, record in json.loads((CASES / "topologies.json").read_text()).items()
}


def regular(*, nodes: int, sockets: int, cores: int, threads: int) -> CpuTopology:
    """Return a machine of ``nodes`` equal NUMA nodes, each with one cache; a CPU's siblings are far away."""
    total = nodes * cores
    return CpuTopology.of(
        {
            node * cores + core + thread * total: CpuDetail(
                numa=node, socket=node * sockets // nodes, core=node * cores + core, uncore_cache=node
            )
            for node in range(nodes)
            for core in range(cores)
            for thread in range(threads)
        }
    )


def options_of(case: Case) -> CpuPolicyOptions:
    """Read ``options``, a list of those that are on; alpha ones are allowed."""
    return parse_cpu_options(dict.fromkeys(case.get("options", ()), "true"), alpha=True)


def policy_of(case: Case, topology: CpuTopology) -> StaticCpuPolicy:
    """Read the policy: ``options``, and ``reserved`` (CPUs) or ``reserved_count``."""
    options = options_of(case)
    check_cpu_options(options, topology, topology_manager_policy=case.get("topology_manager", "none"))
    reserved = cpus(case.get("reserved", ""))
    return StaticCpuPolicy.reserving(
        topology, options, count=case.get("reserved_count", len(reserved)), reserved_cpus=reserved
    )


def state_of(case: Case) -> CpuState:
    """Read the state: ``shared``, and ``assigned`` as ``pod/container: CPUs``."""
    assigned = {}
    for key, held in case.get("assigned", {}).items():
        uid, _, container = key.partition("/")
        assigned[PodUid(uid), container] = cpus(held)
    return CpuState.of(cpus(case["shared"]), assigned)


def container(
    name: str,
    request_millicores: int,
    limit_millicores: int | None = None,
    *,
    memory_bytes: int = 1 << 30,
    kind: ContainerKind = ContainerKind.APP,
) -> Container:
    """Return a container that asks for CPUs and memory; zero is not asked for."""
    limit = request_millicores if limit_millicores is None else limit_millicores
    requests = {CPU: request_millicores, MEMORY: memory_bytes}
    limits = {CPU: limit, MEMORY: memory_bytes}
    return Container(
        name,
        {key: amount for key, amount in requests.items() if amount},
        {key: amount for key, amount in limits.items() if amount},
        kind,
    )


def pod(uid: str, *containers: Container, pod_level: bool = False) -> Pod:
    """Return a pod of the containers; those that are no app containers are its init containers."""
    return Pod(
        PodUid(uid),
        "default",
        uid,
        tuple(one for one in containers if one.kind is ContainerKind.APP),
        tuple(one for one in containers if one.kind is not ContainerKind.APP),
        pod_level,
    )
