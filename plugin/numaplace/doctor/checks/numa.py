"""NUMA nodes, and where the devices are among them."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level
from numaplace.doctor.text import counted, listed, numbers
from numaplace.engine.options import MAX_ALLOWABLE_NUMA_NODES, PolicyName, parse_options
from numaplace.errors import InputError
from numaplace.model.device import Device
from numaplace.model.names import ResourceName


def numa(facts: Facts) -> Iterator[Finding]:
    yield _nodes(facts)
    yield from _too_many(facts)
    for resource, fact in facts.scans.items():
        devices = fact.scan.devices
        yield from _without_node(facts, resource, devices)
        if len(facts.topology.nodes) > 1 and any(device.nodes for device in devices):
            yield _spread(facts, resource, devices)


def _nodes(facts: Facts) -> Finding:
    topology, sysfs = facts.topology, facts.config.host.sysfs
    if not facts.numa_shown:
        return Finding(
            Level.WARNING,
            "the kernel shows no NUMA nodes: the machine counts as one NUMA node",
            f"{sysfs}/devices/system/node has none",
            "in a container mount the host's /sys and set host.sysfs; on the host check for numa=off on "
            "the kernel's command line, and for node interleaving in the firmware",
        )
    shown = counted(len(topology.nodes), "NUMA node")
    if len(topology.nodes) == 1:
        return Finding(
            Level.WARNING,
            f"{shown}: there is nothing to choose between",
            f"read from {sysfs}/devices/system/node",
            "if the machine has several sockets or dies, switch node interleaving off, or sub-NUMA "
            "clustering (NPS, SNC) on, in the firmware",
        )
    bare = [node for node in topology.nodes if not topology.cpus.get(node)]
    return Finding(
        Level.OK,
        f"{shown}: {numbers(topology.nodes)}",
        f"without CPUs: {numbers(bare)}" if bare else f"read from {sysfs}/devices/system/node",
    )


def _too_many(facts: Facts) -> Iterator[Finding]:
    found, allowed = len(facts.topology.nodes), facts.config.max_allowable_numa_nodes
    settings = facts.kubelet.settings
    if found > allowed:
        yield Finding(
            Level.WARNING,
            f"{found} NUMA nodes are more than maxAllowableNUMANodes ({allowed})",
            "a kubelet with such a limit would not start under an aligning Topology Manager policy",
            f"set maxAllowableNUMANodes: {found}",
        )
    if settings is None or settings.policy == PolicyName.NONE:
        return
    try:
        limit = parse_options(settings.options, alpha=True).options.max_allowable_numa_nodes
    except InputError:
        return
    if found > limit:
        yield Finding(
            Level.PROBLEM,
            f"{found} NUMA nodes are more than the kubelet allows ({limit}) under policy "
            f"{settings.policy}: it does not start",
            f"topologyManagerPolicyOptions, {MAX_ALLOWABLE_NUMA_NODES}",
            f'set topologyManagerPolicyOptions: {{{MAX_ALLOWABLE_NUMA_NODES}: "{found}"}}, or '
            "topologyManagerPolicy: none",
        )


def _without_node(facts: Facts, resource: ResourceName, devices: tuple[Device, ...]) -> Iterator[Finding]:
    raw = facts.scans[resource].raw_numa
    groups: dict[str, list[str]] = {}
    for device in devices:
        if not device.nodes:
            groups.setdefault(raw.get(device.id, ""), []).append(device.id)
    known = numbers(facts.topology.nodes)
    for text, ids in groups.items():
        if not text:
            detail, advice = (
                "their file names no NUMA node of this machine",
                f"name one of {known} in the file",
            )
        elif text == "-1":
            detail = "numa_node in sysfs is -1: the firmware does not say"
            advice = (
                "update the firmware (ACPI _PXM of the PCI root); where the slot is known, root may "
                "write its node: echo 1 > /sys/bus/pci/devices/<address>/numa_node"
            )
        else:
            detail = f"numa_node in sysfs is {text}; this machine has {known}"
            advice = (
                "check for a NUMA node that is offline or numa=off; in a container, host.sysfs has to "
                "be the host's /sys"
            )
        yield Finding(
            Level.WARNING,
            f"{resource}: {len(ids)} of {len(devices)} devices have no NUMA node: they follow no strategy",
            f"{detail}: {listed(ids)}",
            advice,
        )


def _spread(facts: Facts, resource: ResourceName, devices: tuple[Device, ...]) -> Finding:
    counts = dict.fromkeys(facts.topology.nodes, 0)
    for device in devices:
        for node in device.nodes:
            counts[node] = counts.get(node, 0) + 1
    bearing = [node for node, count in counts.items() if count]
    shown = ", ".join(f"NUMA {node}: {count}" for node, count in counts.items())
    if len(bearing) == 1:
        return Finding(
            Level.WARNING,
            f"{resource}: all devices are on NUMA node {bearing[0]}: a strategy has nothing to choose",
            shown,
            "if more cards are in the machine, see the selectors and the check devices; make "
            "VFs on the PFs of the other NUMA nodes",
        )
    empty = [node for node, count in counts.items() if not count]
    without = f"; none on NUMA {numbers(empty)}" if empty else ""
    return Finding(Level.OK, f"{resource}: devices on {len(bearing)} NUMA nodes{without}", shown)
