"""Whether the kubelet starts with a state that an earlier run left. Follows kubelet ``validateState``."""

from __future__ import annotations

from numaplace.errors import InputError
from numaplace.managers.cpu.bits import cpu_list
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy


def start_with(policy: StaticCpuPolicy, state: CpuState) -> CpuState:
    """Return the state after the kubelet's start: as it was left, or the initial one if it is empty.

    Raises ``InputError`` where the kubelet refuses to start until its state file is removed.
    """
    if not state.default_bits:
        if state.assigned_bits:
            raise InputError("CPUs are assigned, but the shared pool is empty")
        return policy.initial_state()
    shared, reserved = state.default_bits, policy.reserved_bits
    strict = policy.options.strict_reservation
    if strict and shared & reserved:
        raise InputError(f"strictly reserved CPUs are in the shared pool: {cpu_list(shared & reserved)}")
    if not strict and reserved & ~shared:
        raise InputError(f"reserved CPUs are not in the shared pool: {cpu_list(reserved & ~shared)}")
    for (uid, container), bits in state.assigned_bits.items():
        if bits & shared:
            raise InputError(
                f"CPUs of container {container!r} of pod {uid!r} are also in the shared pool: "
                f"{cpu_list(bits & shared)}"
            )
    expected = policy.allocatable_bits if strict else policy.topology.all_bits
    known = shared | state.exclusive_bits
    if known != expected:
        raise InputError(f"the state names CPUs {cpu_list(known)}, the machine has {cpu_list(expected)}")
    return state.restarted()
