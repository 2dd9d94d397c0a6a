"""JSON from the API server."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode(text: bytes | bytearray | msgspec.Raw, into: type[T]) -> T:
    """Return the value; ``ValueError`` if the text is something else, or nested too deeply."""
    try:
        return msgspec.json.decode(text, type=into)
    except RecursionError:
        raise ValueError("nested too deeply") from None
