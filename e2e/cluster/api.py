"""The Kubernetes API over plain HTTPS: what tests need of it, and nothing that the product uses."""

from __future__ import annotations

import functools
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class ApiError(Exception):
    """The API server refused; ``code`` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """One API server, as one user."""

    def __init__(self, server: str, token: str, authority: Path) -> None:
        self._server = server
        self._token = token
        self._authority = authority

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        # The server writes the file at its start.
        return ssl.create_default_context(cafile=str(self._authority))

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
        request = urllib.request.Request(
            f"{self._server}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=20, context=self._context) as reply:
                content: bytes = reply.read()
                return content
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise ApiError(refusal.code, refusal.read().decode(errors="replace")) from None
