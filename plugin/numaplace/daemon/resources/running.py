"""A resource that is being served: its supply and its registration, under supervision."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from numaplace.daemon.resources.service import ResourceService
from numaplace.daemon.resources.supply import Supply
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.runtime.supervise import supervise
from numaplace.daemon.runtime.trouble_log import TroubleLog
from numaplace.errors import PeerError
from numaplace.kubelet.plugin.registration import Registrar
from numaplace.kubelet.plugin.watch import SocketWatch
from numaplace.metrics.labels import FallbackReason, RegistrationResult
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import Device
from numaplace.model.names import ResourceName

TURN_SECONDS = 5.0
"""How long a first scan waits for those before it: a driver that hangs holds up its own resource only."""

_PREFERRED = "GetPreferredAllocation"
_SOCKET_TOKEN = re.compile(r"-[0-9a-f]+\.sock")


class RunningResource:
    """Runs from ``start`` to ``stop``. ``on_accepted`` is called after each accepted registration.

    ``after`` are the resources before this one in the configuration. They scan the host first: a device that
    two resources select belongs to the first one.
    ``InputError`` when the kubelet's directory leaves no room for a socket name.
    """

    def __init__(
        self,
        service: ResourceService,
        supply: Supply,
        watch: SocketWatch,
        *,
        after: Sequence[RunningResource],
        on_accepted: Callable[[], None],
        metrics: Metrics,
        log: EventLog,
    ) -> None:
        self._service = service
        self._supply = supply
        self._after = tuple(after)
        self._on_accepted = on_accepted
        self._metrics = metrics
        self._log = log
        self._refused = TroubleLog(log, "registration failed; will retry", clock=time.monotonic)
        self._registrar = Registrar(service, watch, on_registered=self._registered, on_error=self._caught)
        self._looked = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    @property
    def service(self) -> ResourceService:
        return self._service

    @property
    def supply(self) -> Supply:
        return self._supply

    @property
    def registered(self) -> bool:
        """Whether the kubelet has accepted the present server, as far as can be seen."""
        return self._registrar.registered

    def start(self) -> None:
        self._tasks = (
            self._supervised("rescan", self._look),
            self._supervised("registration", self._register),
        )

    async def stop(self) -> None:
        """End the streams without an empty list and remove the socket."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _supervised(self, task: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        resource = self._service.resource
        return asyncio.create_task(
            supervise(task, run, log=self._log, restarted=self._metrics.restarted, resource=resource),
            name=f"{task} {resource}",
        )

    async def _look(self) -> None:
        if not self._looked.is_set():
            await self._turn()
            self._after = ()
        await self._supply.run(self._put)

    def _put(self, devices: tuple[Device, ...]) -> None:
        self._service.put(devices)
        self._looked.set()

    async def _turn(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_SECONDS):
                for earlier in self._after:
                    await earlier._looked.wait()  # noqa: SLF001 - the same class

    async def _register(self) -> None:
        await self._looked.wait()
        await self._registrar.run()

    def _registered(self, resource: ResourceName, accepted: bool, detail: str) -> None:  # noqa: FBT001
        result = RegistrationResult.ACCEPTED if accepted else RegistrationResult.FAILED
        self._metrics.registration(resource, result=result)
        if accepted:
            self._refused.ended()
            self._log.info("registered", resource=resource, endpoint=detail)
            self._on_accepted()
        else:
            # The same failure again, but for the socket's name, is not logged.
            self._refused.happened(_SOCKET_TOKEN.sub("", detail), resource=resource, reason=detail)

    def _caught(self, rpc: str, error: Exception) -> None:
        self._log.error("rpc failed", exc=None if isinstance(error, PeerError) else error,
                        resource=self._service.resource, rpc=rpc, reason=str(error))  # fmt: skip
        if rpc == _PREFERRED:
            self._metrics.fell_back(
                self._service.resource,
                strategy=self._service.settings.options.strategy,
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
