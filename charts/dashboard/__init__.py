"""Makes the chart's Grafana dashboard: ``python -m charts.dashboard``."""
