"""The requests that may arrive, and the pods that are about to be admitted."""

from __future__ import annotations

from collections.abc import Collection

from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.settings import Settings
from numaplace.engine.options import PolicyName
from numaplace.managers.pod import Pod
from numaplace.model.names import ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import is_compute
from numaplace.steering.learned_requests import LearnedRequests
from numaplace.steering.triggers import RequestsInForce


class PossibleRequests:
    """Has the health of other plugins' devices followed where it matters, too."""

    def __init__(self, context: SteeringContext) -> None:
        self._context = context
        self._learned = LearnedRequests()
        self._model: KubeletModel | None = None

    def pods_changed(self) -> bool:
        """Note that the API server has announced a pod, or that one has ended; return whether one has."""
        return self._context.node.announced(self._context.specs)

    def coming(self) -> tuple[Pod, ...]:
        """Return the pods that the kubelet may be about to admit, as far as the API server shows."""
        return self._context.state.coming(self._context.specs)

    def update(self, model: KubeletModel, settings: Settings) -> RequestsInForce:
        """Learn from the pods of the moment; return the requests that may arrive.

        Those of pods seen or bound to the node count only where a mistake can be corrected: under
        ``best-effort``, which refuses nothing, and while the API server reports pods that were refused.
        """
        found = self._in_force(model, settings)
        self._context.lists.follow_allocatable(on=bool(self._others_that_count(model, found)))
        return found

    def off(self) -> None:
        self._context.lists.follow_allocatable(on=False)

    def _in_force(self, model: KubeletModel, settings: Settings) -> RequestsInForce:
        if settings.declared:
            return RequestsInForce(settings.declared, "declared")
        self._learn(model)
        pods = self._context.pods
        relied_upon = model.policy == PolicyName.BEST_EFFORT or (pods is not None and pods.watching)
        if not relied_upon or not self._learned.requests:
            return RequestsInForce()
        return RequestsInForce(self._learned.requests, "seen")

    def _learn(self, model: KubeletModel) -> None:
        if model is not self._model:
            self._learned, self._model = LearnedRequests(), model
        seen, specs, moving = self._context.state.observation, self._context.specs, self._context.state.moving
        if seen is None or model.cpu is None or model.memory is None:
            return
        self._learned = self._learned.with_pods(
            seen.pods,
            settled=frozenset(pod.key for pod in seen.pods if pod.key not in moving),
            specs=specs.pods,
            node=model,
        )

    def _others_that_count(self, model: KubeletModel, requests: RequestsInForce) -> Collection[ResourceName]:
        if model.policy in (None, PolicyName.NONE) or not requests.requests:
            return ()
        named = {name for request in requests.requests for name in request.total if not is_compute(name)}
        if not requests.certain:
            named.update(block.resource for block in self._context.allocatable.devices)
        # A resource that is named but unknown is another plugin's that registers later.
        return named - model.steerable
