"""Under ``spec``: races between the threads of one warp. Section "Program Order": program order exists only within one thread.

The rows that a warp records are divided into segments. A new segment begins where, on a path from one access to the next, threads of the
warp may have synchronised: at a service instruction, a fence, an acquiring or releasing access, or a warp collective. Only accesses of one
segment are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Kind
from ptxlab.check.race.clocks.releases import access_order
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.check.race.shadow.shadow_words import OpWord
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, Nothing
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Lanes"]

_LANES = np.arange(32, dtype=np.uint64)
_WORD = 4
_LAST = np.iinfo(np.int64).max
_MOST = 256
"""At most so many words of one segment, which several threads access, are compared."""
_CARRIED = 64
"""Rows of the last segment that are compared with the rows of the next drain."""

Words = NDArray[np.uint64]


class Lanes:
    """Compares the accesses of the threads of a warp to what ``shadow`` watches; ``table`` says what each instruction does (`OpWord`)."""

    def __init__(self, program: Program, table: Words, shadow: Shadow, findings: Findings) -> None:
        self._program = program
        self._shadow, self._findings = shadow, findings
        self._kinds = table[:, OpWord.HOW] & np.uint64(31)
        plain = np.array([isinstance(program.natives.get(op.index), LaneAccess | Atomic) for op in program.ops] or [False])
        self._sizes = np.where(plain, table[: len(plain), OpWord.SIZE], 0).astype(np.int64)
        self._strong = np.isin(self._kinds >> np.uint64(1), [Kind.STRONG, Kind.NARROW])
        self._writes = (self._kinds & np.uint64(1)).astype(bool)
        self._synchronises = [_synchronises(program, op) for op in program.ops]
        self._between: dict[tuple[int, int], bool] = {}

    def drained(self, warp: Warp, rows: Words) -> None:
        """Compare the rows that a warp has recorded with each other, and with the last rows of the drain before."""
        before: Words | None = warp.state.get("race lanes")
        if before is not None:
            rows = np.concatenate([before, rows])
        ops = (rows[:, 0] & np.uint64(0xFFFFFFFF)).astype(np.intp)
        own = ops < len(self._synchronises)  # what cp.async reads is its own access, not the thread's
        rows, ops = rows[own], ops[own]
        start = 0
        for start, stop in self._segments(ops.tolist()):
            part = rows[start:stop]
            chosen = self._sizes[ops[start:stop]] > 0
            mine = ops[start:stop][chosen]
            if len(mine) > 1 and self._writes[mine].any() and _overlapping(part[chosen], self._sizes[mine]):
                self._compare(warp, part[chosen], mine)
        warp.state["race lanes"] = rows[max(start, len(rows) - _CARRIED) :].copy()

    def _segments(self, ops: list[int]) -> Iterator[tuple[int, int]]:
        """The first row of each segment, and the row after its last."""
        start = 0
        for at in range(1, len(ops) + 1):
            if at == len(ops) or self._apart(ops[at - 1], ops[at]):
                yield start, at
                start = at

    def _apart(self, earlier: int, later: int) -> bool:
        known = self._between.get((earlier, later))
        if known is None:
            synchronised = self._synchronises[earlier] or self._synchronises[later]
            known = self._between[earlier, later] = synchronised or self._may_synchronise(earlier, later)
        return known

    def _may_synchronise(self, earlier: int, later: int) -> bool:
        """Whether on some path between two instructions threads of the warp may synchronise; a guarded instruction may be skipped."""
        program = self._program
        ends = {each for each in (earlier, later) if program.ops[each].guard is None}
        block = next(n for n, b in enumerate(program.blocks) if b.start <= earlier < b.stop)
        work = [(block, earlier + 1, False)]
        seen: set[tuple[int, int, bool]] = set()
        while work:
            number, at, found = work.pop()
            for index in range(at, program.blocks[number].stop):
                if index == later and found:
                    return True
                if index in ends:
                    break
                found = found or self._synchronises[index]
            else:
                following = {(to, program.blocks[to].start, found) for to in program.blocks[number].successors} - seen
                seen |= following
                work += following
        return False

    # ------------------------------------------------------------------------------------------------------ one segment

    def _compare(self, warp: Warp, rows: Words, ops: NDArray[np.intp]) -> None:
        """Report the pairs of accesses of different threads to the same bytes that are a race."""
        words, masks, at, lanes = _expand(rows, self._sizes[ops])
        writes, strong = self._writes[ops[at]], self._strong[ops[at]]
        silent = (self._kinds[ops[at]] == Kind.GENERIC << 1 | 1) & (rows[at, 1] >> lanes.astype(np.uint64) & np.uint64(1)).astype(bool)
        starts = np.flatnonzero(np.concatenate([[True], words[1:] != words[:-1]]))
        several = np.minimum.reduceat(lanes, starts) != np.maximum.reduceat(lanes, starts)
        shared = np.flatnonzero(several & np.logical_or.reduceat(writes, starts))
        # Which object has the lower host addresses is another in each launch.
        shared = shared[np.argsort(self._objects(words[starts[shared]]), kind="stable")][:_MOST]
        conflicts: dict[tuple[int, int], dict[str, Any]] = defaultdict(lambda: {"bytes": set(), "earlier": 0, "later": 0})
        for start, stop in zip(starts[shared].tolist(), np.append(starts[1:], len(words))[shared].tolist(), strict=True):
            for other, one in ((k, i) for k in range(start, stop) for i in range(start, k)):
                mask = int(masks[one] & masks[other])
                if at[one] == at[other] or lanes[one] == lanes[other] or not mask or not (writes[one] or writes[other]):
                    continue
                if strong[other] if strong[one] else silent[other]:
                    continue
                held = conflicts[int(ops[at[one]]), int(ops[at[other]])]
                held["bytes"].update(int(words[one]) * _WORD + k for k in range(_WORD) if mask >> k & 1)
                held["earlier"] |= 1 << int(lanes[one])
                held["later"] |= 1 << int(lanes[other])
        for (earlier, later), held in conflicts.items():
            op, first = self._program.ops[later], self._program.ops[earlier]
            self._findings.race_of_lanes(
                warp, (first, bool(self._writes[earlier]), held["earlier"]), (op, bool(self._writes[later]), held["later"]), held["bytes"]
            )

    def _objects(self, words: Words) -> NDArray[np.int64]:
        """The numbers of the objects in which words lie, whose addresses ascend; -1 where none is watched."""
        found: NDArray[np.int64] = np.full(len(words), -1)
        at = 0
        while at < len(words):
            made = self._shadow.find(int(words[at]) * _WORD)
            if made is None:
                at += 1
                continue
            end = int(np.searchsorted(words, np.uint64(-(-(made.start + made.data.nbytes) // _WORD))))
            found[at:end] = made.number
            at = end
        return found


def _synchronises(program: Program, op: Op) -> bool:
    """Whether an instruction may order a thread's accesses and those of another thread of its warp."""
    native = program.natives.get(op.index)
    if isinstance(native, LaneAccess | Atomic):
        return access_order(op).synchronises
    quiet = native is None or isinstance(native, CopyAsync) or (isinstance(native, Nothing) and op.effects is None)
    return op.row.kind == "service" or not quiet


