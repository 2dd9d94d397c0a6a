"""Structured logs: one JSON object per line on standard error, one line per event."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

_FIELDS = "numaplace_fields"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", _FIELDS}


class JsonFormatter(logging.Formatter):
    """Renders a record as one JSON object: time (UTC, RFC 3339), level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
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
    """Writes events with fields: ``log.info("registered", resource=…)``."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def info(self, event: str, **fields: object) -> None:
        """Write an event that an operator may want to see."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write an event that an operator should look at."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, *, exc: BaseException | None = None, **fields: object) -> None:
        """Write a failure of ours, with its traceback if ``exc`` is given."""
        self._write(logging.ERROR, event, fields, exc)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], exc: BaseException | None = None
    ) -> None:
        self._logger.log(level, event, exc_info=exc, extra={_FIELDS: fields})


def setup_logs(stream: TextIO | None = None) -> EventLog:
    """Send all logs of the process to ``stream`` (standard error) as JSON lines; return our event log."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours = logging.getLogger("numaplace")
    ours.setLevel(logging.INFO)
    return EventLog(ours)
