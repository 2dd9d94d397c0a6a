from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numaplace.config import load_config, settings
from numaplace.config.dump import as_document
from numaplace.config.schema import Config
from numaplace.config.settings import env_of, flag_of
from numaplace.errors import ConfigError
from numaplace.model.names import Strategy
from numaplace.reading.quantities import parse_duration, show_duration

SCALARS = [setting for setting in settings() if setting.flag]
# Another value than the default for every scalar setting, as text.
OTHER_VALUES = {
    "strategy": "most-allocated",
    "weights": "cpu=3",
    "preferClosestNUMANodes": "true",
    "followCPUs": "false",
    "maxAllowableNUMANodes": "9",
    "deadline": "50ms",
    "rescanInterval": "30s",
    "pollInterval": "30s",
    "relay.directory": "/r",
    "steering.mode": "off",
    "steering.headroom.cpu": "2",
    "steering.headroom.memory": "4Gi",
    "steering.backoff": "2m",
    "cluster.enabled": "false",
    "cluster.events": "false",
    "kubelet.devicePluginDirectory": "/d",
    "kubelet.podResourcesSocket": "/p",
    "kubelet.configFile": "/c",
    "kubelet.liveList": "false",
    "host.sysfs": "/h/sys",
    "host.devfs": "/h/dev",
    "host.procfs": "/h/proc",
    "http.address": "127.0.0.1:0",
}


def at(config: Config, key: str) -> object:
    found: object = as_document(config)
    for part in key.split("."):
        assert isinstance(found, dict)
        found = found.get(part)
    return found


@pytest.mark.parametrize("setting", SCALARS, ids=lambda setting: setting.key)
def test_every_scalar_has_a_flag_and_an_environment_variable(setting):
    value = OTHER_VALUES[setting.key]
    by_env = load_config(None, env={setting.env: value}, flags={}).config
    by_flag = load_config(None, env={}, flags={setting.key: value}).config
    assert by_env == by_flag != Config()
    assert at(by_env, setting.key) != at(Config(), setting.key)


@pytest.mark.parametrize("setting", SCALARS, ids=lambda setting: setting.key)
def test_errors_name_the_source(setting):
    bad = "\0"
    for env, flags, source in (({setting.env: bad}, {}, setting.env), ({}, {setting.key: bad}, setting.flag)):
        with pytest.raises(ConfigError) as caught:
            load_config(None, env=env, flags=flags)
        assert [one.startswith(f"{source}: {setting.key}: ") for one in caught.value.problems] == [True]


def test_names_are_the_kubelets_own_where_it_has_them():
    assert flag_of("preferClosestNUMANodes") == "--prefer-closest-numa-nodes"
    assert flag_of("maxAllowableNUMANodes") == "--max-allowable-numa-nodes"
    assert env_of("kubelet.podResourcesSocket") == "NUMAPLACE_KUBELET_POD_RESOURCES_SOCKET"


def test_flag_before_environment_before_file(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("strategy: none\npollInterval: 1s\nkubelet: {liveList: false}\nhttp:\n")
    config = load_config(
        file,
        env={"NUMAPLACE_STRATEGY": "most-allocated", "NUMAPLACE_POLL_INTERVAL": "2s"},
        flags={"strategy": "least-allocated", "pollInterval": None, "http.address": ":1"},
    ).config
    assert config.strategy is Strategy.LEAST_ALLOCATED
    assert config.poll_interval_seconds == 2
    assert config.kubelet.live_list is False
    assert config.http.listen == ("", 1)


def test_a_typo_in_the_environment_is_not_silent():
    loaded = load_config(None, env={"NUMAPLACE_STRATEGIE": "most-allocated"}, flags={})
    assert 'did you mean "NUMAPLACE_STRATEGY"?' in loaded.warnings[0]


@pytest.mark.parametrize(
    "name",
    [
        "NUMAPLACE_PORT",
        "NUMAPLACE_SERVICE_HOST",
        "NUMAPLACE_SERVICE_PORT",
        "NUMAPLACE_SERVICE_PORT_METRICS",
        "NUMAPLACE_PORT_9477_TCP_ADDR",
        "NUMAPLACE_METRICS_SERVICE_HOST",
        "NUMAPLACE_CONFIG",
        "PATH",
    ],
)
def test_what_kubernetes_puts_in_the_environment_is_no_typo(name):
    assert (
        load_config(None, env={name: "x"}, flags={}).warnings == load_config(None, env={}, flags={}).warnings
    )


@given(milliseconds=st.integers(1, 10**9))
def test_durations_survive_being_shown(milliseconds):
    seconds = milliseconds / 1000
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds, rel=1e-12)


def _selection(resource: dict) -> str:
    """Two resources must not select the same devices; an empty list selects like one not given."""
    return repr({key: value for key, value in resource.get("sriov", resource).items() if value})


# The fixture is a folder that each example overwrites; a busy machine is no fault of the test.
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

RESOURCES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"gpu": st.fixed_dictionaries({"vendor": st.sampled_from(["nvidia", "amd"])})}),
        st.fixed_dictionaries(
            {
                "sriov": st.fixed_dictionaries(
                    {},
                    optional={
                        "pfNames": st.lists(st.from_regex(r"\Aen[a-z0-9]{1,8}(#[0-9](-9)?)?\Z"), max_size=2),
                        "vendors": st.lists(st.from_regex(r"\A[0-9a-f]{4}\Z"), max_size=2),
                        "linkTypes": st.lists(st.sampled_from(["ether", "infiniband"]), max_size=2),
                        "rdma": st.booleans(),
                    },
                )
            },
            optional={"strategy": st.sampled_from(["none", "most-allocated", "least-allocated"])},
        ),
    ),
    max_size=3,
    unique_by=_selection,
)


@hypothesis_settings(max_examples=60, suppress_health_check=UNHURRIED)
@given(
    overrides=st.dictionaries(st.sampled_from(sorted(OTHER_VALUES)), st.just(None)),
    resources=RESOURCES,
)
def test_what_is_shown_as_in_effect_loads_as_the_same(overrides, resources, tmp_path):
    entries = [{"name": f"example.com/r{number}", **one} for number, one in enumerate(resources)]
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({"resources": entries}))
    config = load_config(file, env={}, flags={key: OTHER_VALUES[key] for key in overrides}).config
    file.write_text(yaml.safe_dump(as_document(config)))
    assert load_config(file, env={}, flags={}).config == config


def test_the_effective_configuration_is_json():
    assert msgspec.json.decode(msgspec.json.encode(as_document(Config())))["deadline"] == "200ms"


@hypothesis_settings(max_examples=150, suppress_health_check=UNHURRIED)
@given(text=st.one_of(st.text(), st.text(alphabet="abc:{}[]-&*!'\"#\n ,?|>")))
def test_any_text_is_loaded_or_refused(text, tmp_path):
    file: Path = tmp_path / "c.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    problems: tuple[str, ...] | None = None
    try:
        load_config(file, env={}, flags={})
    except ConfigError as error:
        problems = error.problems
    assert problems is None or problems[0].startswith(str(file))
