from typing import Any

import pytest
from device_cases import cases
from numaplace.devices.fake import INFINIBAND


def build_host(host: Any) -> None:
    host.pf("0000:3b:00.0", "ens1f0", numa=0, vfs=4, vf_offset=0x80, vf_stride=2, vf_drivers={3: "vfio-pci"})
    host.pf("0000:3b:00.1", "ens1f1", numa=0, vfs=4, vf_offset=0x80, vf_stride=2)
    host.pf(
        "10000:e1:00.0",
        "ib0",
        numa=1,
        vendor="15b3",
        device="101d",
        driver="mlx5_core",
        vfs=2,
        vf_device="101e",
        vf_driver="mlx5_core",
        vf_offset=2,
        link_type=INFINIBAND,
        rdma=True,
    )


@pytest.mark.parametrize("case", cases("sriov_selectors.yaml"))
def test_selectors(case: Any, host: Any, source: Any) -> None:
    build_host(host)
    scan = source("sriov", **case["spec"]).scan()
    assert [device.id.split(":", 1)[1] for device in scan.devices] == case["offered"]
    reasons = {entry.id: entry.reason for entry in scan.left_out}
    assert reasons.items() >= case.get("left_out", {}).items()
    assert list(scan.warnings) == case.get("warnings", [])
    assert scan.matched_nothing == (not case["offered"])
    # Whatever was looked at is either offered or explained.
    assert len(scan.devices) + len(scan.left_out) == 13
