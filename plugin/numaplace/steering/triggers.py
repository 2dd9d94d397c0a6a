"""Decisions at the two moments at which the daemon takes them: nothing under admission, and a grant."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numaplace.model.mask import union_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.pod_request import managed_part
from numaplace.prediction.predict import Withheld
from numaplace.prediction.request import Request
from numaplace.prediction.state import StateUnknown, SteeringState, state_of
from numaplace.state.attribution import Attribution
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.holdings import (
    PossibleHoldings,
    kept_nodes,
    may_have_more_containers,
    possible_holdings,
    states_to_come,
)
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason, Refusal, SteeringDecision

NOT_KNOWN = StateUnknown("the kubelet's managers are not known")


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and the likeliest state that the next admission finds; ``None`` where it is not known."""

    decision: SteeringDecision
    state: SteeringState | None = None


@dataclass(frozen=True, slots=True)
class GrantSeen:
    """Devices just granted, and who requested them, by a List sent since the kubelet's call."""

    resource: ResourceName
    ids: frozenset[DeviceId]
    attribution: Attribution


@dataclass(frozen=True, slots=True)
class RequestsInForce:
    """Requests that may arrive, and whether no others may; ``source``: ``declared``, ``seen`` or ``none``."""

    requests: tuple[Request, ...] = ()
    source: str = "none"

    @property
    def certain(self) -> bool:
        return self.source == "declared"


def refused(reason: Reason, what: str = "") -> Decided:
    return Decided(SteeringDecision(refusals=(Refusal(reason, what=what),)))


def decision_at_rest(
    node: KubeletModel,
    snapshot: Snapshot,
    *,
    requests: RequestsInForce,
    settings: SteeringSettings,
    unknown: StateUnknown | None = None,
) -> Decided:
    """Decide what the next admission finds. ``unknown``: why the snapshot is not all that pods hold."""
    state = unknown or _state(node, snapshot)
    states = state if isinstance(state, StateUnknown) else [state]
    decision = choose(node, states, requests.requests, settings=settings, certain=requests.certain)
    return Decided(decision, None if isinstance(state, StateUnknown) else state)


def decision_on_allocate(
    node: KubeletModel,
    snapshot: Snapshot,
    grant: GrantSeen,
    *,
    requests: RequestsInForce,
    settings: SteeringSettings,
    withheld: Withheld,
    unknown: StateUnknown | None = None,
) -> Decided:
    """Decide what the admission after the present one finds. The snapshot counts the grant.

    ``withheld`` is what was in force when the kubelet computed the container's hints. ``unknown``: why the
    snapshot is not all that pods hold.
    """
    state = unknown or _state(node, snapshot)
    if isinstance(state, StateUnknown):
        return Decided(choose(node, state, requests.requests, settings=settings))
    able = grant.attribution.admission.able
    if may_have_more_containers(node, able):
        return refused(Reason.UNDER_ADMISSION)
    found = possible_holdings_of(snapshot, grant)
    spec = _spec_request(node, grant)
    own = requests.requests if spec is None else (spec,)
    states = states_to_come(node, state, found, requests=own)
    certain = requests.certain or spec is not None
    if not certain and node.refuses:
        # It may be of another request, and take more.
        nodes = union_of(one.mask or node.topology.mask for one in found)
        states = tuple(replace(one, unsettled=one.unsettled | nodes) for one in states)
    kept = kept_nodes(
        node, found, requests=own, withheld=withheld, certain=certain, later=grant.attribution.later
    )
    # What is in force comes first: the next list may be sent before the kubelet has taken over the last one.
    decision = choose(
        node,
        states,
        requests.requests,
        settings=settings,
        kept=kept,
        certain=requests.certain,
        preferring=withheld,
    )
    return Decided(decision, states[0])


def possible_holdings_of(snapshot: Snapshot, grant: GrantSeen) -> tuple[PossibleHoldings, ...]:
    """Return what the container under admission may hold; one only where its spec shows it."""
    pod, container = grant.attribution.admission.pod, grant.attribution.container
    found = possible_holdings(snapshot, grant.attribution.admission.able, grant.resource, grant.ids)
    if pod is None or container is None:
        return found
    listed = next((one for one in pod.containers if one.name == container), None)
    begun = listed is not None and bool(listed.devices)
    return found[:1] if begun else found[-1:]


def _spec_request(node: KubeletModel, grant: GrantSeen) -> Request | None:
    request = grant.attribution.request
    return None if request is None else managed_part(Request.of(request), node)


def _state(node: KubeletModel, snapshot: Snapshot) -> SteeringState | StateUnknown:
    if node.cpu is None or node.memory is None:
        return NOT_KNOWN
    return state_of(snapshot, cpu=node.cpu, memory=node.memory)
