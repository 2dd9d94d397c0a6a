"""Puts steering together for one node."""

from __future__ import annotations

from numaplace.config.schema import Config
from numaplace.daemon.cluster.part import ClusterPart
from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.controller import SteeringController
from numaplace.daemon.steering.kubelet_probe import KubeletOfNode
from numaplace.daemon.steering.settings import Settings
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.kubelet.checkpoint import Checkpoint


def make_steering(
    config: Config, context: SteeringContext, *, cluster: ClusterPart | None, breaker: BreakerBox
) -> SteeringController:
    """Return the steering of a node; ``config`` is the one with the node's sockets and host roots."""
    controller = SteeringController(
        context,
        Settings.of(config),
        kubelet=KubeletOfNode(config, cluster, context.state.topology),
        checkpoint=Checkpoint(config.kubelet.device_plugin_directory),
        breaker=breaker,
    )
    if cluster is not None:
        cluster.notify(on_change=controller.pods_changed, on_refused=controller.pod_refused)
    return controller
