"""What a decision of steering follows from when nothing is under admission."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.requests import SteeringFacts
from numaplace.daemon.steering.settings import SteeringRuntimeSettings
from numaplace.managers.pod import Pod
from numaplace.model.names import IdsByResource, PodKey
from numaplace.prediction.model import KubeletModel
from numaplace.state.attribution import Specs
from numaplace.state.node_state import NodeState
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.init_containers import why_unknown
from numaplace.steering.choose import choose
from numaplace.steering.triggers import Decided, RequestsInForce, settled_decision
from numaplace.steering.withheld import WithheldSet, first_step


@dataclass(frozen=True, slots=True)
class AtRest:
    """All that counts, at one moment: equal values need no other decision.

    ``quiet``: nothing has been under admission for a while; ``proved``: nothing can be. ``known`` are
    the pods with specs, ``coming`` those of them that may be admitted at any moment.
    """

    version: int
    unlisted: IdsByResource
    node: KubeletModel
    requests: RequestsInForce
    quiet: bool
    proved: bool
    settings: SteeringRuntimeSettings
    known: frozenset[PodKey]
    coming: tuple[Pod, ...]

    @classmethod
    def now(
        cls,
        state: NodeState,
        facts: SteeringFacts,
        pace: Quiescence,
        *,
        node: KubeletModel,
        requests: RequestsInForce,
        settings: SteeringRuntimeSettings,
    ) -> AtRest:
        """Return the present."""
        return cls(
            version=state.version,
            unlisted=state.unshown() if pace.quiet else state.unlisted,
            node=node,
            requests=requests,
            quiet=pace.quiet,
            proved=pace.proved,
            settings=settings,
            known=frozenset(facts.specs.pods),
            coming=facts.coming(),
        )

    def decide(self, snapshot: Snapshot, *, specs: Specs, moving: Collection[PodKey]) -> Decided:
        """Return the decision; ``moving`` pods may still be under admission."""
        unseen = why_unknown(snapshot, self.node, unlisted=self.unlisted, specs=specs, but=moving)
        if unseen is not None:
            return Decided(choose(self.node, unseen, (), settings=self.settings.choice))
        return settled_decision(self.node, snapshot, requests=self.requests, settings=self.settings.choice)

    def may_follow(self, now: WithheldSet, following: WithheldSet) -> bool:
        """Return whether the set in force may be changed: anything newly withheld needs the proof."""
        return self.proved or (self.quiet and first_step(now, following) == following)
