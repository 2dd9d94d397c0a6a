"""Registering, and staying registered."""

from __future__ import annotations

import asyncio

from kubelet_side import KubeletSide, eventually
from numaplace.kubelet.plugin.registration import RegistrationTimes
from plugin_handlers import RESOURCE, Handler
from registrar_site import Plugin, running, settled


async def test_it_serves_first_and_registers_with_the_same_options(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        request = kubelet.last.request
        assert (request.version, request.resource_name) == ("v1beta1", RESOURCE)
        assert request.endpoint.startswith("numaplace-")
        assert "/" not in request.endpoint
        assert request.options == kubelet.last.options
        assert request.options.get_preferred_allocation_available
        assert kubelet.last.lists == [["d0", "d1"]]
        assert plugin.told == [(RESOURCE, True, request.endpoint)]
        assert plugin.registrar.registrations == 1


async def test_two_resources_share_a_watch_and_have_their_own_sockets(short_dir, kubelet):
    one, two = Plugin(short_dir), Plugin(short_dir, Handler("x", resource="example.com/other"))
    async with running(one), running(two):
        await eventually(lambda: len(kubelet.accepted) == 2)
        assert len({one.endpoint for one in kubelet.accepted}) == 2


async def test_a_restarted_kubelet_gets_a_new_socket_name_and_the_present_list(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        for number in range(1, 6):
            await settled(kubelet, plugin, registrations=number)
            await kubelet.stop()
            plugin.handler.publish(f"after-{number}")
            await kubelet.start()
        await settled(kubelet, plugin, registrations=6)
        assert kubelet.last.lists[0] == ["after-5"]
        endpoints = [one.endpoint for one in kubelet.accepted]
        assert len(set(endpoints)) == len(endpoints)


async def test_a_kubelet_that_replaces_only_its_own_socket_is_noticed(short_dir, kubelet):
    plugin = Plugin(short_dir)
    other = KubeletSide(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        await other.start(clean=False)
        await settled(other, plugin, registrations=1)
        await eventually(lambda: kubelet.last.stream_ended)
        assert [] not in kubelet.last.lists
    await other.stop()


async def test_a_late_notice_about_the_same_kubelet_is_no_restart(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        for _ in range(20):
            plugin.watch.notify()
            (short_dir / "kubelet.sock").chmod(0o700)
            await asyncio.sleep(0)
        (short_dir / "noise.sock").touch()
        plugin.handler.publish("still the first stream")
        await eventually(lambda: ["still the first stream"] in kubelet.last.lists)
        assert kubelet.attempts == 1


async def test_a_deleted_own_socket_is_served_anew_and_the_old_stream_ends_after(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        first = kubelet.last
        (short_dir / first.endpoint).unlink()
        await settled(kubelet, plugin, registrations=2)
        await eventually(lambda: first.stream_ended)
        assert [] not in first.lists


async def test_an_old_kubelet_that_confuses_two_servers_of_a_resource_ends_with_one(short_dir, kubelet):
    kubelet.confuses_servers = True
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        (short_dir / kubelet.last.endpoint).unlink()
        await settled(kubelet, plugin, registrations=3)
        plugin.handler.publish("kept")
        await eventually(lambda: ["kept"] in kubelet.last.lists)
        assert kubelet.attempts == 3


async def test_a_stream_that_the_kubelet_ends_leads_to_a_new_registration(short_dir, kubelet):
    plugin = Plugin(short_dir)
    async with running(plugin):
        await settled(kubelet, plugin, registrations=1)
        await kubelet.drop_streams()
        await settled(kubelet, plugin, registrations=2)


async def test_a_kubelet_that_never_opens_its_stream_is_asked_again(short_dir, kubelet):
    kubelet.abandon_streams = True
    plugin = Plugin(short_dir, times=RegistrationTimes(first_retry_seconds=0.01, stream_start_seconds=0.1))
    async with running(plugin):
        await eventually(lambda: len(kubelet.accepted) >= 2)
        kubelet.abandon_streams = False
        await eventually(lambda: kubelet.last.lists)
