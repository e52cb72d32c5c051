"""wgmma.fence, wgmma.commit_group and wgmma.wait_group: section "Asynchronous wgmma Instructions"."""

from __future__ import annotations

from ptxlab.isa import context
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import CommitGroup, Completion, WaitGroup, WgmmaFence
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.wgmma._fragments import WARPS
from ptxlab.isa.wgmma._state import Warpgroup, warpgroup_of
from ptxlab.isa.wgmma._syntax import COMMIT_GROUP, FENCE, WAIT_GROUP

__all__: list[str] = []


@native(FENCE, effects=WgmmaFence())
def fence(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect on values: wgmma.mma_async reads its registers at issue or later."""
    return Nothing()


@service(COMMIT_GROUP, effects=CommitGroup(Completion.WGMMA_GROUP))
def commit_group(warp: context.WarpContext) -> None:
    """Commit the warp's uncommitted instructions to a new group, which may be empty."""
    group = warpgroup_of(warp)
    member = warp.warp_id % WARPS
    group.ends[member].append(group.issued[member])


@service(WAIT_GROUP, effects=WaitGroup(Completion.WGMMA_GROUP))
def wait_group(warp: context.WarpContext) -> context.Wait | None:
    """Wait until at most ``count`` of the newest groups are pending; then write D of the completed groups to its registers."""
    group = warpgroup_of(warp)
    ends = group.ends[warp.warp_id % WARPS]
    operand = warp.op.operands[0]
    if not isinstance(operand, Const):
        warp.fault("W904", "the number of groups of wgmma.wait_group must be an immediate")
    complete = len(ends) - operand.value
    if complete <= 0:
        return None
    end = ends[complete - 1]
    if group.performed < end:
        return _wait(group, end, operand.value)
    del ends[:complete]
    group.write_back(end)
    return None


def _wait(group: Warpgroup, end: int, count: int) -> context.Wait:
    def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
        absent = group.missing() if group.first < end else ""
        facts = [("not yet performed", f"{end - group.performed} wgmma.mma_async")]
        if absent:
            facts.append(("warps that have not executed the next of them", absent))
        return f"wgmma.wait_group {count} waits for operations of its warpgroup", tuple(facts)

    return context.Wait(ready=lambda: group.performed >= end, describe=describe, retry=True, on=group)
