"""Comparison and selection: setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._bits import boolean
from ptxlab.isa.scalar._integer import each_integer
from ptxlab.isa.scalar.float_helpers import flush, flush_half, half_kind, join, split, widen_half

_SETP = "Comparison and Selection Instructions: setp"
_SET = "Comparison and Selection Instructions: set"
_BOOL = ".(bool=and|or|xor)"
_FLOAT_OPS = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"

_EQUAL = ".(op=eq|ne).(type=b16|b32|b64)"
_SIGNED = ".(op=eq|ne|lt|le|gt|ge).(type=s16|s32|s64)"
_UNSIGNED = ".(op=eq|ne|lt|le|gt|ge|lo|ls|hi|hs).(type=u16|u32|u64)"
_FTZ = f".(op={_FLOAT_OPS}){{.ftz}}.(type=f32|f16)"
_NO_FTZ = f".(op={_FLOAT_OPS}).(type=f64|bf16)"
_FORMS = (_EQUAL, _SIGNED, _UNSIGNED, _FTZ, _NO_FTZ)
_PAIR_FORMS = (_EQUAL, _SIGNED, _UNSIGNED, f".(op={_FLOAT_OPS}){{.ftz}}.(type=f32)", f".(op={_FLOAT_OPS}).(type=f64)")
"""Those that also give the complement."""
_PACKED_FORMS = (f".(op={_FLOAT_OPS}){{.ftz}}.(type=f16x2)", f".(op={_FLOAT_OPS}).(type=bf16x2)")

_SPELT_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _integers(x: Vocabulary, op: str, signed: bool, a: Value, b: Value) -> Value:
    op = _SPELT_UNSIGNED.get(op, op)
    if op in ("gt", "ge"):
        return _integers(x, {"gt": "lt", "ge": "le"}[op], signed, b, a)
    tests = {"eq": x.eq, "ne": x.ne, "lt": x.slt if signed else x.ult, "le": x.sle if signed else x.ule}
    return tests[op](a, b)


def _floats(x: Vocabulary, op: str, a: Value, b: Value) -> Value:
    """Plain operators are false with a NaN, those with u are true."""
    if op in ("gt", "ge", "gtu", "geu"):
        op, a, b = op.replace("gt", "lt").replace("ge", "le"), b, a
    negations: dict[str, Callable[[], Value]] = {
        "ltu": lambda: x.fle(b, a),
        "leu": lambda: x.flt(b, a),
        "neu": lambda: x.feq(a, b),
        "num": lambda: x.or_(x.isnan(a), x.isnan(b)),
    }
    if op in negations:
        return x.not_(negations[op]())
    if op == "nan":
        return x.or_(x.isnan(a), x.isnan(b))
    if op == "equ":
        return x.not_(x.or_(x.flt(a, b), x.flt(b, a)))
    if op == "ne":
        return x.or_(x.flt(a, b), x.flt(b, a))
    return {"eq": x.feq, "lt": x.flt, "le": x.fle}[op](a, b)


def _compare(x: Vocabulary, q: Qualifiers, type: str, a: Value, b: Value) -> Value:
    if type[0] in "bus" and type != "bf16":
        return _integers(x, q.op, type[0] == "s", a, b)
    ftz = q.get("ftz")
    if type in ("f16", "bf16"):
        a, b = (widen_half(x, type, flush_half(x, ftz, v)) for v in (a, b))
    elif type == "f32":
        a, b = flush(x, ftz, a), flush(x, ftz, b)
    return _floats(x, q.op, a, b)


def _combined(x: Vocabulary, q: Qualifiers, test: Value, c: Sequence[Value]) -> Value:
    """A comparison, combined with a predicate if there is one."""
    return boolean(x, q.bool)(test, *c) if c else test


_BF16 = (needs("7.8", "sm_90", when={"type": "bf16|bf16x2"}), needs("7.8", "sm_90", when={"to": "bf16|bf16x2"}))


def _rows(name: str, forms: Sequence[str], section: str, outputs: int, **destination: str) -> Callable[[Any], Any]:
    """Declare forms, and the same with a boolean operator after the comparison and the predicate that it takes."""
    common: dict[str, Any] = {"outputs": outputs, "requires": _BF16, "section": section, "fidelity": "hardware"}

    def declare(semantics: Any) -> Any:
        pure(*(name + form for form in forms), **destination, a="type", b="type", **common)(semantics)
        with_bool = (name + form.replace(")", ")" + _BOOL, 1) for form in forms)
        return pure(*with_bool, **destination, a="type", b="type", c="pred", **common)(semantics)

    return declare


# ------------------------------------------------------------------------------------------------ setp


@_rows("setp", _FORMS, _SETP, outputs=1, p="pred")
def setp(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> Value:
    return _combined(x, q, _compare(x, q, q.type, a, b), c)


@_rows("setp", _PAIR_FORMS, _SETP, outputs=1, p="pred|pred")
def setp_both(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> tuple[Value, Value]:
    test = _compare(x, q, q.type, a, b)
    return _combined(x, q, test, c), _combined(x, q, x.not_(test), c)


def _compare_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Sequence[Value]) -> list[Value]:
    kind = half_kind(q.type)
    return [_combined(x, q, _compare(x, q, kind, m, n), c) for m, n in zip(split(x, a), split(x, b), strict=True)]


@_rows("setp", _PACKED_FORMS, _SETP, outputs=1, p="pred|pred")
def setp_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> tuple[Value, ...]:
    return tuple(_compare_packed(x, q, a, b, c))


# ------------------------------------------------------------------------------------------------ set

_ONES = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


def _flag(x: Vocabulary, type: str, test: Value) -> Value:
    """True as a value of a type: all ones for integers, 1.0 for floats."""
    if type[0] in "us":
        return x.sext(test, f"i{type[1:]}")
    if type == "f32":
        return x.select(test, x.const(1.0, "f32"), x.const(0.0, "f32"))
    return x.select(test, x.const(_ONES[type], "i16"), x.const(0, "i16"))


def _set_forms() -> list[str]:
    """Destination types beside source types."""
    wide, narrow = ".(to=u32|s32|f32)", ".(to=u16|s16|u32|s32)"
    forms = [(form, wide) for form in (_EQUAL, _SIGNED, _UNSIGNED)]
    forms += [(f".(op={_FLOAT_OPS}){{.ftz}}.(type=f32)", wide), (f".(op={_FLOAT_OPS}).(type=f64)", wide)]
    forms += [(f".(op={_FLOAT_OPS}){{.ftz}}.(type=f16)", narrow), (f".(op={_FLOAT_OPS}).(type=bf16)", narrow)]
    forms += [(form, ".(to=f16|bf16)") for form in (_EQUAL, _SIGNED, _UNSIGNED, f".(op={_FLOAT_OPS}).(type=f16|f32|f64)")]
    forms += [(f".(op={_FLOAT_OPS}).ftz.(type=f16|f32)", ".(to=f16)"), (f".(op={_FLOAT_OPS}).(type=bf16)", ".(to=bf16)")]
    return [form.replace(".(type=", to + ".(type=") for form, to in forms]


@_rows("set", _set_forms(), _SET, outputs=1, d="to")
def set_(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> Value:
    return _flag(x, q.to, _combined(x, q, _compare(x, q, q.type, a, b), c))


_SET_PACKED = [
    form.replace(".(type=", f".(to={to}).(type=") for form, to in zip(_PACKED_FORMS, ("f16x2|u32|s32", "bf16x2|u32|s32"), strict=True)
]


@_rows("set", _SET_PACKED, _SET, outputs=1, d="to")
def set_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> Value:
    """True is 1.0 in an element, or all ones where the destination is an integer."""
    type = half_kind(q.to) if q.to.endswith("x2") else "u16"
    return join(x, *(_flag(x, type, test) for test in _compare_packed(x, q, a, b, c)))


@pure(
    "set.(op=eq|ne|lt|le|gt|ge|lo|ls|hi|hs).(type=u8x4|u16x2)",
    "set.(op=eq|ne|lt|le|gt|ge).(type=s8x4|s16x2)",
    d="type",
    a="type",
    b="type",
    requires=needs("9.4", "sm_107f"),
    section=_SET,
)
def set_elements(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """All ones in the elements for which it holds."""

    def element(x: Vocabulary, m: Value, n: Value) -> Value:
        return x.sext(_integers(x, q.op, q.type[0] == "s", m, n), x.type(m))

    return each_integer(x, q.type, element, a, b)


# ------------------------------------------------------------------------------------------------ selp, slct

_WORDS = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"
_SELECTION = "Comparison and Selection Instructions: {base}"


@pure(f"selp.(type={_WORDS})", d="type", a="type", b="type", c="pred", section=_SELECTION, fidelity="hardware")
def selp(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.select(c, a, b)


@pure(f"slct.(type={_WORDS}).s32", d="type", a="type", b="type", c="s32", section=_SELECTION, fidelity="hardware")
@pure(f"slct{{.ftz}}.(type={_WORDS}).f32", d="type", a="type", b="type", c="f32", section=_SELECTION, fidelity="hardware")
def slct(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    zero = x.const(0, x.type(c))
    return x.select(x.sle(zero, c) if x.type(c) == "i32" else x.fle(zero, flush(x, q.ftz, c)), a, b)
