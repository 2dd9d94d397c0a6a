"""A stock Topology Manager that follows the strategy, because of what ListAndWatch publishes."""

from __future__ import annotations

import pytest
from daemon_site import GPU
from steering_site import home, placed, steered, steering_site


@pytest.fixture
async def site(root):
    made = steering_site(root)
    async with made.kubelet:
        yield made


async def test_a_burst_is_spread_with_cpus_and_memory(site):
    async with steered(site) as served:
        homes = [home(site, await placed(site, f"p{number}", {GPU: 1})) for number in range(6)]
        assert homes == [{0}, {1}] * 3
        assert not served.log.troubles


async def test_without_steering_the_lowest_node_fills_first(site):
    async with steered(site, steering={"mode": "off"}) as served:
        homes = [home(site, await placed(site, f"p{number}", {GPU: 1})) for number in range(3)]
        assert homes == [{0}] * 3
        assert served.node.steering_status() is None
