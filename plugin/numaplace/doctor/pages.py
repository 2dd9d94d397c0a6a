"""The running daemon's pages: ``/readyz``, ``/metrics`` and ``/steering``."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException

from numaplace.doctor.facts import DaemonFact, Sample
from numaplace.doctor.steering_page import SteeringFact, read_steering

_EVERYWHERE = ("", "0.0.0.0", "::")
_LIMIT_BYTES = 8 << 20
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.ASCII)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"', re.ASCII)
# The environment's proxies are not for this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def url_of(listen: tuple[str, int]) -> str:
    """Return the URL of (host, port); an unspecified host is this machine."""
    host, port = listen
    host = "127.0.0.1" if host in _EVERYWHERE else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def look_at_daemon(listen: tuple[str, int], *, timeout_seconds: float) -> DaemonFact:
    url = url_of(listen)
    status, text = get_page(f"{url}/readyz", timeout_seconds)
    if not status:
        return DaemonFact(url, 0, text)
    found, metrics = get_page(f"{url}/metrics", timeout_seconds)
    shown = tuple(samples(metrics)) if found == 200 else ()
    return DaemonFact(
        url, status, text.strip(), shown, look_at_steering(url, timeout_seconds=timeout_seconds)
    )


def look_at_steering(url: str, *, timeout_seconds: float) -> SteeringFact | None:
    """Return the daemon's page ``/steering``; ``None`` without an answer or without such a page."""
    status, text = get_page(f"{url}/steering", timeout_seconds)
    return read_steering(text) if status == 200 else None


def samples(text: str) -> Iterator[Sample]:
    """Yield the samples of a Prometheus text exposition; other lines are skipped."""
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        yield Sample(match[1], dict(_LABEL.findall(match[2] or "")), value)


def get_page(url: str, timeout_seconds: float) -> tuple[int, str]:
    """Return status and text; without an answer, 0 and the error."""
    try:
        with _OPENER.open(url, timeout=timeout_seconds) as answer:
            return answer.status, answer.read(_LIMIT_BYTES).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(_LIMIT_BYTES).decode(errors="replace")
    except (OSError, HTTPException, ValueError) as error:  # the answer may not be HTTP
        return 0, str(getattr(error, "reason", error))
