"""clusterlaunchcontrol: a running cluster cancels a cluster that has not started, and does its work.

The PTX ISA leaves the response opaque. Here it is four words: the coordinates of the first CTA of the cancelled cluster, and 1 if a cluster
was cancelled.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.bulk._endpoints import Target, delivered, lanes, shared_range, start
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Asynchronous, Completion, Extract, Space, Unit
from ptxlab.isa.operands import Group
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import at_least

_SECTION = "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol."
_NEEDS = needs("8.6", "sm_100", what="clusterlaunchcontrol")
_BYTES = 16
_AXES = {"x": 0, "y": 1, "z": 2}
_CANCELED = 3
"""The words of a response."""
_NO_WORD = -1


@service(
    "clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.everywhere=multicast::cluster::all}.b128",
    requires=(_NEEDS, needs(targets=at_least(100, "af"), when={"everywhere": "multicast::cluster::all"})),
    ordered=False,
    section=_SECTION + "try_cancel",
    outputs=0,
    effects=Asynchronous(Unit.LAUNCH_CONTROL, Completion.BYTES, writes=Space.SHARED),
    response="addr",
    mbarrier="addr",
)
def try_cancel(warp: context.WarpContext) -> None:
    """Request to cancel the next cluster; the response is written asynchronously and completes on an mbarrier, as a bulk copy does."""
    for lane in lanes(warp):
        _, offset = shared_range(warp, 0, lane, _BYTES, _BYTES, True)
        _, at = shared_range(warp, 1, lane, 8, 8, True)
        receivers = warp.cta.cluster if warp.q.everywhere else (warp.cta,)
        targets = [(cta, offset, cta.mbarrier(warp, at)) for cta in receivers]
        operation = start(warp, lane, partial(_answer, warp.machine, targets), partial(delivered, targets, _BYTES))
        warp.repeat_cancellation(operation)


def _answer(launch: context.Machine, targets: list[Target]) -> None:
    first = launch.cancel_cluster()
    words = np.array([*first, 1] if first is not None else [0, 0, 0, 0], np.uint32)
    for cta, offset, barrier in targets:
        cta.shared[offset : offset + _BYTES] = words.view(np.uint8)
        barrier.complete_tx(_BYTES)


def _words(warp: context.WarpContext, position: int) -> context.U32:
    """The response in all lanes, uint32[32, 4]."""
    low, high = warp.values(position, 128)
    return np.stack([low, high], axis=1).view(np.uint32)


@service(
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
    requires=_NEEDS,
    section=_SECTION + "query_cancel",
    outputs=1,
    effects=Extract((_CANCELED,)),
    d="pred",
    response="b128",
)
def is_canceled(warp: context.WarpContext) -> None:
    """Whether a cluster was cancelled."""
    warp.write(0, _words(warp, 1)[:, _CANCELED] != 0, 1)


@service(
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128",
    requires=_NEEDS,
    section=_SECTION + "query_cancel",
    outputs=1,
    effects=Extract((*_AXES.values(), _NO_WORD)),
    d="v4.b32",
    response="b128",
)
def first_ctaid(warp: context.WarpContext) -> None:
    """The coordinates of the first CTA of the cancelled cluster; the fourth element is unspecified."""
    words, vector = _words(warp, 1), warp.op.operands[0]
    assert isinstance(vector, Group)
    for axis, item in enumerate(vector.items[:3]):
        warp.write(item, np.ascontiguousarray(words[:, axis]))
    warp.write(vector.items[3], 0)


def _axis(q: Qualifiers) -> int:
    return _AXES[q.part[-1]]


@service(
    "clusterlaunchcontrol.query_cancel.(part=get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z).b32.b128",
    requires=_NEEDS,
    section=_SECTION + "query_cancel",
    outputs=1,
    effects=lambda q: Extract((_axis(q),)),
    d="b32",
    response="b128",
)
def first_ctaid_axis(warp: context.WarpContext) -> None:
    """One coordinate of the first CTA of the cancelled cluster."""
    warp.write(0, np.ascontiguousarray(_words(warp, 1)[:, _axis(warp.q)]))
