"""A pod's spec as a request."""

from __future__ import annotations

from numaplace.managers.admission import Scope
from numaplace.managers.cpu.static import StaticCpuPolicy, exclusive_cpus, pod_exclusive_cpus
from numaplace.managers.memory.requests import container_requests, is_placed, pod_requests
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, Amounts, ResourceName, is_memory
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import Request, is_compute


def request_of(pod: Pod, scope: Scope) -> Request:
    """Return what a pod requests, as the Topology Manager counts it: at once, or container by container."""
    if scope is Scope.POD and pod.init_containers:
        return _without_empty(Request.of(amounts_of(pod, None)))
    return _without_empty(Request.of(*(amounts_of(pod, container) for container in pod.in_order)))


def amounts_of(pod: Pod, container: Container | None) -> dict[ResourceName, int]:
    """Return a container's amounts, or the whole pod's: whole CPUs and bytes of the managers, devices."""
    limits: Amounts = pod.effective_limits if container is None else container.limits
    amounts = {resource: amount for resource, amount in limits.items() if not is_compute(resource)}
    if is_placed(pod):
        amounts |= pod_requests(pod) if container is None else container_requests(container)
        amounts[CPU] = pod_exclusive_cpus(pod) if container is None else exclusive_cpus(pod, container)
    return amounts


def managed_part(request: Request, node: KubeletModel) -> Request:
    """Return the request without CPUs and memory that no manager of the node takes from NUMA nodes.

    A pod's spec and what List shows of the pod give the same request then.
    """
    cpus = isinstance(node.cpu, StaticCpuPolicy)
    memory = isinstance(node.memory, StaticMemoryPolicy)
    return _without_empty(
        Request.of(
            *(
                {
                    name: amount
                    for name, amount in container
                    if (cpus or name != CPU) and (memory or not is_memory(name)) and _is_taken(name)
                }
                for container in request.containers
            )
        )
    )


def _is_taken(name: ResourceName) -> bool:
    return is_compute(name) or "/" in name


def _without_empty(request: Request) -> Request:
    return Request(tuple(filter(None, request.containers)))
