"""What helm makes of the values: one test per promise of the chart."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart_tools import (
    API,
    CASES,
    CHART,
    KUBERNETES,
    ROOT,
    VALUES,
    HelmError,
    Rendered,
    api_problems,
    helm,
    load,
    render,
    template,
)
from numaplace.cli import run
from numaplace.config.load import load_config
from numaplace.config.schema import ClusterMode
from yaml_text import read_yaml

MINIMAL = read_yaml((CASES / "values/minimal.yaml").read_text())
REFUSED = read_yaml((CASES / "refused.yaml").read_text())


def rendered(name: str) -> Rendered:
    return Rendered(template(CASES / f"values/{name}.yaml"))


def with_config(config: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**MINIMAL, "config": {**MINIMAL["config"], **config}, **values}


every_values = pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)


@every_values
def test_lint_is_clean(file: Path) -> None:
    said = helm("lint", "--strict", str(CHART), "--values", str(file))
    assert "[WARNING]" not in said
    assert "[ERROR]" not in said


def test_apis_are_of_every_supported_kubernetes() -> None:
    assert KUBERNETES == ["1.34", "1.35", "1.36", "1.37"]


@every_values
def test_every_field_is_known_to_every_api(file: Path) -> None:
    oldest, newest = (template(file, "--kube-version", f"{one}.0") for one in (KUBERNETES[0], KUBERNETES[-1]))
    assert oldest == newest, "validate what is rendered for each version"
    manifests = Rendered(newest).manifests
    operator = API["operator-0.85"]
    for version in KUBERNETES:
        schemas = [API[f"kubernetes-{version}"], operator]
        known = {kind for schema in schemas for kind in schema["kinds"]}
        assert {f"{one['apiVersion']}/{one['kind']}" for one in manifests} <= known
        problems = [
            problem for one in manifests for schema in schemas for problem in api_problems(one, schema)
        ]
        assert problems == [], version


@every_values
def test_the_daemon_accepts_its_configuration_without_a_warning(file: Path, tmp_path: Path) -> None:
    chart = Rendered(template(file))
    assert chart.configs().keys() == chart.of("DaemonSet").keys()
    (tmp_path / "node/widgets").mkdir(parents=True)
    (tmp_path / "node/widgets/list.yaml").write_text("devices: []")
    for name, configmap in chart.configs().items():
        folder = tmp_path / name
        folder.mkdir()
        text = configmap["data"]["config.yaml"].replace("/node/widgets", str(tmp_path / "node/widgets"))
        configmap["data"]["config.yaml"] = text
        loaded = load(configmap, folder)
        assert loaded.warnings == ()
        assert loaded.config.resources


@every_values
def test_the_container_may_nothing_but_open_roots_sockets(file: Path) -> None:
    chart = Rendered(template(file))
    for name in chart.of("DaemonSet"):
        pod, container = chart.pod(name), chart.container(name)
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["securityContext"]["runAsUser"] == 0
        assert container["securityContext"] == {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = [path for path, mount in chart.mounts(name).items() if not mount.get("readOnly")]
        assert writable == [chart.host_paths(name)["device-plugins"]]


@every_values
def test_folders_of_the_node_are_mounted_where_the_configuration_looks(file: Path, tmp_path: Path) -> None:
    chart = Rendered(template(file))
    for name, daemonset in chart.of("DaemonSet").items():
        volumes = daemonset["spec"]["template"]["spec"]["volumes"]
        assert {one["name"] for one in volumes} == {one["name"] for one in chart.mounts(name).values()}
        types = {one["name"]: one["hostPath"]["type"] for one in volumes if "hostPath" in one}
        assert types.pop("kubelet-config", "File") == "File"
        assert set(types.values()) <= {"Directory", "DirectoryOrCreate"}
        config = read_yaml(chart.config_text(name))
        host = config["host"]
        paths = chart.host_paths(name)
        at = {mount["name"]: path for path, mount in chart.mounts(name).items()}
        assert paths["sys"] == "/sys"
        assert at["sys"] == host["sysfs"]
        assert at.get("dev", host["devfs"]) == host["devfs"]
        assert at.get("proc-driver", f"{host['procfs']}/driver") == f"{host['procfs']}/driver"


@pytest.mark.parametrize(
    ("resources", "mounted"),
    [
        ([{"name": "a.com/vf", "sriov": {"drivers": ["iavf", "mlx5_core"]}}], set()),
        ([{"name": "a.com/vf", "sriov": {"drivers": ["iavf", "vfio-pci"]}}], {"dev"}),
        ([{"name": "a.com/vf", "sriov": {"drivers": ["mlx5_core"], "rdma": True}}], {"dev"}),
        ([{"name": "a.com/vf", "sriov": {"drivers": ["iavf"], "vhostNet": True}}], {"dev"}),
        ([{"name": "a.com/vf", "sriov": {}}], {"dev"}),
        ([{"name": "a.com/vf", "sriov": None}], {"dev"}),
        ([{"name": "amd.com/gpu", "gpu": {"vendor": "amd"}}], {"dev"}),
        (
            [{"name": "nvidia.com/gpu", "gpu": {"vendor": "nvidia"}}],
            {"dev", "proc-driver", "cdi-etc", "cdi-run"},
        ),
    ],
)
def test_only_what_the_resources_need_is_mounted(
    resources: list[dict[str, Any]], mounted: set[str], tmp_path: Path
) -> None:
    chart = render(with_config({"resources": resources}), tmp_path)
    assert chart.host_paths().keys() == {"device-plugins", "pod-resources", "sys"} | mounted


def test_of_the_kubelets_configuration_only_the_file_is_mounted(tmp_path: Path) -> None:
    """Its folder has the kubelet's keys and the secrets of all pods."""
    chart = rendered("everything")
    assert chart.host_paths()["kubelet-config"] == "/var/lib/kubelet/config.yaml"
    (volume,) = (one for one in chart.pod()["volumes"] if one["name"] == "kubelet-config")
    assert volume["hostPath"]["type"] == "File"
    mount = chart.mounts()["/var/lib/kubelet/config.yaml"]
    assert (mount["name"], mount["readOnly"]) == ("kubelet-config", True)
    assert "/var/lib/kubelet" not in chart.host_paths().values()
    for empty in ("", None):
        without = render(with_config({"kubelet": {"configFile": empty}}), tmp_path)
        assert "kubelet-config" not in without.host_paths()


