"""Rules on tcgen05.ld and tcgen05.st before their waits, and on registers that wgmma may still write."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._flow import Point
from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_product, releases
from ptxlab.check.static.dataflow._paths import Paths
from ptxlab.check.static.dataflow._values import Value
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, Dealloc, TensorTransfer, TensorWait, WaitGroup
from ptxlab.isa.operands import Op

__all__ = ["RULES"]


def _transfers(write: bool, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, TensorTransfer) and effect.write is write


def _waits(write: bool, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, TensorWait) and effect.write is write


def loads(kernel: Kernel) -> Iterator[Report]:
    """Registers of loads that are used though some path to the end of the thread has no wait; columns given away before it."""
    readers = _readers(kernel)
    for paths in kernel.paths:
        for load in paths.points(lambda p: _transfers(False, p)):
            given = paths.path(load, lambda p: _waits(False, p), lambda p: releases(p) or isinstance(p.op.effects, Dealloc))
            ends = paths.path(load, lambda p: _waits(False, p), None)
            used = next((op for register in kernel.program.writes[load.op.index] for op in readers.get(register, ())), None)
            if isinstance(given, Point) and not _later_wait(paths, given):
                message = f"{load.op.short} may still read its columns: no tcgen05.wait::ld stands before {given.op.short} at line {given.op.line}"
                yield Report("R809", load.op, message, "execute tcgen05.wait::ld.sync.aligned after the load")
            elif ends is True and used is not None:
                message = f"a register of {load.op.short} is used at line {used.line}, and some path has no tcgen05.wait::ld"
                yield Report(
                    "R809", load.op, message, "execute tcgen05.wait::ld.sync.aligned between the load and the first use of its registers"
                )


def _later_wait(paths: Paths, point: Point) -> bool:
    """Whether every path after an instruction has a wait."""
    return paths.path(point, lambda p: _waits(False, p), None) is not True


def _readers(kernel: Kernel) -> dict[int, list[Op]]:
    found: dict[int, list[Op]] = {}
    for op, reads in zip(kernel.program.ops, kernel.program.reads, strict=True):
        for register in reads:
            found.setdefault(register, []).append(op)
    return found


def stores(kernel: Kernel) -> Iterator[Report]:
    """Columns that are used before the store that fills them is known to be complete."""
    for paths in kernel.paths:
        for store in paths.points(lambda p: _transfers(True, p)):
            columns = store.named("taddr")

            def uses(point: Point, columns: Value | None = columns) -> bool:
                other = point.named("taddr")
                again = _transfers(False, point) and columns is not None and other is not None and columns.same(other)
                return again or releases(point) or is_product(point)

            used = paths.path(store, lambda p: _waits(True, p), uses)
            if isinstance(used, Point):
                message = f"no tcgen05.wait::st stands between {store.op.short} at line {store.op.line} and {used.op.short}"
                fix = "execute tcgen05.wait::st.sync.aligned after the store"
                yield Report("X107", used.op, message, fix)


_Pending = dict[int, tuple[int, int]]
"""For each register the op that may write it, and the number of groups committed since, at least."""
_MOST = 64


def accumulators(kernel: Kernel) -> Iterator[Report]:
    """Registers that are used while wgmma may still write them."""
    if not any(_is_wgmma(point) for point in kernel.points):
        return
    program = kernel.program
    entering: list[_Pending | None] = [None] * len(program.blocks)
    entering[0] = {}
    found: dict[tuple[int, int], Report] = {}
    work = [0]
    while work:
        block = work.pop()
        pending = dict(entering[block] or {})
        for index in range(program.blocks[block].start, program.blocks[block].stop):
            _step(kernel, program.ops[index], pending, found)
        for following in program.blocks[block].successors:
            old = entering[following]
            if old is None:
                entering[following] = dict(pending)
                work.append(following)
                continue
            changed = False
            for register, held in pending.items():
                before = old.get(register)
                if before is None or held[1] < before[1]:
                    old[register] = held
                    changed = True
            if changed:
                work.append(following)
    yield from found.values()


def _is_wgmma(point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, Asynchronous) and effect.completion is Completion.WGMMA_GROUP


def _step(kernel: Kernel, op: Op, pending: _Pending, found: dict[tuple[int, int], Report]) -> None:
    effect = op.effects
    program = kernel.program
    if isinstance(effect, Asynchronous) and effect.completion is Completion.WGMMA_GROUP:
        for register in program.writes[op.index]:
            pending[register] = op.index, 0
        return
    if isinstance(effect, CommitGroup) and effect.of is Completion.WGMMA_GROUP:
        for register, (by, count) in pending.items():
            pending[register] = by, min(count + 1, _MOST)
        return
    if isinstance(effect, WaitGroup) and effect.of is Completion.WGMMA_GROUP:
        point = kernel.flow.points.get(op.index)
        left = point.named("N") if point is not None else None
        if left is None or left.constant is None:
            pending.clear()
            return
        for register in [register for register, (_, count) in pending.items() if count > left.constant]:
            del pending[register]
        return
    if not pending:
        return
    registers = (*program.reads[op.index], *program.writes[op.index])
    for register in registers:
        held = pending.get(register)
        if held is None:
            continue
        by = program.ops[held[0]]
        name = program.registers[register].name
        verb = "read" if register in program.reads[op.index] else "written"
        message = f"{name} is {verb} while {by.short} at line {by.line} may still write to it"
        fix = "execute wgmma.commit_group, and wgmma.wait_group 0 before the first use of its registers"
        found.setdefault((by.line, 0), Report("R805", op, message, fix))


RULES = (loads, stores, accumulators)
