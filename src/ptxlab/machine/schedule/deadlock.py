"""The report of a hang: for each wait, what is missing, and which instructions could supply it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ptxlab.isa.context import Supplied
from ptxlab.isa.effects import Supply
from ptxlab.isa.operands import Op
from ptxlab.machine.schedule.barriers import ClusterBarrier, MbarrierState, NamedBarrier
from ptxlab.machine.warp.warp import ConvergedLanes, Warp

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Explanation", "explain", "most_relevant"]

_ARRIVALS = Supply.ARRIVAL | Supply.COMPLETION_ARRIVAL
_MOST = 6


class Explanation(NamedTuple):
    """Facts (name, value) for the details of the report, and the fix."""

    facts: tuple[tuple[str, str], ...]
    fix: str


def most_relevant(groups: list[ConvergedLanes]) -> list[ConvergedLanes]:
    """Sort blocked lanes by how likely their wait is the cause of the hang.

    First are lanes whose mbarrier has a wrong transaction count, which no other warp can correct. Last are lanes at barriers of the CTA or
    the cluster, which often wait for threads that are blocked elsewhere.
    """
    return sorted(groups, key=lambda group: _rank(_awaited(group)))


def _rank(awaited: object) -> int:
    if isinstance(awaited, MbarrierState) and awaited.transactions:
        return 0
    return 2 if isinstance(awaited, NamedBarrier | ClusterBarrier) else 1


def explain(launch: Launch, groups: list[ConvergedLanes]) -> Explanation:
    """Explain all waits; the fix is for the first one that can be explained."""
    facts: list[tuple[str, str]] = []
    fix = ""
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
    facts += _cycle(launch, groups)
    return Explanation(tuple(facts), fix or "find what the first waiting thread expects, and what keeps it from happening")


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
            f"insert the missing arrival on the mbarrier that line {line} waits on: tcgen05.commit behind tcgen05 operations, "
            "mbarrier.arrive.expect_tx before copies, else mbarrier.arrive"
        )
        if barrier.phase and barrier.pending == barrier.expected:
            fix += f"; or wait with parity {barrier.phase & 1 ^ 1} if the phase that is complete is meant"
        elif barrier.pending == barrier.expected:
            fix += f"; or wait with parity {barrier.phase & 1 ^ 1}, which a fresh mbarrier passes"
        supply = _ARRIVALS
    facts = [(where, f"is missing {missing}")]
    facts += [("could come from", text) for text in _suppliers(launch, supply, groups)]
    return Explanation(tuple(facts), fix)


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
    if here <= index < blocks[block].stop:
        return True
    seen, work = set(), list(blocks[block].successors)
    while work:
        at = work.pop()
        if at in seen:
            continue
        seen.add(at)
        if blocks[at].start <= index < blocks[at].stop:
            return True
        work += blocks[at].successors
    return False


def _who(warp: Warp) -> str:
    return f"warp {warp.warp_id} of CTA {warp.cta.describe()}"


def _standing(warp: Warp) -> str:
    waits = [s for s in warp.converged if s.state or s.wait is not None]
    return f"waits at line {waits[0].instruction.line}" if waits else "is not waiting"
