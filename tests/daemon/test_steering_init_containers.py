"""Init containers, which List does not show, under steering: what they hold goes on to the next container."""

from __future__ import annotations

import pytest
from daemon_site import GPU, VF
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator import ContainerSpec, PodSpec
from numaplace.managers.admission import Scope
from steering_site import GIB, home, placed, quiet, steered, steering_site


def container(name, devices, *, cpus=2, gib=2):
    return ContainerSpec(name, devices, cpus=cpus, memory_bytes=gib * GIB)


@pytest.mark.parametrize("policy", [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED])
@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("sizes", [[2], [1, 2]])
async def test_an_init_container_with_fewer_devices_than_its_app(root, policy, scope, sizes):
    """The app's container has to take the init container's device, and more beside it."""
    site = steering_site(root, policy=policy, scope=scope)
    requests = [{GPU: size, "cpu": 2, "memory": "2Gi"} for size in sizes]
    mode = "auto" if len(sizes) == 1 else "always"
    async with site.kubelet, steered(site, steering={"mode": mode, "requests": requests}):
        made = await site.kubelet.admit(
            PodSpec("default", "p", (container("main", {GPU: 2}),), (container("init", {GPU: 1}),))
        )
        assert made.admitted, made.reason
        assert len(home(site, made)) == 1


async def test_an_app_that_asks_for_another_resource_beside_its_init_containers(root):
    """Its GPU has to be where the init container's VFs are: they are handed on."""
    site = steering_site(root)
    requests = [{VF: 1, GPU: 1, "cpu": 1, "memory": "1Gi"}]
    async with site.kubelet, steered(site, steering={"requests": requests}) as served:
        await placed(site, "first", {VF: 1, GPU: 1}, cpus=1, gib=1)
        await quiet(served)
        for number in range(2):
            app = container("main", {VF: 1, GPU: 1}, cpus=1, gib=1)
            made = await site.kubelet.admit(
                PodSpec("default", f"p{number}", (app,), (container("init", {VF: 2}, cpus=1, gib=1),))
            )
            assert made.admitted, made.reason
            assert len(home(site, made)) == 1
