"""Makes the API schemas in ``tests/cases/chart/api`` from what the projects publish.

::

    python tests/chart/api_schemas.py kubernetes 1.34=.../kubernetes@v1.34.0/api/openapi-spec/swagger.json …
    python tests/chart/api_schemas.py operator 0.85=.../jsonnet/prometheus-operator

The results are JSON Schemas: descriptions are left out, only what the chart's kinds refer to is kept, and a
field that the API does not know is refused. Most definitions are the same in all versions: each is kept
once, with the versions that have it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

API = Path(__file__).parents[1] / "cases/chart/api"
KINDS = {
    "v1/ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "v1/Service": "io.k8s.api.core.v1.Service",
    "v1/ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "rbac.authorization.k8s.io/v1/ClusterRole": "io.k8s.api.rbac.v1.ClusterRole",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": "io.k8s.api.rbac.v1.ClusterRoleBinding",
    "apps/v1/DaemonSet": "io.k8s.api.apps.v1.DaemonSet",
    "networking.k8s.io/v1/NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
}
KEPT = (
    "type",
    "properties",
    "items",
    "required",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "$ref",
)
CRDS = ("podmonitors", "prometheusrules", "servicemonitors")
LICENCE = "Apache License 2.0"


def strict(node: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI node as JSON Schema that refuses unknown fields."""
    if node.get("format") == "int-or-string" or node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kept = {key: node[key] for key in KEPT if key in node}
    if "properties" in kept:
        kept["properties"] = {name: strict(one) for name, one in kept["properties"].items()}
        kept["additionalProperties"] = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    elif isinstance(node.get("additionalProperties"), dict):
        kept["additionalProperties"] = strict(node["additionalProperties"])
    if "items" in kept:
        kept["items"] = strict(kept["items"])
    return kept


def references(node: Any) -> set[str]:
    """Return the names of the definitions that the node refers to."""
    if isinstance(node, dict):
        own = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(references(one) for one in node.values()))
    return set().union(*(references(one) for one in node)) if isinstance(node, list) else set()


def of_kubernetes(swagger: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return kind -> definition, and the definitions that they need."""
    known = swagger["definitions"]
    found: dict[str, Any] = {}
    waiting = set(KINDS.values())
    while waiting:
        name = waiting.pop()
        found[name] = strict(known[name])
        waiting |= references(found[name]) - found.keys()
    return KINDS, found


def of_operator(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Return kind -> definition, and the definitions, of the folder's custom resource definitions."""
    kinds, found = {}, {}
    for name in CRDS:
        crd = json.loads((folder / f"{name}-crd.json").read_text())
        group, kind, version = crd["spec"]["group"], crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]
        kinds[f"{group}/{version['name']}/{kind}"] = kind
        found[kind] = strict(version["schema"]["openAPIV3Schema"])
        # The API server checks metadata by itself; what is sent is what the operator never sets.
        found[kind]["properties"]["metadata"] = {"type": "object"}
    return kinds, found


def together(by_version: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give each definition's forms, each with the versions that have it."""
    for name in sorted({name for definitions in by_version.values() for name in definitions}):
        forms: list[dict[str, Any]] = []
        for version, definitions in by_version.items():
            schema = definitions.get(name)
            known = next((form for form in forms if form["schema"] == schema), None)
            if known:
                known["versions"].append(version)
            elif schema is not None:
                forms.append({"versions": [version], "schema": schema})
        yield name, forms


def apart(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return kinds and definitions by version: the reverse of ``together``."""
    return {
        version: {
            "kinds": document["kinds"],
            "definitions": {
                name: form["schema"]
                for name, forms in document["definitions"].items()
                for form in forms
                if version in form["versions"]
            },
        }
        for version in document["versions"]
    }


def main(project: str, *sources: str) -> None:
    """Write one project's schema file."""
    by_version = {}
    for source in sources:
        version, _, path = source.partition("=")
        if project == "kubernetes":
            kinds, by_version[version] = of_kubernetes(json.loads(Path(path).read_text()))
        else:
            kinds, by_version[version] = of_operator(Path(path))
    head = {
        "$comment": f"Made by tests/chart/api_schemas.py from {project}, {LICENCE}. Not to be edited.",
        "versions": list(by_version),
        "kinds": kinds,
    }
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(forms, sort_keys=True)}" for name, forms in together(by_version)
    )
    text = json.dumps(head, sort_keys=True)[:-1]
    (API / f"{project}.json").write_text(f'{text},\n"definitions": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
