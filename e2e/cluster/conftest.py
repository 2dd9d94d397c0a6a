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


@contextlib.contextmanager
def _local() -> Iterator[Any]:
    from cluster.local import Binaries, local_cluster

    binaries = Binaries(
        kubelet=_path("KUBELET"),
        older_kubelet=_path("OLDER_KUBELET"),
        control_plane=_path("CONTROLPLANE"),
        etcd=_path("ETCD"),
        containerd=_path("CONTAINERD"),
        pause=_path("PAUSE"),
        image=_path("IMAGE"),
    )
    with local_cluster(binaries, _path("SCRATCH")) as cluster:
        yield cluster


@contextlib.contextmanager
def _kind() -> Iterator[Any]:
    from cluster.kind import kind_cluster

    with kind_cluster(_path("IMAGE"), _path("SCRATCH")) as cluster:
        yield cluster


_CLUSTERS = {"local": _local, "kind": _kind}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", choices=_CLUSTERS, default="local", help="who makes the cluster")


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Iterator[Any]:
    """The cluster, with the chart installed."""
    from cluster.testsite import Site

    with _CLUSTERS[pytestconfig.getoption("cluster")]() as cluster:
        running = Site(cluster, helm=_path("HELM"), kubectl=_path("KUBECTL"), folder=_path("SCRATCH"))
        running.configure("most-allocated")
        yield running


@pytest.fixture(autouse=True)
def no_pods_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "site" in request.fixturenames:
        request.getfixturevalue("site").both.clear()
