"""The rows about nodes: the fleet and its problems, capacity, fragmentation, and single nodes.

There may be thousands of nodes, so open rows have a line per resource, reason or code, and name nodes only if
these have a problem or are among the ten worst.
"""

from __future__ import annotations

from charts.dashboard.panels import BLUE, GREEN, RED, YELLOW, Panel, Row
from charts.dashboard.queries import (
    FELL_BACK,
    FIT,
    FITS,
    FRAGMENTED,
    NO_DEVICES,
    NOT_REGISTERED,
    ONLY_SPLIT,
    OURS,
    REGISTERED,
    RESTARTED,
    STALE,
    STALE_SECONDS,
    UNHEALTHY,
    WATCH_DOWN,
    WITHOUT_STATE,
    amount,
    by_node,
    free,
    how_many,
    share_allocated,
)

BAD_FROM_ONE = ((None, GREEN), (1, RED))
ODD_FROM_ONE = ((None, GREEN), (1, YELLOW))
NODE = {"node": "Node"}


def _stat(
    title: str, description: str, query: str, steps: tuple[tuple[float | None, str], ...], unit: str = "short"
) -> Panel:
    decimals = 0 if unit == "short" else None
    return Panel(
        "stat", title, description, {title: query}, unit, width=3, height=4, steps=steps, decimals=decimals
    )


FLEET = Row(
    "Fleet",
    (
        _stat(
            "Daemons",
            "Daemons that are scraped, one a node.",
            how_many(by_node("numaplace_build_info")),
            ((None, BLUE),),
        ),
        _stat(
            "Not registered",
            "Nodes whose kubelet does not know one of the resources: pods that ask for it stay pending.",
            how_many(NOT_REGISTERED),
            BAD_FROM_ONE,
        ),
        _stat(
            "State missing or stale",
            f"Nodes whose allocation state is older than {STALE_SECONDS} s, or has never been read.",
            how_many(f"({STALE}) or ({WITHOUT_STATE})"),
            BAD_FROM_ONE,
        ),
        _stat(
            "Unhealthy devices",
            "Devices that are offered as unhealthy. The kubelet gives them to no pod.",
            f"sum({UNHEALTHY}) or vector(0)",
            ODD_FROM_ONE,
        ),
        _stat(
            "Fallbacks, last hour",
            "Answers with less than full knowledge, or without a decision. The row Decisions has their "
            "reasons.",
            f"sum({FELL_BACK}) or vector(0)",
            ODD_FROM_ONE,
        ),
        _stat(
            "Split, last hour",
            "Share of the answers whose devices are on several NUMA nodes.",
            f'sum(increase(numaplace_alignments_total{{{OURS},alignment="split"}}[1h]))'
            f" / (sum(increase(numaplace_alignments_total{{{OURS}}}[1h])) > 0) or vector(0)",
            ((None, GREEN), (0.05, YELLOW), (0.25, RED)),
            "percentunit",
        ),
        _stat(
            "Fragmented for $size",
            "Nodes where that many devices of a resource are free, but on no single NUMA node, although one "
            "has that many.",
            how_many(f"max by (node) ({FRAGMENTED})"),
            ODD_FROM_ONE,
        ),
        _stat(
            "Pod watch down",
            "Nodes whose pods are not watched at the API server: decisions know less, and pods get no "
            "Events.",
            how_many(WATCH_DOWN),
            ODD_FROM_ONE,
        ),
        Panel(
            "table",
            "Nodes that need attention",
            "Nodes with a problem now or in the last hour; empty otherwise. The log of the node's "
            "daemon has details.",
            {
                "Resources not registered": f"count by (node) ({REGISTERED} == 0)",
                "State is old (s)": STALE,
                "State never read": WITHOUT_STATE,
                "Unhealthy devices": UNHEALTHY,
                "Resources without devices": NO_DEVICES,
                "Fallbacks (1 h)": FELL_BACK,
                "Restarted tasks (1 h)": RESTARTED,
                "Pod watch down": f"({WATCH_DOWN}) + 1",
            },
            width=16,
            height=9,
            columns=NODE,
            decimals=0,
        ),
        Panel(
            "timeseries",
            "Daemons by version",
            "A drop is a node that is gone, or a daemon that is not scraped. An upgrade replaces one "
            "version by the next.",
            {"{{version}}": f"count by (version) ({by_node('numaplace_build_info', 'version')})"},
            height=9,
            stacked=True,
            decimals=0,
        ),
    ),
)


