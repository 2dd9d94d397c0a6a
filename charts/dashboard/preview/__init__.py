"""The dashboard without Grafana: its panels drawn from a Prometheus, for the documents and to work on it."""
