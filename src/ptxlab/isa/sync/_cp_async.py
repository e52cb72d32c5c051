"""Completion of non-bulk asynchronous copies: cp.async groups, and arrival on an mbarrier."""

from __future__ import annotations

from typing import Any

from ptxlab._records import dataclass
from ptxlab.isa.catalogue import service
from ptxlab.isa.context import Wait, WarpContext
from ptxlab.isa.effects import CommitGroup, Completion, CompletionArrival, WaitGroup
from ptxlab.isa.operands import Const
from ptxlab.isa.operations import AsyncOperation
from ptxlab.isa.requirements import needs
from ptxlab.isa.sync._mbarrier import mbarrier_at, targets
from ptxlab.isa.sync._mbarrier_syntax import COPIES_ARRIVE

_SECTION = "Data Movement and Conversion Instructions: cp.async"
_NEEDS = needs("7.0", "sm_80")
_KEY = "cp.async groups"


@dataclass(slots=True)
class _Batch:
    """Copies of the lanes in ``mask``: a committed group, or copies that an mbarrier tracks."""

    mask: int
    operation: AsyncOperation
    group: bool


def _enqueue(warp: WarpContext, name: str, group: bool, signal: list[tuple[Any, int]]) -> None:
    """Issue the copies of the executing lanes since their last group as one asynchronous operation.

    Operations of a warp perform in order. ``signal`` lists mbarriers and the number of arrivals on each at completion.
    """
    cta, machine = warp.cta, warp.machine
    rows = warp.take_copies()
    operation = AsyncOperation(name, warp.op, cta, lambda: None, queue=("cp.async", id(cta), warp.warp_id))

    def perform() -> None:
        machine.perform_copies(cta, rows)
        for barrier, count in signal:
            barrier.arrive(count)

    operation.perform, operation.words = perform, rows
    batches: list[_Batch] = warp.state.setdefault(_KEY, [])
    batches[:] = [b for b in batches if not b.operation.done]
    batches.append(_Batch(warp.mask, operation, group))
    if len(rows) or signal:
        machine.enqueue(operation)
    else:
        operation.done = not any(not b.operation.done for b in batches[:-1])
        if not operation.done:
            machine.enqueue(operation)


@service("cp.async.commit_group", requires=_NEEDS, section=f"{_SECTION}.commit_group", effects=CommitGroup(Completion.COPY_GROUP))
def commit_group(warp: WarpContext) -> None:
    """Commit each executing thread's copies since its last group to a new group."""
    if warp.machine.policy != "eager":
        _enqueue(warp, "cp.async group", True, [])


def _pending(warp: WarpContext, mask: int, groups_only: bool) -> int:
    """The largest number of pending batches of a lane in ``mask``."""
    batches: list[_Batch] = []
    same = True
    for batch in warp.state.get(_KEY, ()):
        if not batch.operation.done and (own := batch.mask & mask) and (batch.group or not groups_only):
            batches.append(batch)
            same = same and own == mask
    if same:
        return len(batches)
    return max(sum(b.mask >> lane & 1 for b in batches) for lane in range(32) if mask >> lane & 1)


def _wait(warp: WarpContext, most: int, groups_only: bool) -> Wait | None:
    mask = warp.mask
    if _pending(warp, mask, groups_only) <= most:
        return None

    def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
        return f"waits until at most {most} cp.async groups are pending", (("pending", str(_pending(warp, mask, groups_only))),)

    return Wait(lambda: _pending(warp, mask, groups_only) <= most, describe)


@service(
    "cp.async.wait_group",
    requires=_NEEDS,
    section=f"{_SECTION}.wait_group",
    outputs=0,
    effects=WaitGroup(Completion.COPY_GROUP),
    count="u32",
)
def wait_group(warp: WarpContext) -> Wait | None:
    """Wait until at most ``count`` of the newest groups are pending."""
    if warp.machine.policy == "eager":
        return None
    operand = warp.op.operands[0]
    return _wait(warp, operand.value & 0xFFFFFFFF if isinstance(operand, Const) else warp.uniform(0), True)


@service("cp.async.wait_all", requires=_NEEDS, section=f"{_SECTION}.wait_all", effects=WaitGroup(Completion.COPY_GROUP, everything=True))
def wait_all(warp: WarpContext) -> Wait | None:
    """Wait for all copies of the executing threads."""
    if warp.machine.policy == "eager":
        return None
    _enqueue(warp, "cp.async group", False, [])
    return _wait(warp, 0, False)


@service(COPIES_ARRIVE, outputs=0, effects=CompletionArrival(Completion.COPY_GROUP))
def mbarrier_arrive(warp: WarpContext) -> None:
    """Arrive on mbarriers when the copies of the executing threads are complete."""
    signal: list[tuple[Any, int]] = []
    for address, lanes in targets(warp, 0):
        barrier: Any = mbarrier_at(warp, address)
        count = lanes.bit_count()
        if not warp.q.noinc:
            barrier.add_pending(count)
        signal.append((barrier, count))
    if warp.machine.policy == "eager":
        for barrier, count in signal:
            barrier.arrive(count)
    else:
        _enqueue(warp, "cp.async completion", False, signal)
