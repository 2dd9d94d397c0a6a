"""Broken sockets, folders and PodResources APIs."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from doctor_site import Patient
from numaplace.doctor.checks.table import examine
from numaplace.doctor.facts import FolderFact, PathKind, SocketFact
from numaplace.doctor.findings import Level
from numaplace.kubelet.emulator import Faults, RateLimit


def leave_socket(path) -> None:
    """A socket file whose owner has died."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


async def test_no_folder(patient: Patient) -> None:
    report = await patient.examine()
    found = report.problem("registration", "does not exist", str(patient.kubelet.device_plugins_dir))
    assert "kubelet.devicePluginDirectory" in found.advice


async def test_a_folder_without_kubelet_socket(patient: Patient) -> None:
    patient.kubelet.device_plugins_dir.mkdir()
    report = await patient.examine()
    assert "has to be the kubelet's own" in report.problem("registration", "no kubelet.sock").advice


async def test_the_socket_of_a_kubelet_that_died(patient: Patient) -> None:
    leave_socket(patient.kubelet.device_plugins_dir / "kubelet.sock")
    leave_socket(patient.kubelet.pod_resources_socket)
    report = await patient.examine()
    assert "mount the folder" in report.problem("registration", "nothing listens", "refused").advice
    assert "goes stale" in report.problem("pod-resources", "cannot be reached", "refused").advice


async def test_a_folder_in_place_of_the_socket(patient: Patient) -> None:
    (patient.kubelet.device_plugins_dir / "kubelet.sock").mkdir(parents=True)
    patient.kubelet.pod_resources_socket.mkdir(parents=True)
    report = await patient.examine()
    assert "mount the folder instead" in report.problem("registration", "kubelet.sock is not a socket").advice
    assert "not the socket file" in report.problem("pod-resources", "is a folder").advice


async def test_a_read_only_mount(running: Patient) -> None:
    facts = await running.facts()
    broken = replace(facts, folder=replace(facts.folder, read_only=True))
    (found,) = [one for one in examine(broken) if "read-only" in one.summary]
    assert (found.level, "read-write" in found.advice) == (Level.PROBLEM, True)


@pytest.mark.parametrize(
    ("uid", "level", "advice"), [(1000, Level.UNKNOWN, "as root"), (0, Level.PROBLEM, "SELinux")]
)
async def test_missing_permission(running: Patient, uid: int, level: Level, advice: str) -> None:
    """A user without rights has seen nothing; root without rights has met SELinux."""
    facts = await running.facts()
    path = facts.kubelet_socket.path
    shut = SocketFact(path, PathKind.SOCKET, error="Permission denied", denied=True)
    variants = (
        replace(facts, uid=uid, kubelet_socket=shut),
        replace(facts, uid=uid, folder=replace(facts.folder, writable=False)),
        replace(facts, uid=uid, folder=FolderFact(path.parent, PathKind.DENIED)),
        replace(facts, uid=uid, pod_resources=replace(facts.pod_resources, socket=shut)),
    )
    for variant in variants:
        (found,) = [one for one in examine(variant) if "permission denied" in one.detail]
        assert found.level is level
        assert advice in found.advice


async def test_pod_resources_elsewhere(running: Patient) -> None:
    kubelet = {
        "devicePluginDirectory": str(running.kubelet.device_plugins_dir),
        "podResourcesSocket": str(running.site.root / "elsewhere.sock"),
    }
    report = await running.examine(kubelet=kubelet)
    found = report.problem("pod-resources", "cannot be reached", "elsewhere.sock does not exist")
    assert "kubelet.podResourcesSocket" in found.advice
    report.one("registration", Level.OK, "listens")


async def test_a_slow_list(running: Patient) -> None:
    running.kubelet.faults = Faults(delays_seconds={"List": 0.2})
    report = await running.examine(deadline="50ms")
    assert "raise deadline" in report.warning("pod-resources", "half of the deadline is 25 ms").advice
    unhurried = await running.examine(deadline="5s")
    unhurried.one("pod-resources", Level.OK, "PodResources answers")


async def test_a_silent_kubelet(running: Patient) -> None:
    running.kubelet.faults = Faults(delays_seconds={"List": 5.0})
    report = await running.examine(reach={"timeout_seconds": 0.2})
    assert "kubelet's log" in report.problem("pod-resources", "List", "does not answer").advice


async def test_a_used_up_rate_limit(running: Patient) -> None:
    running.kubelet.faults = Faults(rate_limit=RateLimit(per_second=0.001, burst=1))
    report = await running.examine()
    found = report.warning("pod-resources", "List", "100 PodResources calls per second")
    assert "calls too often" in found.advice


async def test_an_old_kubelet(running: Patient) -> None:
    running.kubelet.faults = Faults(
        errors={"GetAllocatableResources": "UNIMPLEMENTED", "Get": "UNIMPLEMENTED"}
    )
    async with running.site.serving(wait=True):
        await running.site.admit("holder", {"intel.com/vf": 1})
        report = await running.examine()
    assert "1.23" in report.problem("pod-resources", "GetAllocatableResources", "does not have").advice
    report.one("pod-resources", Level.OK, "Get is not served")


async def test_get_switched_off(running: Patient) -> None:
    running.kubelet.faults = Faults(errors={"Get": "UNKNOWN"})
    async with running.site.serving():
        await running.site.admit("holder", {"intel.com/vf": 1})
        report = await running.examine()
    report.one("pod-resources", Level.OK, "Get is not served", "that it lists")
    assert report.ok
