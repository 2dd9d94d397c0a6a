"""values.schema.json says what the daemon's configuration model says; defaults are the daemon's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from chart_tools import API, CASES, CHART, ROOT, VALUES, api_problems
from numaplace import __version__
from numaplace.config.fields import fields_of
from numaplace.config.json_schema import config_schema
from numaplace.config.load import load_config
from numaplace.config.schema import ClusterMode, Config, GpuVendor, HostConfig, LinkType, SteeringMode
from numaplace.config.settings import setting_names
from numaplace.errors import ConfigError
from numaplace.model.names import Strategy
from yaml_text import read_yaml

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = read_yaml((CHART / "values.yaml").read_text())
IN_CONFIG = jsonschema.Draft7Validator(config_schema())
IN_VALUES = jsonschema.Draft7Validator(SCHEMA)


def leaves(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, inner in schema["properties"].items():
        mark = "[]" if "properties" in inner.get("items", {}) else ""
        section = inner["items"] if mark else inner
        if section.get("properties") == {}:
            yield f"{prefix}{key}", section
        elif "properties" in section:
            yield from leaves(section, f"{prefix}{key}{mark}.")
        else:
            yield f"{prefix}{key}", inner


LEAVES = dict(leaves(SCHEMA["definitions"]["config"]))


def test_generated_part_is_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "charts/schema.py", "--check"], check=False)
    assert done.returncode == 0, "run: make schema"


def test_every_key_of_the_model_is_in_the_schema_and_the_reverse() -> None:
    assert set(LEAVES) == {*setting_names(), "resources[].relay"}


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("strategy", Strategy),
        ("resources[].strategy", Strategy),
        ("resources[].gpu.vendor", GpuVendor),
        ("resources[].sriov.linkTypes", LinkType),
        ("steering.mode", SteeringMode),
        ("cluster.enabled", ClusterMode),
    ],
)
def test_closed_lists_are_the_tables(key: str, table: Any) -> None:
    leaf = LEAVES[key]
    offered = {value for value in leaf.get("items", leaf)["enum"] if isinstance(value, str)}
    assert (
        {member.value for member in table}
        <= offered
        <= {member.value for member in table} | {"", "on", "off", "false"}
    )


def test_schema_of_values_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_every_value_has_a_schema_and_the_reverse() -> None:
    assert {*DEFAULTS, "global"} == SCHEMA["properties"].keys()
    for key, value in DEFAULTS.items():
        known = SCHEMA["properties"][key].get("properties")
        if known and key != "config":
            extra = known.keys() - value.keys()
            assert value.keys() <= known.keys()
            assert not extra or not value, f"{key}: {extra} are in the schema and not in values.yaml"


def test_defaults_satisfy_the_schema() -> None:
    assert [error.message for error in IN_VALUES.iter_errors(DEFAULTS)] == []


def test_default_configuration_is_the_daemons_but_for_the_mounts(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(DEFAULTS["config"]))
    config = load_config(file, env={}, flags={}).config
    hosts = HostConfig(sysfs=Path("/host/sys"), devfs=Path("/host/dev"), procfs=Path("/host/proc"))
    assert config == Config(host=hosts)


def test_defaults_that_templates_fall_back_on_are_the_daemons() -> None:
    config = Config()
    sections = {
        "kubelet": config.kubelet,
        "host": config.host,
        "http": config.http,
        "cluster": config.cluster,
        "steering": config.steering,
    }
    names = {field.key: field.name for one in sections.values() for field in fields_of(type(one))}
    text = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    found = re.findall(r'"numaplace\.get" \(list \S+ "(\w+)" "(\w+)" ("[^"]*"|true|false)\)', text)
    assert {key for _, key, _ in found} >= {
        "sysfs",
        "devfs",
        "procfs",
        "address",
        "devicePluginDirectory",
        "enabled",
        "events",
    }
    for section, key, default in found:
        wanted = getattr(sections[section], names[key])
        assert json.loads(default) == (wanted if isinstance(wanted, bool) else str(wanted or "")), key


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_good_values_satisfy_the_schema(file: Path) -> None:
    assert [error.message for error in IN_VALUES.iter_errors(read_yaml(file.read_text()))] == []


# What the schema leaves to the templates' guards, to the daemon's start, or what YAML hides.
NOT_THE_SCHEMAS = {
    "key given twice",
    "a duration out of bounds",
    "no source, two sources",
    "the same devices under two names",
    "relay",
    "a file of devices that is not there",
    "a port that does not exist",
}


def refused() -> Iterator[Any]:
    for case in read_yaml((ROOT / "tests/cases/config/refused.yaml").read_text()):
        yield pytest.param(case["text"], id=case["id"])


@pytest.mark.parametrize("text", list(refused()))
def test_the_schema_refuses_what_the_daemon_refuses_but_for_known_reasons(
    text: str, request: pytest.FixtureRequest
) -> None:
    try:
        document = read_yaml(text)
    except yaml.YAMLError:
        return
    accepted = IN_CONFIG.is_valid(document)
    assert accepted == (request.node.callspec.id in NOT_THE_SCHEMAS)


def test_what_the_daemon_accepts_the_schema_accepts(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/configuration.md").read_text(), re.M | re.S)
    examples = [*blocks, (ROOT / "docs/examples/config.yaml").read_text()]
    for text in examples:
        document = read_yaml(text)
        assert [error.message for error in IN_CONFIG.iter_errors(document)] == []


@pytest.mark.parametrize(
    "config",
    [
        {"resources": [{"name": "intel.com/vf", "sriov": None}]},
        {"resources": None, "kubelet": None, "weights": None},
        {"weights": {"cpu": 3, "nvidia.com/gpu": 100}},
        {"http": {"address": False}, "steering": {"mode": False}, "cluster": {"enabled": True}},
        {"strategy": "", "deadline": "1.5s"},
        {"steering": {"requests": [{"nvidia.com/gpu": 1, "memory": "32Gi"}]}},
    ],
)
def test_spellings_that_yaml_makes_of_the_documented_ones(config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    load_config(file, env={}, flags={})
    assert IN_CONFIG.is_valid(config)


@pytest.mark.parametrize("number", [8086, 1.0e10])
def test_numbers_where_helm_would_lose_the_text_are_refused(number: float) -> None:
    assert not IN_CONFIG.is_valid({"resources": [{"name": "intel.com/vf", "sriov": {"vendors": [number]}}]})


def test_chart_image_and_package_have_one_version() -> None:
    chart = read_yaml((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f"\nARG VERSION={__version__}\n" in (ROOT / "Dockerfile").read_text()


def guarded() -> Iterator[Any]:
    for case in read_yaml((CASES / "refused.yaml").read_text()):
        if case.get("daemon"):
            yield pytest.param(case["values"]["config"], id=case["id"])


@pytest.mark.parametrize("config", list(guarded()))
def test_the_daemon_refuses_what_the_charts_guards_refuse_on_its_behalf(
    config: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError):
        load_config(file, env={}, flags={})


@pytest.mark.parametrize("api", [name for name in API if name.startswith("kubernetes")])
@pytest.mark.parametrize(
    ("container", "problem"),
    [
        ({"name": "a"}, None),
        ({"name": "a", "ports": [{"containerPort": "http"}]}, "'http' is not of type 'integer'"),
        ({"name": "a", "readinesProbe": {}}, "'readinesProbe' was unexpected"),
        ({"image": "a"}, "'name' is a required property"),
    ],
)
def test_api_schemas_find_what_an_api_server_would_not_understand(
    api: str, container: dict[str, Any], problem: str | None
) -> None:
    template = {"spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    found = api_problems({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec}, API[api])
    assert [problem in one for one in found] == ([] if problem is None else [True])
