"""Integer arithmetic."""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs

__all__ = ["clamped_sum", "extreme"]

_TYPES = ".(type=u16|s16|u32|s32|u64|s64)"
_WIDE = {"wide": ("type", {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"})}


def _int(type: str) -> str:
    return f"i{type[1:]}"


def _section(*names: str) -> str:
    return "Integer Arithmetic Instructions: " + ", ".join(names)


def clamped_sum(x: Vocabulary, a: Value, b: Value, subtract: bool) -> Value:
    """The signed sum or difference, saturated."""
    type = x.type(a)
    bits, zero = int(type[1:]), x.const(0, type)
    result = x.sub(a, b) if subtract else x.add(a, b)
    signs = x.xor(a, b) if subtract else x.not_(x.xor(a, b))
    overflow = x.slt(x.and_(signs, x.xor(a, result)), zero)
    most = x.const((1 << (bits - 1)) - 1, type)
    limit = x.xor(x.ashr(a, x.const(bits - 1, type)), most)
    return x.select(overflow, limit, result)


@pure("add.sat.s32", d="s32", a="s32", b="s32", section=_section("add"), fidelity="hardware")
def add_sat(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return clamped_sum(x, a, b, subtract=False)


@pure("sub.sat.s32", d="s32", a="s32", b="s32", section=_section("sub"), fidelity="hardware")
def sub_sat(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return clamped_sum(x, a, b, subtract=True)


@pure("add" + _TYPES, d="type", a="type", b="type", section=_section("add"), fidelity="hardware")
def add(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return x.add(a, b)


@pure("sub" + _TYPES, d="type", a="type", b="type", section=_section("sub"), fidelity="hardware")
def sub(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return x.sub(a, b)


# ------------------------------------------------------------------------------------------------ products


def _product(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    signed = q.type[0] == "s"
    if q.mode == "lo":
        return x.mul(a, b)
    if q.mode == "hi":
        return x.smulhi(a, b) if signed else x.umulhi(a, b)
    wide = _int(q.wide)
    return x.mul(x.sext(a, wide), x.sext(b, wide)) if signed else x.mul(x.zext(a, wide), x.zext(b, wide))


@pure("mul.(mode=lo|hi)" + _TYPES, d="type", a="type", b="type", section=_section("mul"), fidelity="hardware")
def mul(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _product(x, q, a, b)


@pure(
    "mul.(mode=wide).(type=u16|s16|u32|s32)",
    d="wide",
    a="type",
    b="type",
    derived=_WIDE,
    section=_section("mul"),
    fidelity="hardware",
)
def mul_wide(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _product(x, q, a, b)


@pure("mad.(mode=lo|hi)" + _TYPES, d="type", a="type", b="type", c="type", section=_section("mad"), fidelity="hardware")
def mad(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.add(_product(x, q, a, b), c)


@pure(
    "mad.(mode=wide).(type=u16|s16|u32|s32)",
    d="wide",
    a="type",
    b="type",
    c="wide",
    derived=_WIDE,
    section=_section("mad"),
    fidelity="hardware",
)
def mad_wide(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.add(_product(x, q, a, b), c)


@pure("mad.hi.sat.s32", d="s32", a="s32", b="s32", c="s32", section=_section("mad"), fidelity="hardware")
def mad_hi_sat(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return clamped_sum(x, x.smulhi(a, b), c, subtract=False)


@pure(
    "clmad.(mode=lo|hi).u64",
    d="u64",
    a="u64",
    b="u64",
    c="u64",
    requires=needs("9.3", "sm_80"),
    section=_section("clmad"),
    fidelity="hardware",
)
def clmad(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    """The low or high half of the carry-less product, plus c without carries."""
    return x.xor(x.call(_carryless_low if q.mode == "lo" else _carryless_high, a, b), c)


def _carryless_low(x: Vocabulary, a: Value, b: Value) -> Value:
    result, zero, one = x.const(0, "i64"), x.const(0, "i64"), x.const(1, "i64")
    for i in range(64):
        bit = x.ne(x.and_(x.lshr(a, x.const(i, "i64")), one), zero)
        result = x.xor(result, x.select(bit, x.shl(b, x.const(i, "i64")), zero))
    return result


def _carryless_high(x: Vocabulary, a: Value, b: Value) -> Value:
    # Reversed bits multiply to the reversed product, of which the low half, one place on, is the high half.
    return x.lshr(x.brev(_carryless_low(x, x.brev(a), x.brev(b))), x.const(1, "i64"))


def _product24(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    eight = x.const(8, "i32")
    if q.type == "s32":
        a, b = x.ashr(x.shl(a, eight), eight), x.ashr(x.shl(b, eight), eight)
        high = x.smulhi
    else:
        a, b = x.lshr(x.shl(a, eight), eight), x.lshr(x.shl(b, eight), eight)
        high = x.umulhi
    low = x.mul(a, b)
    if q.mode == "lo":
        return low
    return x.or_(x.shl(high(a, b), x.const(16, "i32")), x.lshr(low, x.const(16, "i32")))


@pure("mul24.(mode=lo|hi).(type=u32|s32)", d="type", a="type", b="type", section=_section("mul24"), fidelity="hardware")
def mul24(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """Bits 31..0 (lo) or 47..16 (hi) of the product of the low 24 bits."""
    return _product24(x, q, a, b)


@pure(
    "mad24.(mode=lo|hi).(type=u32|s32)",
    d="type",
    a="type",
    b="type",
    c="type",
    section=_section("mad24"),
    fidelity="hardware",
)
def mad24(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.add(_product24(x, q, a, b), c)


@pure("mad24.(mode=hi).sat.(type=s32)", d="type", a="type", b="type", c="type", section=_section("mad24"), fidelity="hardware")
def mad24_sat(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return clamped_sum(x, _product24(x, q, a, b), c, subtract=False)


@pure("sad" + _TYPES, d="type", a="type", b="type", c="type", section=_section("sad"), fidelity="hardware")
def sad(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    less = x.slt(a, b) if q.type[0] == "s" else x.ult(a, b)
    return x.add(c, x.select(less, x.sub(b, a), x.sub(a, b)))


@pure("div" + _TYPES, d="type", a="type", b="type", section=_section("div"), fidelity="hardware")
def div(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """Division by zero is unspecified by the ISA; here all ones, as on silicon."""
    return x.sdiv(a, b) if q.type[0] == "s" else x.udiv(a, b)


@pure("rem" + _TYPES, d="type", a="type", b="type", section=_section("rem"), fidelity="hardware")
def rem(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """The remainder by zero is unspecified by the ISA; here all ones, as on silicon."""
    rest = x.srem(a, b) if q.type[0] == "s" else x.urem(a, b)
    none = x.eq(b, x.const(0, _int(q.type)))
    return x.select(none, x.const(-1, _int(q.type)), rest)


@pure("abs.(type=s16|s32|s64)", d="type", a="type", section=_section("abs"), fidelity="hardware")
def absolute(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    sign = x.ashr(a, x.const(int(q.type[1:]) - 1, _int(q.type)))
    return x.sub(x.xor(a, sign), sign)


@pure("neg.(type=s16|s32|s64)", d="type", a="type", section=_section("neg"), fidelity="hardware")
def neg(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return x.neg(a)


# ------------------------------------------------------------------------------------------------ min, max


def extreme(x: Vocabulary, q: Qualifiers, largest: bool, a: Value, b: Value) -> Value:
    """The smaller or larger; with ``.relu`` at least 0."""
    less = x.slt if q.type[0] == "s" else x.ult
    result = x.select(less(b, a) if largest else less(a, b), a, b)
    if q.__dict__.get("relu"):
        zero = x.const(0, x.type(a))
        result = x.select(x.slt(result, zero), zero, result)
    return result


@pure(
    "min{.relu}.(type=s32)",
    "min.(type=u16|s16|u32|u64|s64)",
    d="type",
    a="type",
    b="type",
    requires=needs("8.0", "sm_90", when={"relu": "relu"}),
    section=_section("min"),
    fidelity="hardware",
)
def minimum(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return extreme(x, q, False, a, b)


@pure(
    "max{.relu}.(type=s32)",
    "max.(type=u16|s16|u32|u64|s64)",
    d="type",
    a="type",
    b="type",
    requires=needs("8.0", "sm_90", when={"relu": "relu"}),
    section=_section("max"),
    fidelity="hardware",
)
def maximum(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return extreme(x, q, True, a, b)


# ------------------------------------------------------------------------------------------------ dot products


def _part(x: Vocabulary, a: Value, at: int, bits: int, signed: bool) -> Value:
    """Bits [at, at+bits) of an i32, extended."""
    left = x.shl(a, x.const(32 - bits - at, "i32"))
    return x.ashr(left, x.const(32 - bits, "i32")) if signed else x.lshr(left, x.const(32 - bits, "i32"))


@pure("dp4a.(m=u32|s32).(n=u32|s32)", d="b32", a="m", b="n", c="b32", section=_section("dp4a"), fidelity="hardware")
def dp4a(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    for at in (0, 8, 16, 24):
        c = x.add(c, x.mul(_part(x, a, at, 8, q.m == "s32"), _part(x, b, at, 8, q.n == "s32")))
    return c


@pure(
    "dp2a.(mode=lo|hi).(m=u32|s32).(n=u32|s32)",
    d="b32",
    a="m",
    b="n",
    c="b32",
    section=_section("dp2a"),
    fidelity="hardware",
)
def dp2a(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    start = 0 if q.mode == "lo" else 16
    for i in (0, 1):
        c = x.add(c, x.mul(_part(x, a, 16 * i, 16, q.m == "s32"), _part(x, b, start + 8 * i, 8, q.n == "s32")))
    return c
