"""tcgen05.mma, .mma.sp, .mma.ws and .mma.ws.sp: section "TensorCore 5th Generation Matrix Multiply and accumulate Operations"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.bulk import lanes
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Asynchronous, Completion, Pipe, Space, Unit
from ptxlab.isa.operands import Const, Group, Op, Resolved, Unused
from ptxlab.isa.tcgen05._collector import collect
from ptxlab.isa.tcgen05._mma_plan import Disabled, Plan
from ptxlab.isa.tcgen05._mma_planning import Key, check_plan, make_plan
from ptxlab.isa.tcgen05._state import cta_group_of, enter, launch, state_of
from ptxlab.native import BoundedCache
from ptxlab.tables import BLOCK_SCALED_KINDS

__all__: list[str] = []

_SECTION = "TensorCore 5th Generation Matrix Multiply and accumulate Operations"

_NONE = Unused()
_PLANS = BoundedCache[Key, Plan](8192)
_DEFAULT_VECTOR = {"mxf8f6f4": "block32", "mxf4": "block32"}
"""Without .scale_vectorsize; .kind::mxf4nvf4 needs it."""


@dataclass(slots=True, eq=False)
class _Form:
    """What an instruction says at every execution.

    ``planned`` are the operands that a plan depends on, in the order of `Key`, and their bits; ``enable`` is a constant or a predicate.
    """

    kind: str
    vector: str
    sparse: bool
    planned: tuple[tuple[Resolved, int], ...]
    mask: Resolved
    enable: Resolved
    bits_to_shift: int | None


_BITS = {"accumulator": 32, "a": 0, "b": 64, "descriptor": 32, "metadata": 32, "scale_a": 32, "scale_b": 32, "zero_columns": 64}


@lru_cache(maxsize=4096)
def _form(op: Op, a_tensor: bool) -> _Form:
    at = dict(zip([name for name, _ in op.row.operands], op.operands, strict=False))
    planned = tuple((at.get(name, _NONE), bits or (32 if a_tensor else 64)) for name, bits in _BITS.items())
    kind, scale = op.q.kind[6:], at.get("scale", _NONE)
    vector = op.q.vector or _DEFAULT_VECTOR[kind] if kind in BLOCK_SCALED_KINDS else ""
    shift = 0 if type(scale) is Unused else scale.value if isinstance(scale, Const) and 0 <= scale.value <= 15 else None
    return _Form(kind, vector, "metadata" in at, planned, at.get("mask", _NONE), at["enable"], shift)


def _enabled(warp: context.WarpContext, operand: Resolved, lane: int) -> bool:
    return bool(operand.value) if type(operand) is Const else bool(warp.lane_value(operand, 1, lane))


def _disabled(warp: context.WarpContext, operand: Resolved, lane: int) -> Disabled | None:
    """Lanes that keep their value, for each CTA: four words of the mask belong to each."""
    if type(operand) is not Group:
        return None
    words = np.array([warp.lane_value(item, 32, lane) for item in operand.items], np.uint32)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 128)
    return tuple(np.flatnonzero(row) for row in bits)


def _multiply(warp: context.WarpContext, a_tensor: bool, ws: bool, shift_a: bool) -> None:
    state, group = enter(warp)
    op = warp.op
    form = _form(op, a_tensor)
    team = cta_group_of(warp.cta, group)
    collectors = state_of(team.ctas[0]).collectors
    if form.bits_to_shift is None:
        warp.fault("D706", "scale-input-d must be an immediate from 0 to 15", fix="give the number of bits to shift D by as a constant")
    for lane in lanes(warp):
        values = warp.fetch(form.planned, lane)
        plan: Plan | None = state.ready.get((op.index, values))
        if plan is None:
            key = Key(form.kind, group, form.vector, ws, form.sparse, a_tensor, shift_a, warp.machine.target, *values)
            plan = _plan(warp, key)
            check_plan(warp, plan, team.ctas)
            state.ready[op.index, values] = plan
        collect(warp, collectors, plan.held, ws)
        disabled, accumulate = _disabled(warp, form.mask, lane), _enabled(warp, form.enable, lane)
        perform = partial(plan.perform, team, accumulate, form.bits_to_shift, disabled)
        launch(warp, lane, team, perform, partial(plan.accesses, team, accumulate, disabled))


def _plan(warp: context.WarpContext, key: Key) -> Plan:
    plan = _PLANS.get(key)
    if plan is None:
        plan = make_plan(warp, key)
        _PLANS[key] = plan
    return plan


def _collector(buffers: tuple[str, ...], uses: tuple[str, ...] = ("fill", "use", "lastuse", "discard")) -> str:
    return "{.collector=" + "|".join(f"collector::{buffer}::{use}" for buffer in buffers for use in uses) + "}"


_A, _B = _collector(("a",)), _collector(("b0", "b1", "b2", "b3"))
_SHIFTED = f".ashift{_collector(('a',), ('lastuse', 'discard'))}"
"""The shifted matrix can neither fill a collector buffer nor come from one."""


def _effects(q: Qualifiers, variant: str) -> Asynchronous:
    return Asynchronous(
        Unit.TENSOR_CORE,
        Completion.COMMIT,
        writes=Space.TENSOR,
        pipe=Pipe.MMA,
        pair=q.group == "cta_group::2",
        variant=f"{variant}.{q.kind}",
    )


def _declare(pattern: str, sparse: bool, tail: Mapping[str, str], *, ws: bool = False, shifted: bool = False) -> None:
    metadata = {"metadata": "addr"} if sparse else {}
    name = f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if sparse else ''}"
    for a_tensor, a in ((False, "b64"), (True, "addr")):
        if shifted and not a_tensor:
            continue
        service(
            f"{name}.{pattern}{_B if ws else _SHIFTED if shifted else _A}",
            section=_SECTION,
            fidelity="deduced" if shifted else "two-models",
            outputs=0,
            ordered=False,
            effects=partial(_effects, variant=name),
            accumulator="addr",
            a=a,
            b="b64",
            **metadata,
            descriptor="b32",
            **tail,
        )(_handler(a_tensor, ws, shifted))


@cache
def _handler(a_tensor: bool, ws: bool, shifted: bool) -> partial[None]:
    """The handler of a row: A from shared or from tensor memory, activation or weights stationary."""
    return partial(_multiply, a_tensor=a_tensor, ws=ws, shift_a=shifted)


_VECTORS = {"mxf8f6f4": "{.vector=scale_vec::1X|block32}", "mxf4": "{.vector=scale_vec::2X|block32}"}
_VECTORS["mxf4nvf4"] = ".(vector=scale_vec::2X|scale_vec::4X|block16|block32)"
_FACTORS = {"scale_a": "addr", "scale_b": "addr", "enable": "pred"}

for _sparse in (False, True):
    for _group in (1, 2):
        _masked = {"mask": f"?v{4 * _group}.b32", "enable": "pred"}
        for _shift in (False, True):
            _head = f"(group=cta_group::{_group})"
            _declare(f"{_head}.(kind=kind::f16|kind::tf32)", _sparse, {**_masked, "scale": "?b32"}, shifted=_shift)
            _declare(f"{_head}.(kind=kind::f8f6f4|kind::i8)", _sparse, _masked, shifted=_shift)
    for _kind, _sizes in _VECTORS.items():
        _declare(f"(group=cta_group::1|cta_group::2).(kind=kind::{_kind}).block_scale{_sizes}", _sparse, _FACTORS)
    _kinds = "(group=cta_group::1).(kind=kind::f16|kind::tf32|kind::f8f6f4|kind::i8)"
    _declare(_kinds, _sparse, {"enable": "pred", "zero_columns": "?b64"}, ws=True)
