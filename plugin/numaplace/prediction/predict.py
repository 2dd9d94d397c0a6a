"""The plain prediction: a kubelet of ported managers in the present state admits the request.

It is right for every request and as slow as a kubelet; ``Forecast`` is the fast way to the same answers, and
falls back to this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from numaplace.engine.merge import ProvidersHints
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import POLICIES, PolicyResult
from numaplace.managers.admission import Merge
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.device_manager import DeviceManager, PodUid
from numaplace.managers.kubelet import Kubelet, StatefulProvider, TopologyManager
from numaplace.managers.memory.static import MemoryState
from numaplace.managers.pod import Pod
from numaplace.model.device import Device
from numaplace.model.mask import is_subset, mask_of, nodes_of
from numaplace.model.names import CPU, DeviceId, ResourceName
from numaplace.prediction.harm import Prediction
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import Request
from numaplace.prediction.state import DeviceGroups, SteeringState

Withheld = Mapping[ResourceName, int]
"""The mask of the NUMA nodes whose free devices are published without topology, by resource."""

NOTHING_WITHHELD: Withheld = {}

HOLDER = PodUid("numaplace.holder")
"""Stands for all pods that have devices."""


class _Managers:
    """A kubelet's managers, loaded with a state."""

    def __init__(
        self, node: KubeletModel, state: SteeringState, *, options: PolicyOptions, withheld: Withheld
    ) -> None:
        assert node.cpu is not None  # noqa: S101 - no predictions for a node that is not known
        assert node.memory is not None  # noqa: S101
        self.cpu: StatefulProvider[CpuState] = StatefulProvider[CpuState](node.cpu)
        self.memory: StatefulProvider[MemoryState] = StatefulProvider[MemoryState](node.memory)
        self.cpu.state, self.memory.state = state.cpu, state.memory
        self.devices = DeviceManager()
        self.kubelet = Kubelet(
            node.topology,
            topology_manager=TopologyManager(_merge_of(node, options), node.scope),
            cpu=self.cpu,
            memory=self.memory,
            devices=self.devices,
            answer=lambda _call, _pod, _container: None,
            hints_over_all_nodes=node.hints_over_all_nodes,
        )
        self.kubelet.devices.active.add(HOLDER)
        for resource, groups in state.devices.items():
            _load(self.devices, resource, groups, hidden=withheld.get(resource, 0))


def _merge_of(node: KubeletModel, options: PolicyOptions) -> Merge | None:
    if node.policy in (None, PolicyName.NONE):
        return None
    policy, topology = POLICIES[node.policy or ""], node.topology

    def merge(hints: ProvidersHints) -> PolicyResult:
        return policy.merge(hints, topology, options)

    return merge


def _load(manager: DeviceManager, resource: ResourceName, groups: DeviceGroups, *, hidden: int) -> None:
    published: list[Device] = []
    held: dict[DeviceId, tuple[int, ...]] = {}
    for group in groups:
        for number in range(group.total):
            id_ = DeviceId(f"{group.mask:x}-{number}")
            in_use, healthy = number < group.allocated, number < group.healthy
            withheld = healthy and not in_use and group.mask & hidden
            device = Device(id_, () if withheld else nodes_of(group.mask), healthy=healthy)
            published.append(device)
            if in_use:
                held[id_] = device.nodes
    manager.publish(resource, published)
    if held:
        manager.adopt(HOLDER, "holder", resource=resource, nodes=held)


def predict(
    node: KubeletModel,
    state: SteeringState,
    request: Request,
    *,
    withheld: Withheld = NOTHING_WITHHELD,
    options: PolicyOptions | None = None,
) -> Prediction:
    """Return what the kubelet does with a request, which is one unit of admission (``Request.units``).

    ``options`` replace the kubelet's own: with a strategy it is the kubelet of KEP-6007. The node has to be
    known: its policies are not ``None``.
    """
    pod = request.pod()
    managers = _Managers(node, state, options=options or node.options, withheld=withheld)
    outcome = managers.kubelet.admit(pod)
    if not outcome.admitted:
        return Prediction(admitted=False, reason=outcome.reason)
    hint = outcome.affinities[pod.containers[-1].name]
    return Prediction(
        admitted=True,
        mask=hint.mask,
        preferred=hint.preferred,
        aligned=_aligned(managers, node, pod, mask=hint.mask or 0),
    )


def _aligned(managers: _Managers, node: KubeletModel, pod: Pod, *, mask: int) -> dict[ResourceName, int]:
    aligned: Counter[ResourceName] = Counter()
    local = frozenset[int]().union(*(node.topology.cpus.get(one, frozenset()) for one in nodes_of(mask)))
    for container in pod.containers:
        cpus = managers.cpu.state.cpus(pod.uid, container.name) or frozenset()
        aligned[CPU] += len(cpus & local)
        for block in managers.memory.state.assigned.get((pod.uid, container.name), ()):
            if is_subset(mask_of(block.nodes), mask):
                aligned[block.type] += block.size_bytes
        for resource, devices in managers.devices.held(pod.uid, container.name).items():
            aligned[resource] += sum(1 for nodes in devices.values() if mask_of(nodes) & mask)
    return {resource: amount for resource, amount in sorted(aligned.items()) if amount}