CAPACITY = Row(
    "Capacity",
    (
        Panel(
            "timeseries",
            "Allocated",
            "Share of the allocatable amounts that pods have: devices, exclusive CPUs, memory of the Static "
            "memory manager.",
            {"{{resource}}": share_allocated("resource")},
            "percentunit",
        ),
        Panel(
            "bargauge",
            "Allocated by NUMA node",
            "The same by NUMA node, now, over all nodes. With most-allocated low ids are full first, with "
            "least-allocated all are about equal.",
            {"{{resource}} NUMA {{numa_node}}": share_allocated("resource", "numa_node")},
            "percentunit",
            steps=((None, GREEN), (0.8, YELLOW), (0.95, RED)),
        ),
        Panel(
            "timeseries",
            "Free devices",
            "Healthy devices that no pod has.",
            {"{{resource}}": free("resource")},
            decimals=0,
        ),
    ),
)


FRAGMENTATION = Row(
    "Fragmentation: can a request of $size still be on one NUMA node?",
    (
        Panel(
            "timeseries",
            "What a request of $size finds",
            "Nodes by what a container that asks for that many devices finds there: room on one NUMA "
            "node, only room "
            "on several (a split, or a refusal by the Topology Manager), too few devices.",
            {
                "{{resource}}: one NUMA node": f"count by (resource) ({FITS})",
                "{{resource}}: only split": f"count by (resource) ({ONLY_SPLIT})",
                "{{resource}}: too few": f"count by (resource) ({free('node', 'resource')} < $size)",
            },
            stacked=True,
            decimals=0,
        ),
        Panel(
            "bargauge",
            "Nodes by the largest request that fits one NUMA node",
            "How many nodes can still take a request of that size on one NUMA node, and no larger one.",
            {"{{resource}}: {{size}}": f'count_values by (resource) ("size", {FIT})'},
            decimals=0,
            steps=((None, BLUE),),
        ),
        Panel(
            "table",
            "Fragmented nodes",
            "Up to 20 nodes where $size devices are free, but on no single NUMA node, most free devices "
            "first.",
            {
                "Free": f"topk(20, {FRAGMENTED})",
                "Fit one NUMA node": f"{FIT} and on (node, resource) topk(20, {FRAGMENTED})",
            },
            columns={**NODE, "resource": "Resource"},
            decimals=0,
        ),
    ),
)


ONE_NODE = Row(
    "Single nodes: choose a few in `node` before you open this",
    (
        Panel(
            "bargauge",
            "Free devices by NUMA node",
            "Now. What the strategy sees, except for the devices of pods that are being admitted.",
            {"{{node}} NUMA {{numa_node}} {{resource}}": free("node", "numa_node", "resource")},
            width=12,
            height=10,
            decimals=0,
            steps=((None, RED), (1, YELLOW), (2, GREEN)),
        ),
        Panel(
            "timeseries",
            "Scores (KEP-6007)",
            "Percent allocated, at least 1; 0 without capacity. most-allocated takes the highest, "
            "least-allocated the "
            "lowest.",
            {
                "{{node}} NUMA {{numa_node}} {{resource}}": by_node(
                    "numaplace_score", "numa_node", "resource", where=OURS
                )
            },
            "percent",
            width=12,
            height=10,
            maximum=100,
        ),
        Panel(
            "table",
            "Allocation state",
            "Devices, exclusive CPUs, and bytes of memory and hugepages.",
            {
                "Allocatable": amount("allocatable", where=OURS),
                "Allocated": amount("allocated", where=OURS),
                "Score": by_node("numaplace_score", "resource", "numa_node", where=OURS),
            },
            width=12,
            height=10,
            columns={**NODE, "numa_node": "NUMA node", "resource": "Resource"},
            decimals=0,
        ),
        Panel(
            "timeseries",
            "Containers by NUMA node",
            "Containers that hold devices, exclusive CPUs or memory of the NUMA node (KEP-6007).",
            {"{{node}} NUMA {{numa_node}}": by_node("numaplace_numa_container_count", "numa_node")},
            width=12,
            height=10,
            decimals=0,
        ),
    ),
    closed=True,
)
