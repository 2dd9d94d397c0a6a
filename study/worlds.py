"""What is simulated: a node, its jobs, and how full they make it. One row per world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numaplace.model.device import Device
from numaplace.model.names import CPU, Amounts, DeviceId, ResourceName
from numaplace.simulate.scenario.records import Machine, NumaNode

GPU = ResourceName("nvidia.com/gpu")
VF = ResourceName("intel.com/sriov_vf")

NEAR, SAME_SOCKET, OTHER_SOCKET = 10, 12, 32


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of job: its request (whole CPUs, devices) and its share of all jobs."""

    amounts: Amounts
    share: float


@dataclass(frozen=True, slots=True)
class World:
    """A node and its jobs.

    ``capacity`` is what each NUMA node has for jobs. ``domains`` are the NUMA nodes inside which a job counts
    as aligned: each node by itself, or the nodes of a socket. ``loads`` are offered loads: what the jobs
    would use of the scarcest resource if all were admitted, as a part of the node. ``weights`` are tried
    beside equal ones. ``lognormal`` durations have a long tail (sigma 1), the others are exponential; the
    mean is 1.
    """

    name: str
    title: str
    nodes: int
    capacity: Amounts
    requests: tuple[Request, ...]
    loads: tuple[float, ...]
    domains: tuple[tuple[int, ...], ...] = ()
    weights: str = ""
    lognormal: bool = True

    @property
    def device(self) -> ResourceName:
        return next(name for name in self.capacity if name != CPU)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return self.domains or tuple((node,) for node in range(self.nodes))

    @property
    def largest(self) -> int:
        """The largest device request that one domain can hold."""
        most = self.capacity[self.device] * len(self.groups[0])
        return max(n for request in self.requests if (n := request.amounts.get(self.device, 0)) <= most)


def sizes(shares: Mapping[int, float]) -> tuple[Request, ...]:
    """Return requests for GPUs alone."""
    return tuple(Request({GPU: size}, share) for size, share in shares.items())


def machine_of(world: World) -> Machine:
    """Return the hardware: each NUMA node has one more CPU than its jobs may use, for the system.

    NUMA nodes of one domain are close to each other, the others are far.
    """
    per_node = world.capacity.get(CPU, 0) + 1
    cpus = [frozenset(range(node * per_node, (node + 1) * per_node)) for node in range(world.nodes)]
    domain_of = {node: domain for domain, nodes in enumerate(world.groups) for node in nodes}

    def distance(a: int, b: int) -> int:
        if a == b:
            return NEAR
        return SAME_SOCKET if domain_of[a] == domain_of[b] else OTHER_SOCKET

    everyone = range(world.nodes)
    return Machine(
        numa_nodes=tuple(NumaNode(node, cpus[node], {}) for node in everyone),
        distances=tuple(tuple(distance(a, b) for b in everyone) for a in everyone),
        devices={world.device: tuple(_devices(world))},
    )


def reserved_cpus(world: World) -> frozenset[int]:
    """Return the system's CPUs: the first one of each NUMA node."""
    per_node = world.capacity.get(CPU, 0) + 1
    return frozenset(node * per_node for node in range(world.nodes))


def _devices(world: World) -> Sequence[Device]:
    count = world.capacity[world.device]
    short = world.device.rpartition("/")[2]
    return [
        Device(DeviceId(f"{short}-{node}-{number}"), (node,))
        for node in range(world.nodes)
        for number in range(count)
    ]


_SOCKETS = ((0, 1, 2, 3), (4, 5, 6, 7))
_VF_PODS = tuple(Request({VF: vfs, CPU: cpus}, 1 / 6) for vfs in (1, 2) for cpus in (4, 6, 8))
_GPU_PODS = tuple(
    Request({GPU: gpus, CPU: 4 * gpus}, share) for gpus, share in ((1, 0.25), (2, 0.15), (4, 0.1))
)
_CPU_PODS = (Request({CPU: 4}, 0.25), Request({CPU: 12}, 0.25))

