"""Kubelets that align pods, and what they, steering and containers say about that."""

from __future__ import annotations

from guest.site import VFIO, Site
from harness.kubelet import KubeletOptions
from harness.pods import Pod
from harness.waiters import until
from numaplace.devices.host import parse_cpulist


def aligned(policy: str) -> KubeletOptions:
    """A kubelet that gives pods exclusive CPUs and memory of the NUMA node where it puts their devices."""
    return KubeletOptions(
        topology_manager_policy=policy,
        static_cpu_manager=True,
        extra={
            "memoryManagerPolicy": "Static",
            "systemReserved": {"memory": "100Mi"},
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "200Mi"}}],
        },
    )


def check_alignment(site: Site, pod: Pod) -> None:
    """Check that PodResources, the container's own cgroup and its devices agree on one NUMA node."""
    (node,) = site.placement().nodes(pod.name)
    held = site.node.held()[pod.name]["main"]
    seen = site.node.given(pod.name, "main")
    assert len(held.cpus) == 1
    assert held.cpus <= site.guest.numa_nodes()[node]
    assert parse_cpulist(seen.cpus) == held.cpus
    assert parse_cpulist(seen.memory) == {node}
    assert {vf: one["problem"] for vf, one in seen.vfio.items()} == dict.fromkeys(held.devices[VFIO], "")


def wait_withheld(site: Site, *nodes: int) -> None:
    """Wait until steering withholds topology of just these NUMA nodes."""

    def withheld() -> set[int]:
        samples = site.daemon.samples("numaplace_steering_withheld_devices")
        return {int(labels["numa_node"]) for labels, value in samples if value}

    until(
        lambda: withheld() == set(nodes),
        f"topology of NUMA nodes {nodes} to be withheld",
        limit_seconds=90,
        every_seconds=0.5,
        detail=lambda: (withheld(), site.daemon.tail(4)),
    )
