"""Fixtures of the end-to-end tests. Start them with e2e/run.sh, which builds what they need."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent
_NEEDED = ("NUMAPLACE_E2E_KUBELET", "NUMAPLACE_E2E_CRI", "NUMAPLACE_E2E_SCRATCH")

if any(name not in os.environ for name in _NEEDED):
    pytest.exit("start the end-to-end tests with e2e/run.sh (or make e2e)", returncode=2)
sys.path.insert(0, os.environ["NUMAPLACE_E2E_CRI"])

from harness.backend import Tools  # noqa: E402
from harness.logs import LogKeeper  # noqa: E402
from harness.report import Report  # noqa: E402

_LOGS = pytest.StashKey[LogKeeper]()
_REPORT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LOGS] = LogKeeper(HERE / "logs")
    config.stash[_REPORT] = Report()
    # A polite end from outside tears the fixtures down, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed:
        for path, tail in item.config.stash[_LOGS].keep(item.nodeid):
            report.sections.append((f"log kept at {path}; its end", tail))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[_REPORT].lines:
        terminalreporter.section("NUMA nodes of each pod's devices, pod after pod")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    return pytestconfig.stash[_REPORT]


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools(kubelet=Path(os.environ["NUMAPLACE_E2E_KUBELET"]))


@pytest.fixture(scope="session")
def logs(pytestconfig: pytest.Config) -> LogKeeper:
    return pytestconfig.stash[_LOGS]


@pytest.fixture(scope="session")
def scratch() -> Path:
    """A folder with a short path (a unix socket's path has at most 107 bytes); run.sh removes it."""
    return Path(os.environ["NUMAPLACE_E2E_SCRATCH"])
