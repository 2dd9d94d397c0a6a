"""What a pod's spec asks for, as a shape."""

from __future__ import annotations

from numaplace.managers.admission import Scope
from numaplace.managers.cpu.static import StaticCpuPolicy, exclusive_cpus, pod_exclusive_cpus
from numaplace.managers.memory.requests import container_requests, is_placed, pod_requests
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.managers.pod import Amounts, Container, Pod
from numaplace.model.names import CPU, ResourceName, is_memory
from numaplace.steering.node import SteeringNode
from numaplace.steering.shape import Shape, is_compute


def shape_of(pod: Pod, scope: Scope) -> Shape:
    """Return what a pod asks for, as the Topology Manager counts it: at once, or container by container."""
    if scope is Scope.POD and pod.init_containers:
        return _without_empty(Shape.of(amounts_of(pod, None)))
    return _without_empty(Shape.of(*(amounts_of(pod, container) for container in pod.in_order)))


def amounts_of(pod: Pod, container: Container | None) -> dict[ResourceName, int]:
    """Return a container's amounts, or the whole pod's: whole CPUs and bytes of the managers, devices."""
    limits: Amounts = pod.effective_limits if container is None else container.limits
    amounts = {resource: amount for resource, amount in limits.items() if not is_compute(resource)}
    if is_placed(pod):
        amounts |= pod_requests(pod) if container is None else container_requests(container)
        amounts[CPU] = pod_exclusive_cpus(pod) if container is None else exclusive_cpus(pod, container)
    return amounts


def managed_part(shape: Shape, node: SteeringNode) -> Shape:
    """Return the shape without CPUs and memory that no manager of the node takes from NUMA nodes.

    A pod's spec and what List shows of the pod give the same shape then.
    """
    cpus = isinstance(node.cpu, StaticCpuPolicy)
    memory = isinstance(node.memory, StaticMemoryPolicy)
    return _without_empty(
        Shape.of(
            *(
                {
                    name: amount
                    for name, amount in container
                    if (cpus or name != CPU) and (memory or not is_memory(name)) and _is_taken(name)
                }
                for container in shape.containers
            )
        )
    )


def _is_taken(name: ResourceName) -> bool:
    return is_compute(name) or "/" in name


def _without_empty(shape: Shape) -> Shape:
    return Shape(tuple(filter(None, shape.containers)))
