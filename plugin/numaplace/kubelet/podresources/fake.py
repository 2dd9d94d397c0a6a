"""PodResources from a folder: ``list.json`` and ``allocatable.json``, messages in protobuf's JSON form.

For tests, demonstrations and replaying a node's recorded state. The files are read at every call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from numaplace.errors import PeerError
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.podresources.convert import ListDecoder, allocatable_of
from numaplace.model.podresources import Allocatable, PodUse

_M = TypeVar("_M", bound=Message)


class FakePodResources:
    """Answers from a folder; a missing file is ``UNAVAILABLE``, a wrong one ``DECODE``."""

    def __init__(self, directory: str, observe: Callable[[str, str], None]) -> None:
        self._directory = Path(directory)
        self._observe = observe
        self._decoder = ListDecoder()

    async def list(self, *, timeout_seconds: float) -> tuple[PodUse, ...]:
        return self._list("List")

    async def get(self, namespace: str, name: str, *, timeout_seconds: float) -> PodUse | None:
        return next((pod for pod in self._list("Get") if pod.key == (namespace, name)), None)

    async def allocatable(self, *, timeout_seconds: float) -> Allocatable:
        message = self._read("GetAllocatableResources", "allocatable.json", pb.AllocatableResourcesResponse())
        return allocatable_of(message)

    async def close(self) -> None:
        """Nothing is open."""

    def _list(self, method: str) -> tuple[PodUse, ...]:
        message = self._read(method, "list.json", pb.ListPodResourcesResponse())
        return self._decoder.decode(message.SerializeToString(deterministic=True))

    def _read(self, method: str, name: str, message: _M) -> _M:
        path = self._directory / name
        try:
            json_format.Parse(path.read_bytes(), message)
        except OSError as error:
            raise self._failed(method, f"{path}: {error.strerror}", code="UNAVAILABLE") from error
        except (json_format.ParseError, UnicodeDecodeError) as error:
            raise self._failed(method, f"{path}: {error}", code="DECODE") from error
        self._observe(method, "OK")
        return message

    def _failed(self, method: str, text: str, *, code: str) -> PeerError:
        self._observe(method, code)
        return PeerError(f"PodResources {method}: {text}", code=code)
