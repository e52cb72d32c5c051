"""Limits of CTAs and SMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine.launch.options import refuse

if TYPE_CHECKING:
    from ptxlab.engine.program import Program

__all__ = ["CTAS_PER_SM", "MOST_SMS", "SHARED_PER_SM", "THREADS_PER_SM", "shared_bytes"]

SHARED_PER_CTA = 227 * 1024
SHARED_PER_SM = 228 * 1024
THREADS_PER_SM = 2048
CTAS_PER_SM = 32
MOST_SMS = 4096
"""The largest number of SMs of a simulated device."""
LOCAL_PER_THREAD = 512 * 1024
PARAMETERS = 32764


def shared_bytes(program: Program, dynamic: int) -> int:
    """Return the bytes of shared memory of a CTA, with the reserved ones; a kernel that exceeds a limit is refused."""
    for what, declared, most in (
        ("local memory per thread", program.local_bytes, LOCAL_PER_THREAD),
        ("parameters", program.param_bytes, PARAMETERS),
    ):
        if declared > most:
            raise refuse("A314", f"{program.name} declares {declared} bytes of {what}; there can be {most}")
    layout = program.shared
    end = max(layout.static_end, layout.dynamic + dynamic if dynamic else 0, SHARED_RESERVED)
    if end - SHARED_RESERVED > SHARED_PER_CTA:
        raise refuse(
            "A309",
            f"{program.name} needs {end - SHARED_RESERVED} bytes of shared memory per CTA "
            f"({layout.static_end - SHARED_RESERVED} static, {dynamic} dynamic); a CTA can have {SHARED_PER_CTA}",
            fix="use fewer pipeline stages or smaller tiles",
        )
    return -(-end // 8) * 8
