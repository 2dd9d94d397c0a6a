"""A steering decision in words, for ``explain``, ``inspect`` and the log. The data is authoritative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from numaplace.model.mask import nodes_of
from numaplace.model.names import Strategy
from numaplace.model.quantity import quantity_text
from numaplace.placement.text import numa_text, scores_text
from numaplace.prediction.harm import Harm, Prediction
from numaplace.prediction.request import Request
from numaplace.steering.decision import Reason, Refusal, RequestForecast, SteeringDecision, WithoutSteering


def decision_lines(decision: SteeringDecision) -> Iterator[str]:
    for resource, nodes in decision.withheld.items():
        named = ",".join(map(str, nodes_of(nodes)))
        yield f"{resource}: topology of free devices withheld on NUMA {named}"
    if not decision.withheld:
        yield "nothing withheld"
    for refusal in decision.refusals:
        yield refusal_text(refusal)
    for forecast in decision.requests:
        yield forecast_text(forecast)


def request_text(request: Request) -> str:
    """Return ``cpu: 8, memory: 32Gi, nvidia.com/gpu: 1``, containers joined with `` + ``."""
    return " + ".join(
        "{" + ", ".join(f"{name}: {quantity_text(name, amount)}" for name, amount in container) + "}"
        for container in request.containers
    )


def forecast_text(forecast: RequestForecast) -> str:
    stock, wanted, steered = (_where(one) for one in (forecast.stock, forecast.wanted, forecast.steered))
    text = f"{request_text(forecast.request)}: {steered}"
    beside = []
    if stock != steered:
        beside.append(f"without steering {stock}")
    if wanted != steered:
        beside.append(f"the strategy wants {wanted}")
    if beside and forecast.scores:
        beside.append(scores_text(forecast.scores))
    return f"{text} ({'; '.join(beside)})" if beside else text


def _where(prediction: Prediction) -> str:
    if not prediction.admitted:
        return f"refused ({prediction.reason})"
    return numa_text(prediction.mask)


_HARMS: Mapping[Harm, str] = {
    Harm.REFUSED: "would be refused",
    Harm.ADMITTED: "would be admitted although the policy refuses it",
    Harm.WIDER: "would be spread over more NUMA nodes",
    Harm.NOT_PREFERRED: "would not be as narrow as the hardware allows",
    Harm.LESS_ALIGNED: "would get less from its NUMA nodes",
}


def _conflict(refusal: Refusal) -> str:
    one = _request(refusal.request)
    if refusal.other is None:
        return f"no withheld set sends {one} where the strategy wants it"
    return (
        f"{one} should be on other NUMA nodes than {_request(refusal.other)}, and one exposed set serves both"
    )


def _several_sizes(refusal: Refusal) -> str:
    requests = dict.fromkeys(request_text(one) for one in (refusal.request, refusal.other) if one is not None)
    sizes = " and ".join(requests)
    what = f"{sizes} takes parts of several NUMA nodes" if len(requests) == 1 else f"several sizes, {sizes}"
    return f"{what}: where one goes decides what else fits"


def _request(request: Request | None) -> str:
    return "a request" if request is None else request_text(request)


def _node(refusal: Refusal) -> str:
    return numa_text(refusal.mask) if refusal.mask else "the wanted NUMA node"


_REASONS: Mapping[Reason, Callable[[Refusal], str]] = {
    Reason.POLICY_NONE: lambda _: (
        "the Topology Manager's policy is none: GetPreferredAllocation decides there"
    ),
    Reason.POLICY_UNKNOWN: lambda one: one.what,
    Reason.STATE_UNKNOWN: lambda one: f"the node's state is not known: {one.what}",
    Reason.NO_STRATEGY: lambda _: "no strategy is set",
    Reason.KUBELET_STRATEGY: lambda _: "the kubelet applies a strategy itself",
    Reason.ONE_NODE: lambda _: "the machine has one NUMA node",
    Reason.NOTHING_STEERABLE: lambda _: "no known request is for one of numaplace's devices",
    Reason.MIXED_STRATEGIES: lambda _: "requests name resources of different strategies together",
    Reason.SEVERAL_SIZES: _several_sizes,
    Reason.REQUESTS_UNKNOWN: lambda _: "no request is known: declare steering.requests",
    Reason.OTHERS_MAY_COME: lambda _: (
        "the requests are learnt, and one that was not seen yet could be refused: declare steering.requests"
    ),
    Reason.NOTHING_TO_GAIN: lambda _: "the kubelet already picks what the strategy wants",
    Reason.CONFLICT: _conflict,
    Reason.UNSAFE: lambda one: (
        f"{_request(one.request)} {_HARMS[one.harm] if one.harm else 'would be worse off'}"
    ),
    Reason.HEADROOM: lambda one: f"too little headroom on {_node(one)}{_for(one)}",
    Reason.UNDER_ADMISSION: lambda _: "a container under admission may still need what would be withheld",
    Reason.HELD_OFF: lambda one: (
        f"a pod was refused while topology was withheld{f': {one.what}' if one.what else ''}"
    ),
    Reason.KUBELET_STARTED: lambda one: (
        f"the kubelet has just started{f': {one.what}' if one.what else ' and admits its pods again'}"
    ),
    Reason.FAILED: lambda one: f"the last attempt failed: {one.what}",
    Reason.TOO_MANY: lambda one: f"too much to predict: {one.what}",
}


def _for(refusal: Refusal) -> str:
    return "" if refusal.request is None else f" for {request_text(refusal.request)}"


def refusal_clause(refusal: Refusal) -> str:
    return _REASONS[refusal.reason](refusal)


def refusal_text(refusal: Refusal) -> str:
    names = ", ".join(sorted(refusal.resources))
    return f"{names}: {refusal_clause(refusal)}" if names else refusal_clause(refusal)


def steered_text(mask: int, *, instead_of: WithoutSteering, strategy: Strategy) -> str:
    """Return ``steered: NUMA 1 instead of NUMA 0 (least-allocated: NUMA 1 scores 12, NUMA 0 37)``."""
    why = f"{strategy}: {scores_text(instead_of.scores)}" if instead_of.scores else strategy
    return f"steered: {numa_text(mask)} instead of {numa_text(instead_of.mask)} ({why})"
