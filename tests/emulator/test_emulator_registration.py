"""Plugins come, publish, go and come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from grpc import aio
from numaplace.errors import InputError
from numaplace.kubelet.emulator import ContainerSpec, EmulatedNode, KubeletEmulator, Limits, PodSpec
from smallplugin import VF, SmallPlugin, device

POD = PodSpec("ns", "pod", (ContainerSpec("main", devices={VF: 1}),))


async def test_registered_plugin_publishes_its_devices(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    assert kubelet.allocatable(VF) == {"a0", "a1", "b0", "b1"}
    (endpoint,) = kubelet.endpoints
    assert endpoint.resource == VF
    assert endpoint.primary
    assert endpoint.preferred_allocation


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "v1alpha1"}, "v1alpha1"),
        ({"resource": "vf"}, "extended resource"),
        ({"resource": "kubernetes.io/vf"}, "extended resource"),
        ({"resource": "requests.example.com/vf"}, "extended resource"),
        ({"resource": "example.com/v f"}, "extended resource"),
        ({"resource": "example.com/" + "v" * 64}, "extended resource"),
        ({"endpoint": "x" * 120}, "107"),
    ],
)
async def test_bad_registrations_are_refused(
    kubelet: KubeletEmulator, change: dict[str, str], message: str
) -> None:
    async with SmallPlugin(kubelet.device_plugins_dir, VF, []) as small:
        with pytest.raises(aio.AioRpcError, match=message) as failure:
            await small.register(**change)
    assert failure.value.code().name == "UNKNOWN"
    assert message in kubelet.registrations[0].problem
    assert kubelet.endpoints == ()


async def test_nobody_at_the_endpoint(root: Path, machine: EmulatedNode) -> None:
    async with KubeletEmulator(root, machine, limits=Limits(dial_seconds=0.2)) as kubelet:
        small = SmallPlugin(kubelet.device_plugins_dir, VF, [])
        with pytest.raises(aio.AioRpcError, match="nothing serves"):
            await small.register()


async def test_a_second_registration_at_the_same_socket_is_refused(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    with pytest.raises(aio.AioRpcError, match="already connected"):
        await plugin.register()
    assert len(kubelet.endpoints) == 1


async def test_after_a_refused_second_registration_the_end_of_the_stream_is_overlooked(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    with pytest.raises(aio.AioRpcError, match="already connected"):
        await plugin.register()
    await plugin.end_streams_and_wait()
    with pytest.raises(aio.AioRpcError, match="already connected"):
        await plugin.register()
    assert len(kubelet.allocatable(VF)) == 4
    assert (await kubelet.admit(POD)).admitted
    await kubelet.restart()
    assert kubelet.endpoints == ()


async def test_new_plugin_takes_over_and_the_old_one_leaves(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    newer = SmallPlugin(kubelet.device_plugins_dir, VF, [device("c0", [0])], endpoint="newer.sock")
    async with newer:
        await newer.register()
        await kubelet.wait_registered(VF, count=1)
        plugin.end_streams()
        await kubelet.wait_until(lambda: len(kubelet.endpoints) == 1)
        assert kubelet.allocatable(VF) == {"c0"}
        admission = await kubelet.admit(POD)
        assert admission.containers == {"main": {VF: ("c0",)}}
        assert len(newer.preferred) == 1
        assert plugin.preferred == []


async def test_the_end_of_the_stream_makes_devices_unhealthy_and_keeps_the_resource(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    plugin.end_streams()
    await kubelet.wait_until(lambda: not kubelet.allocatable(VF))
    assert kubelet.endpoints == ()
    admission = await kubelet.admit(POD)
    assert (admission.admitted, admission.reason) == (False, "UnexpectedAdmissionError")
    assert "healthy" in admission.message
    await plugin.register()
    await kubelet.wait_registered(VF, count=4)
    assert (await kubelet.admit(POD)).admitted


async def test_changes_of_the_list_are_followed(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    plugin.publish([device("a0", [0], health="Unhealthy"), device("a1", [0])])
    await kubelet.wait_registered(VF, count=1)
    assert kubelet.allocatable(VF) == {"a1"}


async def test_an_oversized_list_ends_the_stream(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    plugin.publish([device(f"{n:05}" + "x" * 58, [0]) for n in range(70_000)])
    await kubelet.wait_until(lambda: not kubelet.endpoints)
    assert kubelet.allocatable(VF) == frozenset()


async def test_a_pod_of_a_resource_nobody_registered_gets_nothing(kubelet: KubeletEmulator) -> None:
    admission = await kubelet.admit(POD)
    assert admission.admitted
    assert admission.containers == {"main": {}}
    assert admission.calls == ()


async def test_restart_deletes_sockets_and_keeps_pods(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    kept = (kubelet.device_plugins_dir / "folder", kubelet.device_plugins_dir / "file")
    kept[0].mkdir()
    kept[1].touch()
    before = await kubelet.admit(POD)
    calls = kubelet.calls
    await kubelet.restart()
    assert not (kubelet.device_plugins_dir / plugin.endpoint).exists()
    assert all(path.exists() for path in kept)
    assert kubelet.allocatable(VF) == frozenset()
    assert kubelet.endpoints == ()
    assert not (await kubelet.admit(PodSpec("ns", "early", POD.containers))).admitted
    again = SmallPlugin(kubelet.device_plugins_dir, VF, plugin.devices, endpoint="again.sock")
    async with again:
        await again.register()
        await kubelet.wait_registered(VF, count=4)
        assert kubelet.calls == calls
        assert kubelet.containers(POD) == {"main": {VF: set(before.containers["main"][VF])}}
        later = await kubelet.admit(PodSpec("ns", "later", POD.containers))
        assert set(before.containers["main"][VF]).isdisjoint(later.calls[0].available)


async def test_stopped_kubelet_serves_nobody_until_it_starts(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    await kubelet.stop()
    with pytest.raises(aio.AioRpcError):
        await plugin.register()
    await kubelet.start()
    assert (kubelet.device_plugins_dir / "kubelet.sock").is_socket()
    assert kubelet.pod_resources_socket.is_socket()


async def test_waiting_tells_what_there_was(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    with pytest.raises(TimeoutError, match=re.escape("{'example.com/vf': 4}")):
        await kubelet.wait_registered(VF, count=9, timeout_seconds=0.05)


def test_a_long_root_is_refused(machine: EmulatedNode) -> None:
    with pytest.raises(InputError, match="shorter"):
        KubeletEmulator(Path("/tmp") / ("x" * 100), machine)
