"""wgmma.fence, wgmma.commit_group and wgmma.wait_group: section "Asynchronous wgmma Instructions"."""

from __future__ import annotations

from ptxlab.isa import context
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import CommitGroup, Completion, WaitGroup, WgmmaFence
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.wgmma._fragments import WARPS
from ptxlab.isa.wgmma._state import warpgroup_of
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
        return group.wait_for(end, f"wgmma.wait_group {operand.value} waits for operations of its warpgroup", retry=True)
    del ends[:complete]
    group.write_back(end)
    return None
