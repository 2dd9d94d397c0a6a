"""``numaplace inspect``: what is allocated on which NUMA node, read live from the kubelet."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path

from numaplace.cli.console import Console, add_output_option, command_parser
from numaplace.cli.report import as_document, as_tables
from numaplace.cli.steering import Nodes, own_nodes, placed_allocatable, placed_pods
from numaplace.config.load import load_config
from numaplace.config.schema import Config
from numaplace.config.settings import CONFIG_FILE_ENV
from numaplace.devices.host import read_topology
from numaplace.doctor.pages import look_at_steering, url_of
from numaplace.doctor.steering_page import SteeringFact
from numaplace.errors import InputError, PeerError
from numaplace.kubelet.podresources.client import connect
from numaplace.model.names import ResourceName
from numaplace.state.snapshot import Snapshot, build_snapshot

TIMEOUT_SECONDS = 10.0
DAEMON_SECONDS = 3.0
_SCHEMES = ("unix:", "fake:")


def parser() -> ArgumentParser:
    made = command_parser(
        "inspect",
        "Shows the NUMA nodes with each resource's allocatable and allocated amounts, score and\n"
        "largest request that still fits one node; and what each container holds. Reads the\n"
        "kubelet's PodResources API: run it on the node as root, or in the daemon's pod.",
        epilog="example: numaplace inspect -o json | jq '.resources[] | {name, largestSingleNodeFit}'",
    )
    default = Config()
    made.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the daemon's configuration file, for the paths of the socket and /sys; also "
        f"{CONFIG_FILE_ENV} (default: none)",
    )
    made.add_argument(
        "--socket",
        metavar="PATH",
        help="the kubelet's PodResources socket, or fake:DIR with recorded replies (default: "
        f"kubelet.podResourcesSocket, {default.kubelet.pod_resources_socket})",
    )
    made.add_argument(
        "--sysfs",
        metavar="DIR",
        type=Path,
        help=f"where the host's /sys is mounted (default: host.sysfs, {default.host.sysfs})",
    )
    made.add_argument(
        "--daemon",
        metavar="URL",
        help="the daemon's pages, for what steering withholds, or none (default: http.address on this "
        "machine; none with --socket)",
    )
    add_output_option(made)
    return made


def main(argv: Sequence[str], console: Console) -> int:
    """Print the node's state; return the exit code. ``InputError`` when the configuration is refused."""
    arguments = parser().parse_args(argv)
    config = load_config(console.config_file(arguments.config), env=console.env, flags={}).config
    address = address_of(arguments.socket or str(config.kubelet.pod_resources_socket))
    steering = steering_of(arguments.daemon, config, elsewhere=arguments.socket is not None)
    sysfs = arguments.sysfs or config.host.sysfs
    snapshot = asyncio.run(take_snapshot(address, sysfs=sysfs, nodes=own_nodes(steering)))
    if arguments.output == "json":
        console.say_json(as_document(snapshot, steering))
    else:
        console.say(as_tables(snapshot, steering, colour=console.colour))
    return 0


def steering_of(given: str | None, config: Config, *, elsewhere: bool) -> SteeringFact | None:
    """Return the daemon's page ``/steering``; ``InputError`` if the daemon that was named has none."""
    if given is not None and given != "none":
        found = look_at_steering(given.rstrip("/"), timeout_seconds=DAEMON_SECONDS)
        if found is None:
            raise InputError(f"--daemon {given}: no numaplace daemon with a page /steering answers there")
        return found
    listen = config.http.listen
    if given is not None or elsewhere or listen is None:
        return None
    return look_at_steering(url_of(listen), timeout_seconds=DAEMON_SECONDS)


def address_of(text: str) -> str:
    """Return the PodResources address of ``--socket``; ``InputError`` when there is no such socket."""
    address = text if text.startswith(_SCHEMES) else f"unix:{text}"
    path = Path(address.partition(":")[2])
    try:
        there = path.exists()
    except OSError as error:
        raise InputError(f"--socket {text}: {error.strerror}") from error
    if not there:
        raise InputError(
            f"--socket {text}: does not exist. Run this on a Kubernetes node (as root) or in the "
            "daemon's pod, or name the kubelet's PodResources socket with --socket"
        )
    return address


async def take_snapshot(
    address: str, *, sysfs: Path, nodes: Mapping[ResourceName, Nodes] | None = None
) -> Snapshot:
    """Return the node's allocation state now; ``PeerError`` when the kubelet does not answer.

    ``nodes`` are the NUMA nodes of devices that the kubelet may show without topology.
    """
    client = connect(address, observe=lambda _method, _code: None)
    try:
        allocatable = await client.allocatable(timeout_seconds=TIMEOUT_SECONDS)
        pods = await client.list(timeout_seconds=TIMEOUT_SECONDS)
    except PeerError as error:
        advice = "is the kubelet running, and may this user open its socket (root may)?"
        raise PeerError(f"{error} ({error.code}): {advice}", code=error.code) from error
    finally:
        await client.close()
    return build_snapshot(
        topology=read_topology(sysfs),
        allocatable=placed_allocatable(allocatable, nodes or {}),
        pods=placed_pods(pods, nodes or {}),
        devices={},
        taken_at_seconds=time.monotonic(),
    )
