"""An asynchronous instruction that PTX does not have: it fills 16 bytes of shared memory. All that ptxlab needs stands in this module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from ptxlab.engine.lowering.matching import candidates
from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import match, service
from ptxlab.isa.context import U8, Mbarrier, WarpContext
from ptxlab.isa.effects import Asynchronous, Completion, Space, Unit
from ptxlab.isa.operations import AsyncOperation, MemoryAccess

BYTES = 16


def _perform(target: U8, value: int, barrier: Mbarrier) -> None:
    target.view(np.uint32)[:] = value
    barrier.complete_tx(BYTES)


def _fill(warp: WarpContext) -> None:
    destination, value, mbarrier = warp.op.operands
    for lane in warp.lanes().tolist():
        cta, offset = warp.machine.shared_at(warp, warp.lane_value(destination, 64, lane))
        _, at = warp.machine.shared_at(warp, warp.lane_value(mbarrier, 64, lane))
        target, barrier = cta.shared[offset : offset + BYTES], cta.mbarrier(warp, at)
        perform = partial(_perform, target, warp.lane_value(value, 32, lane), barrier)
        operation = AsyncOperation(warp.op.opcode, warp.op, cta, perform, thread=(cta.ctaid, warp.warp_id, lane))
        operation.accesses = lambda target=target, barrier=barrier: (MemoryAccess.of(target, True, barrier),)
        warp.machine.enqueue(operation)


@contextmanager
def registered() -> Iterator[None]:
    """The catalogue has the instruction in here."""
    load_all()
    service(
        "ripple.async.shared::cta.mbarrier::complete_tx::bytes.b32",
        section="an invented one",
        outputs=0,
        effects=Asynchronous(Unit.TMA, Completion.BYTES, writes=Space.SHARED),
        destination="addr",
        value="b32",
        mbarrier="addr",
    )(_fill)
    try:
        yield
    finally:
        del CATALOGUE["ripple"]
        match.cache_clear()
        candidates.cache_clear()
