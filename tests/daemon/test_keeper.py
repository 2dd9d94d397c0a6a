"""What the daemon knows of the node, by the Lists that it has seen."""

from __future__ import annotations

import time
from itertools import permutations

from daemon_site import NODES
from numaplace.daemon.keeper import Keeper
from numaplace.kubelet.poller import Observation
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, DeviceBlock
from numaplace.model.topology import NumaTopology


def test_views_of_the_node_differ_with_what_pods_can_be_given():
    """However short-lived the answers of the kubelet were."""
    keeper = Keeper(NumaTopology(NODES), clock=time.monotonic)
    views = []
    for number in range(30):
        block = DeviceBlock(ResourceName("vendor.com/x"), (DeviceId(f"x{number}"),), (0,))
        keeper.observed(Observation((), Allocatable(devices=(block,)), time.monotonic()))
        views.append(keeper.view)
    assert all(one != other for one, other in permutations(views, 2))
