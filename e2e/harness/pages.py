"""The daemon's HTTP pages, wherever the daemon is."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Mapping

_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def get_page(url: str, *, limit_seconds: float) -> tuple[int, str]:
    """Return a page's status and text; (0, "") while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=limit_seconds) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
    except OSError:
        return 0, ""


def samples_of(metrics: str, name: str) -> list[tuple[Mapping[str, str], float]]:
    """Return labels and value of each sample of a metric."""
    found = []
    for line in metrics.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match and match["name"] == name:
            found.append((dict(_LABEL.findall(match["labels"] or "")), float(match["value"])))
    return found
