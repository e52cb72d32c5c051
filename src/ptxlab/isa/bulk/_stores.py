"""st.async, red.async and st.bulk: asynchronous stores and reductions, and the bulk store of zeros."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ptxlab.isa import context, operations
from ptxlab.isa.bulk._endpoints import delivered, generic_address, lanes, moved, shared_range, signal_targets, start
from ptxlab.isa.bulk._reduce import Combine, combiner, put, undefined_combiner
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Access, Asynchronous, Completion, Proxy, Space, Unit, order_of
from ptxlab.isa.form import only
from ptxlab.isa.operands import Group
from ptxlab.isa.operations.tiles import CopiedBytes
from ptxlab.isa.requirements import needs

_STORE = "Data Movement and Conversion Instructions: st.async"
_REDUCE = "Parallel Synchronization and Communication Instructions: red.async"
_BULK = "Data Movement and Conversion Instructions: st.bulk"
_TYPES = "(type=b32|b64|u32|u64|s32|s64|f32|f64)"
_SCOPE = "(scope=cta|cluster|gpu|sys)"
_VALUE = 1
"""The position of the value."""
_TO_SHARED = Asynchronous(Unit.STORE, Completion.BYTES, Proxy.GENERIC, Space.SHARED, stored=_VALUE)
_UNIT = 8
_NEEDS = needs("8.1", "sm_90", what="st.async")
_GLOBAL_NEEDS = needs("8.7", "sm_100")
_SCOPES = (only("scope", "gpu|sys"), only("scope", "sys", mmio="mmio"))
_NO_SOURCE: context.U8 = np.empty(0, np.uint8)


def _release(q: Qualifiers) -> Asynchronous:
    """The effects of a store to global memory, which is ordered as one strong store."""
    return Asynchronous(Unit.STORE, Completion.NONE, Proxy.GENERIC, Space.GLOBAL, order=order_of("release", q.scope))


def _bytes(warp: context.WarpContext, lane: int) -> context.U8:
    """The value operand of one lane."""
    size = int(warp.q.type[1:]) // 8
    operand = warp.op.operands[_VALUE]
    items = operand.items if isinstance(operand, Group) else (operand,)
    raw = b"".join(warp.lane_value(item, 8 * size, lane).to_bytes(size, "little") for item in items)
    return np.frombuffer(raw, np.uint8)


def _undefined(warp: context.WarpContext, lane: int, size: int) -> context.U8 | None:
    """The undefined bits of the value operand of one lane, in ``size`` bytes; None if nobody follows them into memory."""
    if not warp.machine.program.mirrored:
        return None
    masks = warp.undefined(_VALUE)[:, lane].astype(np.uint64)
    return masks.view(np.uint8).reshape(len(masks), -1)[:, : size // len(masks)].reshape(-1)


def _combine(warp: context.WarpContext) -> Combine | None:
    operation = warp.q.get("operation")
    if operation is None:
        return None
    found = combiner(operation, warp.q.type)
    if found is None:
        warp.fault("D726", f".{operation} is not available for .{warp.q.type}")
    return found


def _put(target: context.U8, value: context.U8, combine: Combine | None, barrier: context.Mbarrier | None) -> None:
    put(target, value, combine)
    if barrier is not None:
        barrier.complete_tx(len(value))


def _put_undefined(target: context.U8, masks: context.U8 | None, combine: Combine | None, undefined: operations.UndefinedBits) -> None:
    if masks is not None:
        put(undefined.of(target), masks, combine)


def _to_cluster(warp: context.WarpContext) -> None:
    """Store to shared memory of a CTA of the cluster; an mbarrier in the same CTA counts the bytes."""
    combine = _combine(warp)
    for lane in lanes(warp):
        value = _bytes(warp, lane)
        destination = shared_range(warp, 0, lane, len(value), len(value), False)
        targets = signal_targets(warp, lane, destination, 2, -1, False)
        ((cta, offset, barrier),) = targets
        target = cta.shared[offset : offset + len(value)]
        undefined = partial(_put_undefined, target, _undefined(warp, lane, len(value)), combine and undefined_combiner(warp.q.type))
        copied = CopiedBytes(cta, offset, len(value), None, words=warp.loaded_from(lane))
        start(
            warp,
            lane,
            partial(_put, target, value, combine, barrier),
            partial(delivered, targets, len(value)),
            undefined=undefined,
            bytes_copied=partial(_once, copied),
        )


def _once(copied: CopiedBytes) -> tuple[CopiedBytes]:
    return (copied,)


def _to_global(warp: context.WarpContext) -> None:
    """Store to global memory; no mbarrier or group reports the completion."""
    combine = _combine(warp)
    for lane in lanes(warp):
        value = _bytes(warp, lane)
        address = generic_address(warp, 0, lane)
        if address % len(value):
            warp.fault("C901", f"the global address {address:#x} is not a multiple of {len(value)}")
        target = warp.machine.global_view(warp, address, len(value), True)
        undefined = partial(_put_undefined, target, _undefined(warp, lane, len(value)), combine and undefined_combiner(warp.q.type))
        start(warp, lane, partial(_put, target, value, combine, None), partial(moved, _NO_SOURCE, target), undefined=undefined)


for _vector, _operand in (("", "type"), (".v2", "v2.type"), (".v4", "v4.type")):
    service(
        f"st.async{{.weak}}{{.shared::cluster}}.mbarrier::complete_tx::bytes{_vector}.{_TYPES}",
        section=_STORE,
        requires=_NEEDS,
        fidelity="hardware",
        outputs=0,
        effects=_TO_SHARED,
        a="addr",
        b=_operand,
        mbarrier="addr",
    )(_to_cluster)
service(
    f"st.async{{.mmio}}.release.{_SCOPE}{{.global}}.{_TYPES}",
    section=_STORE,
    requires=_GLOBAL_NEEDS,
    rules=_SCOPES,
    outputs=0,
    effects=_release,
    a="addr",
    b="type",
)(_to_global)
service(
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=inc|dec).(type=u32)",
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=min|max).(type=u32|s32)",
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=add).(type=u32|s32|u64)",
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=and|or|xor).(type=b32)",
    section=_REDUCE,
    requires=needs("8.1", "sm_90"),
    fidelity="hardware",
    outputs=0,
    effects=replace(_TO_SHARED, stored=-1, atomic=True, order=order_of("relaxed", "cluster")),
    a="addr",
    b="type",
    mbarrier="addr",
)(_to_cluster)
service(
    f"red.async{{.mmio}}.release.{_SCOPE}{{.global}}.(operation=add).(type=u32|s32|u64|s64)",
    section=_REDUCE,
    requires=_GLOBAL_NEEDS,
    rules=_SCOPES,
    outputs=0,
    effects=lambda q: replace(_release(q), atomic=True),
    a="addr",
    b="type",
)(_to_global)


@service(
    "st.bulk{.weak}{.shared::cta}",
    requires=needs("8.6", "sm_100"),
    section=_BULK,
    outputs=0,
    effects=Access(writes=Space.SHARED),
    a="addr",
    size="b64",
    initial="b64",
)
def store_zeros(warp: context.WarpContext) -> None:
    """Fill shared memory with zeros. It is a synchronous weak store."""
    for lane in lanes(warp):
        size = warp.lane_value(1, 64, lane)
        if size % _UNIT:
            warp.fault("C902", f"the size is {size} bytes, not a multiple of {_UNIT}", fix=f"fill a multiple of {_UNIT} bytes")
        if warp.lane_value(2, 64, lane):
            warp.fault("C902", "the initial value of st.bulk must be 0")
        cta, offset = shared_range(warp, 0, lane, size, _UNIT, True)
        cta.shared[offset : offset + size] = 0
        warp.access(operations.MemoryAccess.of(cta.shared[offset : offset + size], True))
