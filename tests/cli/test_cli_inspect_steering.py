"""inspect where steering withholds topology: the kubelet shows none, the daemon says where devices are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Runner
from numaplace.cli.inspection import steering_of
from numaplace.config.schema import Config, HttpConfig

GPU = "nvidia.com/gpu"
KUBELET = {
    "known": True,
    "policy": "restricted",
    "scope": "container",
    "source": "file /var/lib/kubelet/config.yaml",
}
HEADING = (
    "STEERING  mode auto; Topology Manager policy restricted, scope container "
    "(file /var/lib/kubelet/config.yaml)"
)
PAGE = {
    "mode": "auto",
    "kubelet": KUBELET,
    "withheld": [
        {
            "resource": GPU,
            "numaNodes": [0],
            "devices": [{"id": "GPU-1", "numaNodes": [0]}, {"id": "GPU-2", "numaNodes": [0]}],
        }
    ],
    "refusals": [{"reason": "nothing-to-gain", "text": "intel.com/vf: the kubelet picks it by itself"}],
    "requests": [{"text": "{nvidia.com/gpu: 1}: NUMA 1 (without steering NUMA 0)"}],
    "requestsSource": "declared",
    "breaker": {"open": False, "secondsLeft": None, "trips": 0},
}


@contextmanager
def daemon_with(page: Any) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(page).encode()
            self.send_response(200 if self.path == "/steering" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def replies(tmp_path: Path) -> Path:
    """A pod has GPU-0. GPU-1 and GPU-2 are free on NUMA node 0, which is withheld; GPU-3 is on node 1."""
    held = {"resourceName": GPU, "deviceIds": ["GPU-0"], "topology": {"nodes": [{}]}}
    pod = {"namespace": "default", "name": "p", "containers": [{"name": "main", "devices": [held]}]}
    shown = {"resourceName": GPU, "deviceIds": ["GPU-3"], "topology": {"nodes": [{"ID": "1"}]}}
    bare = {"resourceName": GPU, "deviceIds": ["GPU-1", "GPU-2"]}
    (tmp_path / "list.json").write_text(json.dumps({"podResources": [pod]}))
    (tmp_path / "allocatable.json").write_text(json.dumps({"devices": [held, shown, bare]}))
    return tmp_path


def section(out: str) -> list[str]:
    return out.split("\n\n")[-1].splitlines()


def test_withheld_devices_count_on_their_own_numa_nodes(run: Runner, sysfs: Path, replies: Path) -> None:
    argv = ("inspect", "--socket", f"fake:{replies}", "--sysfs", str(sysfs))
    with daemon_with(PAGE) as url:
        shown = json.loads(run(*argv, "--daemon", url, "-o", "json").out)
    assert shown["steering"] == PAGE
    (gpu,) = shown["resources"]
    assert [(one["allocatable"], one["free"]) for one in gpu["numaNodes"]] == [(3, 2), (1, 1)]
    alone = json.loads(Runner()(*argv, "-o", "json").out)
    assert alone["steering"] is None
    assert [one["free"] for one in alone["resources"][0]["numaNodes"]] == [0, 1]


def test_a_device_given_away_since_is_shown_where_it_is(run: Runner, sysfs: Path, replies: Path) -> None:
    given = {"resourceName": GPU, "deviceIds": ["GPU-1"]}
    pod = {"namespace": "default", "name": "new", "containers": [{"name": "main", "devices": [given]}]}
    (replies / "list.json").write_text(json.dumps({"podResources": [pod]}))
    with daemon_with(PAGE) as url:
        argv = (
            "inspect",
            "--socket",
            f"fake:{replies}",
            "--sysfs",
            str(sysfs),
            "--daemon",
            url,
            "-o",
            "json",
        )
        shown = json.loads(run(*argv).out)
    assert shown["pods"][0]["containers"][0]["numaNodes"] == [0]


def test_the_section_says_what_is_withheld_and_why(run: Runner, sysfs: Path, replies: Path) -> None:
    with daemon_with(PAGE) as url:
        result = run("inspect", "--socket", f"fake:{replies}", "--sysfs", str(sysfs), "--daemon", f"{url}/")
    assert section(result.out) == [
        HEADING,
        "  nvidia.com/gpu: topology of 2 free devices withheld on NUMA 0",
        "  intel.com/vf: the kubelet picks it by itself",
        "  declared {nvidia.com/gpu: 1}: NUMA 1 (without steering NUMA 0)",
    ]


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ({"mode": "off"}, ["STEERING  off (steering.mode)"]),
        (
            {
                "mode": "auto",
                "kubelet": {"known": False, "problem": "p"},
                "refusals": [{"reason": "policy-unknown", "text": "the kubelet is not known: p"}],
            },
            [
                "STEERING  mode auto; the kubelet's configuration is not known",
                "  nothing withheld",
                "  the kubelet is not known: p",
            ],
        ),
        (
            {"mode": "auto", "kubelet": KUBELET, "breaker": {"open": True, "secondsLeft": 41.7, "trips": 1}},
            [HEADING, "  circuit breaker open for 42 s more: a pod was refused", "  nothing withheld"],
        ),
    ],
)
def test_why_nothing_is_withheld(
    run: Runner, sysfs: Path, replies: Path, page: dict[str, Any], lines: list[str]
) -> None:
    with daemon_with(page) as url:
        result = run("inspect", "--socket", f"fake:{replies}", "--sysfs", str(sysfs), "--daemon", url)
    assert section(result.out) == lines


def test_the_daemon_on_this_machine_is_asked_unless_another_socket_is_named() -> None:
    with daemon_with(PAGE) as url:
        config = Config(http=HttpConfig(address=url.removeprefix("http://")))
        found = steering_of(None, config, elsewhere=False)
        assert found is not None
        assert found.document == PAGE
        assert steering_of(None, config, elsewhere=True) is None
        assert steering_of("none", config, elsewhere=False) is None
        assert steering_of(url, config, elsewhere=True) == found
        assert steering_of(None, Config(http=HttpConfig(address="")), elsewhere=False) is None
    assert steering_of(None, config, elsewhere=False) is None, "no daemon there"


@pytest.mark.parametrize("page", ["ok", {"other": 1}])
def test_a_named_daemon_that_says_nothing(run: Runner, sysfs: Path, replies: Path, page: Any) -> None:
    with daemon_with(page) as url:
        result = run("inspect", "--socket", f"fake:{replies}", "--sysfs", str(sysfs), "--daemon", url)
    assert result.code == 2
    assert f"--daemon {url}" in result.err
