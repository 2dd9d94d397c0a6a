"""Renders the chart with helm and reads what comes out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from api_schemas import apart
from numaplace.config.load import Loaded, load_config
from yaml_text import read_all_yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/numaplace"
CASES = ROOT / "tests/cases/chart"
VALUES = sorted((CASES / "values").glob("*.yaml"))
API = {
    f"{file.stem}-{version}": schema
    for file in sorted((CASES / "api").glob("*.json"))
    for version, schema in apart(json.loads(file.read_text())).items()
}
KUBERNETES = [name.removeprefix("kubernetes-") for name in API if name.startswith("kubernetes-")]

Manifest = dict[str, Any]


class HelmError(Exception):
    """helm refused; its words."""


def helm(*arguments: str) -> str:
    """Run helm and return what it says; raises ``HelmError`` when it fails."""
    done = subprocess.run(
        [os.environ["NUMAPLACE_HELM"], *arguments], capture_output=True, text=True, timeout=50
    )
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


@cache
def template(values: Path, *arguments: str, release: str = "np") -> str:
    """Return the rendered chart as text."""
    return helm("template", release, str(CHART), "--namespace", "numa", "--values", str(values), *arguments)


class Rendered:
    """The manifests of one rendering, by kind and name."""

    def __init__(self, text: str) -> None:
        self.manifests: list[Manifest] = [one for one in read_all_yaml(text) if one]

    def of(self, kind: str) -> dict[str, Manifest]:
        return {one["metadata"]["name"]: one for one in self.manifests if one["kind"] == kind}

    def one(self, kind: str) -> Manifest:
        (manifest,) = self.of(kind).values()
        return manifest

    def configs(self) -> dict[str, Manifest]:
        """Return the ConfigMaps of the daemons, by name."""
        return {name: one for name, one in self.of("ConfigMap").items() if "config.yaml" in one["data"]}

    def pod(self, name: str = "np-numaplace") -> Manifest:
        return self.of("DaemonSet")[name]["spec"]["template"]["spec"]

    def container(self, name: str = "np-numaplace") -> Manifest:
        (container,) = self.pod(name)["containers"]
        return container

    def mounts(self, name: str = "np-numaplace") -> dict[str, Manifest]:
        return {one["mountPath"]: one for one in self.container(name)["volumeMounts"]}

    def host_paths(self, name: str = "np-numaplace") -> dict[str, str]:
        """Volume name -> path on the node."""
        volumes = self.pod(name)["volumes"]
        return {one["name"]: one["hostPath"]["path"] for one in volumes if "hostPath" in one}

    def config_text(self, name: str = "np-numaplace") -> str:
        return self.of("ConfigMap")[name]["data"]["config.yaml"]


def render(values: Mapping[str, Any], folder: Path, *arguments: str) -> Rendered:
    """Render with these values."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    return Rendered(
        helm("template", "np", str(CHART), "--namespace", "numa", "--values", str(file), *arguments)
    )


def load(configmap: Manifest, folder: Path) -> Loaded:
    """Load the configuration as the daemon in the pod does: /etc/numaplace is the ConfigMap."""
    for name, text in configmap["data"].items():
        (folder / name).write_text(text.replace("/etc/numaplace/", f"{folder}/"))
    return load_config(folder / "config.yaml", env={}, flags={})


def api_problems(manifest: Manifest, schema: Mapping[str, Any]) -> list[str]:
    """Return what an API server of this version would not understand; nothing for kinds it does not have."""
    definition = schema["kinds"].get(f"{manifest['apiVersion']}/{manifest['kind']}")
    if definition is None:
        return []
    wanted = {"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]}
    found = jsonschema.Draft7Validator(wanted).iter_errors(manifest)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]
