"""The page ``/steering``: what is withheld now, why nothing more is, and what is known about the kubelet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numaplace.config.schema import SteeringMode
from numaplace.daemon.steering.status import SteeringStatus
from numaplace.kubelet.config.model import KnownKubelet
from numaplace.kubelet.plugin.devicelist import DeviceList
from numaplace.model.device import Device, natural_key
from numaplace.model.mask import nodes_of
from numaplace.model.names import ResourceName
from numaplace.prediction.harm import Prediction
from numaplace.steering.decision import Refusal, RequestForecast
from numaplace.steering.hidden_devices import HiddenNodes
from numaplace.steering.text import forecast_text, refusal_clause


@dataclass(frozen=True, slots=True)
class SteeringView:
    """What the page shows: values, so that it can be rendered while the daemon runs.

    ``hidden`` are the devices whose topology is withheld from the kubelet now.
    """

    mode: SteeringMode
    status: SteeringStatus | None = None
    hidden: Mapping[ResourceName, HiddenNodes] = field(default_factory=dict)


def hidden_nodes(devices: Iterable[Device], published: Iterable[Device]) -> HiddenNodes:
    """Return the nodes of the devices that are published with fewer than they have."""
    shown = {device.id: device.nodes for device in published}
    hidden = {device.id: device.nodes for device in devices if shown.get(device.id) != device.nodes}
    return {id_: hidden[id_] for id_ in sorted(hidden, key=natural_key) if id_ in shown}


class Served(Protocol):
    """A resource in service (``daemon.resources.service``)."""

    @property
    def real_devices(self) -> tuple[Device, ...]: ...

    def devices(self) -> DeviceList: ...


def steering_view(
    mode: SteeringMode, status: SteeringStatus | None, services: Mapping[ResourceName, Served]
) -> SteeringView:
    found = {name: hidden_nodes(one.real_devices, one.devices().devices) for name, one in services.items()}
    return SteeringView(mode, status, {name: hidden for name, hidden in found.items() if hidden})


def steering_document(view: SteeringView) -> dict[str, Any]:
    """Return the page as JSON values; its keys and order are described in ``docs/steering.md``."""
    status = view.status
    document: dict[str, Any] = {"mode": view.mode.value}
    if status is None:
        return {**document, "withheld": [], "refusals": [], "requests": [], "requestsSource": "none"}
    decision = status.decision
    return {
        **document,
        "kubelet": _kubelet(status.known),
        "withheld": [
            {
                "resource": resource,
                "numaNodes": list(nodes_of(mask)),
                "devices": [
                    {"id": id_, "numaNodes": list(of_device)}
                    for id_, of_device in view.hidden.get(resource, {}).items()
                ],
            }
            for resource, mask in sorted(decision.withheld.items())
        ],
        "refusals": [_refusal(one) for one in decision.refusals],
        "requestsSource": status.requests_source,
        "requests": [_forecast(one) for one in decision.requests],
        "breaker": {
            "open": status.held_off_seconds is not None,
            "secondsLeft": None if status.held_off_seconds is None else round(status.held_off_seconds, 1),
            "trips": status.trips,
        },
    }


def _kubelet(known: KnownKubelet) -> dict[str, Any]:
    settings = known.settings
    return {
        "known": settings is not None,
        "policy": settings.policy if settings else None,
        "scope": settings.scope if settings else None,
        "cpuManagerPolicy": settings.cpu_policy if settings else None,
        "memoryManagerPolicy": settings.memory_policy if settings else None,
        "source": known.source,
        "problem": known.problem,
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "reason": refusal.reason.value,
        "resources": sorted(refusal.resources),
        "text": refusal_clause(refusal),
    }


def _forecast(forecast: RequestForecast) -> dict[str, Any]:
    return {
        "containers": [dict(container) for container in forecast.request.containers],
        "stock": _prediction(forecast.stock, forecast.scores),
        "wanted": _prediction(forecast.wanted, forecast.scores),
        "steered": _prediction(forecast.steered, forecast.scores),
        "text": forecast_text(forecast),
    }


def _prediction(prediction: Prediction, scores: Mapping[int, int]) -> dict[str, Any]:
    return {
        "admitted": prediction.admitted,
        "reason": prediction.reason,
        "numaNodes": None if prediction.mask is None else list(nodes_of(prediction.mask)),
        "score": scores.get(prediction.mask or 0),
    }
