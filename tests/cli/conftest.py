from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runner import Runner, Terminal, make_sysfs


@pytest.fixture
def run() -> Runner:
    return Runner()


@pytest.fixture
def terminal() -> Callable[..., Runner]:
    return lambda **env: Runner(out=Terminal(), env=env)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    return make_sysfs(tmp_path)
