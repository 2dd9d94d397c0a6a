"""Whether a set is right for a pod that is known to come, and for the one after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from numaplace.managers.pod import Pod
from numaplace.model.names import ResourceName
from numaplace.prediction.demand import demand_of
from numaplace.prediction.forecast import Budget, Forecast, OutOfBudgetError
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.pod_request import managed_part, request_of
from numaplace.prediction.predict import Withheld
from numaplace.prediction.request import Request, is_compute
from numaplace.prediction.state import SteeringState
from numaplace.steering.admission.init_containers import tied_in
from numaplace.steering.choose import MAX_PREDICTIONS


def invalidates(
    pods: Iterable[Pod],
    node: KubeletModel,
    state: SteeringState,
    *,
    requests: Iterable[Request],
    withheld: Withheld,
) -> bool:
    """Return whether a pod comes that the set was not tried with and is wrong for, or that takes room unseen.

    That includes a pod whose init containers determine where its devices are (``tied_in``).
    ``requests`` are those that the set was tried with in ``state``. A pod that requests none of the steerable
    resources is admitted without a call to us: the next pod finds the set, and fewer CPUs, less memory, or
    fewer devices of other plugins.
    """
    pods = tuple(pods)
    if tied_in({(pod.namespace, pod.name): pod for pod in pods}, node) is not None:
        return True
    tried = frozenset(unit for request in requests for unit in _units(managed_part(request, node), node))
    named = frozenset(resource for unit in tried for resource in unit.total)
    found = {unit for pod in pods for unit in _units(managed_part(request_of(pod, node.scope), node), node)}
    if any(_takes_unseen(unit, node.steerable, named) for unit in found):
        return True
    return any(_is_harmed(unit, node, state, withheld) for unit in found - tried)


def _units(request: Request, node: KubeletModel) -> Iterator[Request]:
    return (unit for unit in request.units(node.scope) if unit.total)


def _takes_unseen(
    unit: Request, steerable: AbstractSet[ResourceName], named: AbstractSet[ResourceName]
) -> bool:
    return not steerable & unit.total.keys() and bool(named & unit.total.keys())


def _is_harmed(unit: Request, node: KubeletModel, state: SteeringState, withheld: Withheld) -> bool:
    if not withheld.keys() & unit.total.keys():
        return False
    if any(not is_compute(name) and name not in state.devices for name in unit.total):
        # Of a plugin that has registered since: where its devices are is not known.
        return True
    forecast = Forecast(node, state, strategic=node.options, budget=Budget(MAX_PREDICTIONS))
    demand = demand_of(unit, node.scope)
    try:
        return forecast.worse(demand, withheld) is not None
    except OutOfBudgetError:
        return True
