"""A small API server for tests and demos: lists and watches pods, takes Events and objects; on a free port.

It behaves as the real one where clients depend on it: one growing resource version, field selectors on the
node's name, chunked watch streams of one JSON object per line, bookmarks, 410 Gone for versions that it has
forgotten, 409 for an Event or object whose name is taken or that has changed, keep-alive connections.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from numaplace.cluster.fake_objects import FakeObjects, Object


class FakeApiServer:
    """State and switches; any thread may call the methods. ``requests`` are (method, path, query) so far.

    ``kubelets`` are the configurations of the nodes' kubelets. ``refuse`` has a status per refused call:
    ``list``, ``watch``, ``events``, ``configz``, ``objects``; ``refuse_once``: for the
    next one only. ``connections`` are the open ones.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pods: dict[tuple[str, str], Object] = {}
        self.events: dict[tuple[str, str], Object] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.authorizations: list[str | None] = []
        self.refuse: dict[str, int] = {}
        self.refuse_once: dict[str, int] = {}
        self.kubelets: dict[str, Object] = {}
        self.objects = FakeObjects()
        self.connections: set[socket.socket] = set()
        self.url = ""
        self._version = 1
        self._oldest = 1
        self._log: list[tuple[int, str, Object]] = []
        self._era = 0
        self._closed = False

    def put(self, pod: Object) -> None:
        with self.changed:
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            kind = "MODIFIED" if key in self.pods else "ADDED"
            self.pods[key] = self._logged(kind, pod)

    def delete(self, namespace: str, name: str) -> None:
        with self.changed:
            self._logged("DELETED", self.pods.pop((namespace, name)))

    def bookmark(self) -> None:
        with self.changed:
            self._logged(
                "BOOKMARK", {"kind": "Pod", "metadata": {}, "spec": {"containers": None}, "status": {}}
            )

    def forget_history(self) -> None:
        """Drop the history and end all watches: a client that resumes gets 410 Gone."""
        with self.changed:
            self._version += 1
            self._oldest = self._version
            self._log.clear()
        self.hang_up()

    def hang_up(self) -> None:
        with self.changed:
            self._era += 1
            self.changed.notify_all()

    def close_connections(self) -> None:
        """Close all connections, as a server does with idle ones."""
        for connection in tuple(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def serving(self, port: int = 0, *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
        """Serve on 127.0.0.1 while the context is open; give the URL. Plain HTTP without ``tls``."""
        fake = self

        class Handler(_Handler):
            api = fake

        server = _Server(("127.0.0.1", port), Handler)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._closed = False
        thread.start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
        try:
            yield self.url
        finally:
            self._closed = True
            self.hang_up()
            server.shutdown()
            server.server_close()
            thread.join()
            self.close_connections()

    def _logged(self, kind: str, item: Object) -> Object:
        self._version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
        self._log.append((self._version, kind, item))
        self.changed.notify_all()
        return item

    def listed(self, node: str) -> Object:
        with self.changed:
            items = [pod for pod in self.pods.values() if _on(pod, node)]
            return {"kind": "PodList", "metadata": {"resourceVersion": str(self._version)}, "items": items}

    def watched(self, node: str, version: int) -> Iterator[Object]:
        """Give a node's changes after a version until the watch is ended, which it may be at once."""
        return self._watched(node, version, self._era)

    def _watched(self, node: str, version: int, era: int) -> Iterator[Object]:
        if version < self._oldest:
            yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
            return
        over = False
        while not over:
            with self.changed:
                while not self._over(era) and self._version <= version:
                    self.changed.wait()
                over = self._over(era)
                news = [one for one in self._log if one[0] > version]
                version = self._version
            for _, kind, item in news:
                if kind == "BOOKMARK" or _on(item, node):
                    yield {"type": kind, "object": item}

    def _over(self, era: int) -> bool:
        return self._closed or era != self._era

    def took_event(self, namespace: str, event: Object) -> int:
        key = (namespace, event["metadata"]["name"])
        with self.changed:
            if key in self.events:
                return 409
            self.events[key] = event
            self.changed.notify_all()
        return 201

    def patched_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> int:
        with self.changed:
            if (namespace, name) not in self.events:
                return 404
            self.events[namespace, name].update(patch)
            self.changed.notify_all()
        return 200


def _on(pod: Object, node: str) -> bool:
    return bool(pod.get("spec", {}).get("nodeName") == node)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the default of 5, some of many simultaneous clients would wait for a second.
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    api: FakeApiServer
    protocol_version = "HTTP/1.1"
    # Otherwise a response's body waits until the client has acknowledged its head.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.api.connections.add(self.connection)

    def finish(self) -> None:
        self.api.connections.discard(self.connection)
        super().finish()

    def handle(self) -> None:
        # Clients drop kept connections without a word.
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        path, query = self._asked("GET")
        node = _configz_of(path)
        if node in self.api.kubelets:
            if not self._refused("configz"):
                self._answer(200, {"kubeletconfig": self.api.kubelets[node]})
        elif path != "/api/v1/pods":
            if not self._refused("objects"):
                self._answer(*self.api.objects.get(path))
        elif "watch" in query:
            if not self._refused("watch"):
                self._stream(self.api.watched(_node(query), int(query.get("resourceVersion") or 0)))
        elif not self._refused("list"):
            self._answer(200, self.api.listed(_node(query)))

    def do_POST(self) -> None:
        path, _ = self._asked("POST")
        item = self._body()
        if not path.endswith("/events"):
            if not self._refused("objects"):
                self._answer(*self.api.objects.create(path, item))
        elif not self._refused("events"):
            status = self.api.took_event(path.split("/")[4], item)
            self._answer(status, item if status == 201 else {"kind": "Status", "message": "exists"})

    def do_PUT(self) -> None:
        path, _ = self._asked("PUT")
        item = self._body()
        if not self._refused("objects"):
            self._answer(*self.api.objects.replace(path, item))

    def do_PATCH(self) -> None:
        path, _ = self._asked("PATCH")
        patch = self._body()
        if not self._refused("events"):
            self._answer(self.api.patched_event(path.split("/")[4], path.split("/")[6], patch), {})

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _asked(self, method: str) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.api.authorizations.append(self.headers.get("Authorization"))
        self.api.requests.append((method, url.path, query))
        return url.path, query

    def _refused(self, what: str) -> bool:
        status = self.api.refuse_once.pop(what, None) or self.api.refuse.get(what)
        if status:
            self._answer(status, {"kind": "Status", "message": f"{what} is refused"})
        return status is not None

    def _answer(self, status: int, body: Object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, items: Iterator[Object]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for item in items:
                line = json.dumps(item).encode() + b"\n"
                # In two pieces: a client must not rely on one line being one chunk.
                for part in (line[:7], line[7:]):
                    self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Stay quiet."""


def _configz_of(path: str) -> str:
    before, _, after = path.partition("/proxy/")
    return before.removeprefix("/api/v1/nodes/") if after == "configz" else ""


def _node(query: Mapping[str, str]) -> str:
    return query.get("fieldSelector", "").removeprefix("spec.nodeName=")
