"""clusterlaunchcontrol: a running cluster asks for the work of one that has not started.

The response is opaque: here four words, the coordinates of the first CTA of the cancelled cluster, and whether one was cancelled.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxlab.isa import context as machine
from ptxlab.isa.bulk._endpoints import Target, delivered, lanes, shared_range, start
from ptxlab.isa.catalogue import service
from ptxlab.isa.operands import Group

__all__: list[str] = []

_SECTION = "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol."
_BYTES = 16
_AXES = {"x": 0, "y": 1, "z": 2}


@service(
    "clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.everywhere=multicast::cluster::all}.b128",
    section=_SECTION + "try_cancel",
    outputs=0,
    response="addr",
    mbarrier="addr",
)
def try_cancel(t: machine.Issue) -> None:
    """Ask for the next cluster; the response arrives like the bytes of a bulk copy."""
    for lane in lanes(t):
        _, offset = shared_range(t, 0, lane, _BYTES, _BYTES, True)
        _, at = shared_range(t, 1, lane, 8, 8, True)
        receivers = t.cta.cluster if t.q.everywhere else (t.cta,)
        targets = [(cta, offset, cta.mbarrier(t, at)) for cta in receivers]
        start(t, lane, partial(_answer, t.machine, targets), partial(delivered, targets, _BYTES))


def _answer(launch: machine.Machine, targets: list[Target]) -> None:
    first = launch.cancel_cluster()
    words = np.array([*first, 1] if first is not None else [0, 0, 0, 0], np.uint32)
    for cta, offset, barrier in targets:
        cta.shared[offset : offset + _BYTES] = words.view(np.uint8)
        barrier.complete_tx(_BYTES)


def _words(t: machine.Issue, position: int) -> machine.U32:
    """The response in all lanes, uint32[32, 4]."""
    low, high = t.values(position, 128)
    return np.stack([low, high], axis=1).view(np.uint32)


@service(
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
    section=_SECTION + "query_cancel",
    outputs=1,
    d="pred",
    response="b128",
)
def is_canceled(t: machine.Issue) -> None:
    """Whether a cluster was cancelled."""
    t.write(0, _words(t, 1)[:, 3] != 0, 1)


@service(
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128",
    section=_SECTION + "query_cancel",
    outputs=1,
    d="v4.b32",
    response="b128",
)
def first_ctaid(t: machine.Issue) -> None:
    """The first CTA of the cancelled cluster; the fourth element means nothing."""
    words, vector = _words(t, 1), t.op.operands[0]
    assert isinstance(vector, Group)
    for axis, item in enumerate(vector.items[:3]):
        t.write(item, np.ascontiguousarray(words[:, axis]))
    t.write(vector.items[3], 0)


@service(
    "clusterlaunchcontrol.query_cancel.(part=get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z).b32.b128",
    section=_SECTION + "query_cancel",
    outputs=1,
    d="b32",
    response="b128",
)
def first_ctaid_axis(t: machine.Issue) -> None:
    """One coordinate of the first CTA of the cancelled cluster."""
    t.write(0, np.ascontiguousarray(_words(t, 1)[:, _AXES[t.q.part[-1]]]))
