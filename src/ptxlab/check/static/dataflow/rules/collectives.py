"""Rules on instructions that a warp executes together, and on the barriers of a CTA."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._kernel import Kernel, Report, of_class, synchronises
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.isa.effects import (
    Alloc,
    Asynchronous,
    ClusterArrive,
    ClusterWait,
    CtaBarrier,
    Dealloc,
    MbarrierArrive,
    RegisterPool,
    TensorTransfer,
    Unit,
)
from ptxlab.isa.native_ops import Atomic, Collective, LaneAccess

__all__ = ["RULES"]


def alignment(kernel: Kernel) -> Iterator[Report]:
    """Instructions with .aligned that only part of a warp executes."""
    for point in kernel.of(lambda p: p.op.aligned and p.op.effects is not None):
        reached = kernel.reached(point)
        assert reached is not None
        executing = kernel.executing(point)
        divided = _divided(kernel, executing, reached)
        if divided is not None:
            message = f"the predicate of {point.op.short} is true in {divided[1]} of {divided[2]} threads of warp {divided[0]}"
            fix = "use a predicate that is the same in the warp, or branch around the instruction"
            yield Report("B517", point.op, message, fix)
            continue
        others = _divided(kernel, reached, kernel.continuing(point))
        if others is not None:
            message = (
                f"{point.op.short} is executed by {others[1]} threads of warp {others[0]}; all threads of a warp must execute it together"
            )
            fix = "branch on a condition that is the same in the warp, or let the threads join before the instruction"
            yield Report("H605", point.op, message, fix)


def exchanges(kernel: Kernel) -> Iterator[Report]:
    """Exchanges between lanes whose membermask names threads that do not execute them."""
    points = [(point, native) for point in kernel.points if isinstance(native := kernel.program.natives.get(point.op.index), Collective)]
    together: dict[str, NDArray[np.int64]] = {}
    for point, native in points:
        counts = together.setdefault(native.name, np.zeros(kernel.flow.threads.count, np.int64))
        counts += kernel.executing(point)
    for point, native in points:
        member = point.operands[native.member] if native.member >= 0 else None
        if member is None or member.constant is None:
            continue
        executing = kernel.executing(point)
        lanes = kernel.flow.threads.lane
        named = ((member.constant & 0xFFFFFFFF) >> lanes & 1).astype(np.bool_)
        whole = kernel.continuing(point) & named
        if native.anywhere:
            elsewhere = together[native.name] > executing
            whole = whole & ~elsewhere | executing & named
        divided = _divided(kernel, executing & named, whole)
        if divided is not None and (executing & named).any():
            message = f"the membermask of {point.op.short} names threads of warp {divided[0]} that do not execute it"
            fix = "let all threads of the membermask execute the instruction, or name only those that do"
            yield Report("H605", point.op, message, fix)


def _divided(kernel: Kernel, part: NDArray[np.bool_], whole: NDArray[np.bool_], size: int = 1) -> tuple[int, int, int] | None:
    """The first warp, or group of warps, with threads in the part and others in the whole only: its number, and how many of each."""
    missing = whole & ~part
    if not missing.any():
        return None
    warps = kernel.flow.threads.warp // size
    for warp in sorted(set(warps[part].tolist())):
        inside = warps == warp
        if (missing & inside).any():
            return warp, int((part & inside).sum()), int(((part | whole) & inside).sum())
    return None


def thread_counts(kernel: Kernel) -> Iterator[Report]:
    """Barriers with too few threads, and with different thread counts at the same time."""
    by_number: dict[int, list[tuple[Point, int | None]]] = {}
    for point in kernel.of(of_class(CtaBarrier)):
        given, limit = point.named("a"), point.named("b")
        if given is None or given.constant is None:
            return
        by_number.setdefault(given.constant, []).append((point, None if limit is None else limit.constant))
    for number, points in by_number.items():
        threads = np.zeros(kernel.flow.threads.count, np.bool_)
        for point, _ in points:
            threads |= kernel.executing(point)
        warps = set(kernel.flow.threads.warp[threads].tolist())
        for point, count in points:
            if count is None:
                continue
            if count % 32 or not 0 < count <= 1024:
                message = f"barrier {number} is given a count of {count} threads; it must be a multiple of 32 from 32 to 1024"
                yield Report("B508", point.op, message, "give the number of threads of whole warps")
            elif 32 * len(warps) < count:
                message = f"barrier {number} waits for {count} threads, but at most {32 * len(warps)} arrive there"
                yield Report("H601", point.op, message, "give the number of threads that execute the barrier")
        yield from _different(kernel, number, points)


def _different(kernel: Kernel, number: int, points: list[tuple[Point, int | None]]) -> Iterator[Report]:
    for i, (second, other) in enumerate(points):
        for first, count in points[:i]:
            if count is None or other is None or count == other or (kernel.executing(first) & kernel.executing(second)).any():
                continue
            if any(_ordered(kernel, a, b) for a, b in ((first, second), (second, first))):
                continue
            message = f"barrier {number} is given {other} threads here and {count} at line {first.op.line}"
            yield Report("B509", second.op, message, "give the same count in all threads that arrive, or use another barrier")
            return


def _ordered(kernel: Kernel, first: Point, second: Point) -> bool:
    """Whether a thread may execute one after the other."""
    return any(paths.reached[first.block] and paths.executes(first) is not False and paths.leads(first, second) for paths in kernel.paths)


def warpgroups(kernel: Kernel) -> Iterator[Report]:
    """Products, and changes of the number of registers, that only some warps of a warpgroup execute."""
    for point in kernel.of(_is_of_warpgroup):
        divided = _divided(kernel, kernel.executing(point), kernel.continuing(point), 4)
        if divided is not None:
            message = f"{point.op.short} is executed by {divided[1]} of {divided[2]} threads of warpgroup {divided[0]}"
            fix = f"let the four warps of a warpgroup execute the same {point.op.row.base} instructions"
            yield Report("B521" if _changes_registers(point) else "W902", point.op, message, fix)


_changes_registers = of_class(RegisterPool)


def _is_of_warpgroup(point: Point) -> bool:
    effect = point.op.effects
    return _changes_registers(point) or (isinstance(effect, Asynchronous) and effect.unit is Unit.WARPGROUP)


def register_counts(kernel: Kernel) -> Iterator[Report]:
    """Changes to more or fewer registers than the instruction can set, and changes that no barrier separates."""
    changes = kernel.of(_changes_registers)
    for paths in kernel.paths if changes else ():
        before = paths.last_before(_changes_registers)
        for point in paths.points(_changes_registers):
            effect, wanted = point.op.effects, _registers(kernel, point)
            assert isinstance(effect, RegisterPool)
            held = [_registers(kernel, each) for each in before.get(point.op.index, ())]
            faults = [None if wanted is None or each is None else effect.fault(wanted, each) for each in held]
            fault = next(filter(None, faults), None)
            if fault is not None:
                yield Report("B513", point.op, *fault, severity=None if None not in faults else "warning")

            def differs(other: Point, wanted: int | None = wanted) -> bool:
                return _changes_registers(other) and wanted is not None and _registers(kernel, other) not in (wanted, None)

            again = paths.path(point, synchronises, differs)
            if isinstance(again, Point):
                message = f"{again.op.short} changes the registers again, and no barrier stands after line {point.op.line}"
                yield Report("B521", again.op, message, "execute a barrier of the warpgroup between two changes of its registers")


def _registers(kernel: Kernel, point: Point | None) -> int | None:
    """The registers of a thread after a change; without one, those with which the kernel starts; None if they are not known."""
    if point is None:
        given = kernel.program.directives.get("maxnreg")
        return int(given[0]) if given else None
    count = point.named("count")
    return None if count is None else count.constant


def register_pool(kernel: Kernel) -> Iterator[Report]:
    """Warps that together take more registers than the others of the CTA give back, where each of them changes its number once."""
    start = _registers(kernel, None)
    if start is None or not kernel.flow.threads.exact:
        return
    wanted = 0
    takes: list[Point] = []
    for paths in kernel.paths:
        points = paths.points(_changes_registers)
        counts = [_registers(kernel, point) for point in points]
        if len(points) > 1 or None in counts or any(kernel.program.blocks[point.block].depth for point in points):
            return
        for point, count in zip(points, counts, strict=True):
            assert count is not None
            if count > start:
                takes.append(point)
                if paths.path(None, lambda p, c=point: p is c, None) is not None:  # type: ignore[misc]
                    return
            wanted += (count - start) * int(paths.threads.sum())
    if wanted > 0 and takes:
        message = f"the warps of the CTA take {wanted} registers more than {'others' if len(kernel.paths) > 1 else 'they'} give back"
        yield Report("H601", takes[-1].op, message, "let other warps execute setmaxnreg.dec to fewer registers, or take fewer")


def partial_warps(kernel: Kernel) -> Iterator[Report]:
    """Accesses to tensor memory by a warp that does not have 32 threads."""
    threads = kernel.flow.threads
    left = threads.count % 32
    if not threads.exact or not left:
        return
    for point in kernel.of(of_class(Alloc, Dealloc, TensorTransfer)):
        if kernel.executing(point)[-left:].any():
            message = f"{point.op.short} is executed by a warp of {left} threads"
            yield Report("T626", point.op, message, "launch whole warps: a multiple of 32 threads")


def repeated_arrivals(kernel: Kernel) -> Iterator[Report]:
    """Arrivals at a barrier of the CTA by a warp that has not waited for anything since its last arrival there."""

    def arrives(point: Point) -> bool:
        return isinstance(point.op.effects, CtaBarrier) and not point.op.effects.waits

    for paths in kernel.paths:
        for first in paths.points(arrives):
            number = first.named("a")

            def again(point: Point, number: Value | None = number) -> bool:
                other = point.named("a")
                return arrives(point) and number is not None and other is not None and number.same(other)

            second = paths.path(first, synchronises, again)
            if isinstance(second, Point):
                message = f"{second.op.short} again, with no wait since line {first.op.line}: the barrier may not be complete"
                certain = not paths.between(first, second, synchronises)
                fix = "wait for the threads of the barrier before the next arrival"
                yield Report("B520", second.op, message, fix, severity=None if certain else "warning")


def cluster_barriers(kernel: Kernel) -> Iterator[Report]:
    """Waits without arrival, and arrivals without a wait in between."""
    arrives, waits = of_class(ClusterArrive), of_class(ClusterWait)
    if not kernel.of(arrives) and not kernel.of(waits):
        return
    for paths in kernel.paths:
        wait = paths.path(None, arrives, waits)
        if isinstance(wait, Point):
            certain = not paths.between(None, wait, arrives)
            message = f"{wait.op.short} is executed by threads that have not arrived"
            fix = "execute barrier.cluster.arrive before"
            yield Report("B512", wait.op, message, fix, severity=None if certain else "warning")
        for arrival in paths.points(arrives):
            second = paths.path(arrival, waits, arrives)
            if isinstance(second, Point):
                certain = not paths.between(arrival, second, waits)
                message = f"{second.op.short}, but these threads have not waited for their arrival at line {arrival.op.line}"
                fix = "execute barrier.cluster.wait in between"
                yield Report("B511", second.op, message, fix, severity=None if certain else "warning")


def peer_memory(kernel: Kernel) -> Iterator[Report]:
    """Accesses to the shared memory of another CTA, after which the threads tell no other CTA that it may exit."""

    def accesses(point: Point) -> bool:
        native = kernel.program.natives.get(point.op.index)
        if not isinstance(native, LaneAccess | Atomic) or native.space != "shared::cluster":
            return False
        address = point.operands[native.address]
        return address is None or not address.exact

    for paths in kernel.paths:
        for point in paths.points(accesses):
            if not paths.reaches(point, _tells_the_cluster):
                message = f"nothing after {point.op.short} keeps the other CTA, whose shared memory it accesses, from exiting before"
                fix = "execute barrier.cluster.arrive and barrier.cluster.wait in all threads of the cluster before they exit"
                yield Report("M407", point.op, message, fix, severity="warning")


_tells_the_cluster = of_class(ClusterArrive, MbarrierArrive, Asynchronous)


RULES = (
    alignment,
    exchanges,
    warpgroups,
    register_counts,
    register_pool,
    partial_warps,
    thread_counts,
    repeated_arrivals,
    cluster_barriers,
    peer_memory,
)
