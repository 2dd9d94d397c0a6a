"""Fixtures of the guest tests. Start them with e2e/guest/run.sh, which builds what they need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent

# With e2e/run.sh, which has a simulated node, there is nothing here to run.
collect_ignore_glob = [] if "NUMAPLACE_GUEST_BUILT" in os.environ else ["test_*.py"]

from guest.keeper import GuestLogs  # noqa: E402
from guest.site import Site, running_site  # noqa: E402
from harness.report import Report  # noqa: E402

_LOGS = pytest.StashKey[GuestLogs]()
_REPORT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    if "NUMAPLACE_GUEST_BUILT" not in os.environ:
        return
    config.stash[_LOGS] = GuestLogs(HERE / "logs")
    config.stash[_REPORT] = Report()
    # A polite end from outside tears the fixtures down, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed and _LOGS in item.config.stash:
        for path, tail in item.config.stash[_LOGS].keep(item.nodeid):
            report.sections.append((f"log kept at {path}; its end", tail))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(_REPORT, Report()).lines:
        terminalreporter.section("what the guests showed")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    return pytestconfig.stash[_REPORT]


@pytest.fixture(scope="session")
def logs(pytestconfig: pytest.Config) -> GuestLogs:
    return pytestconfig.stash[_LOGS]


@pytest.fixture(scope="session")
def built() -> Mapping[str, Path]:
    """What build.sh has made, by name."""
    lines = Path(os.environ["NUMAPLACE_GUEST_BUILT"]).read_text().splitlines()
    return {name: Path(path) for name, path in (line.split("=", 1) for line in lines)}


@pytest.fixture(scope="session")
def scratch() -> Path:
    """A folder that run.sh removes."""
    return Path(os.environ["NUMAPLACE_GUEST_SCRATCH"])


@pytest.fixture(scope="session")
def site(built: Mapping[str, Path], scratch: Path, logs: GuestLogs) -> Iterator[Site]:
    """The guest with two NUMA nodes."""
    with running_site(built, scratch / "site", logs=logs) as site:
        yield site
