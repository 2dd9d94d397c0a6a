"""The row about steering: what is withheld, what it changed, and when it held off."""

from __future__ import annotations

from charts.dashboard.panels import GREEN, YELLOW, Panel, Row
from charts.dashboard.queries import HERE, OURS, RATE, by_node, how_many, per_second

WITHHELD = by_node("numaplace_steering_withheld_devices", "resource", "numa_node", where=OURS)
BREAKER = by_node("numaplace_steering_breaker_open")
PREDICTION = f"rate(numaplace_steering_prediction_duration_seconds_bucket{{{HERE}}}[{RATE}])"

STEERING = Row(
    "Steering",
    (
        Panel(
            "stat",
            "Nodes that steer",
            "Nodes that withhold the topology of some free devices now: the Topology Manager then follows "
            "the strategy.",
            {"Nodes that steer": how_many(f"sum by (node) ({WITHHELD}) > 0")},
            width=4,
            decimals=0,
        ),
        Panel(
            "stat",
            "Held off",
            "Nodes that publish everything for a while: a pod was refused while something was withheld.",
            {"Held off": how_many(f"{BREAKER} == 1")},
            width=4,
            steps=((None, GREEN), (1, YELLOW)),
            decimals=0,
        ),
        Panel(
            "timeseries",
            "Withheld devices",
            "Free devices that are currently published without topology. A device of two NUMA nodes counts "
            "on both.",
            {"{{resource}} NUMA {{numa_node}}": f"sum by (resource, numa_node) ({WITHHELD})"},
            decimals=0,
        ),
        Panel(
            "timeseries",
            "What steering changed",
            "Grants (answers to Allocate) while topology of the resource was withheld. changed: the kubelet "
            "alone would have taken other NUMA nodes.",
            {
                "{{resource}}: {{effect}}": "sum by (resource, effect) "
                f"(rate(numaplace_steering_grants_total{{{OURS}}}[{RATE}]))"
            },
            "ops",
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Decisions on what to withhold",
            "withheld, or why nothing is, of some resources or of all. The log of a node's daemon "
            "has details.",
            {"{{outcome}}": per_second("numaplace_steering_decisions_total", "outcome")},
            "ops",
        ),
        Panel(
            "timeseries",
            "Refusals and failures",
            "In 5 minutes: pods refused while something was withheld, and times that everything was "
            "published instead, by reason.",
            {
                "pods refused": f"sum(increase(numaplace_steering_breaker_trips_total{{{HERE}}}[5m]))",
                "{{reason}}": f"sum by (reason) (increase(numaplace_steering_failures_total{{{HERE}}}[5m]))",
            },
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Time to predict and decide, p99",
            "The kubelet does not wait for this, but for the device list that follows.",
            {"p99": f"histogram_quantile(0.99, sum by (le) ({PREDICTION}))"},
            "s",
            width=4,
        ),
        Panel(
            "timeseries",
            "Lists sent",
            "Device lists sent to the kubelets because what is withheld changed.",
            {"{{resource}}": per_second("numaplace_steering_lists_total", "resource", where=OURS)},
            "ops",
            width=4,
        ),
    ),
)
