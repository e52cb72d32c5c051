"""tcgen05.mma, .mma.sp, .mma.ws and .mma.ws.sp: section "TensorCore 5th Generation Matrix Multiply and accumulate Operations"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa.bulk import lanes
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Asynchronous, Completion, Pipe, Space, Unit
from ptxlab.isa.operands import Const, Group, Op, Resolved, Unused
from ptxlab.isa.operations import AsyncOperation
from ptxlab.isa.tcgen05._collectors import collect, repeated_use, reuses
from ptxlab.isa.tcgen05._mma_plan import Disabled, Plan
from ptxlab.isa.tcgen05._mma_planning import Key, check_plan, make_plan
from ptxlab.isa.tcgen05._mma_syntax import mma_form
from ptxlab.isa.tcgen05._mma_undefined import multiply_undefined
from ptxlab.isa.tcgen05._product import TensorProduct
from ptxlab.isa.tcgen05._state import CtaGroup, cta_group_of, enter, launch, operation_of, repeated_state, state_of
from ptxlab.native import BoundedCache
from ptxlab.tables import BLOCK_SCALED_KINDS

__all__ = ["DecodedForm", "form_of", "is_weight_stationary"]

_NONE = Unused()
_PLANS = BoundedCache[Key, Plan](8192)
_DEFAULT_VECTOR = {"mxf8f6f4": "block32", "mxf4": "block32"}
"""The default of .scale_vectorsize; .kind::mxf4nvf4 has none."""


@dataclass(slots=True, eq=False)
class DecodedForm:
    """A decoded instruction.

    ``planned`` are the operands that a plan depends on, in the order of `Key`, each with its number of bits; ``enable`` is a constant or a
    predicate.
    """

    kind: str
    vector: str
    sparse: bool
    planned: tuple[tuple[Resolved, int], ...]
    mask: Resolved
    enable: Resolved
    bits_to_shift: int | None


_BITS = {
    ("d-tmem",): 32,
    ("a-desc", "a-tmem"): 0,
    ("b-desc",): 64,
    ("idesc",): 32,
    ("sp-meta-tmem",): 32,
    ("scale-A-tmem",): 32,
    ("scale-B-tmem",): 32,
    ("zero-column-mask-desc",): 64,
}
"""The operands of `Key`: alternative names, and number of bits. 0 for A, which has 32 or 64."""


@lru_cache(maxsize=4096)
def form_of(op: Op, a_tensor: bool) -> DecodedForm:
    """Decode an instruction."""
    at = dict(zip([name for name, _ in op.row.operands], op.operands, strict=False))
    planned = tuple((next((at[n] for n in names if n in at), _NONE), bits or (32 if a_tensor else 64)) for names, bits in _BITS.items())
    kind, scale = op.q.kind[6:], at.get("scale-input-d", _NONE)
    vector = op.q.scale_vectorsize or _DEFAULT_VECTOR[kind] if kind in BLOCK_SCALED_KINDS else ""
    shift = 0 if type(scale) is Unused else scale.value if isinstance(scale, Const) and 0 <= scale.value <= 15 else None
    mask, enable = at.get("disable-output-lane", _NONE), at["enable-input-d"]
    return DecodedForm(kind, vector, "sp-meta-tmem" in at, planned, mask, enable, shift)


def is_weight_stationary(op: Op) -> bool:
    """Whether the instruction has .ws."""
    return "ws" in op.row.form.words


def _enabled(warp: context.WarpContext, operand: Resolved, lane: int) -> bool:
    return bool(operand.value) if type(operand) is Const else bool(warp.lane_value(operand, 1, lane))


def _disabled(warp: context.WarpContext, operand: Resolved, lane: int) -> Disabled | None:
    """For each CTA the lanes that disable-output-lane excludes, None if there are none; each CTA has four words of the mask."""
    if type(operand) is not Group:
        return None
    words = np.array([warp.lane_value(item, 32, lane) for item in operand.items], np.uint32)
    if not words.any():
        return None
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 128)
    return tuple(np.flatnonzero(row) for row in bits)


class _Once:
    """What a function returns, which is called when that is first asked for: observers ask at each execution."""

    __slots__ = ("_found", "_function")

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._found: Any = None

    def __call__(self) -> Any:
        found = self._found
        if found is None:
            found = self._found = self._function()
        return found


@dataclass(slots=True, eq=False)
class _Ready:
    """A plan that has been checked for a CTA, and the functions of an operation that disables no lanes, by whether it accumulates."""

    plan: Plan
    observed: bool
    known: dict[bool, tuple[Callable[..., Any], ...]] = field(default_factory=dict)

    def functions(self, cta_group: CtaGroup, accumulate: bool, scale: int, disabled: Disabled | None) -> tuple[Callable[..., Any], ...]:
        """The functions of an operation, in the order of `operation_of`; those for observers only if there are any."""
        found = self.known.get(accumulate) if disabled is None else None
        if found is None:
            plan = self.plan
            found = (partial(plan.perform, cta_group, accumulate, scale, disabled),)
            if self.observed:
                found += (
                    _Once(partial(plan.accesses, cta_group, accumulate, disabled)),
                    partial(multiply_undefined, plan, cta_group, accumulate, disabled),
                    _Once(partial(plan.product, cta_group, accumulate)),
                    partial(TensorProduct, plan, cta_group, accumulate),
                )
            if disabled is None:
                self.known[accumulate] = found
        return found


def _multiply(warp: context.WarpContext, a_tensor: bool, ws: bool, shift_a: bool) -> None:
    state, group = enter(warp)
    op = warp.op
    form = form_of(op, a_tensor)
    cta_group = cta_group_of(warp.cta, group)
    collectors = state_of(cta_group.ctas[0]).collectors
    if form.bits_to_shift is None:
        warp.fault("D706", "scale-input-d must be an immediate from 0 to 15", fix="give the number of bits to shift D by as a constant")
    for lane in lanes(warp):
        values = warp.fetch(form.planned, lane)
        ready: _Ready | None = state.ready.get((op.index, values))
        if ready is None:
            key = Key(form.kind, group, form.vector, ws, form.sparse, a_tensor, shift_a, warp.machine.target, *values)
            plan = _plan(warp, key)
            check_plan(warp, plan, cta_group.ctas)
            ready = state.ready[op.index, values] = _Ready(plan, warp.machine.observed)
        collect(warp, collectors, ready.plan.held, ws)
        disabled, accumulate = _disabled(warp, form.mask, lane), _enabled(warp, form.enable, lane)
        functions = ready.functions(cta_group, accumulate, form.bits_to_shift, disabled)
        operation = operation_of(op, warp, lane, cta_group, *functions)
        launch(warp, lane, operation)
        if disabled is None and warp.repeats and (found := ready.plan.repetition(accumulate, form.bits_to_shift)) is not None:
            function, given, ask, kept = repeated_use(warp, found, ready.plan.held, ws)
            again = partial(_operation, op, ready.plan, accumulate, form.bits_to_shift) if kept is None else None
            about = repeated_state(warp, cta_group), cta_group.bases
            warp.repeat(operation, *about, function, given, (ready.plan, kept), ask, again)


def _operation(op: Op, plan: Plan, accumulate: bool, scale: int, warp: context.WarpContext, lane: int, _: object) -> AsyncOperation:
    """The operation of an instruction that a lane has executed, and which disables no lanes."""
    cta_group = cta_group_of(warp.cta, 2 if op.q.cta_group == "cta_group::2" else 1)
    return operation_of(op, warp, lane, cta_group, *_Ready(plan, warp.machine.observed).functions(cta_group, accumulate, scale, None))


def _plan(warp: context.WarpContext, key: Key) -> Plan:
    plan = _PLANS.get(key)
    if plan is None:
        plan = make_plan(warp, key)
        _PLANS[key] = plan
    return plan


def _effects(q: Qualifiers, variant: str) -> Asynchronous:
    return Asynchronous(
        Unit.TENSOR_CORE,
        Completion.COMMIT,
        writes=Space.TENSOR,
        pipe=Pipe.MMA,
        pair=q.cta_group == "cta_group::2",
        variant=f"{variant}.{q.kind}",
        reuses=reuses(q.get("collector")),
    )


for _sparse in (False, True):
    for _ws in (False, True):
        _form = mma_form(_sparse, _ws)
        _with = partial(_effects, variant=_form.name + ".sp" * _sparse)
        for _a_tensor in (False, True):
            _only = {"A": "tensor" if _a_tensor else "shared", "ashift": None, "collector_b": None}
            service(_form, only=_only, fidelity="two-models", outputs=0, effects=_with)(
                partial(_multiply, a_tensor=_a_tensor, ws=_ws, shift_a=False)
            )
        if not _ws:
            _only = {"A": "tensor", "ashift": "ashift", "collector_b": None}
            service(_form, only=_only, fidelity="deduced", outputs=0, effects=_with)(
                partial(_multiply, a_tensor=True, ws=False, shift_a=True)
            )
