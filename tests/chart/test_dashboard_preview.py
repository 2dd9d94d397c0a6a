"""The dashboard without Grafana: every panel is drawn, from answers as Prometheus gives them."""

from __future__ import annotations

import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from dashboards import DASHBOARD, panels

from charts.dashboard.preview import draw
from charts.dashboard.preview.__main__ import Source, page

LABELS = {"node": "worker-<1>", "resource": "nvidia.com/gpu", "numa_node": "0", "outcome": "placed"}


class Prometheus(http.server.BaseHTTPRequestHandler):
    """Answers every query with one series; keeps the queries."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.asked.append(query["query"])
        if url.path.endswith("query_range"):
            found: dict[str, Any] = {"values": [[970, "1"], [985, "NaN"], [1000, "3"]]}
        else:
            found = {"value": [1000, "3"]}
        reply = json.dumps({"data": {"result": [{"metric": LABELS, **found}]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    yield Source(url, minutes=0.5, chosen={"node": "worker-1"}, now_seconds=1000)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def drawn(source: Source) -> str:
    Prometheus.asked.clear()
    return page(DASHBOARD, source)


def test_every_panel_is_drawn_where_it_is(drawn: str) -> None:
    titles = re.findall(r"<h3>(.*?)</h3>", drawn)
    assert len(titles) == len(list(panels()))
    assert "Fragmented for 4" in titles
    assert "No data" not in drawn
    places = re.findall(r'class="panel" style="left:(\d+)px;top:(\d+)px', drawn)
    assert len(set(places)) == len(titles)


def test_what_is_chosen_is_asked_for(drawn: str) -> None:
    assert drawn
    assert all('node=~"worker-1"' in query for query in Prometheus.asked)
    assert not any("$" in query for query in Prometheus.asked)


def test_names_from_outside_are_text(drawn: str) -> None:
    assert "worker-&lt;1&gt;" in drawn
    assert "worker-<1>" not in drawn


def test_some_rows_only(source: Source) -> None:
    drawn = page(DASHBOARD, source, ["Capacity", "Single nodes"])
    assert re.findall(r'class="row"[^>]*>▾ (\w+)', drawn) == ["Capacity", "Single"]
    assert 'class="row" style="left:0px;top:0px"' in drawn


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.254, "percentunit", "25%"), (0.0123, "s", "12.3 ms"), (75.0, "s", "75 s"), (3.0, "short", "3"),
        (2**36, "short", "64 Gi"), (70 * 2**20, "bytes", "70 MiB"), (0.5, "ops", "0.5 ops/s"),
    ],
)  # fmt: skip
def test_values_have_their_unit(value: float, unit: str, text: str) -> None:
    assert draw.text_of(value, unit) == text
