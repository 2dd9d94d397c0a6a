"""Property tests that repeat themselves, and folders with short paths."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import examples
from hypothesis import HealthCheck, settings
from in_memory import short_folder

# The same examples in each run: what fails, fails again. Being slow on a busy machine is no failure.
settings.register_profile(
    "repeatable",
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")


@pytest.fixture
def root() -> Iterator[Path]:
    """An empty folder, short enough for socket paths."""
    with short_folder() as folder:
        yield folder


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays until the end: thousands of tests and their cases."""
    gc.collect()
    gc.freeze()
