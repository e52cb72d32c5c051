"""atom and red; and multimem, accesses to the memory of several devices, which are checked and not executed."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import Access, order_of
from ptxlab.isa.form import Rule, both_or_none, form, only
from ptxlab.isa.kinds import LONGS, SHORTS, WORDS, Address, Kind, Register, Vector
from ptxlab.isa.memory._modifiers import ACCESS_ADDRESS, ATOMIC_ORDER, CACHE_HINT, HINT_RULES, MODIFIER_NEEDS, POLICY, SCOPE, space_of
from ptxlab.isa.native_ops import Atomic
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import Condition, Values, needs

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
def atomic(q: Qualifiers, op: Op) -> Atomic:
    destination = 0 if q.base == "atom" else -1
    vector = q.get("vec")
    return Atomic(
        operation=q.get("op") or ("cas" if q.get("cas") else "exch"),
        type=q.type,
        space=space_of(q.get("space") or ("global" if q.get("global") else None)),
        destination=destination,
        address=destination + 1,
        sources=(2, 3) if q.get("cas") else (destination + 2,),
        count=int(vector[1:]) if vector else 1,
        noftz=bool(q.get("noftz")),
    )


_MULTIMEM = "Data Movement and Conversion Instructions: multimem."
_SCOPES = ("cta", "cluster", "gpu", "sys")
_HALVES, _PAIRS = ("f16", "bf16"), ("f16x2", "bf16x2")
_WIDE = (*SHORTS, *LONGS)
_SIGNED = ("u32", "s32", "u64", "s64")
_BITS = ("b32", "b64")
_PACKED = (*_HALVES, *_PAIRS)
_TYPES = "|".join((*_SIGNED, *_BITS, *_PACKED, "f32", "f64"))


def _length(values: Values) -> int | None:
    vector = values["vec"]
    return int(vector[1:]) if vector else None


def _words(values: Values) -> tuple[str, ...]:
    return ("f32", "b32") if values["type"] == "f32" else ("b32",)


def _kinds(stored: bool) -> dict[str, Kind]:
    """The kinds of operands; only a value to be stored may be an integer constant."""

    def register(*types: str) -> Register:
        return Register(types, "a register of the type" + " or an integer constant" * stored, immediate=stored, integers=stored)

    return {
        "[a]": Address(
            {"global": (None,)}, spaces=("global",), types=_WIDE, generic_types=_WIDE, says="an address of global memory in brackets"
        ),
        "word": register(*WORDS),
        "long": register(*LONGS),
        "pair": Register(("b32",), "a register of type .b32"),
        "float": Register(("f32", "b32"), "a register of type .f32"),
        "double": Register(("f64", "b64"), "a register of type .f64"),
        "vector": Vector(_length, not stored, types=_words),
        "halves": Vector(_length, not stored, width=16, types=lambda values: ("b16",), says="a vector of 16-bit registers in braces"),
    }


_VALUES: dict[str, Condition] = {
    "word": {"vec": (None,), "type": ("u32", "s32", "b32")},
    "pair": {"vec": (None,), "type": _PAIRS},
    "long": {"vec": (None,), "type": ("u64", "s64", "b64")},
    "float": {"vec": (None,), "type": ("f32",)},
    "double": {"vec": (None,), "type": ("f64",)},
    "vector": {"vec": ("v2", "v4", "v8"), "type": ("f32", *_PAIRS)},
    "halves": {"vec": ("v2", "v4", "v8"), "type": _HALVES},
}
_MULTIMEM_VECTORS = (only("type", (*_PACKED, "f32"), vec="v2|v4"), only("type", _HALVES, vec="v8"), only("vec", "v2|v4|v8", type=_HALVES))
_OPERATIONS = (
    only("type", ("u32", "s32", "u64", *_PACKED, "f32", "f64"), op="add"),
    only("type", (*_SIGNED, *_PACKED), op="min|max"),
    only("type", _BITS, op="and|or|xor"),
    only("vec", "v2|v4", op="min|max", type=_PAIRS),
)
_ACCUMULATION = (only("op", "add", acc="acc::f32"), only("type", _PACKED, acc="acc::f32"))


def _declare(name: str, orders: str, modifiers: str, line: str, rules: tuple[Rule, ...]) -> None:
    section = _MULTIMEM + name
    strong = tuple(order for order in orders.split("|") if order != "weak")
    form(
        f"multimem.{name}",
        f"{{.sem={orders}}}{{.scope={'|'.join(_SCOPES)}}}{{.global}}{modifiers}{{.vec=v2|v4|v8}}.(type={_TYPES})",
        *((line.replace("value", value), when, {}, "") for value, when in _VALUES.items()),
        kinds=_kinds(name != "ld_reduce"),
        section=section,
        rules=(*both_or_none(section, strong, _SCOPES), *_MULTIMEM_VECTORS, *rules),
        requires=needs("8.1", "sm_90", what=f"multimem.{name}"),
    )


_OPERATION = ".(op=add|min|max|and|or|xor)"
_declare("ld_reduce", "weak|relaxed|acquire", _OPERATION + "{.acc=acc::f32}", "value [a]", (*_OPERATIONS, *_ACCUMULATION))
_declare("red", "relaxed|release", _OPERATION, "[a] value", _OPERATIONS)
_declare("st", "weak|relaxed|release", "", "[a] value", ())
