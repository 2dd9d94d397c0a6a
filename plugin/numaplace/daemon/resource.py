"""A resource that is being served: its service, its registration and its rescans, under supervision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from numaplace.daemon.logs import EventLog
from numaplace.daemon.service import ResourceService
from numaplace.daemon.supervise import supervise
from numaplace.errors import PeerError
from numaplace.kubelet.registration import Registrar
from numaplace.kubelet.watch import SocketWatch
from numaplace.metrics.labels import FallbackReason, RegistrationResult
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import ResourceName

_PREFERRED = "GetPreferredAllocation"


class RunningResource:
    """Runs from ``start`` to ``stop``. ``on_accepted`` is called after each accepted registration."""

    def __init__(
        self,
        service: ResourceService,
        watch: SocketWatch,
        *,
        interval_seconds: Callable[[], float],
        on_accepted: Callable[[], None],
        metrics: Metrics,
        log: EventLog,
    ) -> None:
        self._service = service
        self._interval_seconds = interval_seconds
        self._on_accepted = on_accepted
        self._metrics = metrics
        self._log = log
        self._last_failure = ""
        self._registrar = Registrar(service, watch, on_registered=self._registered, on_error=self._caught)
        self._task: asyncio.Task[None] | None = None

    @property
    def registered(self) -> bool:
        """Whether the kubelet has accepted the present server, as far as can be seen."""
        return self._registrar.registered

    def start(self) -> None:
        """Look at the host, then register, and keep doing both."""
        name = self._service.resource
        self._task = asyncio.create_task(
            supervise(name, self._run, log=self._log, restarted=self._metrics.restarted), name=name
        )

    async def stop(self) -> None:
        """End the streams without an empty list and remove the socket."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        await self._service.rescan()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._registrar.run())
            tasks.create_task(self._service.rescan_for_ever(self._interval_seconds))

    def _registered(self, resource: ResourceName, accepted: bool, detail: str) -> None:  # noqa: FBT001
        result = RegistrationResult.ACCEPTED if accepted else RegistrationResult.FAILED
        self._metrics.registration(resource, result=result)
        if accepted:
            self._last_failure = ""
            self._log.info("registered", resource=resource, endpoint=detail)
            self._on_accepted()
        elif detail != self._last_failure:
            self._last_failure = detail
            self._log.warning("registration failed; trying on", resource=resource, reason=detail)

    def _caught(self, rpc: str, error: Exception) -> None:
        """Count and log what the RPC edge has caught."""
        self._log.error("rpc failed", exc=None if isinstance(error, PeerError) else error,
                        resource=self._service.resource, rpc=rpc, reason=str(error))  # fmt: skip
        if rpc == _PREFERRED:
            self._metrics.fell_back(
                self._service.resource,
                strategy=self._service.strategy,
                reason=_reason(error),
                duration_seconds=0.0,
            )


def _reason(error: Exception) -> FallbackReason:
    match error:
        case PeerError(code="INVALID_ARGUMENT"):
            return FallbackReason.INVALID_REQUEST
        case TimeoutError():
            return FallbackReason.DEADLINE
        case ValueError():
            return FallbackReason.INVALID_ANSWER
        case _:
            return FallbackReason.ERROR
