from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from doctor_site import Patient, build_patient


@pytest.fixture
def patient(root: Path) -> Patient:
    """A healthy host whose kubelet is not started."""
    return build_patient(root)


@pytest.fixture
async def running(patient: Patient) -> AsyncIterator[Patient]:
    """The same with the kubelet running; no daemon."""
    async with patient.kubelet:
        yield patient
