"""What a kubeconfig file says: whom to ask, whom to trust, who we are (a token, or a certificate)."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to reach an API server."""

    server: str
    context: ssl.SSLContext
    headers: Mapping[str, str]


def read_credentials(path: Path) -> Credentials:
    """Read the current context; files and base64 texts both serve as certificates."""
    document = yaml.safe_load(path.read_text())
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"]
    trusted = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
    if "client-certificate" in user or "client-certificate-data" in user:
        # Python reads its own certificate from files only.
        with tempfile.NamedTemporaryFile("w") as both:
            both.write(_text(user, "client-certificate") + _text(user, "client-key"))
            both.flush()
            trusted.load_cert_chain(both.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Credentials(cluster["server"], trusted, headers)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in entries if one["name"] == name)


def _text(section: Mapping[str, str], key: str) -> str:
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"]).decode()
    return Path(section[key]).read_text()
