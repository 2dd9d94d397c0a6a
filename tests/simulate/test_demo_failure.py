"""A demo whose daemon does not come up ends with one clear message."""

from __future__ import annotations

import os
import subprocess
import sys

from in_memory import PLACE

HANG_SECONDS = 50.0
ENV = {**os.environ, "TMPDIR": PLACE}

# More settings than run at a time: those that wait for their turn start just when the first one has failed.
FAILING = """
import asyncio
from numaplace.errors import PeerError
from numaplace.simulate.demo import RUNS_AT_A_TIME, run_demo
from numaplace.simulate.story import DemoSetting

async def main():
    async for run in run_demo([DemoSetting("bogus")] * (RUNS_AT_A_TIME * 3)):
        print(run)

try:
    asyncio.run(main())
except PeerError as error:
    print(error)
"""


def test_nothing_but_the_message() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FAILING],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        env=ENV,
    )
    assert done.stdout.startswith("the daemon ended: ")
    assert 'strategy: "bogus" is not allowed' in done.stdout
    assert done.stderr == ""


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "numaplace", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
    ) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.stderr is not None
        assert demo.stderr.read() == ""
