"""The kubelet's own configuration: file, drop-in files, and the flags of its command line.

In the kubelet's order: the file, then the drop-ins by name as JSON merge patches
(``mergeKubeletConfigurations``), then the flags (``kubeletConfigFlagPrecedence``). Where the file is comes
from the caller, else from the running kubelet's command line, else it is kubeadm's usual place. A process
that runs with another file than the caller's is another kubelet: nothing is taken from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numaplace.devices.files import names_in, read_text
from numaplace.model.quantity import parse_quantity
from numaplace.reading.document import load_plain

USUAL_FILE = Path("/var/lib/kubelet/config.yaml")

_FLAGS = {
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "cpu-manager-policy": "cpuManagerPolicy",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "memory-manager-policy": "memoryManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
    "reserved-memory": "reservedMemory",
    "system-reserved": "systemReserved",
    "kube-reserved": "kubeReserved",
    "feature-gates": "featureGates",
}
_MAPPINGS = (
    "topologyManagerPolicyOptions",
    "cpuManagerPolicyOptions",
    "systemReserved",
    "kubeReserved",
    "featureGates",
)
_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The kubelet's settings that matter here, its defaults where nothing is given.

    ``options`` and ``cpu_options`` are those of the policies of the Topology Manager and the CPU manager.
    ``reserves_cpu`` and ``reserves_memory``: whether any setting reserves CPUs, and memory per NUMA node.
    ``gates`` are the feature gates that are named.
    """

    policy: str = "none"
    scope: str = "container"
    options: Mapping[str, str] = field(default_factory=dict)
    cpu_policy: str = "none"
    cpu_options: Mapping[str, str] = field(default_factory=dict)
    memory_policy: str = "None"
    reserved_cpus: str = ""
    reserves_cpu: bool = False
    reserves_memory: bool = False
    gates: Mapping[str, bool] = field(default_factory=dict)

    def alpha(self, gate: str) -> bool:
        """Return whether an alpha gate is on: named, or else all of them by ``AllAlpha``."""
        return self.gates.get(gate, self.gates.get("AllAlpha", False))

    def beta(self, gate: str) -> bool:
        """Return whether a beta gate that is on by default is on: named, or else by ``AllBeta``."""
        return self.gates.get(gate, self.gates.get("AllBeta", True))


@dataclass(frozen=True, slots=True)
class KubeletFact:
    """The kubelet's settings and where they were read; None with the ``problem``, a phrase, if they were not.

    ``refused``: the file exists and is not a KubeletConfiguration. ``changed`` is a source that was changed
    after the kubelet's start: the running kubelet has read something else.
    """

    settings: KubeletSettings | None = None
    sources: tuple[str, ...] = ()
    problem: str = ""
    refused: bool = False
    changed: str = ""


class _RefusedError(Exception):
    """A file is there and is not a KubeletConfiguration; the text is a phrase with its name."""


def look_at_kubelet(
    *,
    file: Path | None,
    folder: Path | None,
    procfs: Path,
    socket: Path | None = None,
    usual_file: Path = USUAL_FILE,
) -> KubeletFact:
    """Return the settings in effect, as far as files and ``procfs`` (of the host, or not) show them.

    ``socket`` is created when the kubelet starts: sources older than it are those that were read.
    """
    fact = _look(file, folder, procfs=procfs, usual_file=usual_file)
    return fact if socket is None else replace(fact, changed=_changed_since(socket, fact.sources))


def _look(file: Path | None, folder: Path | None, *, procfs: Path, usual_file: Path) -> KubeletFact:
    process, flags = _running_kubelet(procfs, file)
    named = file or _host_path(flags.get("config"), process)
    folder = folder or _host_path(flags.get("config-dir"), process)
    if named is None and process is None:
        named = usual_file
    sources: list[str] = []
    document: dict[str, Any] = {}
    try:
        if named is not None:
            found = _load(named)
            if found is None:
                return KubeletFact(problem=f"{named} cannot be read from here")
            document = found
            sources.append(str(named))
        for dropin in () if folder is None else sorted(folder.rglob("*.conf")):
            document = _merged(document, _load(dropin) or {})
            sources.append(str(dropin))
    except _RefusedError as error:
        return KubeletFact(problem=str(error), refused=True)
    given = {key: text for name, key in _FLAGS.items() if (text := flags.get(name)) is not None}
    if process is not None and (given or not sources):
        sources.append(f"the command line of process {process.name}")
    for key, text in given.items():
        value = _pairs(text) if key in _MAPPINGS else text
        joins = key == "featureGates" and isinstance(document.get(key), dict)
        document[key] = {**document[key], **value} if joins and isinstance(value, dict) else value
    return KubeletFact(settings_of(document), tuple(sources))


