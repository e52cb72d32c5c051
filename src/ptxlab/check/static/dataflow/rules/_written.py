"""Shared memory that threads write and products read, and tensor memory that products write, at each step of an execution."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_product, is_warpgroup_product, of_class
from ptxlab.check.static.dataflow._unrolled import Step
from ptxlab.check.static.dataflow.rules._stages import MOST_UNITS, Groups, is_beyond, offsets_of, severity_of, starts_of, units_of
from ptxlab.check.static.dataflow.rules.tensor_memory import tensor_address
from ptxlab.isa import tcgen05
from ptxlab.isa.effects import Asynchronous, Completion, CompletionArrival, ProxyFence, Space, TensorTransfer
from ptxlab.isa.native_ops import CopyAsync, LaneAccess, MatrixAccess

__all__ = ["Uncommitted", "Unfenced"]


def _written(kernel: Kernel, step: Step) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The units of shared memory that threads write through the generic proxy, a row for each thread, and the threads."""
    native = kernel.program.natives.get(step.point.op.index)
    threads = step.threads
    match native:
        case CopyAsync(size=size, destination=position):
            pass
        case LaneAccess(write=True, space="shared" | "shared::cta", address=position):
            size = native.size
        case MatrixAccess(write=True, address=position):
            threads = threads & (kernel.flow.threads.lane < 8 * native.registers)
            size = native.row
        case _:
            return None
    offsets = offsets_of(step.point.operands[position], threads, size)
    return None if offsets is None else (units_of(offsets, size), np.flatnonzero(threads))


class Unfenced:
    """Products that read what threads have written with no proxy fence since; a fence before a copy is complete does not count."""

    def __init__(self, kernel: Kernel) -> None:
        self.active = any(is_product(point) or is_warpgroup_product(point) for point in kernel.points)
        self.groups = Groups(Completion.COPY_GROUP)
        self.step_of: list[Step] = []
        units = MOST_UNITS if self.active else 0
        self.by = np.full(units, -1, np.int64)
        self.copy = np.full(units, -1, np.int64)
        self.writer = np.full(units, -1, np.int64)

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        """Follow a step."""
        if not self.active:
            return
        written = _written(kernel, step)
        effect = step.point.op.effects
        if written is not None:
            units, threads = written
            self.by[units] = len(self.step_of)
            self.step_of.append(step)
            self.writer[units] = threads[:, None]
            self.copy[units] = self.groups.issue(step) if isinstance(effect, Asynchronous) else -1
        elif isinstance(native := kernel.program.natives.get(step.point.op.index), CopyAsync):
            self.active = not is_beyond(step.point.operands[native.destination])
        elif isinstance(effect, ProxyFence) and Space.SHARED in effect.spaces:
            self._fence(step)
        elif isinstance(effect, Asynchronous) and effect.completion is Completion.BYTES:
            offsets = offsets_of(step.point.named("dst-shared"), step.threads)
            if offsets is not None:
                self.by[units_of(offsets, 4)] = -1
        else:
            yield from self._read(step)
        self.groups.step(step)

    def _fence(self, step: Step) -> None:
        unfenced = np.flatnonzero(self.by >= 0)
        incomplete = np.isin(self.copy[unfenced], sorted(self.groups.in_flight))
        self.by[unfenced[step.threads[self.writer[unfenced]] & ~incomplete]] = -1

    def _read(self, step: Step) -> Iterator[Report]:
        for start in starts_of(step):
            number = int(self.by[start // 4])
            if number >= 0:
                store = self.step_of[number]
                message = (
                    f"{step.point.op.short} may read what {store.point.op.short} at line {store.point.op.line} writes, "
                    "and no fence.proxy.async stands between"
                )
                fix = "execute fence.proxy.async in the threads that write, then the barrier, then this instruction"
                yield Report("X102", step.point.op, message, fix, severity=severity_of(step, store))
                return


class Uncommitted:
    """Results that are read, and operands that are overwritten, after products that the same thread has not committed."""

    def __init__(self, kernel: Kernel) -> None:
        self.active = any(is_product(point) for point in kernel.points)
        self.open: list[Step] = []

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        """Follow a step."""
        if not self.active:
            return
        effect = step.point.op.effects
        if is_product(step.point):
            self.open.append(step)
        elif isinstance(effect, CompletionArrival) and effect.of is Completion.COMMIT:
            self.open = [product for product in self.open if (product.threads & ~step.threads).any()]
        elif self.open:
            yield from self._use(kernel, step)

    def _use(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        written = _written(kernel, step)
        reads = of_class(TensorTransfer)(step.point)
        for product in self.open if written is not None or reads else ():
            if not (product.threads & step.reached).any():
                continue
            op = product.point.op
            if reads and _overlaps(kernel, product, step):
                message = f"{step.point.op.short} accesses what {op.short} at line {op.line} writes, and no tcgen05.commit stands between"
                fix = "execute tcgen05.commit after the product, and wait on its mbarrier before the result is used"
                yield Report("X105", step.point.op, message, fix, severity="warning")
                return
            if written is not None and any((written[0] == start // 4).any() for start in starts_of(product)):
                message = f"{step.point.op.short} overwrites what {op.short} at line {op.line} reads, and no tcgen05.commit stands between"
                fix = "execute tcgen05.commit after the product, and wait on its mbarrier before its operands are overwritten"
                yield Report("X106", step.point.op, message, fix, severity=severity_of(step, product))
                return


def _overlaps(kernel: Kernel, product: Step, transfer: Step) -> bool:
    """Whether a load or store of tensor memory accesses the first column that a product writes."""
    result, address = tensor_address(product.point), tensor_address(transfer.point)
    if result is None or address is None or result.symbol is not address.symbol:
        return False
    if isinstance(result.data, int):
        column = result.data & 0xFFFF
    else:
        column = int(result.data[int(product.threads.argmax())]) & 0xFFFF
    data = address.data if isinstance(address.data, int) else int(address.data[int(transfer.threads.argmax())])
    width = tcgen05.constants.columns_of(transfer.point.op, {}, kernel.target) or 1
    return (data & 0xFFFF) <= column < (data & 0xFFFF) + width
