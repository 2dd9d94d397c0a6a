"""Lines that the test run prints at its end: where pods landed, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Report:
    """Collects the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def rows(self, title: str, sequences: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        """Add one row per way of running the same pods: the NUMA nodes of each pod, in turn."""
        self.lines.append(title)
        width = max(map(len, sequences)) + 2
        for name, sequence in sequences.items():
            pods = " ".join("+".join(map(str, nodes)) for nodes in sequence)
            self.lines.append(f"    {name:<{width}}{pods}")
