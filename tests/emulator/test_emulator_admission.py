"""What plugins are asked, and what pods get."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from numaplace.kubelet.emulator import Call, ContainerSpec, EmulatedNode, KubeletEmulator, Limits, PodSpec
from numaplace.model.device import ContainerEdits, DeviceNode, Mount
from numaplace.model.names import ResourceName
from smallplugin import GIB, VF, SmallPlugin, device

GPU = ResourceName("example.com/gpu")


def pod(name: str = "pod", size: int = 1, **more: object) -> PodSpec:
    return PodSpec("ns", name, (ContainerSpec("main", devices={VF: size}),), **more)  # type: ignore[arg-type]


async def test_calls_of_one_pod(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    plugin.prefer = lambda asked: ["b1", "b0"]
    admission = await kubelet.admit(pod(size=2))
    key = ("ns", "pod")
    asked = Call(
        method="GetPreferredAllocation",
        pod=key,
        container="main",
        resource=VF,
        available=("a0", "a1", "b0", "b1"),
        size=2,
        answer=("b1", "b0"),
    )
    told = Call(method="Allocate", pod=key, container="main", resource=VF, size=2, answer=("b0", "b1"))
    assert admission.calls == kubelet.calls == (asked, told)
    assert plugin.allocated == [{"ids": ["b0", "b1"]}]
    assert admission.edits == {
        "main": {
            VF: ContainerEdits(
                env={"DEVICES": "b0,b1"},
                device_nodes=(DeviceNode("/dev/a", "/dev/b", "rw"),),
                mounts=(Mount("/h", "/c", read_only=True),),
                cdi_devices=("example.com/vf=1",),
                annotations={"note": "yes"},
            )
        }
    }


async def test_lists_are_sent_in_varying_order(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    plugin.publish([device(f"d{n}", [0]) for n in range(12)])
    await kubelet.wait_registered(VF, count=12)
    for number in range(3):
        await kubelet.admit(pod(f"pod{number}"))
        await kubelet.remove(("ns", f"pod{number}"))
    orders = {tuple(asked.available_deviceIDs) for asked in plugin.preferred}
    assert len(orders) == 3
    assert len({tuple(sorted(order)) for order in orders}) == 1


@pytest.mark.parametrize(
    ("reply", "possible"),
    [
        (None, {"a0", "a1", "b0", "b1"}),
        ([], {"a0", "a1", "b0", "b1"}),
        (["ghost"], {"a0", "a1", "b0", "b1"}),
        (["b0"], {"a0", "a1", "b0", "b1"}),
        (["b0", "b1", "a1"], {"a1", "b0", "b1"}),
    ],
)
async def test_odd_replies_do_not_fail_the_pod(
    kubelet: KubeletEmulator, plugin: SmallPlugin, reply: Sequence[str] | None, possible: set[str]
) -> None:
    plugin.prefer = lambda asked: reply
    admission = await kubelet.admit(pod(size=2))
    got = set(admission.containers["main"][VF])
    assert admission.admitted
    assert len(got) == 2
    assert got <= possible
    assert got >= ({"b0"} if reply == ["b0"] else set())


async def test_without_a_preference_the_kubelet_chooses_at_random(root: Path, machine: EmulatedNode) -> None:
    chosen = set()
    for seed in range(6):
        async with KubeletEmulator(root, machine, seed=seed) as kubelet:
            plugin = SmallPlugin(
                kubelet.device_plugins_dir, VF, [device(f"d{n}") for n in range(8)], offers_preference=False
            )
            async with plugin:
                await plugin.register()
                await kubelet.wait_registered(VF)
                admission = await kubelet.admit(pod())
                assert [call.method for call in admission.calls] == ["Allocate"]
                chosen.add(admission.containers["main"][VF])
    assert len(chosen) > 1


async def test_an_error_fails_the_pod(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    plugin.during_preference = fail
    admission = await kubelet.admit(pod())
    assert (admission.admitted, admission.reason) == (False, "UnexpectedAdmissionError")
    assert admission.calls[-1].error == "UNKNOWN"
    plugin.during_preference = None
    assert (await kubelet.admit(pod())).admitted, "the name is free again"


async def test_an_allocate_error_fails_the_pod_and_frees_its_devices(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    plugin.allocate_status = grpc.StatusCode.INTERNAL
    failed = await kubelet.admit(pod(size=4))
    assert not failed.admitted
    assert failed.calls[-1].error == "INTERNAL"
    plugin.allocate_status = None
    assert (await kubelet.admit(pod("next", size=4))).admitted


async def test_an_allocate_answer_without_containers_fails_and_its_devices_stay_marked(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    plugin.allocate_responses = 0
    assert not (await kubelet.admit(pod(size=3))).admitted
    plugin.allocate_responses = 1
    assert not (await kubelet.admit(pod("next", size=2))).admitted
    assert (await kubelet.admit(pod("last", size=1))).admitted


async def test_a_plugin_that_never_answers_is_given_up(root: Path, machine: EmulatedNode) -> None:
    async with (
        KubeletEmulator(root, machine, limits=Limits(call_seconds=0.5)) as kubelet,
        SmallPlugin(kubelet.device_plugins_dir, VF, [device("d0")]) as plugin,
    ):
        await plugin.register()
        await kubelet.wait_registered(VF)
        plugin.during_preference = asyncio.Event().wait
        admission = await kubelet.admit(pod())
    assert admission.calls[-1].error == "DEADLINE_EXCEEDED"


async def test_a_plugin_that_goes_during_the_call_fails_the_pod(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    async def leave() -> None:
        plugin.end_streams()
        await asyncio.Event().wait()

    plugin.during_preference = leave
    admission = await kubelet.admit(pod())
    assert admission.reason == "UnexpectedAdmissionError"
    assert admission.calls[-1].error


async def test_a_mask_narrows_what_is_offered(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    one = await kubelet.admit(pod("one", 1), affinity=0b10)
    assert one.calls[0].available == ("b0", "b1")
    left = await kubelet.admit(pod("left", 1), affinity={"main": 0b10})
    assert [call.method for call in left.calls] == ["Allocate"]
    over = await kubelet.admit(pod("over", 1), affinity={"other": 0b10})
    assert over.calls[0].available == ("a0", "a1")


async def test_init_containers_lend_their_devices_and_sidecars_do_not(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    spec = pod(
        size=2,
        init_containers=(
            ContainerSpec("side", devices={VF: 1}, restart_policy="Always"),
            ContainerSpec("init", devices={VF: 2}),
        ),
    )
    admission = await kubelet.admit(spec)
    got = admission.containers
    assert got["main"] == got["init"]
    assert set(got["side"][VF]).isdisjoint(got["main"][VF])
    assert [(call.container, call.method) for call in admission.calls] == [
        ("side", "GetPreferredAllocation"),
        ("side", "Allocate"),
        ("init", "GetPreferredAllocation"),
        ("init", "Allocate"),
        ("main", "Allocate"),
    ]


async def test_removed_and_finished_pods_give_their_devices_back(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    first, second = pod("first", 4), pod("second", 4)
    await kubelet.admit(first)
    assert not (await kubelet.admit(pod("none", 1))).admitted
    await kubelet.remove(first)
    assert (await kubelet.admit(second)).admitted
    await kubelet.finish(second)
    assert (await kubelet.admit(first)).admitted


async def test_resources_are_walked_at_random_or_in_the_given_order(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    gpu = SmallPlugin(kubelet.device_plugins_dir, GPU, [device(f"g{n}") for n in range(9)], endpoint="g.sock")
    async with gpu:
        await gpu.register()
        await kubelet.wait_registered(GPU)
        seen = set()
        for number in range(8):
            spec = PodSpec("ns", f"p{number}", (ContainerSpec("main", devices={VF: 1, GPU: 1}),))
            calls = (await kubelet.admit(spec)).calls
            seen.add(calls[0].resource)
            await kubelet.remove(spec)
        assert seen == {VF, GPU}
        spec = PodSpec("ns", "ordered", (ContainerSpec("main", devices={VF: 1, GPU: 1}),))
        calls = (await kubelet.admit(spec, resource_order=(GPU, VF))).calls
        assert [call.resource for call in calls] == [GPU, GPU, VF, VF]


async def test_cpus_and_memory_ignore_the_devices_without_a_mask(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    plugin.prefer = lambda asked: ["b0"]
    main = ContainerSpec("main", devices={VF: 1}, cpus=2, memory_bytes=GIB)
    admission = await kubelet.admit(PodSpec("ns", "pod", (main,)))
    assert admission.containers["main"][VF] == ("b0",)
    assert admission.cpus["main"] == {1, 2}
    assert admission.memory["main"][0].nodes == (0,)


async def test_cpus_and_memory_follow_a_mask_and_run_out(
    kubelet: KubeletEmulator, plugin: SmallPlugin
) -> None:
    main = ContainerSpec("main", cpus=2, memory_bytes=3 * GIB)
    inside = await kubelet.admit(PodSpec("ns", "inside", (main,)), affinity=0b10)
    assert inside.cpus["main"] == {4, 5}
    assert inside.memory["main"][0].nodes == (1,)
    wide = ContainerSpec("main", memory_bytes=5 * GIB)
    over = await kubelet.admit(PodSpec("ns", "over", (wide,)))
    assert over.memory["main"][0].nodes == (0, 1)
    greedy = ContainerSpec("main", cpus=6)
    refused = await kubelet.admit(PodSpec("ns", "greedy", (greedy,)))
    assert refused.reason == "UnexpectedAdmissionError"
    assert "CPUs" in refused.message


async def test_admissions_are_serial(kubelet: KubeletEmulator, plugin: SmallPlugin) -> None:
    async with asyncio.TaskGroup() as tasks:
        admissions = [tasks.create_task(kubelet.admit(pod(f"p{n}"))) for n in range(4)]
    got = [task.result().containers["main"][VF] for task in admissions]
    assert len(set(got)) == 4
    assert [call.method for call in kubelet.calls] == ["GetPreferredAllocation", "Allocate"] * 4


async def test_two_active_pods_of_one_name_are_refused(kubelet: KubeletEmulator) -> None:
    await kubelet.admit(pod())
    with pytest.raises(ValueError, match="ns/pod"):
        await kubelet.admit(pod())
