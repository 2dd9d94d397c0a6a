"""The devices of each configured resource: found, left out, healthy, and known to the kubelet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from numaplace.doctor.facts import Facts, ScanFact
from numaplace.doctor.findings import Finding, Level
from numaplace.doctor.text import counted, listed
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ids_by_resource

_ADVICE = (
    (
        r"no driver is bound",
        "bind a driver: for containers' network devices the VF's kernel driver (iavf), for DPDK "
        "vfio-pci (driverctl set-override <address> vfio-pci)",
    ),
    (
        r"driver \S+: needs (.*)",
        "load the driver ({0}) and bind the card to it; a card that a virtual machine has "
        "(vfio-pci) cannot be offered as a GPU",
    ),
    (
        r"bound to vfio-pci without an IOMMU group.*",
        "switch the IOMMU on: in the firmware (VT-d, AMD-Vi), and "
        "intel_iommu=on on the kernel's command line",
    ),
    (
        r"bound to (\S+) without a userspace I/O device",
        "reload the driver {0}; vfio-pci is the better choice",
    ),
    (r"the driver shows no UUID yet.*", "start nvidia-persistenced, or run nvidia-smi once"),
    (
        r"the driver does not list it.*",
        "check dmesg for errors of the NVIDIA driver (NVRM); in a container mount the "
        "host's /proc/driver and set host.procfs",
    ),
    (r"excluded in the driver.*", "if it is not excluded on purpose, remove it from NVreg_ExcludedGpus"),
    (
        r"in MIG mode.*",
        "switch MIG off (nvidia-smi -mig 0), or leave this node's GPUs to the vendor's plugin",
    ),
    (
        r"its driver shows no DRM node yet",
        "check dmesg for errors of the GPU's driver; in a container mount the host's /sys",
    ),
    (
        r"a PF with (\d+) VFs: it is not offered itself",
        "a GPU with VFs is shared by them: set its sriov_numvfs to 0 to offer it whole",
    ),
    (r"rdma: it has no RDMA device", "load the RDMA driver (irdma, mlx5_ib), or leave rdma: true out"),
)
"""Reasons of the sources that hint at a fault, and what to do; other reasons are the selectors' choice."""


def devices(facts: Facts) -> Iterator[Finding]:
    for resource, fact in facts.scans.items():
        if fact.scan.failed:
            yield Finding(
                Level.PROBLEM,
                f"{resource}: its devices cannot be scanned",
                "; ".join(fact.scan.warnings),
                "in a container mount the host's /sys and set host.sysfs; a file of declared devices "
                "has to be valid",
            )
            continue
        yield from _found(resource, fact)
        yield from _left_out(resource, fact)
        yield from _unhealthy(facts, resource, fact)
    yield from _shared(facts)


def _found(resource: ResourceName, fact: ScanFact) -> Iterator[Finding]:
    scan = fact.scan
    placeless = tuple(f"{device.id}: NUMA node " for device in scan.devices if not device.nodes)
    for warning in scan.warnings:
        if warning.startswith(placeless):
            continue  # the check numa reports them
        yield Finding(
            Level.WARNING,
            f"{resource}: {warning}",
            "scanned the host as the daemon does",
            "correct the configuration or the host; the message names what was not found",
        )
    if scan.devices:
        yield Finding(Level.OK, f"{resource}: {counted(len(scan.devices), 'device')} found")
        return
    reasons = _grouped(fact)
    shown = "; ".join(f"{len(ids)} x {reason}" for reason, ids in reasons.items())
    yield Finding(
        Level.PROBLEM,
        f"{resource}: no device matches, so pods that ask for it stay pending",
        f"left out: {shown}" if shown else "the host has no card of that kind, or no VFs",
        "change the selectors to what the host has; for VFs: echo 8 > "
        "/sys/class/net/<PF>/device/sriov_numvfs. In a container, host.sysfs has to be the host's /sys",
    )


def _left_out(resource: ResourceName, fact: ScanFact) -> Iterator[Finding]:
    for reason, ids in _grouped(fact).items():
        advice = _advice(reason)
        if advice:
            yield Finding(
                Level.WARNING,
                f"{resource}: {counted(len(ids), 'device')} left out: {reason}",
                listed(ids),
                advice,
            )


def _grouped(fact: ScanFact) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for one in fact.scan.left_out:
        groups.setdefault(one.reason, []).append(one.id)
    return groups


def _advice(reason: str) -> str:
    for pattern, advice in _ADVICE:
        match = re.fullmatch(pattern, reason)
        if match:
            return advice.format(*match.groups())
    return ""


def _unhealthy(facts: Facts, resource: ResourceName, fact: ScanFact) -> Iterator[Finding]:
    ill = [device.id for device in fact.scan.devices if not device.healthy]
    if ill:
        yield Finding(
            Level.WARNING,
            f"{resource}: {counted(len(ill), 'unhealthy device')}",
            listed(ill),
            "the file that declares them says so: repair the device, then set it healthy there",
        )
    known = allocatable_ids(facts, resource)
    missing = [device.id for device in fact.scan.devices if device.healthy and device.id not in known]
    if known and missing:
        yield Finding(
            Level.WARNING,
            f"{resource}: the kubelet does not count {counted(len(missing), 'device')} as allocatable that "
            f"{'is' if len(missing) == 1 else 'are'} there",
            listed(missing),
            "numaplace publishes a change when several scans agree: run doctor again in a minute; if it "
            'persists, search for "devices changed" and "device scan" in the log of the daemon',
        )


def allocatable_ids(facts: Facts, resource: ResourceName) -> set[DeviceId]:
    """Return the ids that the kubelet reports as allocatable; empty when it does not answer."""
    capacity = facts.pod_resources.capacity
    return ids_by_resource(() if capacity is None else capacity.devices).get(resource, set())


def _shared(facts: Facts) -> Iterator[Finding]:
    owners: dict[DeviceId, list[ResourceName]] = {}
    for resource, fact in facts.scans.items():
        for device in fact.scan.devices:
            owners.setdefault(device.id, []).append(resource)
    pairs: dict[tuple[ResourceName, ...], list[str]] = {}
    for device_id, resources in owners.items():
        if len(resources) > 1:
            pairs.setdefault(tuple(resources), []).append(device_id)
    for matching, ids in pairs.items():
        yield Finding(
            Level.WARNING,
            f"{counted(len(ids), 'device')} matched by {' and '.join(matching)}: {matching[0]} keeps "
            f"{'it' if len(ids) == 1 else 'them'}",
            listed(ids),
            "make the selectors of these resources exclude each other",
        )
