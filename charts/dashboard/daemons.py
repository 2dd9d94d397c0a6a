"""The rows about the daemons' work: decisions, devices, the kubelet and the API server."""

from __future__ import annotations

from charts.dashboard.panels import GREEN, RED, YELLOW, Panel, Row
from charts.dashboard.queries import (
    AGE,
    FELL_BACK,
    HERE,
    OURS,
    RATE,
    REGISTERED,
    STALE_SECONDS,
    UNHEALTHY_DEVICES,
    WATCH_DOWN,
    by_node,
    duration,
    per_second,
)

NODE = {"node": "Node"}

DECISIONS = Row(
    "Decisions",
    (
        Panel(
            "timeseries",
            "Answers by outcome",
            "placed: chosen by the comparison. all: as many were requested as were offered. no-topology: "
            "the devices "
            "have no NUMA node. fallback: see the reasons.",
            {"{{outcome}}": per_second("numaplace_decisions_total", "outcome", where=OURS)},
            "ops",
            width=6,
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Answers by strategy",
            "Which strategy decided; and how often the scores changed the NUMA node (KEP-6007).",
            {
                "{{strategy}}": per_second("numaplace_decisions_total", "strategy", where=OURS),
                "{{numa_allocation_strategy}}: scores decided": per_second(
                    "numaplace_numa_score_selection_total", "numa_allocation_strategy"
                ),
            },
            "ops",
            width=6,
        ),
        Panel(
            "timeseries",
            "On one NUMA node, or split",
            "Answers by whether one NUMA node has all their devices. Splits come with fragmentation, and "
            "with requests that no NUMA node is large enough for.",
            {"{{alignment}}": per_second("numaplace_alignments_total", "alignment", where=OURS)},
            "ops",
            width=6,
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Fallbacks by reason",
            "stale: PodResources did not answer in time. snapshot: no state was known yet. deadline: too "
            "slow. "
            "invalid-request: the kubelet's request was invalid. error, invalid-answer: bugs, please "
            "report them.",
            {"{{reason}}": per_second("numaplace_fallbacks_total", "reason", where=OURS)},
            "ops",
            width=6,
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Time for a decision",
            "From the kubelet's request to the answer. The kubelet admits no other pod meanwhile. The "
            "default deadline "
            "is 0.2 s; buckets end at 0.5 s.",
            {"p50": duration(0.5), "p90": duration(0.9), "p99": duration(0.99)},
            "s",
            width=12,
            steps=((None, GREEN), (0.2, RED)),
        ),
        Panel(
            "bargauge",
            "Slowest nodes, p99 of the last hour",
            "The ten nodes with the slowest decisions. A common cause is a busy kubelet.",
            {"{{node}}": f"topk(10, {duration(0.99, 'node', window='1h')})"},
            "s",
            width=6,
            steps=((None, GREEN), (0.05, YELLOW), (0.2, RED)),
        ),
        Panel(
            "bargauge",
            "Most fallbacks, last hour",
            "The ten nodes with the most answers given with less than full knowledge.",
            {"{{node}}": f"topk(10, {FELL_BACK})"},
            width=6,
            decimals=0,
            steps=((None, YELLOW),),
        ),
    ),
)


DEVICES = Row(
    "Devices",
    (
        Panel(
            "timeseries",
            "Devices by health",
            "Devices that are offered to the kubelets.",
            {
                "{{resource}}: {{health}}": "sum by (resource, health) "
                f"({by_node('numaplace_devices', 'resource', 'health', where=OURS)})"
            },
            decimals=0,
        ),
        Panel(
            "timeseries",
            "Not offered",
            "Devices that were found but are not offered, including PFs; nodes where no device matches, or "
            "the last scan failed. The log of the node's daemon says why.",
            {
                "{{resource}}: left out": "sum by (resource) "
                f"({by_node('numaplace_devices_left_out', 'resource', where=OURS)})",
                "{{resource}}: nodes without devices": "sum by (resource) "
                f"({by_node('numaplace_selectors_unmatched', 'resource', where=OURS)})",
                "{{resource}}: nodes with a failed scan": "sum by (resource) "
                f"({by_node('numaplace_device_scan_failed', 'resource', where=OURS)})",
            },
            decimals=0,
        ),
        Panel(
            "table",
            "Nodes with unhealthy devices",
            "Up to 20, most unhealthy devices first.",
            {"Unhealthy": f"topk(20, {UNHEALTHY_DEVICES} > 0)"},
            columns={**NODE, "resource": "Resource"},
            decimals=0,
        ),
    ),
)


