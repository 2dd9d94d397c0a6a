"""The configuration of this node's kubelet: its file, or configz through the API server."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from numaplace.config.schema import Config
from numaplace.daemon.cluster.part import ClusterPart
from numaplace.daemon.steering.context import SteeringContext
from numaplace.devices.cpu_topology import read_cpu_topology
from numaplace.errors import PeerError
from numaplace.kubelet.config.model import KnownKubelet, steering_node
from numaplace.kubelet.config.read import look_at_kubelet, settings_of
from numaplace.kubelet.plugin.watch import KUBELET_SOCKET
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.model.names import ResourceName
from numaplace.model.pacing import Backoff
from numaplace.model.podresources import Allocatable, MemoryBlock
from numaplace.model.topology import NumaTopology
from numaplace.prediction.model import KubeletModel
from numaplace.threads import in_thread

LOOKUP_SECONDS = 30.0
"""Files that hang, and a node's CPUs, count as not known after this time."""

CONFIGZ_SECONDS = 10.0
NOT_ASKED = KnownKubelet(problem="it has not been read yet")

_REFUSED = ("401", "403")

_Basis = tuple[int, frozenset[int], tuple[MemoryBlock, ...], frozenset[ResourceName]]


class KubeletSource(Protocol):
    """Where a kubelet's configuration is found."""

    async def find(self) -> KnownKubelet: ...

    def model(
        self, known: KnownKubelet, allocatable: Allocatable, steerable: frozenset[ResourceName]
    ) -> KubeletModel: ...


class KubeletProbe:
    """Reads the configuration, and keeps it until another kubelet may have started."""

    def __init__(self, source: KubeletSource, context: SteeringContext) -> None:
        self._source = source
        self._context = context
        self._times = context.times
        self._asked_at: float | None = None
        self._generation = 0
        self._backoff = Backoff(
            first_seconds=self._times.lookup_first_seconds, longest_seconds=self._times.lookup_retry_seconds
        )
        self._retry_seconds: float | None = None
        self._model: tuple[_Basis, KubeletModel] | None = None
        self.known = NOT_ASKED

    def kubelet_lost(self) -> None:
        self._asked_at = None
        self._generation += 1
        self.known = NOT_ASKED

    @property
    def due_seconds(self) -> float | None:
        if self._asked_at is None:
            return self._context.clock()
        if self.known.settings is not None:
            return None
        times = self._times
        if self._retry_seconds is not None:
            return self._asked_at + self._retry_seconds
        return self._asked_at + (
            times.lookup_retry_seconds if self.known.passing else times.lookup_refused_seconds
        )

    async def ask(self) -> None:
        """Read the configuration, if it is time. An exception is reported; nothing is known then."""
        due = self.due_seconds
        if due is None or due > self._context.clock():
            return
        generation = self._generation
        self._asked_at = self._context.clock()
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                known, failed = await self._source.find(), False
            self._context.report.looked_up()
        except Exception as exc:  # noqa: BLE001 - whatever it is, nothing is withheld until it is known
            known, failed = KnownKubelet(problem=f"it could not be read: {exc!r}"), True
            self._context.report.lookup_failed(exc)
        if generation == self._generation:
            self.known = known
            self._retry_seconds = self._backoff.pause() if failed else None
            if not failed:
                self._backoff.reset()
            self._generation += 1

    @property
    def model(self) -> KubeletModel:
        """The kubelet by what is known now; an equal one is the same object."""
        allocatable, steerable = self._context.allocatable, frozenset(self._context.resources())
        # What is shown of devices changes with each withheld set, and is no part of the model.
        basis = (self._generation, allocatable.cpus, allocatable.memory, steerable)
        if self._model is None or self._model[0] != basis:
            model = self._source.model(self.known, allocatable, steerable)
            if self._model is not None and self._model[1] == model:
                model = self._model[1]
            self._model = (basis, model)
        return self._model[1]


class KubeletOfNode:
    """Finds the kubelet's configuration, and the CPUs that it sees, as ``config`` says."""

    def __init__(self, config: Config, cluster: ClusterPart | None, topology: NumaTopology) -> None:
        self._config = config
        self._cluster = cluster
        self._topology = topology
        self._cpus: CpuTopology | None = None

    async def find(self) -> KnownKubelet:
        host = self._config.host
        self._cpus = await in_thread(
            partial(read_cpu_topology, host.sysfs, procfs=host.procfs), name="CPU topology"
        )
        return await find_kubelet(self._config, self._cluster)

    def model(
        self, known: KnownKubelet, allocatable: Allocatable, steerable: frozenset[ResourceName]
    ) -> KubeletModel:
        return steering_node(
            known,
            allocatable=allocatable,
            topology=self._topology,
            cpu_topology=self._cpus,
            steerable=steerable,
        )


async def find_kubelet(config: Config, cluster: ClusterPart | None) -> KnownKubelet:
    """Return what ``kubelet.configFile`` says, or else the node's configz.

    A kubelet reads its configuration when it starts: ask again after each restart. A file that was changed
    since then does not apply to the running one.
    """
    problem = "kubelet.configFile is not set"
    if config.kubelet.config_file is not None:
        look = partial(
            look_at_kubelet,
            file=config.kubelet.config_file,
            folder=None,
            procfs=config.host.procfs,
            socket=config.kubelet.device_plugin_directory / KUBELET_SOCKET,
        )
        fact = await in_thread(look, name="kubelet configuration")
        if fact.settings is not None and not fact.changed:
            return KnownKubelet(fact.settings, f"file {', '.join(fact.sources)}")
        problem = fact.problem or f"{fact.changed} was changed after the kubelet's start"
    if cluster is None:
        return KnownKubelet(problem=f"{problem}, and the API server is not used")
    try:
        async with asyncio.timeout(CONFIGZ_SECONDS):
            document = await cluster.configz()
    except PeerError as error:
        return KnownKubelet(problem=f"{problem}; {_unanswered(error)}", passing=error.code not in _REFUSED)
    except TimeoutError:
        what = f"no answer from the node's configz within {CONFIGZ_SECONDS:.0f} s"
        return KnownKubelet(problem=f"{problem}; {what}", passing=True)
    return KnownKubelet(settings_of(document), f"configz of node {cluster.node_name}")


def _unanswered(error: PeerError) -> str:
    if error.code in _REFUSED:
        return (
            f"the API server does not let the daemon read the node's configz ({error.code}): "
            "set kubelet.configFile, or allow get of nodes/proxy"
        )
    return f"the node's configz cannot be read ({error})"
