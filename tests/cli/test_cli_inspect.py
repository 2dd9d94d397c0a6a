"""The expected output is in the case's folder. To refresh it after a wanted change, run this file."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from cli_runner import Runner
from numaplace.cli.table import human_bytes
from numaplace.model.ranges import ranges

CASE = Path(__file__).parent.parent / "cases" / "cli" / "two-nodes"
EXPECTED_TABLE = (CASE / "expected.txt").read_text()
EXPECTED_JSON = json.loads((CASE / "expected.json").read_text())


def test_tables(run, sysfs):
    result = run("inspect", "--socket", f"fake:{CASE}", "--sysfs", str(sysfs))
    assert result.code == 0
    assert result.out == EXPECTED_TABLE


def test_json(run, sysfs):
    result = run("inspect", "--socket", f"fake:{CASE}", "--sysfs", str(sysfs), "-o", "json")
    assert json.loads(result.out) == EXPECTED_JSON


def test_the_page_shows_this_json():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    assert shown["numaNodes"] == EXPECTED_JSON["numaNodes"]
    for part in ("resources", "pods"):
        assert [one for one in shown[part] if one not in EXPECTED_JSON[part]] == []
        assert shown[part] != []
    assert shown.keys() == EXPECTED_JSON.keys()


def test_the_page_shows_this_table():
    assert EXPECTED_TABLE in (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_the_order_of_a_reply_does_not_show(run, sysfs, tmp_path):
    for name, key in (("list.json", "podResources"), ("allocatable.json", "devices")):
        message = json.loads((CASE / name).read_text())
        message[key].reverse()
        for pod in message.get("podResources", ()):
            for container in pod["containers"]:
                container.get("devices", []).reverse()
        (tmp_path / name).write_text(json.dumps(message))
    result = run("inspect", "--socket", f"fake:{tmp_path}", "--sysfs", str(sysfs))
    assert result.out == EXPECTED_TABLE


def test_colour_on_a_terminal_only_and_not_against_the_users_wish(terminal, sysfs):
    argv = ("inspect", "--socket", f"fake:{CASE}", "--sysfs", str(sysfs))
    coloured = terminal()(*argv).out
    assert "\x1b[1mRESOURCE\x1b[0m" in coloured
    assert "\x1b[33m0-1\x1b[0m" in coloured  # the container whose devices are on two NUMA nodes
    assert terminal(NO_COLOR="1")(*argv).out == EXPECTED_TABLE
    assert terminal(TERM="dumb")(*argv).out == EXPECTED_TABLE


def listed_one_by_one(reply):
    """As a real kubelet lists devices: a block for each."""
    for pod in reply["podResources"]:
        for container in pod["containers"]:
            container["devices"] = [
                {**block, "deviceIds": [one]}
                for block in container.get("devices", [])
                for one in block["deviceIds"]
            ]
    return reply


def test_devices_that_are_listed_one_by_one_are_shown_together(run, sysfs, tmp_path):
    reply = listed_one_by_one(json.loads((CASE / "list.json").read_text()))
    (tmp_path / "list.json").write_text(json.dumps(reply))
    (tmp_path / "allocatable.json").write_text((CASE / "allocatable.json").read_text())
    result = run("inspect", "--socket", f"fake:{tmp_path}", "--sysfs", str(sysfs))
    assert result.out == EXPECTED_TABLE


def test_many_long_ids_are_wrapped(run, sysfs, tmp_path):
    ids = [f"GPU-{number:08}-9689-5f8f-a4c5-120586f1eea1" for number in range(4)]
    block = {"resourceName": "nvidia.com/gpu", "deviceIds": ids, "topology": {"nodes": [{}]}}
    pod = {"namespace": "default", "name": "p", "containers": [{"name": "main", "devices": [block]}]}
    (tmp_path / "list.json").write_text(json.dumps({"podResources": [pod]}))
    (tmp_path / "allocatable.json").write_text("{}")
    result = run("inspect", "--socket", f"fake:{tmp_path}", "--sysfs", str(sysfs))
    assert all(one in result.out for one in ids)
    assert max(map(len, result.out.splitlines())) < 140


def test_a_node_without_holders(run, sysfs, tmp_path):
    (tmp_path / "list.json").write_text("{}")
    (tmp_path / "allocatable.json").write_text("{}")
    result = run("inspect", "--socket", f"fake:{tmp_path}", "--sysfs", str(sysfs))
    assert result.code == 0
    assert result.out.splitlines() == [
        "NUMA nodes 0-1; the kubelet reports no resources.",
        "",
        "No pod holds devices, exclusive CPUs or NUMA memory.",
    ]


def test_a_pod_that_holds_more_than_its_containers(run, sysfs, tmp_path):
    pod = {
        "namespace": "default",
        "name": "pooled",
        "containers": [{"name": "main", "cpuIds": ["1"]}],
        "cpuIds": ["1", "2"],
    }
    (tmp_path / "list.json").write_text(json.dumps({"podResources": [pod]}))
    (tmp_path / "allocatable.json").write_text("{}")
    result = run("inspect", "--socket", f"fake:{tmp_path}", "--sysfs", str(sysfs))
    lines = [line.split() for line in result.out.splitlines()[-2:]]
    assert lines == [
        ["default/pooled", "(whole", "pod)", "-", "1-2", "-", "-"],
        ["main", "0", "1", "-", "-"],
    ]


def test_the_configuration_says_where_socket_and_sysfs_are(sysfs, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(f"kubelet: {{podResourcesSocket: {tmp_path}/none.sock}}\nhost: {{sysfs: {sysfs}}}\n")
    missing = Runner()("inspect", "--config", str(file))
    assert missing.code == 2
    assert f"{tmp_path}/none.sock: does not exist" in missing.err
    for arguments, env in ((("--config", str(file)), {}), ((), {"NUMAPLACE_CONFIG": str(file)})):
        result = Runner(env=env)("inspect", *arguments, "--socket", f"fake:{CASE}")
        assert result.out == EXPECTED_TABLE


def test_a_configuration_that_is_refused(run, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("strategy: best\n")
    assert run("inspect", "--config", str(file)).code == 2


@pytest.mark.parametrize("text", ["/nowhere/kubelet.sock", "unix:/nowhere/kubelet.sock", "fake:/nowhere"])
def test_a_socket_that_is_not_there_is_bad_input(text, run):
    result = run("inspect", "--socket", text)
    assert result.code == 2
    assert result.out == ""
    assert f"--socket {text}: does not exist" in result.err
    assert "Run this on a Kubernetes node" in result.err


def test_a_kubelet_that_does_not_answer(run, tmp_path):
    path = tmp_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    result = run("inspect", "--socket", str(path))
    assert result.code == 1
    assert result.out == ""
    assert "UNAVAILABLE" in result.err
    assert "is the kubelet running" in result.err
    assert "Traceback" not in result.err


def test_a_recording_that_cannot_be_read(run, tmp_path):
    (tmp_path / "allocatable.json").write_text("[")
    result = run("inspect", "--socket", f"fake:{tmp_path}")
    assert result.code == 1
    assert "allocatable.json" in result.err


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (32 * 2**30, "32 GiB"),
        (2**60, "1024 PiB"),
    ],
)
def test_sizes(size_bytes, text):
    assert human_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([3, 1, 2, 2], "1-3"), ([8, 0, 1, 3], "0-1,3,8")]
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text


def refresh() -> None:
    """Write what ``inspect`` prints now as what is expected."""
    import tempfile

    from cli_runner import Runner, make_sysfs

    with tempfile.TemporaryDirectory() as folder:
        argv = ("inspect", "--socket", f"fake:{CASE}", "--sysfs", str(make_sysfs(Path(folder))))
        (CASE / "expected.txt").write_text(Runner()(*argv).out)
        (CASE / "expected.json").write_text(Runner()(*argv, "-o", "json").out)


if __name__ == "__main__":
    refresh()
