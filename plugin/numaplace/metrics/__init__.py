"""Prometheus metrics; the only place that knows prometheus_client."""

from numaplace.metrics.labels import Alignment, FallbackReason, RegistrationResult, ReloadResult
from numaplace.metrics.metrics import Metrics

__all__ = ["Alignment", "FallbackReason", "Metrics", "RegistrationResult", "ReloadResult"]
