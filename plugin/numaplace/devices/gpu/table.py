"""The GPU vendors by name."""

from __future__ import annotations

from collections.abc import Mapping

from numaplace.devices.gpu.amd import AMD
from numaplace.devices.gpu.intel import INTEL
from numaplace.devices.gpu.nvidia import NVIDIA
from numaplace.devices.gpu.vendor import GpuVendor

VENDORS: Mapping[str, GpuVendor] = {vendor.name: vendor for vendor in (NVIDIA, AMD, INTEL)}
