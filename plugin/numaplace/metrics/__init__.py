"""Prometheus metrics; the only place that knows prometheus_client."""
