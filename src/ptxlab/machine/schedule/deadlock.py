"""Hangs: whether a launch still makes progress, and the report of one that does not.

The report says for each wait what is missing, and which instructions could supply it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ptxlab._digests import blake2b
from ptxlab._records import dataclass
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.program import Program
from ptxlab.isa.context import Supplied
from ptxlab.isa.effects import Supply
from ptxlab.isa.operands import Op
from ptxlab.machine.schedule.barriers import ClusterBarrier, MbarrierState, NamedBarrier
from ptxlab.machine.warp.warp import CONVERGE, ConvergedLanes, Warp

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Explanation", "Watch", "explain", "most_relevant"]

_ARRIVALS = Supply.ARRIVAL | Supply.COMPLETION_ARRIVAL
_MOST = 6


class Explanation(NamedTuple):
    """Facts (name, value) for the details of the report, the fix, and what the first wait is for, as a part of the message."""

    facts: tuple[tuple[str, str], ...]
    fix: str
    cause: str = ""


def most_relevant(groups: list[ConvergedLanes]) -> list[ConvergedLanes]:
    """Sort blocked lanes by how likely their wait is the cause of the hang.

    First are lanes whose mbarrier has a wrong transaction count, which no other warp can correct. Last are lanes at barriers of the warp,
    the CTA or the cluster, which often wait for threads that are blocked elsewhere.
    """
    return sorted(groups, key=_rank)


def _rank(group: ConvergedLanes) -> int:
    awaited = _awaited(group)
    if isinstance(awaited, MbarrierState) and awaited.transactions:
        return 0
    return 2 if isinstance(awaited, NamedBarrier | ClusterBarrier) or group.state == CONVERGE else 1


def explain(launch: Launch, groups: list[ConvergedLanes]) -> Explanation:
    """Explain all waits; the fix is for the first one that can be explained."""
    facts: list[tuple[str, str]] = []
    fix = cause = ""
    seen: set[int] = set()
    for group in groups:
        on = group.wait.on if group.wait is not None else None
        if on is None or id(on) in seen or len(facts) >= _MOST:
            continue
        seen.add(id(on))
        if isinstance(on, MbarrierState):
            found = _mbarrier(launch, group, on, groups)
        elif isinstance(on, NamedBarrier | ClusterBarrier):
            found = _barrier(launch, group, on)
        elif isinstance(on, Supplied):
            able = [s for s in groups if _awaited(s) is not on and on.supplied_by(s.warp.cta, s.warp.warp_id)]
            found = Explanation(tuple(("could come from", text) for text in _suppliers(launch, on.awaits, able)), on.advice())
        else:
            continue
        facts += found.facts
        fix = fix or found.fix + _barrier_first(launch, group, groups)
        cause = cause or found.cause
    facts += _cycle(launch, groups)
    return Explanation(tuple(facts), fix or "find what the first waiting thread expects, and what keeps it from happening", cause)


def _mbarrier(launch: Launch, group: ConvergedLanes, barrier: MbarrierState, groups: list[ConvergedLanes]) -> Explanation:
    where = f"mbarrier at shared offset {barrier.offset:#x} of CTA rank {barrier.rank}"
    line = group.instruction.line
    if barrier.transactions < 0 < barrier.pending:
        missing = f"{barrier.pending} arrivals and the announcement of {-barrier.transactions} bytes that have arrived"
        fix = f"insert mbarrier.arrive.expect_tx of {-barrier.transactions} bytes on the mbarrier that line {line} waits on"
        supply = Supply.ARRIVAL | Supply.EXPECTATION
    elif barrier.transactions < 0:
        missing = f"nothing but the announcement of {-barrier.transactions} bytes that have arrived"
        fix = f"let expect_tx announce {-barrier.transactions} bytes more on the mbarrier that line {line} waits on"
        supply = Supply.EXPECTATION
    elif barrier.transactions > 0:
        missing = f"{barrier.transactions} bytes" + (f" and {barrier.pending} arrivals" if barrier.pending else "")
        fix = (
            f"issue the copy of the missing {barrier.transactions} bytes, or let expect_tx announce what the copies bring "
            f"(line {line} waits)"
        )
        supply = Supply.BYTES
    else:
        missing = f"{barrier.pending} of {barrier.expected} arrivals in phase {barrier.phase} (parity {barrier.phase & 1})"
        fix = (
            f"insert the missing arrival on the mbarrier that line {line} waits on: tcgen05.commit after tcgen05 operations, "
            "mbarrier.arrive.expect_tx before copies, else mbarrier.arrive"
        )
        if barrier.phase and barrier.pending == barrier.expected:
            fix += f"; or wait with parity {barrier.phase & 1 ^ 1} if the phase that is complete is meant"
        elif barrier.pending == barrier.expected:
            fix += f"; or wait with parity {barrier.phase & 1 ^ 1}, which a fresh mbarrier passes"
        supply = _ARRIVALS
    facts = [(where, f"is missing {missing}")]
    facts += [("could come from", text) for text in _suppliers(launch, supply, groups)]
    return Explanation(tuple(facts), fix, f"the {where} is missing {missing}; ")


def _supplies(op: Op, supply: Supply) -> bool:
    return op.effects is not None and bool(op.effects.supplies & supply)


def _suppliers(launch: Launch, supply: Supply, groups: list[ConvergedLanes]) -> Iterator[str]:
    """Describe the instructions that supply an effect: whether they have run, and which warp can still reach them."""
    counts = launch.scheduler.services
    ops = [op for op in launch.program.ops if _supplies(op, supply)]
    ops.sort(key=lambda op: (counts[op.index] > 0, op.line))
    for op in ops[:_MOST]:
        reach = [s for s in groups if _reaches(s, op.index)]
        ahead = (
            f"{_who(reach[0].warp)} would reach it, but waits at line {reach[0].instruction.line}" if reach else "no thread will reach it"
        )
        times = counts[op.index]
        yield (
            f"line {op.line}: {op.short}, executed {times} times; {ahead}"
            if times
            else f"line {op.line}: {op.short}, never executed; {ahead}"
        )


def _barrier_first(launch: Launch, group: ConvergedLanes, groups: list[ConvergedLanes]) -> str:
    """An additional fix: arrive first at the barrier that blocks a warp which could end the wait."""
    other = _supplier(launch, group, groups)
    on = None if other is None else _awaited(other)
    if other is None or not isinstance(on, NamedBarrier | ClusterBarrier) or group.warp not in _absent(other, on):
        return ""
    what = "the cluster barrier" if isinstance(on, ClusterBarrier) else f"barrier {on.id}"
    return (
        f"; or let {_who(group.warp)} arrive at {what} before line {group.instruction.line}: "
        f"{_who(other.warp)}, which could end the wait, waits there for it at line {other.instruction.line}"
    )


def _absent(group: ConvergedLanes, barrier: NamedBarrier | ClusterBarrier) -> list[Warp]:
    """The warps that have not arrived at a barrier."""
    warps = [w for cta in group.warp.cta.group.ctas for w in cta.warps] if isinstance(barrier, ClusterBarrier) else group.warp.cta.warps
    return [w for w in warps if w.live and not any(s.wait is not None and s.wait.on is barrier for s in w.converged)]


def _barrier(launch: Launch, group: ConvergedLanes, barrier: NamedBarrier | ClusterBarrier) -> Explanation:
    absent = _absent(group, barrier)
    what = "the cluster barrier" if isinstance(barrier, ClusterBarrier) else f"barrier {barrier.id}"
    facts = [(what, f"{_who(w)} has not arrived: it {_standing(w)}") for w in absent[:_MOST]]
    line = group.instruction.line
    if not absent:
        text = f"more threads are expected at {what} than there are: correct the thread count at line {line}"
    else:
        text = f"let {_who(absent[0])} arrive at {what} (line {line} waits), or expect fewer threads there"
    return Explanation(tuple(facts), text)


def _cycle(launch: Launch, groups: list[ConvergedLanes]) -> Iterator[tuple[str, str]]:
    """Threads that wait for each other: a cycle of waits."""
    nexts: dict[int, ConvergedLanes] = {}
    for group in groups:
        supplier = _supplier(launch, group, groups)
        if supplier is not None:
            nexts[id(group)] = supplier
    for start in groups:
        chain, at = [start], nexts.get(id(start))
        while at is not None and at not in chain:
            chain.append(at)
            at = nexts.get(id(at))
        if at is start and len(chain) > 1:
            steps = " -> ".join(f"{_who(s.warp)} (line {s.instruction.line})" for s in (*chain, start))
            yield "may wait for each other", steps
            return


def _supplier(launch: Launch, group: ConvergedLanes, groups: list[ConvergedLanes]) -> ConvergedLanes | None:
    """Blocked lanes that could end the wait of other ones if they continued."""
    on = _awaited(group)
    if isinstance(on, NamedBarrier | ClusterBarrier):
        absent = _absent(group, on)
        return next((s for s in groups if s.warp in absent), None)
    others = [s for s in groups if _awaited(s) is not on]
    if isinstance(on, MbarrierState):
        supply = Supply.BYTES if on.transactions > 0 else _ARRIVALS
    elif isinstance(on, Supplied):
        supply, others = on.awaits, [s for s in others if on.supplied_by(s.warp.cta, s.warp.warp_id)]
    else:
        return None
    return next((s for op in launch.program.ops if _supplies(op, supply) for s in others if _reaches(s, op.index)), None)


def _awaited(group: ConvergedLanes) -> object:
    return group.wait.on if group.wait is not None else None


def _reaches(group: ConvergedLanes, index: int) -> bool:
    """Whether converged lanes can still reach an op, by the control-flow graph."""
    blocks = group.warp.launch.program.blocks
    here = group.instruction.index
    block = next(n for n, b in enumerate(blocks) if b.start <= here < b.stop)
    following = _reachable([b.successors for b in blocks], block)
    return here <= index < blocks[block].stop or any(blocks[n].start <= index < blocks[n].stop for n in following)


def _who(warp: Warp) -> str:
    return f"warp {warp.warp_id} of CTA {warp.cta.describe()}"


def _standing(warp: Warp) -> str:
    waits = [s for s in warp.converged if s.state or s.wait is not None]
    return f"waits at line {waits[0].instruction.line}" if waits else "is not waiting"


# ---------------------------------------------------------------------------------------------------------------- progress

Places = tuple[tuple[int, int, int], ...]

_PATIENCE = 4
"""Rounds without progress before states are compared."""
_EVERY = 64
"""As many states after the one that is remembered are compared with it; of later ones only those at powers of two."""


@dataclass(slots=True)
class _Mark:
    """A state to compare later ones with; memory is recorded only when program counters and registers were found equal once."""

    round: int
    places: Places
    registers: bytes
    memory: bytes | None


@dataclass(eq=False)
class Watch:
    """Finds out whether a launch that executes instructions without end repeats itself: compares its whole state between rounds.

    The machine is deterministic: a state that occurs twice proves that the launch repeats itself forever. States are compared by Brent's
    method, cheapest part first: a counter of what mbarriers and asynchronous operations do, then program counters, then registers and the
    barriers of CTAs and clusters, then memory.
    """

    _launch: Launch
    _round: int = 0
    _progress: int = -1
    _mark: _Mark | None = None
    _blocked: set[bytes] = field(default_factory=set)
    _blocked_progress: int = -1

    def repeats(self) -> bool:
        """Return whether a state has occurred before; called after a round in which all warps have used up their slices."""
        if self._progress != self._launch.progress:
            self._progress = self._launch.progress
            self._round = 0
            self._mark = None
        self._round += 1
        if self._round < _PATIENCE or self._reads_clock():
            return False
        places = self._places()
        mark = self._mark
        if mark is not None:
            age = self._round - mark.round
            if places == mark.places and (age <= _EVERY or age & (age - 1) == 0) and self._registers() == mark.registers:
                memory = self._memory()
                if mark.memory == memory:
                    self._mark = None
                    return True
                self._mark = _Mark(self._round, places, mark.registers, memory)
                return False
        if mark is None or self._round >= 2 * mark.round:
            self._mark = _Mark(self._round, places, self._registers(), None)
        return False

    def digest(self) -> int:
        """A digest of program counters and registers."""
        return hash((self._places(), self._registers()))

    def is_new(self) -> bool:
        """Record the state in which all warps wait; return False if it has occurred since the last progress."""
        if self._blocked_progress != self._launch.progress:
            self._blocked_progress = self._launch.progress
            self._blocked.clear()
            return True
        if self._reads_clock():
            return True
        state = repr(self._places()).encode() + self._registers() + self._memory()
        if state in self._blocked:
            return False
        self._blocked.add(state)
        return True

    @cached_property
    def _clock_loops(self) -> frozenset[int]:
        return _clocked(self._launch.program)

    def _reads_clock(self) -> bool:
        """Return whether some lanes run in a loop that reads a clock: the time is a part of their state and never repeats."""
        return bool(self._clock_loops) and any(
            (s.op if s.state else s.pc) in self._clock_loops for cta in self._launch.resident for warp in cta.warps for s in warp.converged
        )

    def _places(self) -> Places:
        return tuple((s.pc, s.mask, s.state) for cta in self._launch.resident for w in cta.warps for s in w.converged)

    def _registers(self) -> bytes:
        """A digest of registers and of the barriers of CTAs and clusters."""
        digest = blake2b(digest_size=16)
        for cta in self._launch.resident:
            digest.update(repr((cta.group.barrier.state(cta.group), *(barrier.state() for barrier in cta.named.values()))).encode())
            for warp in cta.warps:
                if warp.converged:
                    digest.update(warp.memory())
        return digest.digest()

    def _memory(self) -> bytes:
        digest = blake2b(digest_size=16)
        for cta in self._launch.resident:
            digest.update(cta.shared.data)
            for first, columns in cta.tensor.allocations_of(cta):
                digest.update(cta.tensor.words[first : first + columns].data)
        for allocation in self._launch.device.memory.live():
            if allocation.writable:
                digest.update(allocation.data.data)
        return digest.digest()


def _clocked(program: Program) -> frozenset[int]:
    """Return the ops in loops that read a clock."""
    clocks = {number for number, register in enumerate(program.registers) if register.special in CLOCKS}
    if not clocks:
        return frozenset()
    after = [block.successors for block in program.blocks]
    before: list[list[int]] = [[] for _ in after]
    for number, successors in enumerate(after):
        for successor in successors:
            before[successor].append(number)
    found: set[int] = set()
    for number, block in enumerate(program.blocks):
        if any(clocks.intersection(registers) for registers in program.reads[block.start : block.stop]):
            for n in _reachable(after, number) & _reachable(before, number):
                found.update(range(program.blocks[n].start, program.blocks[n].stop))
    return frozenset(found)


def _reachable(edges: Sequence[Sequence[int]], start: int) -> set[int]:
    """The blocks to which edges lead from one; itself only if it is in a loop."""
    seen: set[int] = set()
    work = list(edges[start])
    while work:
        at = work.pop()
        if at not in seen:
            seen.add(at)
            work += edges[at]
    return seen
