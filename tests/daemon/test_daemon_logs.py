"""The log: JSON lines, and never a reason to wait."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from typing import Any

import pytest
from daemon_site import RecordedLog
from numaplace.daemon.runtime.logs import EventLog, ThreadedHandler, logging_to
from numaplace.daemon.runtime.trouble_log import TroubleLog


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_events_are_json_lines(stream: io.StringIO) -> None:
    with logging_to(stream) as log:
        log.info("registered", resource="a/b", ids=("x", "y"))
        with pytest.raises(ValueError, match="invalid literal") as caught:
            int("on purpose")
        log.error("failed", exc=caught.value, odd=object)
    first, second = lines(stream)
    assert (first["level"], first["event"], first["resource"], first["ids"]) == (
        "info", "registered", "a/b", ["x", "y"],
    )  # fmt: skip
    assert first["time"].endswith("+00:00")
    assert "on purpose" in second["traceback"]


def test_libraries_are_heard_from_warnings_on_in_the_same_form(stream: io.StringIO) -> None:
    with logging_to(stream):
        logging.getLogger("library").info("chatter")
        logging.getLogger("library").warning("trouble %s", 7)
    [line] = lines(stream)
    assert line["event"] == "trouble 7"


class Stalled(io.StringIO):
    """A pipe whose reader does not read until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = threading.Event()

    def write(self, text: str) -> int:
        self.reading.wait(10)
        return super().write(text)


def test_a_reader_that_stalls_holds_up_nobody_and_lost_lines_are_counted() -> None:
    stalled = Stalled()
    handler = ThreadedHandler(stalled, max_waiting=10)
    logger = logging.Logger("stalled")
    logger.addHandler(handler)
    log = EventLog(logger)
    for number in range(100):
        log.info("event", number=number)
    stalled.reading.set()
    while stalled.getvalue().count("\n") < 10:
        time.sleep(0.001)
    log.info("afterwards")
    handler.close()
    found = lines(stalled)
    [dropped] = [line for line in found if line["event"] == "log lines dropped"]
    written = sum(line["event"] == "event" for line in found)
    assert 10 <= written < 100
    assert dropped["lines"] == 100 - written
    assert found[-1]["event"] == "afterwards"


def test_a_log_that_is_gone_is_no_error() -> None:
    stream = io.StringIO()
    stream.close()
    with logging_to(stream) as log:
        log.info("nobody reads this")


class Trouble:
    """A log of one trouble, with a clock to be set."""

    def __init__(self, **options: float) -> None:
        self.log = RecordedLog()
        self.now = 0.0
        self.trouble = TroubleLog(self.log, "bad", over="good", clock=lambda: self.now, **options)

    @property
    def logged(self) -> list[str]:
        return [line["event"] for line in self.log.lines]


def test_a_trouble_is_logged_once_and_so_is_its_end() -> None:
    seen = Trouble()
    seen.trouble.ended()
    for _ in range(3):
        seen.trouble.happened("this")
        seen.now += 1000.0
    seen.trouble.happened("that")
    for _ in range(2):
        seen.trouble.ended()
    seen.trouble.happened("that")
    assert seen.logged == ["bad", "bad", "good", "bad"]


def test_a_trouble_that_lasts_is_logged_again_after_a_while() -> None:
    seen = Trouble(repeat_seconds=600.0)
    for seconds in (0.0, 599.0, 600.0, 1199.0, 1200.0):
        seen.now = seconds
        seen.trouble.happened()
    assert seen.logged == ["bad"] * 3


def test_a_trouble_that_comes_and_goes_is_logged_now_and_then() -> None:
    seen = Trouble(quiet_seconds=60.0)
    for _ in range(20):
        seen.trouble.happened()
        seen.trouble.ended()
    seen.now = 60.0
    seen.trouble.happened()
    assert seen.logged == ["bad", "good", "bad"]


def test_a_failure_of_ours_has_its_traceback() -> None:
    seen = Trouble()
    seen.trouble.happened(exc=(bug := ValueError("a bug")), resource="r")
    assert [(line["level"], line["exc"], line["resource"]) for line in seen.log.lines] == [
        ("error", bug, "r")
    ]
