"""The dashboard's queries that are more than one metric.

Gauges are taken as ``max by (node, …)`` first: while a daemon is replaced, two pods of its node are scraped.
"""

from __future__ import annotations

HERE = 'job=~"$job",node=~"$node"'
OURS = f'{HERE},resource=~"$resource"'
DEVICES = f'{OURS},resource=~".+/.+"'
"""Without CPUs, memory and hugepages: extended resources have a domain."""

STALE_SECONDS = 60
RATE = "$__rate_interval"


def by_node(metric: str, *labels: str, where: str = HERE) -> str:
    """Return the gauge once per node and per value of the labels."""
    return f"max by ({', '.join(('node', *labels))}) ({metric}{{{where}}})"


def how_many(query: str) -> str:
    """Return the number of series, 0 for none."""
    return f"count({query}) or vector(0)"


def per_second(metric: str, label: str, *, where: str = HERE) -> str:
    return f"sum by ({label}) (rate({metric}{{{where}}}[{RATE}]))"


def last_hour(metric: str, *, where: str = HERE) -> str:
    """Return by how much a counter grew on each node in the last hour, where it did."""
    return f"sum by (node) (increase({metric}{{{where}}}[1h])) > 0"


def amount(metric: str, *, where: str = DEVICES) -> str:
    return by_node(f"numaplace_{metric}", "resource", "numa_node", where=where)


def free(*labels: str) -> str:
    return f"sum by ({', '.join(labels)}) ({amount('allocatable')} - {amount('allocated')})"


def share_allocated(*labels: str) -> str:
    """Return the allocated share of the allocatable amounts, of every resource."""
    by = f"sum by ({', '.join(labels)})"
    return f"{by} ({amount('allocated', where=OURS)}) / ({by} ({amount('allocatable', where=OURS)}) > 0)"


def duration(share: float, *labels: str, window: str = RATE) -> str:
    buckets = f"rate(numaplace_decision_duration_seconds_bucket{{{OURS}}}[{window}])"
    return f"histogram_quantile({share}, sum by ({', '.join((*labels, 'le'))}) ({buckets}))"


FIT = by_node("numaplace_largest_single_node_fit", "resource", where=DEVICES)
ENOUGH = f"{free('node', 'resource')} >= $size"
FITS = f"{FIT} >= $size"
ONLY_SPLIT = f"{ENOUGH} and on (node, resource) {FIT} < $size"
POSSIBLE = f"{by_node('numaplace_allocatable', 'resource', where=DEVICES)} >= $size"
FRAGMENTED = f"{ONLY_SPLIT} and on (node, resource) {POSSIBLE}"
"""Without nodes where no NUMA node is large enough for it."""

REGISTERED = by_node("numaplace_registered", "resource", where=OURS)
NOT_REGISTERED = f"min by (node) (numaplace_registered{{{OURS}}}) == 0"
AGE = by_node("numaplace_snapshot_age_seconds")
WITHOUT_STATE = f"{by_node('numaplace_build_info')} unless on (node) {AGE}"
STALE = f"{AGE} > {STALE_SECONDS}"
WATCH_DOWN = f"{by_node('numaplace_cluster_watch_connected')} == 0"
UNHEALTHY_DEVICES = by_node("numaplace_devices", "resource", where=f'{OURS},health="unhealthy"')
UNHEALTHY = f"sum by (node) ({UNHEALTHY_DEVICES}) > 0"
NO_DEVICES = f"sum by (node) ({by_node('numaplace_selectors_unmatched', 'resource', where=OURS)}) > 0"
FELL_BACK = last_hour("numaplace_fallbacks_total", where=OURS)
RESTARTED = last_hour("numaplace_task_restarts_total")
