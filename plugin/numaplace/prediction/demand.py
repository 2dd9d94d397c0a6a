"""A request as the managers count it: once per unit of admission."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from numaplace.managers.admission import Scope
from numaplace.managers.cpu.static import exclusive_cpus, pod_exclusive_cpus
from numaplace.managers.memory.requests import container_requests, is_placed, pod_requests
from numaplace.prediction.request import AmountPairs, Request, is_compute


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Devices, exclusive CPUs, and bytes by memory type, of one container (or pod, under scope ``pod``).

    Compared by identity: ``demand_of`` is called once per unit and decision.
    ``cpus`` and ``memory`` are what the policies ``static`` and ``Static`` would allocate.
    """

    request: Request
    devices: AmountPairs
    cpus: int
    memory: AmountPairs


@lru_cache(maxsize=1024)
def demand_of(unit: Request, scope: Scope) -> Demand:
    pod = unit.pod()
    container = pod.containers[0]
    limits = pod.effective_limits if scope is Scope.POD else container.limits
    memory = pod_requests(pod) if scope is Scope.POD else container_requests(container)
    return Demand(
        request=unit,
        devices=tuple(sorted((name, size) for name, size in limits.items() if not is_compute(name))),
        cpus=pod_exclusive_cpus(pod) if scope is Scope.POD else exclusive_cpus(pod, container),
        memory=tuple(sorted(memory.items())) if is_placed(pod) else (),
    )
