from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time

import pytest
from asyncinotify import Inotify
from kubelet_side import eventually
from numaplace.kubelet.directories import DirectoryWatch
from numaplace.kubelet.plugin.watch import SocketWatch
from numaplace.kubelet.sockets import remove_leftovers, socket_identity

NEVER_SECONDS = 1000.0


def bind(path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    return listening


@contextlib.asynccontextmanager
async def running(directory, *, poll_seconds=NEVER_SECONDS, on_degraded=pytest.fail, inotify=Inotify):
    directories = DirectoryWatch(on_degraded=on_degraded, inotify=inotify)
    watch = SocketWatch(directory, directories, poll_seconds=poll_seconds)
    tasks = [asyncio.create_task(run()) for run in (directories.run, watch.run)]
    yield watch
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)


@contextlib.contextmanager
def listening(path):
    made = bind(path)
    try:
        yield path
    finally:
        made.close()
        path.unlink(missing_ok=True)


async def within(awaitable):
    return await asyncio.wait_for(awaitable, 15)


def no_inotify(number: int):
    def make():
        raise OSError(number, os.strerror(number))

    return make


async def test_inotify_alone_sees_the_kubelet_come_and_go(short_dir):
    async with running(short_dir) as watch:
        come = asyncio.create_task(watch.until(watch.kubelet))
        await asyncio.sleep(0)
        await eventually(lambda: inotify_is_watching())
        with listening(watch.kubelet_path):
            assert await within(come) == socket_identity(watch.kubelet_path)
            gone = asyncio.create_task(watch.until(lambda: watch.kubelet() is None or None))
        await within(gone)


def inotify_is_watching() -> bool:
    for name in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{name}") as info:
            if "inotify wd:" in info.read():
                return True
    return False


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
async def test_without_inotify_polling_is_enough_and_is_reported_once(short_dir, number):
    reports = []
    options = {"poll_seconds": 0.02, "on_degraded": reports.append, "inotify": no_inotify(number)}
    async with running(short_dir, **options) as watch:
        come = asyncio.create_task(watch.until(watch.kubelet))
        with listening(watch.kubelet_path):
            await within(come)
        await within(watch.until(lambda: watch.kubelet() is None or None))
    assert len(reports) == 1
    assert os.strerror(number) in reports[0]


async def test_the_directory_may_appear_later_and_be_replaced(short_dir):
    directory = short_dir / "dp"
    async with running(directory, poll_seconds=0.02) as watch:
        for _ in range(3):
            come = asyncio.create_task(watch.until(watch.kubelet))
            await asyncio.sleep(0)
            assert not come.done()
            directory.mkdir()
            with listening(watch.kubelet_path):
                await within(come)
            directory.rmdir()
            await within(watch.until(lambda: watch.kubelet() is None or None))


async def test_after_the_directory_was_replaced_inotify_follows_the_new_one(short_dir):
    directory = short_dir / "dp"
    directory.mkdir()
    async with running(directory, poll_seconds=0.02):
        await eventually(inotify_is_watching)
        directory.rename(short_dir / "old")
        directory.mkdir()
        await eventually(lambda: watched_inode() == directory.stat().st_ino)


def watched_inode() -> int:
    for name in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{name}") as info:
            for line in info:
                if line.startswith("inotify wd:"):
                    return int(line.split("ino:")[1].split()[0], 16)
    return 0


async def test_the_kubelets_checkpoint_wakes_nobody(short_dir):
    looks = []
    async with running(short_dir) as watch:
        await eventually(inotify_is_watching)
        waiter = asyncio.create_task(watch.until(lambda: looks.append(None)))
        await eventually(lambda: looks)
        for _ in range(20):
            (short_dir / ".tmp").write_text("{}")
            (short_dir / ".tmp").rename(short_dir / "kubelet_internal_checkpoint")
        before = len(looks)
        with listening(short_dir / "other.sock"):
            await eventually(lambda: len(looks) > before)
        waiter.cancel()
    assert before <= 2


async def test_another_socket_at_the_same_path_is_another_one(short_dir):
    path = short_dir / "s"
    with listening(path):
        first = socket_identity(path)
        path.chmod(0o700)
        assert socket_identity(path) == first
    with listening(path):
        assert socket_identity(path) not in (None, first)


def test_only_a_socket_counts(short_dir):
    (short_dir / "directory").mkdir()
    (short_dir / "file").write_text("")
    for name in ("directory", "file", "absent"):
        assert socket_identity(short_dir / name) is None


async def test_an_idle_watch_looks_once_per_poll_and_not_more(short_dir):
    async with running(short_dir, poll_seconds=0.05) as watch:
        await eventually(inotify_is_watching)
        looks = []
        began = time.monotonic()
        waiter = asyncio.create_task(watch.until(lambda: looks.append(None)))
        await eventually(lambda: len(looks) >= 6)
        assert time.monotonic() - began >= 0.19
        waiter.cancel()


def test_leftovers_are_removed_and_nothing_else(short_dir):
    dead, alive, younger, other = (
        short_dir / f"{n}.sock" for n in ("x-dead", "x-alive", "x-young", "y-dead")
    )
    for path in (dead, other):
        bind(path).close()
    served = bind(alive)
    own = short_dir / "x-own.sock"
    serving = bind(own)
    bind(younger).close()
    now = own.stat().st_mtime_ns
    for path in (dead, alive, other):
        os.utime(path, ns=(now - 10**9, now - 10**9))
    os.utime(younger, ns=(now + 10**9, now + 10**9))
    remove_leftovers(own, prefix="x-")
    assert {path.name for path in short_dir.iterdir()} == {
        "x-alive.sock",
        "x-own.sock",
        "x-young.sock",
        "y-dead.sock",
    }
    serving.close()
    served.close()
