"""Whether numaplace can register: the kubelet's device-plugin folder and its socket."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.doctor.facts import Facts, FolderFact, PathKind
from numaplace.doctor.findings import Finding, Level

_FOLDER_ADVICE = (
    "start the kubelet, which makes the folder; in a container mount the hostPath "
    "/var/lib/kubelet/device-plugins (the kubelet's --root-dir does not move it), or set "
    "kubelet.devicePluginDirectory"
)


def registration(facts: Facts) -> Iterator[Finding]:
    folder = facts.folder
    if folder.kind is PathKind.DENIED:
        yield denied(facts, f"{folder.path} cannot be read")
        return
    if folder.kind is not PathKind.DIRECTORY:
        what = "does not exist" if folder.kind is PathKind.MISSING else "is not a folder"
        yield Finding(
            Level.PROBLEM,
            f"the kubelet's device-plugin folder {what}",
            f"examined {folder.path}",
            _FOLDER_ADVICE,
        )
        return
    yield from _writable(facts, folder)
    yield _socket(facts)


def _writable(facts: Facts, folder: FolderFact) -> Iterator[Finding]:
    if folder.read_only:
        yield Finding(
            Level.PROBLEM,
            "the device-plugin folder is mounted read-only: no socket can be created in it",
            f"the file system at {folder.path} is read-only",
            "mount it read-write (readOnly: false of that volumeMount)",
        )
    elif not folder.writable:
        yield denied(facts, f"{folder.path} cannot be written to")


def _socket(facts: Facts) -> Finding:
    socket = facts.kubelet_socket
    if socket.denied:
        return denied(facts, f"{socket.path} cannot be connected to")
    if socket.kind is PathKind.MISSING:
        return Finding(
            Level.PROBLEM,
            "there is no kubelet.sock: no kubelet uses this device-plugin folder",
            f"examined {socket.path}",
            "start the kubelet (systemctl status kubelet); if it runs, another folder is mounted or "
            "configured: kubelet.devicePluginDirectory has to be the kubelet's own",
        )
    if socket.kind is not PathKind.SOCKET:
        return Finding(
            Level.PROBLEM,
            "kubelet.sock is not a socket",
            f"{socket.path} is a {socket.kind.value if socket.kind is PathKind.DIRECTORY else 'file'}",
            "a mount of the socket file made before the kubelet's start leaves an empty folder: stop "
            "what mounts it, remove it, mount the folder instead, and restart the kubelet",
        )
    if not socket.listening:
        return Finding(
            Level.PROBLEM,
            "nothing listens on kubelet.sock: the kubelet is not running, or this is the socket of a "
            "previous one",
            f"connecting to {socket.path}: {socket.error}",
            "start the kubelet; in a container mount the folder, not the socket file, which goes stale "
            "when the kubelet restarts",
        )
    who = f" ({socket.process})" if socket.process else ""
    return Finding(Level.OK, f"the kubelet listens for registrations{who}", f"connected to {socket.path}")


def denied(facts: Facts, what: str) -> Finding:
    """Return the finding for a lack of permission: a problem for root, unknown for others."""
    if facts.uid:
        return Finding(
            Level.UNKNOWN,
            f"{what} by this user",
            f"permission denied for user id {facts.uid}",
            "run doctor as root on the node, or in the daemon's pod",
        )
    return Finding(
        Level.PROBLEM,
        f"{what}, although this is root",
        "permission denied for user id 0",
        "SELinux or AppArmor denies it (ausearch -m avc): give the container a type that may "
        "use the kubelet's sockets, such as container_device_plugin_t",
    )