KUBELET = Row(
    "Kubelet and daemon",
    (
        Panel(
            "timeseries",
            "Age of the allocation state, ten oldest",
            "Usually below config.pollInterval (5 s). When it grows, the kubelet's PodResources API does "
            "not answer.",
            {"{{node}}": f"topk(10, {AGE})"},
            "s",
            steps=((None, GREEN), (STALE_SECONDS, RED)),
        ),
        Panel(
            "timeseries",
            "Calls of PodResources",
            "By gRPC's code. All clients of a node share 100 calls a second.",
            {
                "{{method}} {{code}}": "sum by (method, code) "
                f"(rate(numaplace_podresources_calls_total{{{HERE}}}[{RATE}]))"
            },
            "ops",
        ),
        Panel(
            "timeseries",
            "Registered resources",
            "Resources that the kubelets know, of those that the daemons serve, counted over all nodes.",
            {
                "{{resource}}: registered": f"sum by (resource) ({REGISTERED})",
                "{{resource}}: served": f"count by (resource) ({REGISTERED})",
            },
            decimals=0,
        ),
        Panel(
            "timeseries",
            "What should not happen often",
            "In 5 minutes: registrations by result (a restarted kubelet gives one), daemon tasks that "
            "were started again, "
            "reloads of the configuration.",
            {
                "registrations {{result}}": "sum by (result) "
                f"(increase(numaplace_registrations_total{{{OURS}}}[5m]))",
                "restarted {{task}}": "sum by (task) "
                f"(increase(numaplace_task_restarts_total{{{HERE}}}[5m]))",
                "reloads {{result}}": f"sum by (result) (increase(numaplace_reloads_total{{{HERE}}}[5m]))",
                "nodes without inotify": f"count({by_node('numaplace_inotify_available')} == 0)",
            },
        ),
        Panel(
            "timeseries",
            "Memory of a daemon",
            "Resident. The chart's limit is 256 MiB.",
            {
                "largest": f"max(process_resident_memory_bytes{{{HERE}}})",
                "average": f"avg(process_resident_memory_bytes{{{HERE}}})",
            },
            "bytes",
        ),
        Panel(
            "timeseries",
            "CPU of a daemon",
            "In cores. Idle daemons use less than 0.005.",
            {
                "largest": f"max(rate(process_cpu_seconds_total{{{HERE}}}[{RATE}]))",
                "average": f"avg(rate(process_cpu_seconds_total{{{HERE}}}[{RATE}]))",
            },
        ),
    ),
)


API_SERVER = Row(
    "API server",
    (
        Panel(
            "timeseries",
            "Watches of the nodes' own pods",
            "Daemons that use the API server. Without a connection they place with less knowledge and "
            "send no Events.",
            {
                "connected": f"sum({by_node('numaplace_cluster_watch_connected')})",
                "not connected": f"count({WATCH_DOWN})",
            },
            stacked=True,
            decimals=0,
        ),
        Panel(
            "timeseries",
            "Lists and watches",
            "By HTTP status, or UNAVAILABLE, DECODE, CREDENTIALS. Watches end by themselves every few "
            "minutes; lists "
            "should be rare. 403: RBAC lacks list and watch of pods.",
            {
                "{{call}} {{code}}": "sum by (call, code) "
                f"(rate(numaplace_cluster_watch_calls_total{{{HERE}}}[{RATE}]))"
            },
            "reqps",
        ),
        Panel(
            "timeseries",
            "Events on pods",
            "sent, duplicate (the API server has it already), failed (refused, or given up after 10 "
            "minutes), dropped "
            "(more than 256 were waiting).",
            {"{{result}}": per_second("numaplace_events_total", "result")},
            "reqps",
            stacked=True,
        ),
    ),
)
