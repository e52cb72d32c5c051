"""Stages of pipelines in shared memory: what cp.async has written, and what wgmma still reads, at each step of an execution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_warpgroup_product, synchronises
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._unrolled import Step
from ptxlab.check.static.dataflow._values import Value
from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.diagnostics import Severity
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, CompletionArrival, CtaBarrier, Unit, WaitGroup
from ptxlab.isa.native_ops import CopyAsync, LaneAccess, MatrixAccess

__all__ = ["MOST_UNITS", "Copies", "Groups", "Products", "is_beyond", "offsets_of", "severity_of", "starts_of", "units_of"]

_UNIT = 4
"""The bytes that are followed together: the smallest copy."""
MOST_UNITS = (1 << 18) // _UNIT
_MASK = (1 << SHARED_RANK_SHIFT) - 1
_OPERANDS = ("a-desc", "b-desc", "s-desc")


class Groups:
    """Asynchronous operations of a class, numbered, by what has happened to them since."""

    def __init__(self, of: Completion) -> None:
        self.of = of
        self.issued: list[Step] = []
        self.open: list[int] = []
        self.groups: list[list[int]] = []
        self.complete: set[int] = set()
        """Those that have been waited for, with no barrier since."""

    @property
    def in_flight(self) -> set[int]:
        """Those that nothing has waited for."""
        return {*self.open, *(number for group in self.groups for number in group)}

    def issue(self, step: Step) -> int:
        """Note an operation; its number."""
        self.issued.append(step)
        self.open.append(len(self.issued) - 1)
        return len(self.issued) - 1

    def step(self, step: Step) -> None:
        """Follow commits, waits and barriers."""
        effect = step.point.op.effects
        match effect:
            case CommitGroup(of=self.of):
                self.groups.append(self.open)
                self.open = []
            case WaitGroup(of=self.of):
                self._wait(step.point, effect.everything)
            case CompletionArrival(of=self.of):
                self.open, self.groups = [], []
        if synchronises(step.point):
            self.complete.clear()

    def _wait(self, point: Point, everything: bool) -> None:
        count = point.operands[0].constant if point.operands and point.operands[0] is not None else None
        done = max(len(self.groups) - (count or 0), 0)
        for group in self.groups[:done]:
            self.complete.update(group)
        del self.groups[:done]
        if everything:
            self.complete.update(self.open)
            self.open = []


def offsets_of(address: Value | None, threads: NDArray[np.bool_], size: int = _UNIT) -> NDArray[np.int64] | None:
    """The offsets in shared memory that threads give for accesses of a size; nothing if they are not known, or past its end."""
    if address is None or address.symbol is not None:
        return None
    found = np.broadcast_to(np.asarray(address.data), threads.shape)[threads].astype(np.int64) & _MASK
    return found if found.size and int(found.max()) + size <= MOST_UNITS * _UNIT else None


def is_beyond(address: Value | None) -> bool:
    """Whether an address that did not give offsets is past the end of all shared memory, which no launch has and no descriptor holds."""
    return address is not None and address.exact


def units_of(offsets: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The units of accesses of a size: a row for each access."""
    count = max(size // _UNIT, 1)
    return offsets[:, None] // _UNIT + np.arange(count)


@dataclass(frozen=True, slots=True)
class _Read:
    units: NDArray[np.int64]
    threads: NDArray[np.int64]
    asynchronous: bool
    first: int
    last: int
    """The first and the last unit."""


def _reads(kernel: Kernel, step: Step) -> Iterator[_Read]:
    """The units that an instruction reads in shared memory; of operands of products the first."""
    point = step.point
    native = kernel.program.natives.get(point.op.index)
    if isinstance(native, LaneAccess | MatrixAccess) and not native.write and native.space.startswith(("shared", "generic")):
        if isinstance(native, LaneAccess) and native.space == "generic":
            return
        threads = step.threads.copy()
        if isinstance(native, MatrixAccess):
            threads &= kernel.flow.threads.lane < 8 * native.registers
        size = native.size if isinstance(native, LaneAccess) else native.row
        offsets = offsets_of(point.operands[native.address], threads, size)
        if offsets is not None:
            units = units_of(offsets, size)
            yield _Read(units, np.flatnonzero(threads), False, int(units.min()), int(units.max()))
    for start in starts_of(step):
        unit = start // _UNIT
        yield _Read(np.array([[unit]]), np.flatnonzero(step.threads)[:1], True, unit, unit)


def starts_of(step: Step) -> Iterator[int]:
    """The first bytes of operands of a product in shared memory."""
    effect = step.point.op.effects
    if not isinstance(effect, Asynchronous) or effect.unit not in (Unit.TENSOR_CORE, Unit.WARPGROUP):
        return
    for name in _OPERANDS:
        value = step.point.named(name)
        if value is not None and value.exact:
            start = value.of(int(step.threads.argmax()))
            assert start is not None
            yield SharedMemoryDescriptor.decode(start & (1 << 64) - 1).start


def severity_of(*steps: Step) -> Severity | None:
    return None if all(step.certain for step in steps) else "warning"


class Copies:
    """Reads of what cp.async writes before it is complete for the thread that reads, and copies to where threads still read."""

    def __init__(self, kernel: Kernel) -> None:
        self.groups = Groups(Completion.COPY_GROUP)
        self.active = any(isinstance(native, CopyAsync) for native in kernel.program.natives.values())
        units = MOST_UNITS if self.active else 0
        self.by = np.full(units, -1, np.int64)
        self.writer = np.full(units, -1, np.int64)
        self.readers: list[tuple[Step, _Read]] = []

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        """Follow a step."""
        if not self.active:
            return
        native = kernel.program.natives.get(step.point.op.index)
        if isinstance(native, CopyAsync):
            yield from self._copy(kernel, step, native)
        else:
            for read in _reads(kernel, step):
                yield from self._read(step, read)
            self._store(kernel, step)
        self.groups.step(step)
        effect = step.point.op.effects
        if synchronises(step.point) or isinstance(effect, CtaBarrier):
            self.readers.clear()

    def _copy(self, kernel: Kernel, step: Step, native: CopyAsync) -> Iterator[Report]:
        address = step.point.operands[native.destination]
        offsets = offsets_of(address, step.threads, native.size)
        if offsets is None:
            self.active = not is_beyond(address)
            return
        units = units_of(offsets, native.size)
        yield from self._overwrites(kernel, step, units)
        self.by[units] = self.groups.issue(step)
        self.writer[units] = np.flatnonzero(step.threads)[:, None]

    def _store(self, kernel: Kernel, step: Step) -> None:
        """Forget what threads overwrite: the race check knows whether they may."""
        native = kernel.program.natives.get(step.point.op.index)
        if isinstance(native, LaneAccess | MatrixAccess) and native.write and native.space.startswith("shared"):
            size = native.size if isinstance(native, LaneAccess) else native.row
            offsets = offsets_of(step.point.operands[native.address], step.threads, size)
            if offsets is not None:
                self.by[units_of(offsets, size)] = -1

    def _overwrites(self, kernel: Kernel, step: Step, units: NDArray[np.int64]) -> Iterator[Report]:
        """Whether another warp may still read what is copied to."""
        warps = kernel.flow.threads.warp
        first, last = int(units.min()), int(units.max())
        for before, read in self.readers:
            if read.asynchronous or read.last < first or last < read.first or before.point.block > step.point.block:
                continue
            at = np.isin(units, read.units)
            if not at.any():
                continue
            writers = np.unique(warps[np.flatnonzero(step.threads)[at.any(axis=1)]])
            readers = np.unique(warps[read.threads[np.isin(read.units, units).any(axis=1)]])
            if len(readers) > 1 or (writers != readers[0]).any():
                message = (
                    f"{step.point.op.short} may overwrite what {before.point.op.short} at line {before.point.op.line} reads in another warp"
                )
                fix = "execute a barrier of the CTA between the read and the copy to the same stage"
                yield Report("X112", step.point.op, message, fix, severity=severity_of(step, before))
                return

    def _read(self, step: Step, read: _Read) -> Iterator[Report]:
        self.readers.append((step, read))
        numbers = np.where(read.units < len(self.by), self.by[np.minimum(read.units, len(self.by) - 1)], -1)
        in_flight, complete = self.groups.in_flight, self.groups.complete
        for number in np.unique(numbers[numbers >= 0]).tolist():
            copy = self.groups.issued[number]
            if number in in_flight:
                message = (
                    f"{step.point.op.short} may read what {copy.point.op.short} at line {copy.point.op.line} writes before it is complete"
                )
                fix = "execute cp.async.commit_group after the copy, and cp.async.wait_group and a barrier before the read"
                yield Report("X111", step.point.op, message, fix, severity=severity_of(step, copy))
                return
            if number in complete and not read.asynchronous:
                own = self.writer[read.units] == read.threads[:, None]
                if ((numbers == number) & ~own).any():
                    message = (
                        f"{step.point.op.short} may read what {copy.point.op.short} at line {copy.point.op.line} writes in another thread, "
                        "which has waited for it, and no barrier stands between"
                    )
                    fix = "execute a barrier of the CTA after cp.async.wait_group"
                    yield Report("X111", step.point.op, message, fix, severity=severity_of(step, copy))
                    return


class Products:
    """Copies to shared memory that wgmma.mma_async may still read."""

    def __init__(self, kernel: Kernel) -> None:
        self.groups = Groups(Completion.WGMMA_GROUP)
        self.active = any(is_warpgroup_product(point) for point in kernel.points)
        self.starts: dict[int, set[int]] = {}

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        """Follow a step."""
        if not self.active:
            return
        if is_warpgroup_product(step.point):
            self.starts[self.groups.issue(step)] = set(starts_of(step))
        else:
            yield from self._copy(kernel, step)
        self.groups.step(step)

    def _copy(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        native = kernel.program.natives.get(step.point.op.index)
        if isinstance(native, CopyAsync):
            offsets = offsets_of(step.point.operands[native.destination], step.threads)
        else:
            effect = step.point.op.effects
            copies = isinstance(effect, Asynchronous) and effect.completion is Completion.BYTES
            offsets = offsets_of(step.point.named("dst-shared"), step.threads) if copies else None
        if offsets is None:
            return
        written = set(offsets.tolist())
        for number in sorted(self.groups.in_flight):
            product = self.groups.issued[number]
            if not written.isdisjoint(self.starts[number]) and (product.threads & step.threads).any():
                message = f"{step.point.op.short} may overwrite what {product.point.op.short} at line {product.point.op.line} still reads"
                fix = "execute wgmma.commit_group, wgmma.wait_group and a barrier before the stage is filled again"
                yield Report("X110", step.point.op, message, fix, severity=severity_of(step, product))
                return
