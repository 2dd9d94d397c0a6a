"""The log: JSON lines, and never a reason to wait."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from typing import Any

import pytest
from numaplace.daemon.runtime.logs import EventLog, ThreadedHandler, logging_to
from numaplace.daemon.runtime.trouble_log import QUIET_SECONDS, OutageLog


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


def test_an_outage_is_told_once_and_so_is_its_end(stream: io.StringIO) -> None:
    now = 0.0
    with logging_to(stream) as log:
        outage = OutageLog(log=log, clock=lambda: now)
        for code in ("OK", "UNAVAILABLE", "UNAVAILABLE", "OK", "OK"):
            outage.called("List", code)
        outage.called("Get", "UNIMPLEMENTED")
        for code in ("RESOURCE_EXHAUSTED", "OK") * 20:
            outage.called("List", code)
        now = QUIET_SECONDS
        outage.called("List", "UNAVAILABLE")
    assert [line["level"] for line in lines(stream)] == ["warning", "info", "warning"]
