"""tcgen05.commit: section "TensorCore 5th Generation Async Synchronization Operations"."""

from __future__ import annotations

from functools import partial

from ptxlab.isa import context
from ptxlab.isa.bulk import lanes, masked, thread_of
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import Completion, CompletionArrival
from ptxlab.isa.tcgen05._state import enter

__all__: list[str] = []

_SECTION = "TensorCore 5th Generation Async Synchronization Operations"


def _commit(warp: context.WarpContext, multicast: bool) -> None:
    state, _ = enter(warp)
    for lane in lanes(warp):
        cta, offset = warp.machine.shared_at(warp, warp.lane_value(warp.op.operands[0], 64, lane))
        ctas = masked(warp, 1, lane) if multicast else [cta]
        barriers = [c.mbarrier(warp, offset) for c in ctas]
        thread = thread_of(warp, lane)
        if thread not in state.issuers:
            _nothing_to_track(warp)
        tracked = tuple(o for o in state.in_flight if o.thread == thread and not o.done)
        operation = context.AsyncOperation(warp.op.opcode, warp.op, warp.cta, partial(_arrive, barriers), thread=thread, after=tracked)
        warp.machine.enqueue(operation)


def _nothing_to_track(warp: context.WarpContext) -> None:
    warp.report(
        "T633",
        f"{warp.op.opcode} arrives at once: its thread has issued no tcgen05.mma, cp or shift",
        fix="let the thread that issues the operations execute tcgen05.commit; it does not track those of other threads",
    )


def _arrive(barriers: list[context.Mbarrier]) -> None:
    """All operations that the commit tracks are complete."""
    for barrier in barriers:
        barrier.arrive(1)


@service(
    "tcgen05.commit.(group=cta_group::1|cta_group::2).mbarrier::arrive::one{.space=shared::cluster}.b64",
    section=_SECTION,
    outputs=0,
    ordered=False,
    effects=CompletionArrival(Completion.COMMIT),
    mbarrier="addr",
)
def commit(warp: context.WarpContext) -> None:
    """Arrive on one mbarrier, of any CTA in the cluster, when the thread's earlier tcgen05 operations are complete."""
    _commit(warp, False)


@service(
    "tcgen05.commit.(group=cta_group::1|cta_group::2).mbarrier::arrive::one{.space=shared::cluster}.multicast::cluster.b64",
    section=_SECTION,
    outputs=0,
    ordered=False,
    effects=CompletionArrival(Completion.COMMIT),
    mbarrier="addr",
    mask="b16",
)
def commit_multicast(warp: context.WarpContext) -> None:
    """Arrive at the same shared offset in each CTA of the mask; the rank bits of the address play no part."""
    _commit(warp, True)
