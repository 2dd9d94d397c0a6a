"""What a decision of steering follows from when nothing is under admission."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.settings import Settings
from numaplace.managers.pod import Pod
from numaplace.model.names import IdsByResource, PodKey
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import Withheld
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.init_containers import why_unknown
from numaplace.steering.published_topology import first_step
from numaplace.steering.triggers import Decided, RequestsInForce, decision_at_rest


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
        started = context.clock()
        unknown = why_unknown(
            snapshot, self.model, unlisted=self.unlisted, specs=context.specs, but=context.state.moving
        )
        found = decision_at_rest(
            self.model,
            snapshot,
            requests=self.requests,
            settings=self.settings.choice,
            unknown=unknown,
        )
        context.report.computed(found.decision, duration_seconds=context.clock() - started)
        return found

    def may_follow(self, now: Withheld, following: Withheld) -> bool:
        """Return whether the set in force may be changed: anything newly withheld needs the proof."""
        return self.proved or (self.quiet and first_step(now, following) == following)
