"""st.async, red.async and st.bulk: stores that complete on their own."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxlab.isa import context as machine
from ptxlab.isa.bulk._endpoints import delivered, generic_address, lanes, moved, shared_range, signal_targets, start
from ptxlab.isa.bulk._reduce import Combine, combiner
from ptxlab.isa.catalogue import service
from ptxlab.isa.operands import Group

__all__: list[str] = []

_STORE = "Data Movement and Conversion Instructions: st.async"
_REDUCE = "Parallel Synchronization and Communication Instructions: red.async"
_BULK = "Data Movement and Conversion Instructions: st.bulk"
_TYPES = "(type=b32|b64|u32|u64|s32|s64|f32|f64)"
_SCOPE = "(scope=cta|cluster|gpu|sys)"
_UNIT = 8
_NO_SOURCE: machine.U8 = np.empty(0, np.uint8)


def _bytes(t: machine.Issue, lane: int) -> machine.U8:
    """The value operand of one lane."""
    size = int(t.q.type[1:]) // 8
    operand = t.op.operands[1]
    items = operand.items if isinstance(operand, Group) else (operand,)
    raw = b"".join(t.lane_value(item, 8 * size, lane).to_bytes(size, "little") for item in items)
    return np.frombuffer(raw, np.uint8)


def _combine(t: machine.Issue) -> Combine | None:
    operation = t.q.__dict__.get("operation")
    if operation is None:
        return None
    found = combiner(operation, t.q.type)
    if found is None:
        t.fault("D726", f".{operation} is not available for .{t.q.type}")
    return found


def _put(target: machine.U8, value: machine.U8, combine: Combine | None, barrier: machine.Mbarrier | None) -> None:
    if combine is None:
        target[:] = value
    else:
        combine(target, value)
    if barrier is not None:
        barrier.complete_tx(len(value))


def _to_cluster(t: machine.Issue) -> None:
    """Shared memory of a CTA of the cluster, counted by an mbarrier beside it."""
    combine = _combine(t)
    for lane in lanes(t):
        value = _bytes(t, lane)
        destination = shared_range(t, 0, lane, len(value), len(value), False)
        targets = signal_targets(t, lane, destination, 2, -1, False)
        ((cta, offset, barrier),) = targets
        perform = partial(_put, cta.shared[offset : offset + len(value)], value, combine, barrier)
        start(t, lane, perform, partial(delivered, targets, len(value)))


def _to_global(t: machine.Issue) -> None:
    """Global memory; nothing signals the completion."""
    combine = _combine(t)
    for lane in lanes(t):
        value = _bytes(t, lane)
        address = generic_address(t, 0, lane)
        if address % len(value):
            t.fault("C901", f"the global address {address:#x} is not a multiple of {len(value)}")
        target = t.machine.global_view(t, address, len(value), True)
        start(t, lane, partial(_put, target, value, combine, None), partial(moved, _NO_SOURCE, target))


for _vector, _operand in (("", "type"), (".v2", "v2.type"), (".v4", "v4.type")):
    service(
        f"st.async{{.weak}}{{.shared::cluster}}.mbarrier::complete_tx::bytes{_vector}.{_TYPES}",
        section=_STORE,
        fidelity="hardware",
        outputs=0,
        a="addr",
        b=_operand,
        mbarrier="addr",
    )(_to_cluster)
service(f"st.async{{.mmio}}.release.{_SCOPE}{{.global}}.{_TYPES}", section=_STORE, outputs=0, a="addr", b="type")(_to_global)
service(
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=inc|dec).(type=u32)",
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=min|max).(type=u32|s32)",
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=add).(type=u32|s32|u64)",
    "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.(operation=and|or|xor).(type=b32)",
    section=_REDUCE,
    fidelity="hardware",
    outputs=0,
    a="addr",
    b="type",
    mbarrier="addr",
)(_to_cluster)
service(
    f"red.async{{.mmio}}.release.{_SCOPE}{{.global}}.(operation=add).(type=u32|s32|u64|s64)",
    section=_REDUCE,
    outputs=0,
    a="addr",
    b="type",
)(_to_global)


@service("st.bulk{.weak}{.shared::cta}", section=_BULK, outputs=0, a="addr", size="b64", initial="b64")
def store_zeros(t: machine.Issue) -> None:
    """Fill shared memory with zeros, at once like any weak store."""
    for lane in lanes(t):
        size = t.lane_value(1, 64, lane)
        if size % _UNIT:
            t.fault("C902", f"the size is {size} bytes, not a multiple of {_UNIT}", fix=f"fill a multiple of {_UNIT} bytes")
        if t.lane_value(2, 64, lane):
            t.fault("C902", "the initial value of st.bulk must be 0")
        cta, offset = shared_range(t, 0, lane, size, _UNIT, True)
        cta.shared[offset : offset + size] = 0
        t.touch(machine.Touch.of(cta.shared[offset : offset + size], True))
