"""Rules on addresses in shared memory that are known."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._flow import Point
from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.isa.address_space import SHARED_RANK_SHIFT, SHARED_RESERVED
from ptxlab.isa.native_ops import Atomic, LaneAccess

__all__ = ["RULES"]

_SPACES = ("shared", "shared::cta")


def _access(kernel: Kernel, point: Point) -> LaneAccess | Atomic | None:
    native = kernel.program.natives.get(point.op.index)
    return native if isinstance(native, LaneAccess | Atomic) and native.space in _SPACES else None


def accesses(kernel: Kernel) -> Iterator[Report]:
    """Loads and stores of shared memory that are misaligned, or outside of the variables."""
    shared = kernel.program.shared
    dynamic = any(offset >= shared.static_end for offset in shared.variables.values())
    for point in kernel.of(lambda p: _access(kernel, p) is not None):
        native = _access(kernel, point)
        assert native is not None
        address = point.operands[native.address]
        threads = kernel.surely(kernel.executing(point))
        if address is None or address.symbol is not None or not threads.any():
            continue
        known = {address.data} if isinstance(address.data, int) else set(address.data[threads].tolist())
        offsets = {each & (1 << SHARED_RANK_SHIFT) - 1 for each in known}
        wrong = sorted(each for each in offsets if each % native.size)
        if wrong:
            message = f"the address {wrong[0]:#x} in shared memory is not a multiple of {native.size}, the size of the access"
            yield Report("M405", point.op, message, f"align the address to {native.size} bytes, or access less at a time")
            continue
        outside = sorted(each for each in offsets if each < SHARED_RESERVED or (each + native.size > shared.static_end and not dynamic))
        if outside:
            message = f"the address {outside[0]:#x} lies outside shared memory: the variables end at {shared.static_end:#x}"
            yield Report("M406", point.op, message, "correct the address, or make the variable larger")


RULES = (accesses,)
