"""Makes the API schemas in ``tests/cases/chart/api`` from what the projects publish.

::

    python tests/chart/api_schemas.py kubernetes 1.37 .../kubernetes@v1.37.2/api/openapi-spec/swagger.json
    python tests/chart/api_schemas.py operator 0.85 .../podmonitors-crd.json .../prometheusrules-crd.json

The results are JSON Schemas: descriptions are left out, only what the chart's kinds refer to is kept, and a
field that the API does not know is refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

API = Path(__file__).parents[1] / "cases/chart/api"
KINDS = {
    "v1/ConfigMap": "io.k8s.api.core.v1.ConfigMap",
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


def of_operator(crds: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return kind -> definition, and the definitions, of custom resource definitions."""
    kinds, found = {}, {}
    for crd in crds:
        group, kind, version = crd["spec"]["group"], crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]
        kinds[f"{group}/{version['name']}/{kind}"] = kind
        found[kind] = strict(version["schema"]["openAPIV3Schema"])
        # The API server checks metadata by itself; what is sent is what the operator never sets.
        found[kind]["properties"]["metadata"] = {"type": "object"}
    return kinds, found


def main(project: str, version: str, *files: str) -> None:
    """Write one schema file."""
    sources = [json.loads(Path(file).read_text()) for file in files]
    kinds, found = of_kubernetes(sources[0]) if project == "kubernetes" else of_operator(sources)
    comment = f"Made by tests/chart/api_schemas.py from {project} {version}, {LICENCE}. Not to be edited."
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(found)
    )
    head = f'{{"$comment": {json.dumps(comment)},\n"kinds": {json.dumps(kinds, sort_keys=True)},\n'
    (API / f"{project}-{version}.json").write_text(f'{head}"definitions": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
