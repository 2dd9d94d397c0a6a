"""One inotify instance for all who follow directories."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

import pytest
from asyncinotify import Inotify
from kubelet_side import eventually
from numaplace.kubelet.directories import DirectoryWatch


class Follower:
    def __init__(self):
        self.seen = []

    def changed(self, name):
        self.seen.append(name)


@contextlib.asynccontextmanager
async def running():
    directories = DirectoryWatch(on_degraded=pytest.fail)
    task = asyncio.create_task(directories.run())
    # It follows nothing before its first step.
    await asyncio.sleep(0)
    yield directories
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_all_who_follow_a_directory_hear_of_a_change_whatever_its_path(short_dir):
    (real := short_dir / "real").mkdir()
    (link := short_dir / "link").symlink_to(real)
    followers = [Follower() for _ in range(3)]
    async with running() as directories:
        for follower, path in zip(followers, (real, real, link), strict=True):
            directories.follow(path, follower.changed)
        (real / "file").write_text("x")
        await eventually(lambda: all("file" in one.seen for one in followers))


async def test_who_follows_no_more_hears_nothing(short_dir):
    gone, left = Follower(), Follower()
    async with running() as directories:
        for follower in (gone, left):
            directories.follow(short_dir, follower.changed)
        directories.unfollow(short_dir, gone.changed)
        (short_dir / "first").write_text("x")
        await eventually(lambda: "first" in left.seen)
        directories.unfollow(short_dir, left.changed)
        directories.follow(short_dir, gone.changed)
        (short_dir / "second").write_text("x")
        await eventually(lambda: "second" in gone.seen)
    assert "first" not in gone.seen
    assert "second" not in left.seen


async def test_a_device_that_is_closed_is_no_change(short_dir):
    """Everybody writes to /dev/null, and drivers are looked for in /dev."""
    follower = Follower()
    os.mkfifo(short_dir / "null")
    async with running() as directories:
        directories.follow(short_dir, follower.changed)
        os.close(os.open(short_dir / "null", os.O_RDWR))
        (short_dir / "file").write_text("x")
        await eventually(lambda: "file" in follower.seen)
        assert "null" not in follower.seen
        (short_dir / "null").unlink()
        await eventually(lambda: "null" in follower.seen)


async def test_a_directory_that_appears_later_is_followed_when_asked_again(short_dir):
    follower = Follower()
    directory = short_dir / "later"
    async with running() as directories:
        directories.follow(directory, follower.changed)
        directory.mkdir()
        directories.follow(directory, follower.changed)
        (directory / "file").write_text("x")
        await eventually(lambda: "file" in follower.seen)


async def test_inotify_that_comes_back_is_reported(short_dir, monkeypatch):
    monkeypatch.setattr("numaplace.kubelet.directories.RETRY_SECONDS", 0.01)
    reports, attempts, follower = [], [], Follower()

    def inotify():
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return Inotify()

    directories = DirectoryWatch(
        on_degraded=reports.append, on_restored=lambda: reports.append("restored"), inotify=inotify
    )
    directories.follow(short_dir, follower.changed)
    task = asyncio.create_task(directories.run())
    await eventually(lambda: "restored" in reports)
    assert reports == [f"inotify: {os.strerror(errno.EMFILE)}", "restored"]
    (short_dir / "file").write_text("x")
    await eventually(lambda: "file" in follower.seen)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
