"""cp.async.bulk and cp.reduce.async.bulk of contiguous bytes, and their prefetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial

import numpy as np

from ptxlab._records import dataclass
from ptxlab.isa import context, operations
from ptxlab.isa.bulk._box_words import repeat_line
from ptxlab.isa.bulk._endpoints import Target, delivered, generic_address, lanes, moved, shared_range, signal_targets, start, track
from ptxlab.isa.bulk._linear_syntax import COPY, MULTICAST, PREFETCH, REDUCE, TO_CLUSTER, TO_CTA, TO_GLOBAL, TO_PEER
from ptxlab.isa.bulk._reduce import FLOATS, Combine, combiner, put, put_undefined, undefined_combiner, watched
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import Asynchronous, Completion, LineOperands, Space, Unit
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.isa.operations.tiles import CopiedBytes

_TO_CTA = Asynchronous(Unit.TMA, Completion.BYTES, writes=Space.SHARED, line=LineOperands(memory=1, shared=0, size=2, barrier=3))
_TO_CLUSTER = replace(_TO_CTA, line=LineOperands(memory=1, shared=0, size=2, barrier=3, ctas=4))
_TO_GLOBAL = Asynchronous(Unit.TMA, Completion.BULK_GROUP, writes=Space.GLOBAL, line=LineOperands(memory=0, shared=1, size=2))
_MASKED_TO_GLOBAL = replace(_TO_GLOBAL, line=LineOperands(memory=0, shared=1, size=2, mask=4))
_UNIT = 16
"""Sizes and addresses are multiples of this number of bytes."""
_PLAIN = {"sem": None, "scope": None, "report": None, "ignore_oob": None, "type": None}
_RELAXED = {"sem": None, "scope": None}


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


def _combine(warp: context.WarpContext) -> Combine | None:
    """The operation of a reduction; None for a copy."""
    operation: str | None = warp.q.get("redOp")
    if operation is None:
        return None
    combine = combiner(operation, warp.q.type)
    values = warp.op.row.values(warp.q)
    if combine is None or any(rule.executed and rule.is_broken(values) for rule in REDUCE.rules):
        warp.fault("D726", f".{operation} is not available for .{warp.q.type}")
    return combine


@dataclass(slots=True, eq=False)
class _Copies:
    """The copies that an execution has issued, with their lanes: the last one of each size."""

    warp: context.WarpContext
    _by_size: dict[int, tuple[int, operations.AsyncOperation]] = field(default_factory=dict)

    def add(self, lane: int, operation: operations.AsyncOperation, size: int) -> None:
        self._by_size[size] = lane, operation

    def repeat(self) -> None:
        """Let compiled code do the same."""
        warp = self.warp
        element = warp.q.get("type") if warp.q.get("redOp") else None
        for size, (lane, operation) in self._by_size.items():
            repeat_line(warp, lane, operation, size, element)


def _reduction(q: Qualifiers) -> Asynchronous:
    return replace(_TO_GLOBAL, atomic=True, adds_floats=q.redOp == "add" and q.type in FLOATS)


@service(COPY, only={"direction": TO_CTA, **_PLAIN}, fidelity="hardware", outputs=0, effects=_TO_CTA)
@service(
    COPY, only={"direction": TO_CLUSTER, "multicast": (None, MULTICAST[0]), **_PLAIN}, fidelity="hardware", outputs=0, effects=_TO_CLUSTER
)
def fetch(warp: context.WarpContext) -> None:
    """Copy from global memory to the CTA's shared memory, to that of one CTA of the cluster, or to those of all CTAs in a mask."""
    own, copies = warp.q.direction == TO_CTA, _Copies(warp)
    for lane in lanes(warp):
        size = _size(warp, lane)
        destination = shared_range(warp, 0, lane, size, _UNIT, own)
        source = _global(warp, 1, lane, size, False)
        targets = signal_targets(warp, lane, destination, 3, -1 if own else 4, False)
        copies.add(lane, _start(warp, lane, source, size, targets, None, generic_address(warp, 1, lane)), size)
    copies.repeat()


