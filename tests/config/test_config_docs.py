from __future__ import annotations

import re
from pathlib import Path

import pytest
from numaplace.config import load_config, setting_names, settings

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
ROWS = {
    key: default.strip()
    for key, default in re.findall(r"^\| `([A-Za-z0-9.\[\]]+)` \| ([^|]*)\|", PAGE, flags=re.MULTILINE)
}


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.key)
def test_every_key_is_documented_with_its_default(setting):
    if setting.default is None:
        assert ROWS[setting.key] == "*required*"
    elif setting.default:
        assert ROWS[setting.key] == f"`{setting.default}`"
    else:
        assert not ROWS[setting.key].startswith("`")


def test_nothing_else_is_documented():
    assert set(ROWS) - set(setting_names()) == {"resources[].relay"}


def test_the_pages_example_loads(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(re.search(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)[1])
    loaded = load_config(file, env={}, flags={})
    assert loaded.warnings == ()
    assert [resource.name for resource in loaded.config.resources] == ["intel.com/sriov_vf", "nvidia.com/gpu"]
