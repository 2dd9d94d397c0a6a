"""Logs a problem once, and its end once."""

from __future__ import annotations

import math
from collections.abc import Callable

from numaplace.daemon.runtime.logs import EventLog


class TroubleLog:
    """One kind of trouble, logged as ``event``; its end as ``over``, if given.

    While it lasts, it is logged again when its key is another one, and after ``repeat_seconds``. A trouble
    that comes and goes is logged once in ``quiet_seconds``. ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self,
        log: EventLog,
        event: str,
        *,
        over: str = "",
        clock: Callable[[], float],
        repeat_seconds: float = math.inf,
        quiet_seconds: float = 0.0,
    ) -> None:
        self._log = log
        self._event = event
        self._over = over
        self._clock = clock
        self._repeat_seconds = repeat_seconds
        self._quiet_seconds = quiet_seconds
        self._key: str | None = None
        self._logged_at = 0.0
        self._lasts = False

    @property
    def key(self) -> str | None:
        """What happened last."""
        return self._key

    def happened(self, key: str = "", *, exc: BaseException | None = None, **fields: object) -> None:
        """Note the trouble. With ``exc`` it is a failure of ours, logged with its traceback."""
        now = self._clock()
        limit = self._repeat_seconds if self._lasts else self._quiet_seconds
        if key == self._key and now - self._logged_at < limit:
            return
        self._key, self._logged_at, self._lasts = key, now, True
        if exc is None:
            self._log.warning(self._event, **fields)
        else:
            self._log.error(self._event, exc=exc, **fields)

    def ended(self, **fields: object) -> None:
        if self._lasts and self._over:
            self._log.info(self._over, **fields)
        self._lasts = False