@service(COPY, only={"direction": TO_PEER, **_PLAIN}, fidelity="hardware", outputs=0, effects=_TO_CTA)
@service(REDUCE, only={"direction": TO_PEER, **_RELAXED}, fidelity="hardware", outputs=0, effects=replace(_TO_CTA, atomic=True))
def exchange(warp: context.WarpContext) -> None:
    """Copy or reduce from shared memory of this CTA to that of a CTA in the cluster."""
    combine, copies = _combine(warp), _Copies(warp)
    for lane in lanes(warp):
        size = _size(warp, lane)
        destination = shared_range(warp, 0, lane, size, _UNIT, False)
        cta, offset = shared_range(warp, 1, lane, size, _UNIT, True)
        targets = signal_targets(warp, lane, destination, 3, -1, False)
        source = cta.shared[offset : offset + size]
        copies.add(lane, _start(warp, lane, source, size, targets, combine, (cta, offset)), size)
    copies.repeat()


def _start(
    warp: context.WarpContext,
    lane: int,
    source: context.U8,
    size: int,
    targets: list[Target],
    combine: Combine | None,
    origin: int | tuple[context.Cta, int],
) -> operations.AsyncOperation:
    """Issue a copy or reduction to shared memory; ``origin`` is where the source lies in global or in shared memory."""
    undefined = partial(_deliver_undefined, source, size, targets, combine and undefined_combiner(warp.q.type))
    perform, accesses = partial(_deliver, source, size, targets, combine), partial(delivered, targets, size, source)
    copied = None if combine else partial(_copied, size, targets, origin)
    return start(warp, lane, perform, accesses, undefined=undefined, bytes_copied=copied)


def _copied(size: int, targets: list[Target], origin: int | tuple[context.Cta, int]) -> Iterator[CopiedBytes]:
    """What is copied, for observers."""
    for cta, offset, _ in targets:
        yield CopiedBytes(cta, offset, size, origin, None) if isinstance(origin, int) else CopiedBytes(cta, offset, size, None, origin)


def _deliver_undefined(
    source: context.U8, size: int, targets: list[Target], combine: Combine | None, undefined: operations.UndefinedBits
) -> None:
    for cta, offset, _ in targets:
        put_undefined(cta.shared[offset : offset + size], source, combine, undefined)


def _deliver(source: context.U8, size: int, targets: list[Target], combine: Combine | None) -> None:
    for cta, offset, barrier in targets:
        target = cta.shared[offset : offset + size]
        put(target, source, combine)
        barrier.complete_tx(size)


@service(COPY, only={"direction": TO_GLOBAL, "cp_mask": None, **_PLAIN}, fidelity="hardware", outputs=0, effects=_TO_GLOBAL)
@service(COPY, only={"direction": TO_GLOBAL, "cp_mask": "cp_mask", **_PLAIN}, outputs=0, effects=_MASKED_TO_GLOBAL)
@service(REDUCE, only={"direction": TO_GLOBAL, **_RELAXED}, fidelity="hardware", outputs=0, effects=_reduction)
def write(warp: context.WarpContext) -> None:
    """Copy or reduce to global memory: all bytes, or with .cp_mask the bytes of each 16 that the mask selects."""
    combine, copies = _combine(warp), _Copies(warp)
    for lane in lanes(warp):
        size = _size(warp, lane)
        target = _global(warp, 0, lane, size, True)
        cta, offset = shared_range(warp, 1, lane, size, _UNIT, True)
        source = cta.shared[offset : offset + size]
        each = combine and watched(warp, warp.q.redOp, warp.q.type, combine)
        of_undefined = combine and undefined_combiner(warp.q.type)
        if warp.q.get("cp_mask"):
            each = of_undefined = _masked(warp.lane_value(warp.op.operands[4], 16, lane))
        undefined = partial(put_undefined, target, source, of_undefined)
        started = start(warp, lane, partial(put, target, source, each), partial(moved, source, target), undefined=undefined)
        track(warp, lane, started)
        copies.add(lane, started, size)
    copies.repeat()


def _masked(mask: int) -> Combine:
    """A function that writes only some bytes of each 16: those whose bit in ``mask`` is set."""
    written = np.array([mask >> i & 1 for i in range(_UNIT)], bool)

    def write(target: context.U8, source: context.U8) -> None:
        np.copyto(target.reshape(-1, _UNIT), source.reshape(-1, _UNIT), where=written)

    return write


@native(PREFETCH, only={"priority": None}, outputs=0)
def prefetch(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect: caches are not modelled."""
    return Nothing()
