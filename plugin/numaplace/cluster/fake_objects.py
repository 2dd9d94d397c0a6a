"""The fake API server's other objects: any kind, by path, with optimistic locking."""

from __future__ import annotations

import threading
from typing import Any

Object = dict[str, Any]
Answer = tuple[int, Object]


class FakeObjects:
    """``by_path`` has each object at the path that GET and PUT name; any thread may call the methods."""

    def __init__(self) -> None:
        self.by_path: dict[str, Object] = {}
        self._lock = threading.Lock()
        self._version = 0

    def get(self, path: str) -> Answer:
        found = self.by_path.get(path)
        return (404, _status("not found")) if found is None else (200, found)

    def create(self, collection: str, item: Object) -> Answer:
        """Take a new object, 409 if there is one of its name."""
        path = f"{collection}/{item['metadata']['name']}"
        with self._lock:
            if path in self.by_path:
                return 409, _status("already exists")
            return 201, self._stored(path, item)

    def replace(self, path: str, item: Object) -> Answer:
        """Take a changed object, 409 if it names another version than the present one."""
        with self._lock:
            if path not in self.by_path:
                return 404, _status("not found")
            version = item["metadata"].get("resourceVersion")
            if version not in (None, self.by_path[path]["metadata"]["resourceVersion"]):
                return 409, _status("the object has been modified")
            return 200, self._stored(path, item)

    def _stored(self, path: str, item: Object) -> Object:
        self._version += 1
        metadata = {**item["metadata"], "resourceVersion": str(self._version)}
        self.by_path[path] = {**item, "metadata": metadata}
        return self.by_path[path]


def _status(message: str) -> Object:
    return {"kind": "Status", "message": message}
