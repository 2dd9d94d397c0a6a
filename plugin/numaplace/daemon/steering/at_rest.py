"""What a decision of steering follows from when nothing is under admission."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.settings import Settings
from numaplace.managers.pod import Pod
from numaplace.model.names import IdsByResource, PodKey
from numaplace.prediction.model import KubeletModel
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.init_containers import why_unknown
from numaplace.steering.choose import choose
from numaplace.steering.triggers import Decided, RequestsInForce, decision_at_rest
from numaplace.steering.withheld import WithheldSet, first_step


@dataclass(frozen=True, slots=True)
class AtRest:
    """All that counts, at one moment: equal values need no other decision.

    ``quiet``: nothing has been under admission for a while; ``proved``: nothing can be. ``known`` are the
    pods with specs, ``coming`` those of them that may be admitted at any moment.
    """

    version: int
    unlisted: IdsByResource
    model: KubeletModel
    requests: RequestsInForce
    settings: Settings
    quiet: bool
    proved: bool
    known: frozenset[PodKey]
    coming: tuple[Pod, ...]

    @classmethod
    def now(
        cls,
        context: SteeringContext,
        quiescence: Quiescence,
        *,
        model: KubeletModel,
        requests: RequestsInForce,
        settings: Settings,
        coming: tuple[Pod, ...],
    ) -> AtRest:
        """Return the present."""
        quiet, state = quiescence.quiet, context.state
        return cls(
            version=state.version,
            unlisted=state.unshown() if quiet else state.unlisted,
            model=model,
            requests=requests,
            settings=settings,
            quiet=quiet,
            proved=quiescence.proved,
            known=frozenset(context.specs.pods),
            coming=coming,
        )

    def decide(self, snapshot: Snapshot, context: SteeringContext) -> Decided:
        """Return the decision. Pods that are ``moving`` may still be under admission."""
        specs, moving, choice = context.specs, context.state.moving, self.settings.choice
        unknown = why_unknown(snapshot, self.model, unlisted=self.unlisted, specs=specs, but=moving)
        if unknown is not None:
            return Decided(choose(self.model, unknown, (), settings=choice))
        return decision_at_rest(self.model, snapshot, requests=self.requests, settings=choice)

    def may_follow(self, now: WithheldSet, following: WithheldSet) -> bool:
        """Return whether the set in force may be changed: anything newly withheld needs the proof."""
        return self.proved or (self.quiet and first_step(now, following) == following)
