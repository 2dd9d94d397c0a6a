from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from numaplace.config import load_config
from numaplace.config.schema import Config, GpuVendor, SteeringMode
from numaplace.errors import ConfigError
from numaplace.model.names import Strategy
from numaplace.reading.document import parse_document

CASES = Path(__file__).parent.parent / "cases" / "config"
REFUSED = yaml.safe_load((CASES / "refused.yaml").read_text())
WEIGHTS = yaml.safe_load((CASES / "weights.yaml").read_text())

CONTRACT = """
strategy: most-allocated
weights: "cpu=3,memory=1,nvidia.com/gpu=6"
preferClosestNUMANodes: false
maxAllowableNUMANodes: 8
deadline: 200ms
resources:
  - name: intel.com/sriov_vf
    sriov: {pfNames: ["ens1f0#0-3"], vendors: ["8086"], devices: ["154c"], drivers: ["iavf","vfio-pci"],
            pciAddresses: [], linkTypes: [], rdma: false, vhostNet: false}
  - name: nvidia.com/gpu
    gpu: {vendor: nvidia}
    strategy: least-allocated
  - name: example.com/widget
    declared: {file: FILE}
relay:
  directory: /var/lib/numaplace/device-plugins
steering: {mode: auto, requests: [{nvidia.com/gpu: 1, cpu: 8, memory: 32Gi}],
           headroom: {cpu: 0, memory: 0}, backoff: 5m}
cluster: {enabled: auto, events: true}
kubelet: {devicePluginDirectory: /var/lib/kubelet/device-plugins,
          podResourcesSocket: /var/lib/kubelet/pod-resources/kubelet.sock, configFile: ""}
host: {sysfs: /sys, devfs: /dev, procfs: /proc}
http: {address: ":9477"}
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    return file


def load(tmp_path: Path, text: str) -> Config:
    return load_config(write(tmp_path, text), env={}, flags={}).config


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return caught.value.problems


def warnings(tmp_path: Path, text: str) -> tuple[str, ...]:
    gpu = "\nresources: [{name: nvidia.com/gpu, gpu: {vendor: nvidia}}]"
    return load_config(write(tmp_path, text + gpu), env={}, flags={}).warnings


@pytest.mark.parametrize("case", REFUSED, ids=[case["id"] for case in REFUSED])
def test_refused_with_file_line_key_value_and_what_is_allowed(case, tmp_path):
    found = problems(tmp_path, case["text"])
    wanted = [problem.replace("FILE", str(tmp_path / "c.yaml")) for problem in case["problems"]]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("case", WEIGHTS, ids=[case["id"] for case in WEIGHTS])
def test_wrong_weights(case, tmp_path):
    (problem,) = problems(tmp_path, yaml.safe_dump({"weights": case["weights"]}))
    assert f"{tmp_path}/c.yaml:1: weights" in problem or f"{tmp_path}/c.yaml:2: weights" in problem
    assert [word for word in case["words"] if word not in problem] == []


def test_all_wrong_weights_at_once(tmp_path):
    (text,) = problems(tmp_path, "weights: cpu=many,memory,vf=-1,gpu=2")
    (null, rest) = problems(tmp_path, "weights: {nothing: , cpu: many, vf: -1, gpu: 2}")
    assert "weights.nothing" in null
    for problem, names in ((text, ("cpu", "memory", "vf")), (rest, ("cpu", "vf"))):
        assert [name for name in names if name not in problem] == []
        assert "gpu" not in problem, "a good entry is not complained about"


def test_the_contracts_example(tmp_path):
    widget = tmp_path / "widget.yaml"
    widget.write_text("")
    config = load(tmp_path, CONTRACT.replace("FILE", str(widget)))
    assert config.strategy is Strategy.MOST_ALLOCATED
    assert config.weights.of("nvidia.com/gpu") == 6
    assert config.deadline_seconds == 0.2
    vf, gpu, declared = config.resources
    assert [(one.name, one.ranges) for one in vf.sriov.pf_names] == [("ens1f0", (range(4),))]
    assert vf.sriov.drivers == ("iavf", "vfio-pci")
    assert vf.strategy is None
    assert gpu.gpu.vendor is GpuVendor.NVIDIA
    assert gpu.strategy is Strategy.LEAST_ALLOCATED
    assert declared.declared.file == widget
    assert config.steering.requests == ({"nvidia.com/gpu": 1, "cpu": 8, "memory": 32 * 2**30},)
    assert config.steering.backoff_seconds == 300
    assert config.http.listen == ("", 9477)


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "---\n", "kubelet:\nresources:\nstrategy:\nhttp:\n"]
)
def test_nothing_given_means_the_defaults(text, tmp_path):
    assert load(tmp_path, text) == Config() == load_config(None, env={}, flags={}).config


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    assert load(tmp_path, "\ufeffstrategy: most-allocated").strategy is Strategy.MOST_ALLOCATED


def test_bare_values_are_what_the_user_sees(tmp_path):
    """YAML 1.1 makes an integer, a number in base 60, and two truth values of these."""
    text = """
    resources:
      - name: intel.com/vf
        sriov: {vendors: [8086, 0123], pciAddresses: [0000:18:02.0, 10000:e1:00.1], drivers: [no, iavf]}
    steering: {mode: off}
    http: {address: off}
    """
    config = load(tmp_path, text)
    assert config.resources[0].sriov.vendors == ("8086", "0123")
    assert config.resources[0].sriov.pci_addresses == ("0000:18:02.0", "10000:e1:00.1")
    assert config.resources[0].sriov.drivers == ("no", "iavf")
    assert config.steering.mode is SteeringMode.OFF
    assert config.http.listen is None


@pytest.mark.parametrize("mode", ["off", "false", "False", '"off"'])
def test_every_spelling_of_off_that_a_template_engine_may_write(mode, tmp_path):
    assert load(tmp_path, f"steering: {{mode: {mode}}}").steering.mode is SteeringMode.OFF


def test_weights_as_a_mapping_equal_the_text(tmp_path):
    mapping = load(tmp_path, "weights: {cpu: 3, nvidia.com/gpu: 0}").weights
    assert mapping == load(tmp_path, "weights: cpu=3,nvidia.com/gpu=0,").weights


def test_anchors_share_a_value(tmp_path):
    config = load(tmp_path, "pollInterval: &t 7s\nrescanInterval: *t")
    assert (config.poll_interval_seconds, config.rescan_interval_seconds) == (7, 7)


def test_many_aliases_do_not_multiply(tmp_path):
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert len(problems(tmp_path, "l0: &l0 x\n" + levels)) == 30


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_not_a_crash(opening):
    with pytest.raises(ConfigError):
        parse_document(opening * 5000, source="f")


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("levels", [400, 700])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_nesting_that_the_parser_still_takes_is_refused_too(opening, closing, levels, large):
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse_document("a: " + opening * levels + closing * levels, source="f", large=large)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe\xfa", "is not UTF-8"), (b"a: \x07", "is not YAML"), (b"#" * 2**21, "larger")],
)
def test_files_that_are_no_text(content, words, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load_config(file, env={}, flags={})


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read(name, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: "):
        load_config(tmp_path / name, env={}, flags={})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("relay: {directory: /x}", "relay.directory"),
    ],
)
def test_settings_of_later_versions_are_warned_about(text, key, tmp_path):
    assert [f"{tmp_path}/c.yaml:1: {key}: has no effect in this version"] == list(warnings(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "steering: {mode: off}",
        "steering: {requests: [{nvidia.com/gpu: 1, cpu: 1}], headroom: {cpu: 1}, backoff: 1m}",
        "kubelet: {configFile: /x}",
        "cluster: {enabled: true}",
        "cluster: {events: false}",
        "cluster: {enabled: auto}",
    ],
)
def test_what_this_version_does_anyway_is_not_warned_about(text, tmp_path):
    assert warnings(tmp_path, text) == ()


@pytest.mark.parametrize("request_", ["{cpu: 1}", "{amd.com/gpu: 1}", "{nvidia.com/gpu: 0, cpu: 8}"])
def test_requests_that_steering_does_nothing_for_are_warned_about(request_, tmp_path):
    text = f"steering:\n  requests:\n    - {{nvidia.com/gpu: 1}}\n    - {request_}"
    assert warnings(tmp_path, text) == (
        f"{tmp_path}/c.yaml:4: steering.requests[1]: names none of the resources: no pod of it is steered",
    )


def test_weights_without_a_strategy_are_warned_about(tmp_path):
    assert ["without a strategy" in one for one in warnings(tmp_path, "weights: cpu=1")] == [True]
    assert warnings(tmp_path, "weights: cpu=1\nstrategy: least-allocated") == ()


def test_more_than_eight_numa_nodes_are_accepted_with_a_warning(tmp_path):
    assert ["maxAllowableNUMANodes" in one for one in warnings(tmp_path, "maxAllowableNUMANodes: 9")] == [
        True
    ]


def test_a_configuration_without_resources_is_warned_about():
    (warning,) = load_config(None, env={}, flags={}).warnings
    assert "no devices are served" in warning
