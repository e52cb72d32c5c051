"""Bulk async-groups of threads: cp.async.bulk.commit_group and wait_group."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxlab.isa import context
from ptxlab.isa.bulk._linear_syntax import COMMIT_GROUP, WAIT_GROUP
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import CommitGroup, Completion, WaitGroup
from ptxlab.isa.operands import Const

__all__ = ["track"]

_KEY = "bulk groups"


@dataclass(slots=True)
class _Thread:
    """The uncommitted operations of one thread, and its committed groups that may be pending, oldest first."""

    open: list[context.AsyncOperation] = field(default_factory=list)
    groups: list[list[context.AsyncOperation]] = field(default_factory=list)


def track(warp: context.WarpContext, lane: int, operation: context.AsyncOperation) -> None:
    """Add an operation to the thread's next bulk group, unless it is complete already."""
    if not operation.done:
        threads: dict[int, _Thread] = warp.state.setdefault(_KEY, {})
        threads.setdefault(lane, _Thread()).open.append(operation)


@service(COMMIT_GROUP, outputs=0, effects=CommitGroup(Completion.BULK_GROUP))
def commit_group(warp: context.WarpContext) -> None:
    """Commit each executing thread's uncommitted operations to a new group, which may be empty."""
    threads: dict[int, _Thread] | None = warp.state.get(_KEY)
    if not threads:
        return
    for lane, thread in threads.items():
        if warp.mask >> lane & 1:
            thread.groups.append(thread.open)
            thread.open = []


@service(WAIT_GROUP, outputs=0, effects=lambda q: WaitGroup(Completion.BULK_GROUP, sources=q.read))
def wait_group(warp: context.WarpContext) -> context.Wait | None:
    """Wait until at most ``count`` of each thread's newest groups are pending."""
    threads: dict[int, _Thread] | None = warp.state.get(_KEY)
    if not threads:
        return None
    operand = warp.op.operands[0]
    count = operand.value if isinstance(operand, Const) else warp.uniform(operand)
    awaited: list[context.AsyncOperation] = []
    for lane, thread in list(threads.items()):
        if not warp.mask >> lane & 1:
            continue
        groups = thread.groups
        while groups and all(o.done for o in groups[0]):
            del groups[0]
        awaited += [o for group in groups[: max(len(groups) - count, 0)] for o in group if not o.done]
        if not groups and not thread.open:
            del threads[lane]
    if not awaited:
        return None
    opcode = warp.op.opcode
    return context.Wait(
        ready=lambda: all(o.done for o in awaited),
        describe=lambda: (
            f"{opcode} {count} waits for bulk copies of its thread",
            (("pending", ", ".join(f"{o.name} at line {o.op.line}" for o in awaited if not o.done)),),
        ),
    )