def test_folders_of_another_kubelet() -> None:
    chart = rendered("elsewhere")
    paths = chart.host_paths()
    assert paths["device-plugins"] == "/data/kubelet/device-plugins"
    assert paths["pod-resources"] == "/data/kubelet/pod-resources"
    assert {"/data/kubelet/device-plugins", "/data/kubelet/pod-resources"} <= chart.mounts().keys()


def test_sockets_in_one_folder_are_one_mount(tmp_path: Path) -> None:
    kubelet = {"devicePluginDirectory": "/run/k", "podResourcesSocket": "/run/k/pods.sock"}
    chart = render(with_config({"kubelet": kubelet}), tmp_path)
    assert [path for path in chart.host_paths().values() if path.startswith("/run")] == ["/run/k"]


@every_values
def test_command_is_the_daemons_and_reads_the_mounted_file(file: Path) -> None:
    chart = Rendered(template(file))
    for name in chart.of("DaemonSet"):
        command, *arguments = chart.container(name)["args"]
        assert command == "run"
        assert run.parser().parse_args(arguments).config == "/etc/numaplace/config.yaml"
        assert chart.mounts(name)["/etc/numaplace"]["name"] == "config"
        (volume,) = (one for one in chart.pod(name)["volumes"] if one["name"] == "config")
        assert volume["configMap"]["name"] in chart.configs()


def test_probes_go_where_the_daemon_listens() -> None:
    container = rendered("everything").container()
    assert container["ports"] == [{"name": "http", "containerPort": 9600}]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_without_an_endpoint_there_are_no_probes() -> None:
    assert not {"ports", "livenessProbe", "readinessProbe"} & rendered("elsewhere").container().keys()


def test_one_daemon_per_node_in_updates() -> None:
    strategy = rendered("minimal").one("DaemonSet")["spec"]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


def test_it_runs_on_every_linux_node_and_is_not_evicted() -> None:
    pod = rendered("minimal").pod()
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-node-critical"
    assert "affinity" not in pod
    assert "cpu" not in pod["containers"][0]["resources"]["limits"]


def test_the_default_install_is_configuration_account_rights_and_daemonset_only() -> None:
    kinds = sorted(one["kind"] for one in rendered("minimal").manifests)
    assert kinds == ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "ServiceAccount"]
    assert rendered("minimal").one("ServiceAccount")["automountServiceAccountToken"] is False


def test_an_account_that_exists_is_used() -> None:
    chart = rendered("elsewhere")
    assert chart.of("ServiceAccount") == {}
    assert chart.pod()["serviceAccountName"] == "existing"


