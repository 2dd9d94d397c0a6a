"""Structured logs: one JSON object per line on standard error, one line per event.

Lines are rendered and written by a thread: a reader that does not read (a full pipe, a full disk behind the
container runtime) must not hold up an admission, for which the kubelet would wait for ever.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TextIO

_FIELDS = "numaplace_fields"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", _FIELDS}

MAX_WAITING_LINES = 10_000
FLUSH_SECONDS = 1.0


class JsonFormatter(logging.Formatter):
    """Renders a record as one JSON object: time (UTC, RFC 3339), level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update(getattr(record, _FIELDS, {}))
        line.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, separators=(",", ":"))


class EventLog:
    """Writes events with fields: ``log.info("registered", resource=…)``; values must not change later."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, *, exc: BaseException | None = None, **fields: object) -> None:
        """Write a failure of ours, with its traceback if ``exc`` is given."""
        self._write(logging.ERROR, event, fields, exc)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], exc: BaseException | None = None
    ) -> None:
        self._logger.log(level, event, exc_info=exc, extra={_FIELDS: fields})


class ThreadedHandler(logging.Handler):
    """Writes in a thread, never blocks: records beyond ``max_waiting`` are dropped, and counted."""

    def __init__(self, stream: TextIO, *, max_waiting: int = MAX_WAITING_LINES) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self._stream = stream
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(max_waiting)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self._waiting.put_nowait(_dropped_record(self._dropped))
                self._dropped = 0
            self._waiting.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        with suppress(queue.Full):
            self._waiting.put(None, timeout=FLUSH_SECONDS)
            self._thread.join(FLUSH_SECONDS)
        super().close()

    def _write_all(self) -> None:
        while (record := self._waiting.get()) is not None:
            # A log that cannot be written, or a record that cannot be rendered, cannot be reported.
            with suppress(Exception):
                self._stream.write(self.format(record) + "\n")
                self._stream.flush()


def _dropped_record(lines: int) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"msg": "log lines dropped", "levelname": "WARNING", "levelno": logging.WARNING,
         _FIELDS: {"lines": lines}}
    )  # fmt: skip


@contextmanager
def logging_to(stream: TextIO | None = None) -> Iterator[EventLog]:
    """Send all logs of the process to ``stream`` (standard error) as JSON lines while the context is open."""
    handler = ThreadedHandler(stream or sys.stderr)
    root, ours = logging.getLogger(), logging.getLogger("numaplace")
    former = (root.handlers[:], root.level, ours.level)
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO)
    try:
        yield EventLog(ours)
    finally:
        root.handlers[:] = former[0]
        root.setLevel(former[1])
        ours.setLevel(former[2])
        handler.close()
