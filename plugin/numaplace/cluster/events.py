"""Events on pods, as core/v1 has them (``kubectl describe pod`` and ``kubectl get events`` show these)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

COMPONENT = "numaplace"
MAX_MESSAGE_LENGTH = 1024
MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class Note:
    """The Event on one container of a pod; ``warning`` sets its type.

    ``identity`` deduplicates: of two notes with one identity the server stores one.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    reason: str
    message: str
    identity: str
    warning: bool = False


def event_name(note: Note) -> str:
    """Return the Event's name: the same for the same note, so the server refuses a duplicate."""
    text = "\n".join((note.uid, note.container, note.reason, note.identity))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{note.pod[: MAX_NAME_LENGTH - len(digest) - 1]}.{digest}"


def event_object(note: Note, *, node_name: str, at: datetime) -> dict[str, object]:
    """Return the Event as JSON values; ``at`` is a time with a zone."""
    time = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = note.message
    if len(message) > MAX_MESSAGE_LENGTH:
        message = message[: MAX_MESSAGE_LENGTH - 1] + "…"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": note.namespace, "name": event_name(note)},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": note.namespace,
            "name": note.pod,
            "uid": note.uid,
            "fieldPath": f"spec.containers{{{note.container}}}",
        },
        "reason": note.reason,
        "message": message,
        "type": "Warning" if note.warning else "Normal",
        "source": {"component": COMPONENT, "host": node_name},
        "reportingComponent": COMPONENT,
        "reportingInstance": node_name,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