def _changed_since(socket: Path, sources: Sequence[str]) -> str:
    """Return a file that is newer than the socket, which the kubelet makes when it starts; empty for none.

    A file that is mounted into a container stays the old one when the node's is replaced: its link count
    is 0 then.
    """
    started = _modified_at(socket)
    changed = (
        one
        for one in sources
        if _replaced(Path(one)) or (started is not None and (_modified_at(Path(one)) or 0) > started)
    )
    return next(changed, "")


def _replaced(path: Path) -> bool:
    try:
        return path.stat().st_nlink == 0
    except OSError:
        return False


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def settings_of(document: Mapping[str, Any]) -> KubeletSettings:
    """Return the settings of a KubeletConfiguration; never fails, an invalid value reads as not given."""
    gates = {name: str(value).lower() in ("true", "1", "t") for name, value in _map(document, "featureGates")}
    reserved_cpus = _text(document, "reservedSystemCPUs")
    cpu = [
        value
        for key in ("systemReserved", "kubeReserved")
        for name, value in _map(document, key)
        if name == "cpu"
    ]
    return KubeletSettings(
        policy=_text(document, "topologyManagerPolicy") or "none",
        scope=_text(document, "topologyManagerScope") or "container",
        options={name: _plain(value) for name, value in _map(document, "topologyManagerPolicyOptions")},
        cpu_policy=_text(document, "cpuManagerPolicy") or "none",
        cpu_options={name: _plain(value) for name, value in _map(document, "cpuManagerPolicyOptions")},
        memory_policy=_text(document, "memoryManagerPolicy") or "None",
        reserved_cpus=reserved_cpus,
        reserves_cpu=bool(reserved_cpus) or any(map(_is_positive, cpu)),
        reserves_memory=bool(document.get("reservedMemory")),
        gates=gates,
    )


def _load(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            parsed = load_plain(stream.read(_MAX_FILE_BYTES))
    except OSError:
        return None
    except ValueError as error:
        raise _RefusedError(f"{path} is not YAML: {error}") from error
    if not isinstance(parsed, dict) or parsed.get("kind") != "KubeletConfiguration":
        raise _RefusedError(f"{path} is not a KubeletConfiguration")
    return parsed


def _merged(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386)."""
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result


def _running_kubelet(procfs: Path, file: Path | None) -> tuple[Path | None, dict[str, str]]:
    """Return the kubelet's folder in procfs and its flags; nothing when its process is not visible."""
    for name in sorted((name for name in names_in(procfs) if name.isdigit()), key=int):
        if read_text(procfs / name / "comm") == "kubelet":
            flags = _flags(read_text(procfs / name / "cmdline"))
            if not _is_another(_host_path(flags.get("config"), procfs / name), file):
                return procfs / name, flags
    return None, {}


def _is_another(found: Path | None, file: Path | None) -> bool:
    """Return whether both files are there and are not the same one."""
    if found is None or file is None:
        return False
    try:
        return not found.samefile(file)
    except OSError:
        return False


def _flags(command_line: str) -> dict[str, str]:
    """Return flags by name; ``--flag=value`` and ``--flag value``, the last one counts (pflag)."""
    words = [word for word in command_line.split("\0") if word][1:]
    flags: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        flags[name.replace("_", "-")] = value if equals else following
    return flags


def _host_path(text: str | None, process: Path | None) -> Path | None:
    """Return a path of the kubelet's, through its root directory where this process may look there."""
    if not text or process is None:
        return None
    start = "root" if text.startswith("/") else "cwd"
    through = process / start / text.lstrip("/")
    try:
        return through if through.exists() else Path(text)
    except OSError:
        return Path(text)


def _pairs(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _map(document: Mapping[str, Any], key: str) -> Iterator[tuple[str, Any]]:
    value = document.get(key)
    for name, one in value.items() if isinstance(value, dict) else ():
        yield str(name), one


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _is_positive(value: Any) -> bool:
    try:
        return parse_quantity(str(value)) > 0
    except ValueError:
        return False


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
