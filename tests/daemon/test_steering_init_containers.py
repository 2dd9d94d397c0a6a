"""Init containers, which List does not show, under steering: what they hold goes on to the next container."""

from __future__ import annotations

import pytest
from daemon_site import GPU, VF, until
from numaplace.cluster.fake import FakeApiServer
from numaplace.daemon.steering.times import Times
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator import NO_FAULTS, ContainerSpec, Faults, PodSpec
from numaplace.managers.admission import Scope
from numaplace.state.ledger import GRANT_GRACE_SECONDS
from steering_site import GIB, hidden, home, placed, quiet, quiet_lists, steered, steering, steering_site
from test_daemon_cluster import NODE, env_of
from test_daemon_steering_trouble import write_checkpoint


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


async def kept_by_an_init_container(site, *, faults=NO_FAULTS):
    """Admit a pod whose init container has three GPUs of NUMA node 1, of which its app takes over none."""
    await placed(site, "big", {GPU: 4}, cpus=1, gib=1)
    app, init = container("main", {}, cpus=0, gib=0), container("init", {GPU: 3}, cpus=0, gib=0)
    site.kubelet.faults = faults
    made = await site.kubelet.admit(PodSpec("default", "i", (app,), (init,)))
    site.kubelet.faults = NO_FAULTS
    held = made.containers["init"][GPU]
    assert {site.truth[one] for one in held} == {1}
    await site.kubelet.remove(("default", "big"))
    write_checkpoint(site, *held)


def whys(served):
    return [one.what for one in served.node.steering_status().decision.refusals]


ONE_GPU = {"requests": [{GPU: 1, "cpu": 1, "memory": "1Gi"}]}


async def test_devices_that_init_containers_keep_are_not_free_after_a_daemon_restart(root):
    site = steering_site(root)
    async with site.kubelet:
        async with steered(site, steering={"mode": "off"}):
            await kept_by_an_init_container(site)
        async with site.serving(**steering(site, steering=ONE_GPU)) as served:
            await site.registered()
            await served.listed(2)
            served.clock.skip(Times().restart_seconds)
            await served.listed(2)
            made = [await placed(site, f"p{number}", {GPU: 1}, cpus=1, gib=1) for number in range(5)]
            assert [one.admitted for one in made] == [True] * 5
            await quiet_lists(served)
            (refusal,) = served.node.steering_status().decision.refusals
            assert refusal.what == f"the kubelet may hold 3 {GPU} for a container that List does not show"
            for name in ("i", "p0", "p1"):
                await site.kubelet.remove(("default", name))
            write_checkpoint(site)
            await until(lambda: hidden(site, GPU) == {0})


async def test_devices_that_init_containers_keep_are_not_free_when_their_grant_is_forgotten(root):
    site = steering_site(root)
    async with site.kubelet, steered(site, steering=ONE_GPU) as served:
        # Without a List it is not known whose the grant is.
        await kept_by_an_init_container(site, faults=Faults(errors={"List": "UNAVAILABLE"}))
        served.clock.skip(GRANT_GRACE_SECONDS)
        await quiet_lists(served)
        made = [await placed(site, f"p{number}", {GPU: 1}, cpus=1, gib=1) for number in range(5)]
        assert [one.admitted for one in made] == [True] * 5


async def test_an_init_container_that_takes_cpus_before_its_app_asks_for_devices(root):
    """The app has to be where these CPUs are; with pods of that kind around nothing is withheld."""
    site = steering_site(root)
    api = FakeApiServer()
    with api.serving():
        async with site.kubelet, steered(site, env=env_of(site, api), steering=ONE_GPU) as served:
            await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)
            for number in range(4):
                name = f"p{number}"
                limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
                api.put(
                    {
                        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
                        "spec": {
                            "nodeName": NODE,
                            "initContainers": [{"name": "init", "resources": limits}],
                            "containers": [
                                {"name": "main", "resources": {"limits": {**limits["limits"], GPU: "1"}}}
                            ],
                        },
                    }
                )
                await until(lambda name=name: served.knows(name))
                app, init = container("main", {GPU: 1}, cpus=1, gib=1), container("init", {}, cpus=1, gib=1)
                made = await site.kubelet.admit(PodSpec("default", name, (app,), (init,)))
                assert made.admitted, made.reason
            await quiet_lists(served)
            (refusal,) = served.node.steering_status().decision.refusals
            assert refusal.what.startswith("an init container of pods like default/p")
            assert hidden(site, GPU) == set()
