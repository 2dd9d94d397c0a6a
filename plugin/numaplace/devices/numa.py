"""Which NUMA nodes a device may be published with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from numaplace.devices.host import read_topology


@dataclass(slots=True)
class NumaCheck:
    """Drops NUMA node ids that the host does not have, and collects one sentence per unknown id.

    The kubelet must never see -1 or an unknown id: under ``restricted`` and ``single-numa-node`` it would
    reject pods for it. Such a device has no topology instead (NVIDIA/kubevirt-gpu-device-plugin#86).
    """

    sysfs: Path
    warnings: list[str] = field(default_factory=list)
    _known: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._known = frozenset(read_topology(self.sysfs).nodes)

    def nodes(self, device_id: str, claimed: Iterable[int | None]) -> tuple[int, ...]:
        """Return the valid ones of the ``claimed`` ids, ascending. None and negative ids say "unknown"."""
        valid: set[int] = set()
        for node in claimed:
            if node is None or node < 0:
                continue
            if node in self._known:
                valid.add(node)
            else:
                known = ", ".join(map(str, sorted(self._known)))
                self.warnings.append(
                    f"{device_id}: NUMA node {node} does not exist here (there are: {known}); "
                    "published without it"
                )
        return tuple(sorted(valid))
