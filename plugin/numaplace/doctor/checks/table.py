"""All checks by name, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from numaplace.doctor.checks.cluster import cluster
from numaplace.doctor.checks.configuration import configuration
from numaplace.doctor.checks.daemon import daemon
from numaplace.doctor.checks.devices import devices
from numaplace.doctor.checks.kubelet_config import kubelet_config
from numaplace.doctor.checks.limits import limits
from numaplace.doctor.checks.numa import numa
from numaplace.doctor.checks.other_plugins import other_plugins
from numaplace.doctor.checks.pod_resources import pod_resources
from numaplace.doctor.checks.registration import registration
from numaplace.doctor.checks.steering import steering
from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: Mapping[str, Check] = {
    "configuration": configuration,
    "registration": registration,
    "pod-resources": pod_resources,
    "kubelet-config": kubelet_config,
    "steering": steering,
    "numa": numa,
    "devices": devices,
    "other-plugins": other_plugins,
    "daemon": daemon,
    "cluster": cluster,
    "limits": limits,
}


def examine(facts: Facts, checks: Mapping[str, Check] = CHECKS) -> tuple[Finding, ...]:
    return tuple(replace(finding, check=name) for name, check in checks.items() for finding in check(facts))
