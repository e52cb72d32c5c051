"""cp.async.bulk and cp.reduce.async.bulk of contiguous bytes, and their prefetch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.bulk._endpoints import Target, delivered, generic_address, lanes, moved, shared_range, signal_targets, start
from ptxlab.isa.bulk._groups import track
from ptxlab.isa.bulk._reduce import FLOATS, Combine, combiner, watched
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import Asynchronous, Completion, Space, Unit
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op

__all__: list[str] = []

_SECTION = "Data Movement and Conversion Instructions: cp.async.bulk"
_REDUCE = "Data Movement and Conversion Instructions: cp.reduce.async.bulk"
_PREFETCH = "Data Movement and Conversion Instructions: cp.async.bulk.prefetch"
_TO_SHARED = Asynchronous(Unit.TMA, Completion.BYTES, writes=Space.SHARED)
_TO_GLOBAL = Asynchronous(Unit.TMA, Completion.BULK_GROUP, writes=Space.GLOBAL)
_UNIT = 16
"""Sizes are multiples of 16 bytes, addresses too."""


def _size(warp: context.WarpContext, lane: int) -> int:
    size = warp.lane_value(warp.op.operands[2], 32, lane)
    if size % _UNIT:
        warp.fault("C902", f"the size is {size} bytes, not a multiple of {_UNIT}", fix=f"copy a multiple of {_UNIT} bytes")
    return size


def _global(warp: context.WarpContext, position: int, lane: int, size: int, write: bool) -> context.U8:
    address = generic_address(warp, position, lane)
    if address % _UNIT:
        warp.fault("C901", f"operand {position + 1}, global address {address:#x}, is not a multiple of {_UNIT}")
    return warp.machine.global_view(warp, address, size, write)


def _fetch(warp: context.WarpContext, mask: int) -> None:
    own = warp.q.destination == "shared::cta"
    for lane in lanes(warp):
        size = _size(warp, lane)
        destination = shared_range(warp, 0, lane, size, _UNIT, own)
        source = _global(warp, 1, lane, size, False)
        targets = signal_targets(warp, lane, destination, 3, mask, False)
        start(warp, lane, partial(_deliver, source, size, targets, None), partial(delivered, targets, size, source))


def _exchange(warp: context.WarpContext, combine: Combine | None) -> None:
    """Shared memory of this CTA to that of a CTA in the cluster."""
    for lane in lanes(warp):
        size = _size(warp, lane)
        destination = shared_range(warp, 0, lane, size, _UNIT, False)
        cta, offset = shared_range(warp, 1, lane, size, _UNIT, True)
        targets = signal_targets(warp, lane, destination, 3, -1, False)
        source = cta.shared[offset : offset + size]
        start(warp, lane, partial(_deliver, source, size, targets, combine), partial(delivered, targets, size, source))


def _deliver(source: context.U8, size: int, targets: list[Target], combine: Combine | None) -> None:
    for cta, offset, barrier in targets:
        target = cta.shared[offset : offset + size]
        if combine is None:
            target[:] = source
        else:
            combine(target, source)
        barrier.complete_tx(size)


def _write(warp: context.WarpContext, combine: Combine | None, mask: int = -1) -> None:
    for lane in lanes(warp):
        size = _size(warp, lane)
        target = _global(warp, 0, lane, size, True)
        cta, offset = shared_range(warp, 1, lane, size, _UNIT, True)
        source = cta.shared[offset : offset + size]
        each = combine and watched(warp, warp.q.operation, warp.q.type, combine)
        if mask >= 0:
            each = _masked(warp.lane_value(warp.op.operands[mask], 16, lane))
        track(warp, lane, start(warp, lane, partial(_put, target, source, each), partial(moved, source, target)))


def _put(target: context.U8, source: context.U8, combine: Combine | None) -> None:
    if combine is None:
        target[:] = source
    else:
        combine(target, source)


def _masked(mask: int) -> Combine:
    """Write the bytes of each 16 whose bits are set."""
    written = np.array([mask >> i & 1 for i in range(_UNIT)], bool)

    def write(target: context.U8, source: context.U8) -> None:
        np.copyto(target.reshape(-1, _UNIT), source.reshape(-1, _UNIT), where=written)

    return write


def _combine(warp: context.WarpContext) -> Combine:
    combine = combiner(warp.q.operation, warp.q.type)
    if combine is None:
        warp.fault("D726", f".{warp.q.operation} is not available for .{warp.q.type}")
    return combine


def _reduction(q: Qualifiers) -> Asynchronous:
    return replace(_TO_GLOBAL, atomic=True, adds_floats=q.operation == "add" and q.type in FLOATS)


def _prefetch(q: Qualifiers, op: Op) -> Nothing:
    """Bring nothing nearer: caches are not modelled."""
    return Nothing()


@service(
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
    section=_SECTION,
    fidelity="hardware",
    outputs=0,
    effects=_TO_SHARED,
    destination="addr",
    source="addr",
    size="u32",
    mbarrier="addr",
)
def exchange(warp: context.WarpContext) -> None:
    """Copy between shared memories."""
    _exchange(warp, None)


@service(
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    ".(operation=and|or|xor|add|inc|dec|min|max).(type=b32|u32|s32|u64|b64)",
    section=_REDUCE,
    fidelity="hardware",
    outputs=0,
    effects=replace(_TO_SHARED, atomic=True),
    destination="addr",
    source="addr",
    size="u32",
    mbarrier="addr",
)
def exchange_reduce(warp: context.WarpContext) -> None:
    """Reduce into another CTA's shared memory."""
    _exchange(warp, _combine(warp))


def _declare(hint: bool) -> None:
    hinted = ".L2::cache_hint" if hint else ""
    policy = {"policy": "b64"} if hint else {}
    for multicast in (False, True):
        spread = ".multicast::cluster" if multicast else ""
        mask = {"mask": "b16"} if multicast else {}

        def fetch(warp: context.WarpContext, position: int = 4 if multicast else -1) -> None:
            _fetch(warp, position)

        service(
            f"cp.async.bulk.(destination=shared::cta|shared::cluster).global.mbarrier::complete_tx::bytes{spread}{hinted}",
            section=_SECTION,
            fidelity="hardware",
            outputs=0,
            effects=_TO_SHARED,
            destination="addr",
            source="addr",
            size="u32",
            mbarrier="addr",
            **mask,
            **policy,
        )(fetch)
    service(
        f"cp.async.bulk.global.shared::cta.bulk_group{hinted}",
        section=_SECTION,
        fidelity="hardware",
        outputs=0,
        effects=_TO_GLOBAL,
        destination="addr",
        source="addr",
        size="u32",
        **policy,
    )(lambda t: _write(t, None))
    service(
        f"cp.async.bulk.global.shared::cta.bulk_group{hinted}.cp_mask",
        section=_SECTION,
        outputs=0,
        effects=_TO_GLOBAL,
        destination="addr",
        source="addr",
        size="u32",
        **policy,
        byte_mask="b16",
    )(lambda t: _write(t, None, 4 if hint else 3))
    service(
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group{hinted}.(operation=and|or|xor|add|inc|dec|min|max){{.noftz}}"
        ".(type=f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64)",
        section=_REDUCE,
        fidelity="hardware",
        outputs=0,
        effects=_reduction,
        destination="addr",
        source="addr",
        size="u32",
        **policy,
    )(lambda t: _write(t, _combine(t)))
    native(
        f"cp.async.bulk.prefetch.L2.global{hinted}",
        section=_PREFETCH,
        outputs=0,
        source="addr",
        size="u32",
        **policy,
    )(_prefetch)


for _hint in (False, True):
    _declare(_hint)
