"""Fixtures of the cluster tests. Start them with e2e/cluster/run.sh, which builds what they need."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

# With e2e/run.sh, which has one node without a cluster, there is nothing here to run.
collect_ignore_glob = [] if "NUMAPLACE_CLUSTER_SCRATCH" in os.environ else ["test_*.py"]

from harness.hardware import Hardware  # noqa: E402
from harness.logs import LogKeeper  # noqa: E402


def _path(name: str) -> Path:
    return Path(os.environ[f"NUMAPLACE_CLUSTER_{name}"])


def pytest_configure(config: pytest.Config) -> None:
    if "NUMAPLACE_CLUSTER_SCRATCH" not in os.environ:
        return
    # A polite end from outside tears the fixtures down, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed:
        for path, tail in _keep_logs(item.nodeid):
            report.sections.append((f"log kept at {path}; its end", tail))
    return report


def _keep_logs(test: str) -> list[tuple[Path, str]]:
    """Copy what all components have written, also when they have ended."""
    keeper = LogKeeper(_path("LOGS"))
    with contextlib.ExitStack() as stack:
        for log in _path("SCRATCH").glob("*/*.log"):
            stack.enter_context(keeper.watching(log.stem, log))
        for log in Path("/var/log/pods").glob("numaplace_*/*/*.log"):
            stack.enter_context(keeper.watching(f"daemon-{log.stem}", log))
        return keeper.keep(test)


@pytest.fixture(scope="session")
def hardware() -> Hardware:
    """The cards that lay_out.py has put into the node."""
    return Hardware(**json.loads((_path("SCRATCH") / "host/hardware.json").read_text()))


@pytest.fixture(scope="session")
def site(hardware: Hardware) -> Iterator[object]:
    """The cluster, with the chart installed."""
    from cluster.testsite import Binaries, site

    binaries = Binaries(
        kubelet=_path("KUBELET"),
        control_plane=_path("CONTROLPLANE"),
        etcd=_path("ETCD"),
        containerd=_path("CONTAINERD"),
        pause=_path("PAUSE"),
        helm=_path("HELM"),
        image=_path("IMAGE"),
    )
    with site(binaries, _path("SCRATCH"), hardware=hardware) as running:
        yield running
