"""tcgen05.commit: section "TensorCore 5th Generation Instructions: tcgen05.commit"."""

from __future__ import annotations

from functools import partial

from ptxlab.isa import context
from ptxlab.isa.bulk import lanes, masked, thread_of
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import Completion, CompletionArrival
from ptxlab.isa.form import IGNORED, form
from ptxlab.isa.kinds import SHORTS, Address, Register
from ptxlab.isa.tcgen05._state import enter
from ptxlab.isa.tcgen05._syntax import GROUPS, SINCE

__all__: list[str] = []

_COMMIT = form(
    "tcgen05.commit",
    f"{GROUPS}.(completion_mechanism=mbarrier::arrive::one){{.space=shared::cluster}}{{.multicast=multicast::cluster}}.b64",
    ("[mbar]", {"multicast": (None,)}),
    ("[mbar] ctaMask", {"multicast": ("multicast::cluster",)}),
    kinds={
        "[mbar]": Address({"space": (None,)}),
        "ctaMask": Register(SHORTS, "ctaMask in a 16-bit register", True, True, values=lambda v: 0 <= v <= 65535),
    },
    section="TensorCore 5th Generation Instructions: tcgen05.commit",
    requires=SINCE,
    ignored=IGNORED | {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
)


@service(_COMMIT, outputs=0, effects=CompletionArrival(Completion.COMMIT))
def commit(warp: context.WarpContext) -> None:
    """Arrive on an mbarrier when the thread's earlier tcgen05 operations are complete.

    It is one mbarrier of any CTA in the cluster. With a multicast, it is the one at the same shared offset in each CTA of the mask, and the
    rank bits of the address are ignored.
    """
    state, _ = enter(warp)
    for lane in lanes(warp):
        cta, offset = warp.machine.shared_at(warp, warp.lane_value(warp.op.operands[0], 64, lane))
        ctas = masked(warp, 1, lane) if warp.q.multicast else [cta]
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
    """Arrive; called when all operations that the commit tracks are complete."""
    for barrier in barriers:
        barrier.arrive(1)
