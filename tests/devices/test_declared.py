from pathlib import Path
from typing import Any

import pytest
from device_cases import cases
from numaplace.devices.declared.load import DEVICE_KEYS, load_declared
from numaplace.errors import InputError
from numaplace.model.device import DeviceNode, Mount

WHOLE = """
devices:
  - id: widget-0
    numaNode: 0
    group: board-a
    healthy: false
    deviceNodes:
    - /dev/widget0
    - {hostPath: /dev/w, containerPath: /dev/w0, permissions: mrw}
    - hostPath: /dev/x
    env: {WIDGET: "0"}
    mounts: [{hostPath: /opt/w}, {hostPath: /opt/v, containerPath: /v, readOnly: false}]
    cdiDevices: [example.com/widget=0]
    annotations: {example.com/a: b}
  - {id: widget-1, numaNodes: [1, 0]}
  - {id: widget-2, numaNode: null}
  - {id: widget-3, numaNode: -1}
"""


def test_every_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "widget.yaml"
    file.write_text(WHOLE)
    first, second, *others = load_declared(file)
    assert (first.id, first.nodes, first.group, first.healthy) == ("widget-0", (0,), "board-a", False)
    assert first.edits.device_nodes == (
        DeviceNode("/dev/widget0", "/dev/widget0"),
        DeviceNode("/dev/w", "/dev/w0", "mrw"),
        DeviceNode("/dev/x", "/dev/x"),
    )
    assert first.edits.mounts == (Mount("/opt/w", "/opt/w"), Mount("/opt/v", "/v", read_only=False))
    assert (first.edits.env, first.edits.annotations) == ({"WIDGET": "0"}, {"example.com/a": "b"})
    assert first.edits.cdi_devices == ("example.com/widget=0",)
    assert (second.nodes, second.group, second.healthy) == ((0, 1), "", True)
    assert [device.nodes for device in others] == [(), ()]


def test_a_plain_list_and_json_will_do(tmp_path: Path) -> None:
    file = tmp_path / "widget.json"
    file.write_text('[{"id": "a", "numaNode": 1}]')
    assert [(device.id, device.nodes) for device in load_declared(file)] == [("a", (1,))]


@pytest.mark.parametrize("case", cases("bad_declared.yaml"))
def test_a_bad_file_is_refused_with_all_its_problems(case: Any, tmp_path: Path) -> None:
    file = tmp_path / "widget.yaml"
    file.write_text(case["text"])
    with pytest.raises(InputError) as caught:
        load_declared(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(case["says"]), lines
    for line, parts in zip(lines, case["says"], strict=True):
        for part in (str(file), *parts):
            assert part in line


def test_an_unknown_key_is_told_all_that_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "widget.yaml"
    file.write_text("- {id: a, x: 1}")
    with pytest.raises(InputError) as caught:
        load_declared(file)
    assert f"allowed are {', '.join(DEVICE_KEYS)}" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be read"), (b"\xff\xfe\x00", "not UTF-8"), (b"#" * (4 << 20) + b"##", "larger than")],
)
def test_a_file_that_cannot_be_read_is_refused(content: bytes | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "widget.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=says):
        load_declared(file)


def test_a_bad_file_is_a_failed_scan_and_a_good_one_mends_it(host: Any, source: Any, tmp_path: Path) -> None:
    file = tmp_path / "widget.yaml"
    declared = source("declared", file=file)
    assert declared.scan().failed
    file.write_text("devices: [{id: a, numaNode: 1}, {id: b, numaNode: 5}]")
    scan = declared.scan()
    assert not scan.failed
    assert [(device.id, device.nodes) for device in scan.devices] == [("a", (1,)), ("b", ())]
    assert scan.warnings == ("b: NUMA node 5 does not exist here (there are: 0, 1); published without it",)
    file.write_text("devices: [{id: a, x: 1}, {id: a}]")
    scan = declared.scan()
    assert (scan.failed, scan.devices, len(scan.warnings)) == (True, (), 2)
    assert declared.watch_paths == (tmp_path,)
