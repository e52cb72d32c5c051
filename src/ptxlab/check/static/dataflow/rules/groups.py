"""Rules on asynchronous operations that nothing completes: never committed, or never waited for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache

from ptxlab.check.static.dataflow._kernel import Kernel, Report, Test
from ptxlab.check.static.dataflow._paths import Paths
from ptxlab.check.static.dataflow._point import Point
from ptxlab.isa.effects import GROUP_INSTRUCTIONS, Asynchronous, CommitGroup, Completion, CompletionArrival, Effect, WaitGroup
from ptxlab.isa.native_ops import CopyAsync, LaneAccess, MatrixAccess

__all__ = ["RULES"]


_CODES = {Completion.COPY_GROUP: "X116", Completion.BULK_GROUP: "X119", Completion.WGMMA_GROUP: "R805"}
"""What the run reports of operations that nothing waits for."""


def _completion(effect: Effect | None) -> Completion | None:
    return effect.completion if isinstance(effect, Asynchronous) and effect.completion in _CODES else None


def _commits(of: Completion, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, CommitGroup) and effect.of is of


def _waits(of: Completion, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, WaitGroup | CompletionArrival) and effect.of is of


def _waits_for_all(of: Completion, point: Point) -> bool:
    effect = point.op.effects
    return (isinstance(effect, CompletionArrival) and effect.of is of) or (
        isinstance(effect, WaitGroup) and effect.of is of and effect.everything
    )


@cache
def _tests(of: Completion) -> tuple[Test, Test]:
    """Tests for instructions that commit the operations of a class, and that wait for them."""
    return lambda point: _commits(of, point) or _waits_for_all(of, point), lambda point: _waits(of, point)


def completion(kernel: Kernel) -> Iterator[Report]:
    """Operations whose group is never committed, or that nothing waits for."""

    def reads(point: Point) -> bool:
        native = kernel.program.natives.get(point.op.index)
        return isinstance(native, LaneAccess | MatrixAccess) and not native.write and native.space in ("shared", "generic")

    for paths in kernel.paths:
        unawaited: dict[Hashable, bool] = {}
        for start in paths.points(_is_grouped):
            of = _completion(start.op.effects)
            assert of is not None
            commit, wait = GROUP_INSTRUCTIONS[of]

            commits, waits = _tests(of)
            code = _code(kernel, of, start, reads)
            if not paths.reaches(start, commits):
                message = f"no path from {start.op.short} reaches {commit}: nothing can wait for the operation"
                yield Report(code, start.op, message, f"execute {commit}, and {wait} before the result is used")
            elif not paths.reaches(start, waits):
                message = f"no path from {start.op.short} reaches an instruction that waits for its group"
                yield Report(code, start.op, message, f"execute {wait} before the result is used, or the kernel ends")
            elif _straight(kernel, start) and _ends_before(paths, start, waits, unawaited):
                message = f"some path from {start.op.short} to the end of the kernel has no instruction that waits for its group"
                fix = f"execute {wait} on every path to the end of the kernel"
                yield Report(code, start.op, message, fix, severity="note" if code == "X119" else "warning")


def _is_grouped(point: Point) -> bool:
    return _completion(point.op.effects) is not None


def _ends_before(paths: Paths, start: Point, waits: Test, known: dict[Hashable, bool]) -> bool:
    """Whether some path from an instruction to the end of the thread has no wait; ``known`` is the answer for others of its block."""
    earlier = sum(1 for point in paths.matches.by_block[start.block] if point.op.index < start.op.index and waits(point))
    key = waits, start.block, earlier, paths.decided(start.guard)
    if key not in known:
        known[key] = paths.path(start, waits, None) is True
    return known[key]


def _straight(kernel: Kernel, point: Point) -> bool:
    """Whether an instruction stands in no loop: from a loop there are paths that are never taken."""
    return kernel.program.blocks[point.block].depth == 0


def _code(kernel: Kernel, of: Completion, start: Point, reads: Test) -> str:
    """The code of the run: a use before completion where the kernel reads what the copy writes."""
    if of is not Completion.COPY_GROUP:
        return _CODES[of]
    return "X111" if any(_reads_after(paths, start, reads) for paths in kernel.paths) else _CODES[of]


def _reads_after(paths: Paths, start: Point, reads: Test) -> bool:
    return paths.reached[start.block] and paths.reaches(start, reads)


def uses(kernel: Kernel) -> Iterator[Report]:
    """Reads of what cp.async writes, with no wait on any path between."""
    copies = [point for point in kernel.points if isinstance(kernel.program.natives.get(point.op.index), CopyAsync)]
    if not copies:
        return
    waits = _tests(Completion.COPY_GROUP)[1]
    classes = [(paths, waiting := paths.points(waits), _reads_by_root(kernel, paths, waiting)) for paths in kernel.paths]
    for copy in copies:
        native = kernel.program.natives[copy.op.index]
        assert isinstance(native, CopyAsync)
        destination = copy.operands[native.destination]
        root = "" if destination is None else destination.root
        if not root:
            continue
        for paths, waiting, reads in classes:
            if not paths.reached[copy.block] or paths.executes(copy) is False:
                continue
            after = sum(1 << number for number, wait in enumerate(waiting) if paths.leads(copy, wait))
            for (_, before), together in reads.get(root, {}).items():
                if before & after or not paths.leads(copy, together[-1]):
                    continue
                for read in together:
                    if paths.leads(copy, read):
                        message = f"{read.op.short} may read what {copy.op.short} at line {copy.op.line} writes before it is complete"
                        yield Report("X111", read.op, message, "execute cp.async.wait_group, and a barrier, before the read")


def _reads_by_root(kernel: Kernel, paths: Paths, waiting: list[Point]) -> dict[str, dict[tuple[int, int], list[Point]]]:
    """The reads of a class of threads by the variable that their address was made from, their block, and the waits before them as bits."""
    found: dict[str, dict[tuple[int, int], list[Point]]] = {}

    def reads(point: Point) -> bool:
        access = kernel.program.natives.get(point.op.index)
        return isinstance(access, LaneAccess | MatrixAccess) and not access.write

    for point in paths.points(reads):
        access = kernel.program.natives[point.op.index]
        assert isinstance(access, LaneAccess | MatrixAccess)
        address = point.operands[access.address]
        if address is not None and address.root:
            before = sum(1 << number for number, wait in enumerate(waiting) if paths.leads(wait, point))
            found.setdefault(address.root, {}).setdefault((point.block, before), []).append(point)
    return found


RULES = (completion, uses)
