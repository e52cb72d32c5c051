"""Rules on addresses in shared memory that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._kernel import Kernel, Report, mbarrier_operand
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Data, Value
from ptxlab.isa.address_space import SHARED_RANK_SHIFT, SHARED_RESERVED
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess

__all__ = ["OFFSET_MASK", "RULES", "Access", "accesses", "extent", "wrong_place"]

OFFSET_MASK = (1 << SHARED_RANK_SHIFT) - 1
_SPACES = ("shared", "shared::cta")


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that an instruction accesses in shared memory, and the codes of the run for a wrong place."""

    address: Value
    size: int
    alignment: int
    misaligned: str = "M405"
    outside: str = "M406"


def accesses(kernel: Kernel, point: Point) -> Iterator[Access]:
    native = kernel.program.natives.get(point.op.index)
    if isinstance(native, LaneAccess | Atomic):
        address = point.operands[native.address]
        if native.space in _SPACES and address is not None:
            yield Access(address, native.size, native.size)
        return
    if isinstance(native, CopyAsync):
        destination = point.operands[native.destination]
        if destination is not None:
            yield Access(destination, native.size, native.size)
        return
    effect = point.op.effects
    if isinstance(effect, Asynchronous) and effect.unit is Unit.TMA:
        size = point.named("size")
        count = 16 if size is None or size.constant is None else size.constant
        for name in ("dst-shared", "src-shared"):
            given = point.named(name)
            if given is not None:
                yield Access(given, count, 16 if size is not None else 128, "C901", "C903")
    mbarrier = mbarrier_operand(point)
    if mbarrier is not None and (effect is not None and native is None):
        yield Access(mbarrier, 8, 8, "B501", "B502")


def places(kernel: Kernel) -> Iterator[Report]:
    """Accesses to shared memory that are misaligned, or outside of the variable whose address they were made from."""
    for point in kernel.of(lambda p: next(accesses(kernel, p), None) is not None):
        threads = kernel.surely(kernel.executing(point))
        if not threads.any():
            continue
        for access in accesses(kernel, point):
            start = access.address.first
            report = None if start is None else wrong_place(kernel, point, access, start.data, threads)
            if report is not None:
                yield report
                break


def wrong_place(kernel: Kernel, point: Point, access: Access, data: Data, threads: NDArray[np.bool_]) -> Report | None:
    low, high, name = extent(kernel, access.address.root)
    if isinstance(data, int):
        offset = data & OFFSET_MASK
        if not offset % access.alignment and low <= offset and (not high or offset + access.size <= high):
            return None
    offsets = np.broadcast_to(np.asarray(data, np.uint64) & np.uint64(OFFSET_MASK), threads.shape)
    misaligned = threads & (offsets % access.alignment != 0)
    if _happens(kernel, point, misaligned, threads):
        message = f"the address {int(offsets[misaligned][0]):#x} in shared memory is not a multiple of {access.alignment}"
        return Report(access.misaligned, point.op, message, f"align the address to {access.alignment} bytes")
    outside = threads & (offsets < low)
    if high:
        outside |= threads & (offsets + np.uint64(access.size) > high)
    if not _happens(kernel, point, outside, threads):
        return None
    end = f" to {high - 1:#x}" if high else ""
    message = f"{access.size} bytes at {int(offsets[outside][0]):#x} lie outside {name}, at {low:#x}{end}"
    last = kernel.shared_end
    sure = bool(last and (offsets[outside] + np.uint64(access.size) > last).any())
    fix = "correct the address, or make the variable larger"
    return Report(access.outside, point.op, message, fix, severity=None if sure else "warning")


def _happens(kernel: Kernel, point: Point, wrong: NDArray[np.bool_], threads: NDArray[np.bool_]) -> bool:
    """Whether a thread surely executes the instruction wrongly: all that may execute it do, or one of the wrong ones must execute it."""
    if not wrong.any():
        return False
    if (wrong == threads).all():
        return True
    return any(
        (paths.threads & wrong).any() and paths.executes(point) is True and paths.path(None, lambda p: p is point, None) is None
        for paths in kernel.paths
    )


def extent(kernel: Kernel, root: str) -> tuple[int, int, str]:
    """The first offset, the end (0: unknown) and the name of what an address points into: its variable, or all of shared memory."""
    shared = kernel.program.shared
    at = shared.variables.get(root)
    if at is None or at >= shared.static_end or sum(offset == at for offset in shared.variables.values()) > 1:
        return SHARED_RESERVED, kernel.shared_end, "the shared variables"
    return at, min((offset for offset in (*shared.variables.values(), shared.static_end) if offset > at), default=0), f"the variable {root}"


RULES = (places,)
