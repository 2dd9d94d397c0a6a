"""A healthy node, a machine without a kubelet, and what the command prints of them."""

from __future__ import annotations

import asyncio
import io
import json

import pytest
from daemon.daemon_site import http_anywhere
from doctor_site import Patient
from numaplace.cli.console import Console
from numaplace.cli.main import main
from numaplace.doctor.checks.table import CHECKS
from numaplace.doctor.findings import Level


def console(**env: str) -> Console:
    return Console(out=io.StringIO(), err=io.StringIO(), env=env)


async def test_a_healthy_node_has_nothing_to_fix(running: Patient) -> None:
    http = http_anywhere()
    async with running.site.serving(http=http):
        await running.site.admit("holder", {"intel.com/vf": 2})
        report = await running.examine(http=http)
    assert report.worse_than_ok() == []
    assert {one.check for one in report.findings} == CHECKS.keys()
    report.one("pod-resources", Level.OK, "1 pods in")
    report.one("kubelet-config", Level.OK, "numaplace chooses the NUMA nodes")
    report.one("numa", Level.OK, "nvidia.com/gpu", "NUMA 0: 4, NUMA 1: 4")


async def test_looking_changes_nothing(running: Patient) -> None:
    http = http_anywhere()
    async with running.site.serving(http=http):
        before = sorted(running.kubelet.device_plugins_dir.iterdir())
        registrations, endpoints = running.kubelet.registrations, running.kubelet.endpoints
        await running.examine(http=http)
        assert sorted(running.kubelet.device_plugins_dir.iterdir()) == before
        assert running.kubelet.registrations == registrations
        assert running.kubelet.endpoints == endpoints


async def test_the_command_says_ok_in_json(running: Patient) -> None:
    http, out = http_anywhere(), console()
    async with running.site.serving(http=http):
        file = running.site.write(running.site.document(http=http))
        argv = ["doctor", "--config", str(file), "--kubelet-config", str(running.site.root / "kubelet.yaml")]
        code = await asyncio.to_thread(main, [*argv, "-o", "json"], out)
    shown = json.loads(out.out.getvalue())
    assert (code, shown["ok"]) == (0, True)
    assert list(shown) == ["findings", "ok"]
    assert {tuple(one) for one in shown["findings"]} == {("check", "level", "summary", "detail", "advice")}
    assert {one["level"] for one in shown["findings"]} <= set(Level)


def test_without_a_kubelet_the_command_says_what_to_do(patient: Patient) -> None:
    out = console()
    file = patient.site.write(patient.site.document())
    patient.kubelet_file().unlink()
    argv = ["doctor", "--config", str(file), "--kubelet-config", str(patient.site.root / "kubelet.yaml")]
    assert main(argv, out) == 1
    shown = " ".join(out.out.getvalue().split())
    assert "problem the kubelet's device-plugin folder does not exist" in shown
    assert "do: start the kubelet, which makes the folder" in shown
    assert "problem the PodResources API cannot be reached" in shown
    assert "unknown the kubelet's configuration cannot be seen" in shown
    assert "unknown whether steering can work is not known" in shown
    assert shown.endswith("there is something to fix")


def test_a_refused_configuration_is_bad_input(patient: Patient) -> None:
    out = console()
    file = patient.site.write({"resourcess": []})
    assert main(["doctor", "--config", str(file)], out) == 2
    assert "resourcess" in out.err.getvalue()
    assert out.out.getvalue() == ""


def test_the_configuration_comes_from_the_environment_too(patient: Patient) -> None:
    file = patient.site.write(patient.site.document())
    out = console(NUMAPLACE_CONFIG=str(file), NUMAPLACE_STRATEGY="most-allocated")
    main(["doctor"], out)
    assert "resources: intel.com/vf, nvidia.com/gpu; strategy: most-allocated" in out.out.getvalue()


async def test_without_resources_it_asks_for_the_configuration(running: Patient) -> None:
    report = await running.examine(resources=[])
    assert "--config FILE" in report.warning("configuration", "no resources are configured").advice


async def test_keys_without_effect_are_named(running: Patient) -> None:
    report = await running.examine(strategy="none", weights="cpu=2")
    assert "numaplace config check" in report.warning("configuration", "weights", "no effect").advice


@pytest.mark.parametrize("check", CHECKS)
def test_the_help_names_every_check(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"], console()) == 0
    assert check in capsys.readouterr().out
