from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from numaplace.cli.run import config_loader, parser
from numaplace.config import load_config, settings
from numaplace.errors import ConfigError
from numaplace.model.names import Strategy

GOOD = """
strategy: most-allocated
weights: {cpu: 3}
resources:
  - name: intel.com/sriov_vf
    sriov: {pfNames: ["ens1f0#0-3"], vendors: [8086], rdma: true}
  - {name: nvidia.com/gpu, gpu: {vendor: nvidia}, strategy: least-allocated}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(GOOD)
    return path


def test_a_good_file_shows_what_would_run(run, file):
    result = run("config", "check", str(file))
    assert (result.code, result.err) == (0, "")
    lines = [line.split() for line in result.out.splitlines()]
    assert [f"{file}:", "valid"] in lines
    assert ["weights", "cpu=3"] in lines
    assert ["cluster.events", "true"] in lines
    devices = ["pfNames", "ens1f0#0-3,", "vendors", "8086,", "rdma", "true"]
    assert ["intel.com/sriov_vf", "sriov", "most-allocated", *devices] in lines
    assert ["nvidia.com/gpu", "gpu", "least-allocated", "vendor", "nvidia"] in lines


def test_bytes_are_shown_as_one_writes_them(run, file):
    request = "{nvidia.com/gpu: 1, cpu: 1024, memory: 32Gi}"
    file.write_text(GOOD + f"steering: {{requests: [{request}], headroom: {{cpu: 4, memory: 1536Mi}}}}")
    shown = dict(line.split(maxsplit=1) for line in run("config", "check", str(file)).out.splitlines()[3:20])
    assert shown["steering.requests"] == request
    assert (shown["steering.headroom.cpu"], shown["steering.headroom.memory"]) == ("4", "1536Mi")


def test_the_json_is_a_configuration_file_of_its_own(run, file, tmp_path):
    copy = tmp_path / "copy.yaml"
    copy.write_text(run("config", "check", str(file), "-o", "json").out)
    assert load_config(copy, env={}, flags={}).config == load_config(file, env={}, flags={}).config


def test_warnings_do_not_mix_with_data(run, file):
    file.write_text("relay: {directory: /x}")
    result = run("config", "check", str(file), "-o", "json")
    assert result.code == 0
    assert json.loads(result.out)["relay"]["directory"] == "/x"
    assert f"warning: {file}:1: relay.directory: has no effect in this version\n" in result.err


def test_a_refused_file_names_every_problem(run, file):
    file.write_text("strategy: most\ndeadline: 1")
    result = run("config", "check", str(file))
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[0] == "numaplace: the configuration is refused (2 to fix):"
    assert len(result.err.splitlines()) == 3


def test_the_environment_does_not_change_what_is_checked(file, run):
    run.env["NUMAPLACE_STRATEGY"] = "nonsense"
    assert run("config", "check", str(file)).code == 0


@pytest.mark.parametrize("setting", [one for one in settings() if one.flag], ids=lambda setting: setting.flag)
def test_run_takes_every_flag(setting):
    arguments = parser().parse_args([setting.flag, "\0"])
    with pytest.raises(ConfigError) as caught:
        config_loader(arguments, {})()
    assert [problem.startswith(f"{setting.flag}: ") for problem in caught.value.problems] == [True]


def test_run_reads_the_file_anew_each_time(file):
    arguments = parser().parse_args(
        ["--config", str(file), "--deadline", "1s", "--prefer-closest-numa-nodes"]
    )
    load = config_loader(arguments, {"NUMAPLACE_POLL_INTERVAL": "1m"})
    first = load().config
    assert (first.strategy, first.deadline_seconds, first.poll_interval_seconds) == (
        Strategy.MOST_ALLOCATED,
        1,
        60,
    )
    assert first.prefer_closest is True
    file.write_text("strategy: least-allocated")
    assert load().config.strategy is Strategy.LEAST_ALLOCATED
    file.write_text("strategy: least")
    with pytest.raises(ConfigError):
        load()


def test_run_takes_the_file_from_the_environment(file):
    load = config_loader(parser().parse_args([]), {"NUMAPLACE_CONFIG": str(file)})
    assert len(load().config.resources) == 2
    assert config_loader(parser().parse_args([]), {})().config.resources == ()


@pytest.mark.parametrize(
    "argv",
    [["--strategy", "most"], ["--config", "/nowhere"], ["--kubelet-pod-resources-socket", "/" + "x" * 107]],
)
def test_run_refuses_a_bad_configuration_before_anything_starts(argv, run):
    result = run("run", *argv)
    assert result.code == 2
    assert "the configuration is refused (1 to fix)" in result.err


@pytest.mark.parametrize(
    ("kubelet", "weights", "hinted"),
    [
        ({"cpuManagerPolicy": "static"}, "", True),
        ({"cpuManagerPolicy": "static"}, "cpu=0", False),
        ({"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"}, "", False),
        ({"cpuManagerPolicy": "none"}, "", False),
        (None, "", False),
    ],
)
def test_a_hint_for_spreading_beside_a_static_cpu_manager(run, tmp_path, kubelet, weights, hinted):
    """Only where the kubelet's configuration can be read from here."""
    kubelet_file, file = tmp_path / "kubelet.yaml", tmp_path / "config.yaml"
    if kubelet is not None:
        kubelet_file.write_text(yaml.safe_dump({"kind": "KubeletConfiguration", **kubelet}))
    document = {
        "strategy": "least-allocated",
        "weights": weights,
        "followCPUs": False,
        "kubelet": {"configFile": str(kubelet_file)},
        "host": {"procfs": str(tmp_path)},
        "resources": [{"name": "nvidia.com/gpu", "gpu": {"vendor": "nvidia"}}],
    }
    file.write_text(yaml.safe_dump(document))
    result = run("config", "check", str(file))
    assert result.code == 0
    assert ("hint: least-allocated spreads devices less" in result.err) == hinted
