"""The device manager's checkpoint, and what is not one."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.kubelet.checkpoint import NAME, Checkpoint, devices_in_checkpoint

# As kubelet v1.37.2 writes it (devicemanager/checkpoint, Data).
WRITTEN = {
    "Data": {
        "PodDeviceEntries": [
            {"PodUID": "u1", "ContainerName": "c", "ResourceName": "a.com/x",
             "DeviceIDs": {"0": ["d0", "d1"], "1": ["d1"]}, "AllocResp": "CgA="},
            {"PodUID": "u2", "ContainerName": "c", "ResourceName": "a.com/x",
             "DeviceIDs": {"-1": ["d2"]}, "AllocResp": "CgA="},
            {"PodUID": "u2", "ContainerName": "d", "ResourceName": "a.com/y", "DeviceIDs": {}},
        ],
        "RegisteredDevices": {"a.com/x": ["d0", "d1", "d2", "d3"]},
    },
    "Checksum": 1234567890,
}  # fmt: skip


FOUND = {"a.com/x": {"d0", "d1", "d2"}, "a.com/y": frozenset()}


def test_the_devices_of_all_pods(tmp_path):
    (tmp_path / NAME).write_text(json.dumps(WRITTEN))
    assert devices_in_checkpoint(tmp_path) == FOUND


@pytest.mark.parametrize("data", [{"PodDeviceEntries": None}, {}])
def test_a_kubelet_without_pods(tmp_path, data):
    (tmp_path / NAME).write_text(json.dumps({"Data": data, "Checksum": 0}))
    assert devices_in_checkpoint(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"Data": {"PodDeviceEntries": [{"ResourceName": 1}]}}',
        '{"Data": {"PodDeviceEntries": [{"ResourceName": "a", "DeviceIDs": ["of", "old", "kubelets"]}]}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_checkpoint_is_not_known(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    assert devices_in_checkpoint(tmp_path) is None


def test_no_file_is_not_known(tmp_path):
    assert devices_in_checkpoint(tmp_path) is None
    (tmp_path / NAME).mkdir()
    assert devices_in_checkpoint(tmp_path) is None


@settings(max_examples=examples(50))
@given(st.binary(max_size=200))
def test_garbage_raises_nothing(tmp_path, garbage):
    (tmp_path / NAME).write_bytes(garbage)
    assert devices_in_checkpoint(tmp_path) in (None, {})


async def test_a_file_that_hangs_is_read_again_and_holds_up_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk is slow when the node has just booted; the kubelet may not write again for days."""
    monkeypatch.setattr("numaplace.kubelet.checkpoint.READ_SECONDS", 0.05)
    os.mkfifo(tmp_path / NAME)
    checkpoint = Checkpoint(tmp_path)
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await checkpoint.refresh()
        async with asyncio.timeout(5):
            await asyncio.get_running_loop().shutdown_default_executor()
    finally:
        os.close(os.open(tmp_path / NAME, os.O_RDWR | os.O_NONBLOCK))


async def test_it_is_read_anew_only_when_it_has_changed(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    assert not await checkpoint.refresh()
    for text, found in [(json.dumps(WRITTEN), FOUND), ('{"Data": {}}', {}), ("{", None)]:
        (tmp_path / NAME).write_text(text)
        assert await checkpoint.refresh()
        assert checkpoint.devices == found
        assert not await checkpoint.refresh()
    (tmp_path / NAME).unlink()
    assert await checkpoint.refresh()
    assert checkpoint.devices is None


async def test_the_event_loop_is_free_while_it_is_read(tmp_path):
    """Up to 16 MiB of JSON, while the kubelet waits for an answer."""
    threads = []

    class Text(type(tmp_path)):
        def read_bytes(self):
            threads.append(threading.current_thread())
            return super().read_bytes()

    (tmp_path / NAME).write_text(json.dumps(WRITTEN))
    assert await Checkpoint(Text(tmp_path)).refresh()
    assert threads != [threading.current_thread()]
    assert len(threads) == 1
