"""Rules on tcgen05.ld and tcgen05.st before their waits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_product, releases, synchronises
from ptxlab.check.static.dataflow._paths import Paths
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.diagnostics import Severity
from ptxlab.isa.effects import CtaBarrier, Dealloc, TensorTransfer, TensorWait
from ptxlab.isa.operands import Op
from ptxlab.machine.warp.unawaited_loads import missing_waits

__all__ = ["RULES"]

_MOST_NAMES = 4
_FIX = "execute tcgen05.wait::ld.sync.aligned between the load and the first use of its registers"


def _transfers(write: bool, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, TensorTransfer) and effect.write is write


def _waits(write: bool, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, TensorWait) and effect.write is write


def _is_store(point: Point) -> bool:
    return _transfers(True, point)


def _is_load(point: Point) -> bool:
    return _transfers(False, point)


def _waits_for_loads(point: Point) -> bool:
    return _waits(False, point)


def _waits_for_stores(point: Point) -> bool:
    return _waits(True, point)


def _gives_away(point: Point) -> bool:
    """Whether other threads may use columns after an instruction."""
    return releases(point) or isinstance(point.op.effects, Dealloc)


def loads(kernel: Kernel) -> Iterator[Report]:
    """Registers of loads that are used before the wait, or though some path has none; columns given away before it.

    The uses before the wait are those that a run reports: it finds them in the text, too.
    """
    program = kernel.program
    told: set[int] = set()
    for missing in missing_waits(program, False):
        op = missing.first.op
        if missing.severity == "warning":
            listed = missing.first.names(program, _MOST_NAMES)
            follows = "before the tcgen05.wait::ld" if missing.follows else "and no tcgen05.wait::ld follows"
            message = f"{op.short} uses {listed} of {missing.load.short} at line {missing.load.line}{',' * (not missing.follows)} {follows}"
            yield Report("R809", op, message, _FIX)
            told |= missing.loads
    readers = _readers(kernel)
    for paths in kernel.paths:
        for load in paths.points(_is_load):
            if load.op.index in told:
                continue
            given = paths.path(load, _waits_for_loads, _gives_away)
            ends = paths.path(load, _waits_for_loads, None)
            used = next((op for register in program.writes[load.op.index] for op in readers.get(register, ())), None)
            if isinstance(given, Point) and not _later_wait(paths, given):
                message = f"no tcgen05.wait::ld stands between {load.op.short} and {given.op.short} at line {given.op.line}"
                yield Report("R809", used or load.op, message, "execute tcgen05.wait::ld.sync.aligned after the load", "note")
            elif ends is True and used is not None:
                message = f"a register of {load.op.short} is used at line {used.line}, and some path has no tcgen05.wait::ld"
                yield Report("R809", used, message, _FIX, "note")


def _later_wait(paths: Paths, point: Point) -> bool:
    """Whether every path after an instruction has a wait."""
    return paths.path(point, _waits_for_loads, None) is not True


def _readers(kernel: Kernel) -> dict[int, list[Op]]:
    found: dict[int, list[Op]] = {}
    for op, reads in zip(kernel.program.ops, kernel.program.reads, strict=True):
        for register in reads:
            found.setdefault(register, []).append(op)
    return found


def _uses_results(point: Point) -> bool:
    """Whether an instruction may use what a store has written to tensor memory."""
    return is_product(point) or _transfers(False, point) or isinstance(point.op.effects, Dealloc)


def _passes_on(kernel: Kernel, point: Point) -> bool:
    """Whether an instruction tells other threads that they may use the results of stores.

    Of a barrier that waits, the threads that leave it are known: one of them uses tensor memory before it synchronises again.
    """
    if not releases(point):
        return False
    effect = point.op.effects
    if not isinstance(effect, CtaBarrier) or not effect.waits:
        return True
    return any(isinstance(paths.path(point, synchronises, _uses_results), Point) for paths in kernel.paths)


def stores(kernel: Kernel) -> Iterator[Report]:
    """Columns that are used before the store that fills them is known to be complete."""
    if not kernel.of(_is_store):
        return

    @cache
    def passes_on(index: int) -> bool:
        return _passes_on(kernel, kernel.flow.points[index])

    for paths in kernel.paths:
        for store in paths.points(_is_store):
            columns = store.named("taddr")

            def uses(point: Point, columns: Value | None = columns) -> bool:
                other = point.named("taddr")
                again = _transfers(False, point) and columns is not None and other is not None and columns.same(other)
                return again or is_product(point) or passes_on(point.op.index)

            used = paths.path(store, _waits_for_stores, uses)
            if isinstance(used, Point):
                message = f"no tcgen05.wait::st stands between line {store.op.line} and {used.op.short} at line {used.op.line}"
                fix = "execute tcgen05.wait::st.sync.aligned after the store"
                severity: Severity | None = None if _surely_used(kernel, paths, store, used) else "warning"
                yield Report("X107", store.op if releases(used) else used.op, message, fix, severity=severity)


def _surely_used(kernel: Kernel, paths: Paths, store: Point, used: Point) -> bool:
    """Whether each way from a store to its wait leads past a use of its columns: in the same thread, or behind the barrier ``used``."""

    def of_columns(point: Point) -> bool:
        return _uses_results(point) and any(_same_columns(paths, value, store.named("taddr")) for value in point.operands)

    if not paths.avoids(store, of_columns, _waits_for_stores):
        return True
    if not releases(used) or paths.avoids(store, lambda p: p is used, _waits_for_stores):
        return False
    return any(not each.avoids(used, of_columns, synchronises) for each in kernel.paths if each.executes(used) and each.reached[used.block])


def _same_columns(paths: Paths, a: Value | None, b: Value | None) -> bool:
    """Whether two addresses in tensor memory surely have the same column, whatever their lanes."""
    if a is None or b is None or a.symbol is None or a.symbol is not b.symbol:
        return False
    return not (_of_thread(paths, a) - _of_thread(paths, b)) & 0xFFFF


def _of_thread(paths: Paths, value: Value) -> int:
    return value.data if isinstance(value.data, int) else int(value.data[paths.thread])


RULES = (loads, stores)
