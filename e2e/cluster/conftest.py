"""Fixtures of the cluster tests. Start them with e2e/cluster/run.sh, which builds what they need."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

# With e2e/run.sh, which has one node without a cluster, there is nothing here to run.
collect_ignore_glob = [] if "NUMAPLACE_CLUSTER_SCRATCH" in os.environ else ["test_*.py"]

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
        scratch = _path("SCRATCH")
        for log in [*scratch.glob("plane/*.log"), *scratch.glob("n*/*/*.log")]:
            stack.enter_context(keeper.watching(f"{log.relative_to(scratch).parts[0]}-{log.stem}", log))
        for log in scratch.glob("n*/log/pods/numaplace_*/*/*.log"):
            node = log.relative_to(scratch).parts[0]
            stack.enter_context(keeper.watching(f"{node}-daemon-{log.stem}", log))
        return keeper.keep(test)


@pytest.fixture(scope="session")
def site() -> Iterator[object]:
    """The cluster, with the chart installed."""
    from cluster.local import Binaries, local_cluster
    from cluster.testsite import Site

    binaries = Binaries(
        kubelet=_path("KUBELET"),
        older_kubelet=_path("OLDER_KUBELET"),
        control_plane=_path("CONTROLPLANE"),
        etcd=_path("ETCD"),
        containerd=_path("CONTAINERD"),
        pause=_path("PAUSE"),
        image=_path("IMAGE"),
    )
    scratch = _path("SCRATCH")
    with local_cluster(binaries, scratch) as cluster:
        kubectl = binaries.control_plane / "kubectl"
        running = Site(cluster, helm=_path("HELM"), kubectl=kubectl, folder=scratch)
        running.configure("most-allocated")
        yield running


@pytest.fixture(autouse=True)
def no_pods_left(site: Any) -> Iterator[None]:
    yield
    site.both.clear()