def test_a_changed_configuration_restarts_the_daemon_and_nothing_else_does(tmp_path: Path) -> None:
    def checksum(values: dict[str, Any]) -> str:
        daemonset = render(values, tmp_path).one("DaemonSet")
        return daemonset["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    before = checksum(MINIMAL)
    assert checksum({**MINIMAL, "priorityClassName": "high"}) == before
    assert checksum(with_config({"strategy": "least-allocated"})) != before
    assert checksum({**MINIMAL, "declaredFiles": {"w.yaml": {"devices": []}}}) != before


def test_image_by_tag_and_digest() -> None:
    assert rendered("minimal").container()["image"] == "registry.example.com/numaplace:0.1.0"
    assert rendered("network").container()["image"] == "registry.example.com/numaplace:0.1.0-1"
    pinned = rendered("everything").container()["image"]
    assert pinned == f"registry.example.com/numaplace:0.1.0@sha256:{'a' * 64}"


def test_own_labels_cannot_take_the_daemonset_from_its_pods() -> None:
    for file in VALUES:
        for daemonset in Rendered(template(file)).of("DaemonSet").values():
            labels = daemonset["spec"]["template"]["metadata"]["labels"]
            assert daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()


def holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case _:
            return value is not None


def may_run(pod: dict[str, Any], labels: dict[str, str], node: str) -> bool:
    """Kubernetes' rule: the selector, and any of the required terms with all of its conditions."""
    if not pod.get("nodeSelector", {}).items() <= labels.items():
        return False
    required = (
        pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    return required is None or any(
        all(holds(one, labels) for one in term.get("matchExpressions", []))
        and all(node in one["values"] for one in term.get("matchFields", []))
        for term in required["nodeSelectorTerms"]
    )


@pytest.mark.parametrize("name", ["per-node", "only-labelled", "everything"])
def test_a_node_has_at_most_one_daemon_whatever_its_labels(name: str) -> None:
    chart = rendered(name)
    keys = {
        "kubernetes.io/arch": ("amd64", None),
        "example.com/pool": ("training", "other", None),
        "example.com/site": ("edge", None),
        "example.com/gpus": ("true", None),
    }
    seen = set()
    for values in itertools.product(*keys.values()):
        labels = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        labels |= {"kubernetes.io/os": "linux", "example.com/devices": "true"}
        for node in ("node-1", "node-7"):
            running = [daemon for daemon in chart.of("DaemonSet") if may_run(chart.pod(daemon), labels, node)]
            assert len(running) <= 1, labels
            seen.update(running)
    assert seen == chart.of("DaemonSet").keys()


def test_the_first_matching_node_configuration_counts() -> None:
    chart = rendered("per-node")
    linux = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}

    def on(labels: dict[str, str]) -> list[str]:
        return [name for name in chart.of("DaemonSet") if may_run(chart.pod(name), linux | labels, "node-1")]

    assert on({}) == ["np-numaplace"]
    assert on({"example.com/pool": "training"}) == ["np-numaplace-training"]
    assert on({"example.com/site": "edge"}) == ["np-numaplace-edge"]
    assert on({"example.com/pool": "training", "example.com/site": "edge"}) == ["np-numaplace-training"]


def test_a_node_configuration_goes_over_the_common_one() -> None:
    chart = rendered("per-node")
    training = read_yaml(chart.config_text("np-numaplace-training"))
    edge = read_yaml(chart.config_text("np-numaplace-edge"))
    assert training["strategy"] == ""
    assert training["kubelet"] == {"configFile": "/c/training"}
    assert [one["name"] for one in training["resources"]] == ["nvidia.com/gpu"]
    assert [one["name"] for one in edge["resources"]] == ["intel.com/sriov_vf"]
    assert edge["host"]["sysfs"] == "/host/sys"
    assert chart.container("np-numaplace-edge")["ports"][0]["containerPort"] == 9500
    assert read_yaml(chart.config_text())["strategy"] == "most-allocated"


def test_selectors_of_daemonsets_do_not_overlap() -> None:
    selectors = [
        one["spec"]["selector"]["matchLabels"] for one in rendered("per-node").of("DaemonSet").values()
    ]
    for one, other in itertools.permutations(selectors, 2):
        assert not one.items() <= other.items()


def test_network_policy_lets_only_the_http_port_in() -> None:
    spec = rendered("network").one("NetworkPolicy")["spec"]
    assert spec["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]
    assert spec["egress"] == [
        {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]}
    ]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = rendered("everything").one("NetworkPolicy")["spec"]["ingress"]
    assert len(rule["from"]) == 1


def test_network_policy_lets_nothing_out_where_the_api_server_is_not_used(tmp_path: Path) -> None:
    values = with_config({"cluster": {"enabled": False}}, networkPolicy={"enabled": True})
    assert render(values, tmp_path).one("NetworkPolicy")["spec"]["egress"] == []


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_monitors_and_policy_select_all_of_the_charts_pods(kind: str, tmp_path: Path) -> None:
    values = read_yaml((CASES / "values/per-node.yaml").read_text())
    key = kind[0].lower() + kind[1:]
    chart = render(values | {key: {"enabled": True}, "networkPolicy": {"enabled": True}}, tmp_path)
    wanted = [chart.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]]
    selector = chart.one(kind)["spec"]["selector"]["matchLabels"]
    if kind == "ServiceMonitor":
        service = chart.one("Service")
        assert selector.items() <= service["metadata"]["labels"].items()
        wanted.append(service["spec"]["selector"])
    else:
        wanted.append(selector)
    for daemonset in chart.of("DaemonSet").values():
        labels = daemonset["spec"]["template"]["metadata"]["labels"]
        assert all(one.items() <= labels.items() for one in wanted)


