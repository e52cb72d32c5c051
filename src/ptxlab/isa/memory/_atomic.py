"""atom and red."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import Access, order_of
from ptxlab.isa.form import only
from ptxlab.isa.memory._modifiers import ACCESS_ADDRESS, ATOMIC_ORDER, CACHE_HINT, HINT_RULES, MODIFIER_NEEDS, POLICY, SCOPE, space_of
from ptxlab.isa.native_ops import Atomic
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import needs

_SECTION = "Parallel Synchronization and Communication Instructions: "
_FLOATS = "f16|f16x2|bf16|bf16x2"

_REDUCTIONS = (
    ".(op=add).(type=u32|s32|u64|f64)",
    ".(op=add){.noftz}.(type=f32)",
    f".(op=add).noftz.(type={_FLOATS})",
    ".(op=min|max).(type=u32|s32|u64|s64)",
    ".(op=inc|dec).(type=u32)",
    ".(op=and|or|xor).(type=b32|b64)",
)
_VECTORS = (
    ".(op=add){.noftz}.(vec=v2|v4).(type=f32)",
    ".(op=add|min|max).noftz.(vec=v2|v4|v8).(type=f16|bf16)",
    ".(op=add|min|max).noftz.(vec=v2|v4).(type=f16x2|bf16x2)",
)
_SPACE = "{.space=global|shared|shared::cta|shared::cluster}"
_GLOBAL = "{.global}"
_RED_ORDER = "{.order=relaxed|release}" + SCOPE


_NEEDS = (
    *MODIFIER_NEEDS,
    needs("7.8", "sm_90", when={"type": "bf16|bf16x2"}),
    needs("9.4", "sm_90", when={"type": "f32", "noftz": "noftz"}),
    needs("8.3", "sm_90", when={"type": "b128"}),
)


def _order(q: Qualifiers) -> Access:
    return Access(order_of(q.order or "relaxed", q.scope))


def _atomic(q: Qualifiers, destination: int, sources: tuple[int, ...]) -> Atomic:
    vector = q.__dict__.get("vec")
    space = q.space if "space" in q.__dict__ else "global" if q.__dict__["global"] else None
    return Atomic(
        operation=q.__dict__.get("op") or ("cas" if q.__dict__.get("cas") else "exch"),
        type=q.type,
        space=space_of(space),
        destination=destination,
        address=destination + 1,
        sources=sources,
        count=int(vector[1:]) if vector else 1,
        noftz=bool(q.__dict__.get("noftz")),
    )


@native(
    *("atom" + ATOMIC_ORDER + _SPACE + CACHE_HINT + form for form in (*_REDUCTIONS, ".exch.(type=b32|b64|b128)")),
    d="type",
    a=ACCESS_ADDRESS,
    b="type",
    policy=POLICY,
    ordered=False,
    rules=HINT_RULES,
    effects=_order,
    requires=_NEEDS,
    section=_SECTION + "atom",
    fidelity="hardware",
)
@native(
    *("atom" + ATOMIC_ORDER + _GLOBAL + CACHE_HINT + form for form in _VECTORS),
    d="vec.type",
    a=ACCESS_ADDRESS,
    b="vec.type",
    policy=POLICY,
    ordered=False,
    rules=HINT_RULES,
    effects=_order,
    requires=(*_NEEDS, needs("8.1", "sm_90")),
    section=_SECTION + "atom",
    fidelity="hardware",
)
def atom(q: Qualifiers, op: Op) -> Atomic:
    return _atomic(q, 0, (2,))


@native(
    "atom" + ATOMIC_ORDER + _SPACE + CACHE_HINT + ".cas.(type=b16|b32|b64|b128)",
    d="type",
    a=ACCESS_ADDRESS,
    b="type",
    c="type",
    policy=POLICY,
    ordered=False,
    rules=(only("hint", None),),
    effects=_order,
    requires=_NEEDS,
    section=_SECTION + "atom",
    fidelity="hardware",
)
def compare_and_swap(q: Qualifiers, op: Op) -> Atomic:
    return _atomic(q, 0, (2, 3))


@native(
    *("red" + _RED_ORDER + _SPACE + CACHE_HINT + form for form in _REDUCTIONS),
    a=ACCESS_ADDRESS,
    b="type",
    policy=POLICY,
    outputs=0,
    ordered=False,
    rules=HINT_RULES,
    effects=_order,
    requires=_NEEDS,
    section=_SECTION + "red",
    fidelity="hardware",
)
@native(
    *("red" + _RED_ORDER + _GLOBAL + CACHE_HINT + form for form in _VECTORS),
    a=ACCESS_ADDRESS,
    b="vec.type",
    policy=POLICY,
    outputs=0,
    ordered=False,
    rules=HINT_RULES,
    effects=_order,
    requires=(*_NEEDS, needs("8.1", "sm_90")),
    section=_SECTION + "red",
    fidelity="hardware",
)
def reduce(q: Qualifiers, op: Op) -> Atomic:
    return _atomic(q, -1, (1,))
