"""The Kubernetes API over plain HTTPS: what tests need of it, and nothing that the product uses."""

from __future__ import annotations

import functools
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.kubeconfig import Credentials, read_credentials

Json = dict[str, Any]


class ApiError(Exception):
    """The API server refused; ``code`` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """One API server, as one user: the current context of a kubeconfig file, which may be written later."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    @functools.cached_property
    def _credentials(self) -> Credentials:
        # The server writes the certificate of its authority at its start.
        return read_credentials(self._kubeconfig)

    def text(self, path: str) -> str:
        return self._ask("GET", path, None, "").decode()

    def get(self, path: str) -> Json:
        return self._json("GET", path)

    def items(self, path: str) -> list[Json]:
        return self.get(path).get("items") or []

    def create(self, path: str, body: Mapping[str, object]) -> Json:
        return self._json("POST", path, body)

    def patch(self, path: str, body: Mapping[str, object]) -> Json:
        return self._json("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str, *, grace_seconds: int | None = None) -> None:
        """Ask for its end; it is no error if it is not there."""
        query = "" if grace_seconds is None else f"?gracePeriodSeconds={grace_seconds}"
        try:
            self._json("DELETE", path + query)
        except ApiError as error:
            if error.code != 404:
                raise

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return True

    def _json(
        self, method: str, path: str, body: Mapping[str, object] | None = None, kind: str = "application/json"
    ) -> Json:
        reply: Json = json.loads(self._ask(method, path, body, kind))
        return reply

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None, kind: str) -> bytes:
        known = self._credentials
        request = urllib.request.Request(
            f"{known.server}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={**known.headers, "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=20, context=known.context) as reply:
                content: bytes = reply.read()
                return content
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise ApiError(refusal.code, refusal.read().decode(errors="replace")) from None