def _overlapping(rows: Words, sizes: NDArray[np.int64]) -> bool:
    """Whether the ranges of memory of two rows overlap."""
    active = (rows[:, :1] >> np.uint64(32) >> _LANES & np.uint64(1)).astype(bool)
    hosts = rows[:, 2:].astype(np.int64)
    first = np.where(active, hosts, _LAST).min(axis=1)
    order = np.argsort(first)
    ends = np.maximum.accumulate((np.where(active, hosts, 0).max(axis=1) + sizes)[order])
    return bool((first[order][1:] < ends[:-1]).any())


def _expand(rows: Words, sizes: NDArray[np.int64]) -> tuple[Words, Words, NDArray[np.intp], NDArray[np.intp]]:
    """The accesses of all lanes word by word, in order: the word's address, its bytes, the row and the lane."""
    row, lane = np.nonzero((rows[:, :1] >> np.uint64(32) >> _LANES & np.uint64(1)).astype(bool))
    hosts = rows[:, 2:][row, lane].astype(np.int64)
    ends = hosts + sizes[row]
    counts = (ends - 1) // _WORD - hosts // _WORD + 1
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    words = np.repeat(hosts // _WORD, counts) + within
    low = np.maximum(np.repeat(hosts, counts) - words * _WORD, 0)
    high = np.minimum(np.repeat(ends, counts) - words * _WORD, _WORD)
    masks = ((1 << high) - (1 << low)).astype(np.uint64)
    rows_of = np.repeat(row, counts)
    order = np.lexsort((rows_of, words))
    return words[order].astype(np.uint64), masks[order], rows_of[order], np.repeat(lane, counts)[order]
