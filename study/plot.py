"""The plot of the documentation: what fails for fragmentation, and how uneven the node is, by arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from numaplace.engine.options import PolicyName
from numaplace.simulate.scenario.records import Enforcement

from study.experiment import Result
from study.summary import Row, tables_of

PANELS = (
    (
        "gpu-2x4",
        PolicyName.NONE,
        "split",
        "Policy none: jobs split over NUMA nodes though one could hold them, %",
    ),
    (
        "gpu-2x4",
        PolicyName.SINGLE_NUMA_NODE,
        "fragmented",
        "Policy single-numa-node: jobs refused though enough GPUs are free, %",
    ),
    (
        "vf-4x8",
        PolicyName.SINGLE_NUMA_NODE,
        "imbalance",
        "VF pods, single-numa-node: fullest minus emptiest NUMA node, % of its VFs",
    ),
)
WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 760, 270, 60, 20, 8, 40
STYLE = """
    svg { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; }
    .card { fill: #ffffff; stroke: #d0d7de; } .head { fill: #1f2328; font-size: 14px; font-weight: 600; }
    .text { fill: #1f2328; font-size: 13px; } .bar { fill: #0969da; } .base { fill: #8c959f; }
    .whisker { stroke: #1f2328; stroke-width: 1.5; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #0d1117; stroke: #3d444d; } .head, .text { fill: #f0f6fc; }
      .bar { fill: #4493f8; } .base { fill: #656c76; } .whisker { stroke: #f0f6fc; }
    }
"""


def svg(results: Sequence[Result]) -> str:
    """Return the picture of those panels whose world was run, under the world's first load.

    Steering is not in it: it equals the kubelet alone or KEP-6007, and has a table of its own.
    """
    parts: list[str] = []
    y = 10
    for world, policy, key, title in PANELS:
        rows = _rows(results, world, policy)
        if rows:
            parts += _panel(rows, key, title, y=y)
            y += HEAD + len(rows) * (BAR + GAP) + 14
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
        'role="img" aria-labelledby="t">\n'
        '  <title id="t">Fragmentation by strategy; bars with 95 % confidence intervals</title>\n'
    )
    card = f'  <rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{y - 2}" rx="10"/>\n'
    return f"{head}  <style>{STYLE}  </style>\n{card}" + "".join(f"  {part}\n" for part in parts) + "</svg>\n"


def _rows(results: Sequence[Result], world: str, policy: PolicyName) -> tuple[Row, ...]:
    for result in results:
        if result.world.name == world:
            rows = next(table.rows for table in tables_of(result) if table.policy is policy)
            return tuple(row for row in rows if row.arm.enforcement is not Enforcement.STEERING)
    return ()


def _panel(rows: Sequence[Row], key: str, title: str, *, y: int) -> Iterator[str]:
    yield f'<text class="head" x="18" y="{y + 22}">{escape(title)}</text>'
    values = [row.values[key] for row in rows]
    scale = (WIDTH - LEFT - RIGHT) / max(0.1, *(one.mean + one.half_width for one in values))
    for number, (row, value) in enumerate(zip(rows, values, strict=True)):
        top = y + HEAD + number * (BAR + GAP)
        middle, end = top + BAR / 2, LEFT + value.mean * scale
        low, high = end - value.half_width * scale, end + value.half_width * scale
        name = escape(row.arm.name)
        yield f'<text class="text" x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{name}</text>'
        style = "bar" if number else "base"
        yield f'<rect class="{style}" x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="{BAR}" rx="3"/>'
        yield f'<path class="whisker" d="M {low:.1f} {middle} H {high:.1f}"/>'
        yield f'<text class="text" x="{high + 8:.1f}" y="{top + 15}">{value.mean:.1f}</text>'
