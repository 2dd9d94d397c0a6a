from __future__ import annotations

import os

import pytest
from kubelet_side import PodResourcesSide
from numaplace.errors import InputError
from numaplace.kubelet.channel import MAX_SOCKET_PATH_BYTES, open_channel, unix_target


def path_of(size_bytes: int) -> str:
    return "/" + "x" * (size_bytes - 1)


def test_a_path_as_long_as_linux_allows_is_accepted():
    assert unix_target(path_of(MAX_SOCKET_PATH_BYTES)).endswith("x")


def test_a_longer_path_is_refused_with_the_path_and_the_limit():
    path = path_of(MAX_SOCKET_PATH_BYTES + 1)
    with pytest.raises(InputError, match=f"{path}.*108 bytes.*107"):
        unix_target(path)


def test_the_limit_counts_bytes_not_characters():
    with pytest.raises(InputError, match="108 bytes"):
        unix_target("/" + "é" * 53 + "x")


@pytest.mark.parametrize("name", ["plain", "a b", "a%20b", "a#b?c", "é"])
async def test_any_file_name_can_be_dialled(short_dir, name):
    directory = short_dir / name
    directory.mkdir()
    # Served under a harmless name and linked, so that only the client has to cope with the odd one.
    side = PodResourcesSide(short_dir / "s")
    await side.start()
    os.link(short_dir / "s", directory / "s")
    channel = open_channel(directory / "s")
    try:
        assert await channel.unary_unary("/v1.PodResourcesLister/List")(b"", timeout=10) == b""
    finally:
        await channel.close()
        await side.stop()