WORLDS = (
    World(
        name="gpu-2x4",
        title="2 NUMA nodes with 4 GPUs each; jobs of 1, 2 and 4 GPUs (50, 30, 20 %)",
        nodes=2,
        capacity={GPU: 4},
        requests=sizes({1: 0.5, 2: 0.3, 4: 0.2}),
        loads=(1.2, 2.0),
    ),
    World(
        name="gpu-2x4-with-8",
        title="2 NUMA nodes with 4 GPUs each; jobs of 1, 2, 4 and 8 GPUs (45, 30, 20, 5 %)",
        nodes=2,
        capacity={GPU: 4},
        requests=sizes({1: 0.45, 2: 0.3, 4: 0.2, 8: 0.05}),
        loads=(1.6,),
    ),
    World(
        name="gpu-2x4-one-size",
        title="2 NUMA nodes with 4 GPUs each; every job asks for 2 GPUs",
        nodes=2,
        capacity={GPU: 4},
        requests=sizes({2: 1.0}),
        loads=(1.2,),
    ),
    World(
        name="gpu-8x1",
        title="8 NUMA nodes with one GPU each, 4 to a socket; jobs of 1, 2, 4 and 8 GPUs (45, 30, 20, 5 %)",
        nodes=8,
        capacity={GPU: 1},
        requests=sizes({1: 0.45, 2: 0.3, 4: 0.2, 8: 0.05}),
        loads=(1.6,),
        domains=_SOCKETS,
    ),
    World(
        name="gpu-2x4-cpus",
        title="2 NUMA nodes with 4 GPUs and 32 CPUs each; jobs of 1, 2 and 4 GPUs with 4 CPUs per "
        "GPU, and as many pods of 4 or 12 CPUs without GPU",
        nodes=2,
        capacity={GPU: 4, CPU: 32},
        requests=_GPU_PODS + _CPU_PODS,
        loads=(1.8,),
        weights="nvidia.com/gpu=10",
    ),
    World(
        name="vf-4x8",
        title="4 NUMA nodes with 8 VFs and 32 CPUs each; pods of 1 or 2 VFs and 4, 6 or 8 CPUs",
        nodes=4,
        capacity={VF: 8, CPU: 32},
        requests=_VF_PODS,
        loads=(0.8, 1.2),
        weights="cpu=0",
        lognormal=False,
    ),
    World(
        name="vf-4x8-even",
        title="4 NUMA nodes with 8 VFs and 32 CPUs each; pods of one VF and 2, 3 or 4 CPUs",
        nodes=4,
        capacity={VF: 8, CPU: 32},
        requests=tuple(Request({VF: 1, CPU: cpus}, 1 / 3) for cpus in (2, 3, 4)),
        loads=(0.8,),
        weights="cpu=0",
        lognormal=False,
    ),
    World(
        name="vf-4x8-cpus",
        title="4 NUMA nodes with 8 VFs and 32 CPUs each; pods of 1 or 2 VFs and 2 CPUs, and a third of "
        "all pods with 12 CPUs and no VF",
        nodes=4,
        capacity={VF: 8, CPU: 32},
        requests=(
            Request({VF: 1, CPU: 2}, 1 / 3),
            Request({VF: 2, CPU: 2}, 1 / 3),
            Request({CPU: 12}, 1 / 3),
        ),
        loads=(1.2,),
        weights="cpu=0",
        lognormal=False,
    ),
)

SHORT_WORLDS = (
    World(
        name="short-gpu-2x4",
        title="2 NUMA nodes with 4 GPUs each; 12 jobs of 1, 2 and 4 GPUs (50, 30, 20 %)",
        nodes=2,
        capacity={GPU: 4},
        requests=sizes({1: 0.5, 2: 0.3, 4: 0.2}),
        loads=(1.5,),
    ),
    World(
        name="short-vf-4x2",
        title="4 NUMA nodes with 2 VFs and 8 CPUs each; 12 pods of 1 or 2 VFs and 2, 4 or 6 CPUs",
        nodes=4,
        capacity={VF: 2, CPU: 8},
        requests=tuple(Request({VF: vfs, CPU: cpus}, 1 / 6) for vfs in (1, 2) for cpus in (2, 4, 6)),
        loads=(1.5,),
        weights="cpu=0",
        lognormal=False,
    ),
)
"""Small enough for the exact optimum."""