def test_a_service_monitor_scrapes_every_daemon_whatever_its_port(tmp_path: Path) -> None:
    values = read_yaml((CASES / "values/per-node.yaml").read_text())
    chart = render(values | {"serviceMonitor": {"enabled": True, "interval": "15s"}}, tmp_path)
    service = chart.one("Service")["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"]
    (port,) = service["ports"]
    (endpoint,) = chart.one("ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["interval"]) == (port["name"], "/metrics", "15s")
    ports = {one["containerPort"] for name in chart.of("DaemonSet") for one in chart.container(name)["ports"]}
    assert len(ports) == 2
    assert port["targetPort"] == chart.container()["ports"][0]["name"]


def test_the_dashboard_is_where_the_sidecar_looks() -> None:
    (dashboard,) = (
        one for name, one in rendered("everything").of("ConfigMap").items() if "dashboard" in name
    )
    metadata = dashboard["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("np-numaplace-dashboard", "monitoring")
    assert {"grafana_dashboard": "1", "team": "nodes"}.items() <= metadata["labels"].items()
    assert metadata["annotations"] == {"grafana_folder": "Nodes"}
    file = (CHART / "dashboards/numaplace.json").read_text()
    assert json.loads(dashboard["data"]["numaplace.json"]) == json.loads(file)


def test_the_dashboards_page_has_values_that_render(tmp_path: Path) -> None:
    page = (ROOT / "docs/dashboard.md").read_text()
    block = re.search(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    assert block
    chart = render(MINIMAL | read_yaml(block[1]), tmp_path)
    assert chart.of("ConfigMap")["np-numaplace-dashboard"]["metadata"]["namespace"] == "monitoring"
    assert chart.one("PodMonitor")["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_comes_only_when_wanted(tmp_path: Path) -> None:
    assert "np-numaplace-dashboard" not in rendered("minimal").of("ConfigMap")
    chart = render(MINIMAL | {"grafanaDashboard": {"enabled": True}}, tmp_path)
    metadata = chart.of("ConfigMap")["np-numaplace-dashboard"]["metadata"]
    assert (metadata["namespace"], metadata["labels"]["grafana_dashboard"]) == ("numa", "1")


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_values_that_cannot_work_are_refused_with_what_to_do(case: dict[str, Any], tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text(yaml.safe_dump(case["values"]))
    with pytest.raises(HelmError) as refusal:
        template(CASES / "values/minimal.yaml", "--values", str(over), *case.get("arguments", []))
    said = str(refusal.value)
    assert [words for words in case["says"] if words not in said] == []


@pytest.mark.parametrize("release", ["numaplace", "a" * 53])
def test_long_and_equal_release_names(release: str) -> None:
    names = [
        one["metadata"]["name"]
        for one in Rendered(template(CASES / "values/per-node.yaml", release=release)).manifests
    ]
    assert all(len(name) <= 63 for name in names)
    if release == "numaplace":
        assert "numaplace" in names


@every_values
def test_notes_name_the_daemonsets_and_what_they_serve(file: Path) -> None:
    said = helm("install", "np", str(CHART), "--namespace", "numa", "--dry-run=client", "--values", str(file))
    notes = said.partition("NOTES:")[2]
    chart = Rendered(template(file))
    for name in chart.of("DaemonSet"):
        assert f"kubectl -n numa rollout status ds/{name}\n" in notes
        for resource in read_yaml(chart.config_text(name))["resources"]:
            assert resource["name"] in notes
    configs = [read_yaml(chart.config_text(name)) for name in chart.of("DaemonSet")]
    named = all((config.get("kubelet") or {}).get("configFile") for config in configs)
    assert ("set config.kubelet.configFile" in notes) is not named


PAGE = (ROOT / "docs/install-helm.md").read_text()
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE, re.M | re.S)]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_values_in_the_documents_render(number: int, tmp_path: Path) -> None:
    chart = render({"image": MINIMAL["image"], **read_yaml(BLOCKS[number])}, tmp_path)
    assert chart.of("DaemonSet")


def test_helm_commands_in_the_documents_are_understood(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(BLOCKS[0])
    commands = re.findall(r"^ *helm (install|upgrade) (.*)$", PAGE, re.M)
    assert {verb for verb, _ in commands} == {"install", "upgrade"}
    for _, arguments in commands:
        words = shlex.split(arguments.replace("charts/numaplace", str(CHART)))
        words = [str(tmp_path / word) if word == "values.yaml" else word for word in words]
        assert Rendered(helm("template", *words)).one("DaemonSet")["metadata"]["name"] == "numaplace"


def test_the_refusal_in_the_documents_is_helms(tmp_path: Path) -> None:
    config = {
        "weights": "cpu",
        "resources": [
            {"name": "a.com/x", "gpu": {"vendor": "amd"}},
            {"name": "a.com/y", "gpu": {"vendor": "amd"}},
        ],
    }
    with pytest.raises(HelmError) as refusal:
        render(with_config(config), tmp_path)
    shown = textwrap.dedent(re.search(r"^ *Error: execution.*?(?=^ *```)", PAGE, re.M | re.S)[0]).rstrip()
    said = "\n".join(line.rstrip() for line in str(refusal.value).splitlines())
    assert shown in said


PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}


@pytest.mark.parametrize(
    ("cluster", "rules"),
    [
        (None, [PODS, EVENTS]),
        ({"enabled": "auto"}, [PODS, EVENTS]),
        ({"enabled": True, "events": None}, [PODS, EVENTS]),
        ({"enabled": "on", "events": False}, [PODS]),
        ({"enabled": False}, None),
        ({"enabled": "off", "events": True}, None),
        ({"enabled": "false"}, None),
    ],
)
def test_rights_and_token_follow_from_the_configuration(
    cluster: dict[str, Any] | None, rules: list[Any] | None, tmp_path: Path
) -> None:
    """Nothing more than what the daemon calls; nothing at all when it calls nothing."""
    chart = render(with_config({"cluster": cluster}), tmp_path)
    roles = [one["rules"] for one in chart.manifests if one["kind"] in ("ClusterRole", "Role")]
    assert roles == ([] if rules is None else [rules])
    assert len(chart.of("ClusterRoleBinding")) == len(roles)
    assert chart.pod()["automountServiceAccountToken"] is (rules is not None)
    env = chart.container().get("env", [])
    assert [one["valueFrom"]["fieldRef"]["fieldPath"] for one in env] == ["spec.nodeName"] * len(roles)
    config = read_yaml(chart.config_text())["cluster"]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"cluster": config}))
    daemons = load_config(tmp_path / "c.yaml", env={}, flags={}).config.cluster
    assert (daemons.enabled is not ClusterMode.OFF) == (rules is not None)
    assert rules is None or daemons.events == (EVENTS in rules)


