from typing import Any

import pytest
from device_cases import cases
from numaplace.model.device import combine

PF = "0000:3b:00.0"


@pytest.mark.parametrize("case", cases("sriov_allocate.yaml"))
def test_a_container_gets_what_the_existing_device_plugin_gives(case: Any, host: Any, source: Any) -> None:
    host.pf(PF, "ens1f0", **case["pf"])
    for name in case.get("dev", ()):
        host.node(name)
    scan = source("sriov", resource=case["resource"], **case.get("spec", {})).scan()
    by_id = {device.id: device for device in scan.devices}
    edits = combine(by_id[host.vf(PF, index)].edits for index in case["take"])
    assert edits.env == case["env"]
    assert edits.env_json == case["info"]
    assert list(next(iter(edits.env_json.values()))) == list(next(iter(case["info"].values())))
    assert [[node.host_path, node.container_path] for node in edits.device_nodes] == case["nodes"]
    assert {node.permissions for node in edits.device_nodes} <= {"rw"}
    assert not edits.mounts
    assert not edits.cdi_devices
    assert not edits.annotations


@pytest.mark.parametrize(
    ("there", "missing", "named"),
    [("vhost-net", "/dev/net/tun", True), ("net/tun", "/dev/vhost-net", False)],
)
def test_vhost_nodes_that_the_host_lacks_are_not_given_and_are_warned_of(
    host: Any, source: Any, there: str, missing: str, named: bool
) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    host.node(there)
    scan = source("sriov", vhost_net=True).scan()
    (edits,) = (device.edits for device in scan.devices)
    assert edits.device_nodes == ()
    ((info,),) = (by_address.values() for by_address in edits.env_json.values())
    assert ("vhost" in info) is named, "the existing plugin leaves it out without /dev/vhost-net"
    assert len(scan.warnings) == 1
    assert f"sriov.vhostNet: {missing} is missing" in scan.warnings[0]
