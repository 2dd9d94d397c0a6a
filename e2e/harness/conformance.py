"""The kubelet's own managers as a process: scenarios in, outcomes out (e2e/conformance)."""

from __future__ import annotations

import copy
import json
import os
import re
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

Scenario = dict[str, Any]
Outcome = dict[str, Any]
Preference = Literal["lowest", "none"]

_MEMORY_FILES = Path("/dev/shm")


class ConformanceError(Exception):
    """The process ended or kept silent. A scenario that the kubelet refuses is an outcome instead."""


def normalise(scenario: Mapping[str, Any]) -> Scenario:
    """Return the scenario with every device's id written out: ``count`` becomes ``ids``.

    Ids are ``<last part of the resource>-<numa>-<i>``, i counting on over the entries of a resource and NUMA
    node; several NUMA nodes are joined by ``.``, and none reads ``any``.
    """
    result = copy.deepcopy(dict(scenario))
    next_index: dict[str, int] = {}
    for entry in result["node"].get("devices") or []:
        count = entry.pop("count", None)
        if count is None:
            continue
        numa = entry.get("numa")
        place = "any" if numa is None else ".".join(map(str, numa)) if isinstance(numa, list) else str(numa)
        prefix = f"{entry['resource'].rsplit('/', 1)[-1]}-{place}"
        first = next_index.get(prefix, 0)
        next_index[prefix] = first + count
        entry["ids"] = [f"{prefix}-{first + i}" for i in range(count)]
    return result


class ConformanceProcess:
    """One process for many scenarios; a context manager.

    ``program`` is what ``e2e/conformance/build.sh`` prints. Each scenario gets managers of its own.
    """

    def __init__(self, program: Path, *, limit_seconds: float = 60.0) -> None:
        self._program = program
        self._limit_seconds = limit_seconds

    def __enter__(self) -> Self:
        self._state = tempfile.mkdtemp(prefix="npc.", dir=_MEMORY_FILES if _MEMORY_FILES.is_dir() else None)
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._popen = subprocess.Popen(
            [self._program, "-state-dir", self._state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "GOGC": "400"},
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._input, self._output = self._popen.stdin, self._popen.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._popen.kill()
        self._popen.communicate()
        self._selector.close()
        self._errors.close()
        shutil.rmtree(self._state)

    def run(
        self, scenario: Mapping[str, Any], *, preference: Preference = "lowest", tries: int = 64
    ) -> Outcome:
        """Run one scenario; ``ConformanceError`` if no answer comes within the limit.

        ``tries`` bounds the runs until the kubelet's arbitrary picks among reusable devices are the lowest.
        """
        request = {"scenario": normalise(scenario), "preference": preference, "tries": tries}
        try:
            self._input.write(json.dumps(request).encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._failure("ended") from None
        if not self._selector.select(self._limit_seconds):
            raise self._failure(f"gave no answer within {self._limit_seconds} s")
        line = self._output.readline()
        if not line:
            raise self._failure("ended")
        outcome: Outcome = json.loads(line)
        return outcome

    def _failure(self, what: str) -> ConformanceError:
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        return ConformanceError(f"the conformance program {what}\n{text[-4000:]}")


_LACKING_DEVICE = re.compile(
    r"(requested number of devices unavailable for"
    r"|no healthy devices present; cannot allocate unhealthy devices) .*?, which is unexpected"
)


def differences(kubelet: Outcome, other: Outcome) -> list[str]:
    """Say where another outcome (the contract's ``simulate -o json``) disagrees with the kubelet's.

    Only what is determined is compared. Where a container lacks devices of two resources, the kubelet names
    either; that part of the message is left out. After a device choice that chance did not make the lowest
    one, the rest of the scenario is left out, too.
    """
    found: list[str] = []
    if bool(kubelet.get("error")) != bool(other.get("error")):
        return [f"error: kubelet {kubelet.get('error')!r}, other {other.get('error')!r}"]
    steps = {step["step"]: step for step in other["steps"] if "pod" in step}
    for step in kubelet["steps"]:
        if _left_to_chance(step):
            return found
        mine = steps.get(step["step"])
        if mine is None:
            found.append(f"step {step['step']} is missing")
            continue
        found += _step_differences(step, mine)
    return found


def _step_differences(kubelet: Outcome, other: Outcome) -> list[str]:
    where = f"step {kubelet['step']}, pod {kubelet['pod']}"
    pairs: list[tuple[str, Any, Any]] = [
        (key, kubelet[key], other.get(key)) for key in ("pod", "admitted", "reason")
    ]
    pairs.append(("message", _message(kubelet), _message(other)))
    if kubelet["admitted"] and other.get("admitted"):
        names = [one["name"] for one in kubelet["containers"]]
        pairs.append(("containers", names, [one["name"] for one in other["containers"]]))
        for mine, theirs in zip(kubelet["containers"], other["containers"], strict=False):
            keys = ["affinity", "cpus", "memory", "devices"]
            # Without an affinity, preferred says only whether the Topology Manager was asked.
            keys += ["preferred"] if mine["affinity"] is not None else []
            pairs += [(f"{mine['name']}.{key}", mine[key], theirs.get(key)) for key in keys]
    return [
        f"{where}: {key}: kubelet {mine!r}, other {theirs!r}" for key, mine, theirs in pairs if mine != theirs
    ]


def _left_to_chance(step: Outcome) -> bool:
    return any("determined" in one for box in step["containers"] for one in box["devices"].values())


def _message(step: Outcome) -> str:
    return _LACKING_DEVICE.sub("devices are lacking", step.get("message", ""))