def test_rights_are_bound_to_the_account_that_is_used() -> None:
    for file in VALUES:
        chart = Rendered(template(file))
        for binding in chart.of("ClusterRoleBinding").values():
            assert binding["roleRef"]["name"] in chart.of("ClusterRole")
            for name in chart.of("DaemonSet"):
                account = {
                    "kind": "ServiceAccount",
                    "namespace": "numa",
                    "name": chart.pod(name)["serviceAccountName"],
                }
                assert binding["subjects"] == [account]


def test_rights_cover_what_any_node_configuration_needs(tmp_path: Path) -> None:
    values = read_yaml((CASES / "values/per-node.yaml").read_text())
    values["config"]["cluster"] = {"enabled": False}
    values["nodeConfigs"][0]["config"]["cluster"] = {"enabled": True, "events": False}
    chart = render(values, tmp_path)
    assert chart.one("ClusterRole")["rules"] == [PODS]
    tokens = {name: chart.pod(name)["automountServiceAccountToken"] for name in chart.of("DaemonSet")}
    assert [name for name, mounted in tokens.items() if mounted] == ["np-numaplace-training"]


def test_rights_can_be_given_by_somebody_else(tmp_path: Path) -> None:
    chart = render({**MINIMAL, "rbac": {"create": False}}, tmp_path)
    assert not chart.of("ClusterRole")
    assert chart.pod()["automountServiceAccountToken"] is True
