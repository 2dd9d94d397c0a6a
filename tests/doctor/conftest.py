from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from doctor_site import Patient, build_patient


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder short enough for socket paths."""
    folder = Path(tempfile.mkdtemp(prefix="np-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def patient(root: Path) -> Patient:
    """A healthy host whose kubelet is not started."""
    return build_patient(root)


@pytest.fixture
async def running(patient: Patient) -> AsyncIterator[Patient]:
    """The same with the kubelet running; no daemon."""
    async with patient.kubelet:
        yield patient
