"""Integer arithmetic: of words, of packed 8-bit and 16-bit integers, and through the carry flag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs

__all__ = ["each_integer"]

_SECTION = "Integer Arithmetic Instructions: {base}"
_EXTENDED = "Extended-Precision Integer Arithmetic Instructions: {base}"
_TYPES = ".(type=u16|s16|u32|s32|u64|s64)"
_CARRY_TYPES = ".(type=u32|s32|u64|s64)"
_NEW = needs("9.2", "sm_107f sm_120f")
_PACKED_NEEDS = (needs("8.0", "sm_90"), replace(_NEW, when={"sat": ("sat",)}), replace(_NEW, when={"type": ("u8x4", "s8x4")}))
_WIDE = {"wide": ("type", {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"})}


def _int(type: str) -> str:
    return f"i{type[1:]}"


def _clamped_sum(x: Vocabulary, a: Value, b: Value, subtract: bool = False) -> Value:
    """The signed sum or difference, saturated."""
    type = x.type(a)
    bits, zero = int(type[1:]), x.const(0, type)
    result = x.sub(a, b) if subtract else x.add(a, b)
    signs = x.xor(a, b) if subtract else x.not_(x.xor(a, b))
    overflow = x.slt(x.and_(signs, x.xor(a, result)), zero)
    most = x.const((1 << (bits - 1)) - 1, type)
    limit = x.xor(x.ashr(a, x.const(bits - 1, type)), most)
    return x.select(overflow, limit, result)


def each_integer(x: Vocabulary, type: str, function: Callable[..., Value], *words: Value) -> Value:
    """``function(x, *elements)`` for the elements of packed words, or for words that are not packed."""
    if type.endswith("x2"):
        return x.each(function, "i16", *words)
    if type.endswith("x4"):
        return x.each(lambda x, *halves: x.each(function, "i8", *halves), "i16", *words)
    return function(x, *words)


@pure("add|sub" + _TYPES, d="type", a="type", b="type", section=_SECTION, fidelity="hardware")
@pure("add|sub.sat.s32", d="s32", a="s32", b="s32", section=_SECTION, fidelity="hardware")
@pure("add.sat.(type=u32)", d="type", a="type", b="type", requires=_NEW, section=_SECTION)
@pure("add{.sat}.(type=u16x2|s16x2|u8x4|s8x4)", d="type", a="type", b="type", requires=_PACKED_NEEDS, section=_SECTION)
@pure("sub{.sat}.(type=u8x4|s8x4)", d="type", a="type", b="type", requires=_NEW, section=_SECTION)
def add(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    subtract, type = q.base == "sub", q.get("type") or "s32"

    def element(x: Vocabulary, m: Value, n: Value) -> Value:
        if q.get("sat") and type[0] == "s":
            return _clamped_sum(x, m, n, subtract)
        result = x.sub(m, n) if subtract else x.add(m, n)
        if not q.get("sat"):
            return result
        overflow = x.ult(m, n) if subtract else x.ult(result, m)
        return x.select(overflow, x.const(0 if subtract else -1, x.type(m)), result)

    return each_integer(x, type, element, a, b)


# ------------------------------------------------------------------------------------------------ products


def _product(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    signed = q.type[0] == "s"
    if q.mode == "lo":
        return x.mul(a, b)
    if q.mode == "hi":
        return x.smulhi(a, b) if signed else x.umulhi(a, b)
    wide = _int(q.wide)
    return x.mul(x.sext(a, wide), x.sext(b, wide)) if signed else x.mul(x.zext(a, wide), x.zext(b, wide))


@pure("mul.(mode=lo|hi)" + _TYPES, d="type", a="type", b="type", section=_SECTION, fidelity="hardware")
@pure("mul.(mode=wide).(type=u16|s16|u32|s32)", d="wide", a="type", b="type", derived=_WIDE, section=_SECTION, fidelity="hardware")
@pure("mad.(mode=lo|hi)" + _TYPES, d="type", a="type", b="type", c="type", section=_SECTION, fidelity="hardware")
@pure(
    "mad.(mode=wide).(type=u16|s16|u32|s32)", d="wide", a="type", b="type", c="wide", derived=_WIDE, section=_SECTION, fidelity="hardware"
)
def mul(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> Value:
    product = _product(x, q, a, b)
    return x.add(product, *c) if c else product


@pure("mad.hi.sat.s32", d="s32", a="s32", b="s32", c="s32", section=_SECTION, fidelity="hardware")
def mad_hi_sat(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return _clamped_sum(x, x.smulhi(a, b), c)


@pure(
    "clmad.(mode=lo|hi).u64",
    d="u64",
    a="u64",
    b="u64",
    c="u64",
    requires=needs("9.3", "sm_80"),
    section=_SECTION,
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


@pure("mul24.(mode=lo|hi).(type=u32|s32)", d="type", a="type", b="type", section=_SECTION, fidelity="hardware")
@pure("mad24.(mode=lo|hi).(type=u32|s32)", d="type", a="type", b="type", c="type", section=_SECTION, fidelity="hardware")
@pure("mad24.(mode=hi).sat.(type=s32)", d="type", a="type", b="type", c="type", section=_SECTION, fidelity="hardware")
def mul24(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *c: Value) -> Value:
    """Bits 31..0 (lo) or 47..16 (hi) of the product of the low 24 bits, plus c."""
    eight, sixteen = x.const(8, "i32"), x.const(16, "i32")
    extend, high = (x.ashr, x.smulhi) if q.type == "s32" else (x.lshr, x.umulhi)
    a, b = extend(x.shl(a, eight), eight), extend(x.shl(b, eight), eight)
    product = x.mul(a, b)
    if q.mode == "hi":
        product = x.or_(x.shl(high(a, b), sixteen), x.lshr(product, sixteen))
    if q.get("sat"):
        return _clamped_sum(x, product, *c)
    return x.add(product, *c) if c else product


@pure("sad" + _TYPES, d="type", a="type", b="type", c="type", section=_SECTION, fidelity="hardware")
def sad(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    less = x.slt(a, b) if q.type[0] == "s" else x.ult(a, b)
    return x.add(c, x.select(less, x.sub(b, a), x.sub(a, b)))


@pure("div" + _TYPES, d="type", a="type", b="type", section=_SECTION, fidelity="hardware")
def div(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """Division by zero is unspecified by the ISA; here all ones, as on silicon."""
    return x.sdiv(a, b) if q.type[0] == "s" else x.udiv(a, b)


@pure("rem" + _TYPES, d="type", a="type", b="type", section=_SECTION, fidelity="hardware")
def rem(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """The remainder by zero is unspecified by the ISA; here all ones, as on silicon."""
    rest = x.srem(a, b) if q.type[0] == "s" else x.urem(a, b)
    none = x.eq(b, x.const(0, _int(q.type)))
    return x.select(none, x.const(-1, _int(q.type)), rest)


@pure("abs.(type=s16|s32|s64)", d="type", a="type", section=_SECTION, fidelity="hardware")
def absolute(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    sign = x.ashr(a, x.const(int(q.type[1:]) - 1, _int(q.type)))
    return x.sub(x.xor(a, sign), sign)


@pure("neg.(type=s16|s32|s64)", d="type", a="type", section=_SECTION, fidelity="hardware")
@pure("neg.(type=s8x4)", d="type", a="type", requires=_NEW, section=_SECTION)
def neg(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return each_integer(x, q.type, lambda x, m: x.neg(m), a)


# ------------------------------------------------------------------------------------------------ min, max


@pure(
    "min|max{.relu}.(type=s32)",
    "min|max.(type=u16|s16|u32|u64|s64)",
    d="type",
    a="type",
    b="type",
    requires=needs("8.0", "sm_90", when={"relu": "relu"}),
    section=_SECTION,
    fidelity="hardware",
)
@pure(
    "min|max{.relu}.(type=s16x2|s8x4)",
    "min|max.(type=u16x2|u8x4)",
    d="type",
    a="type",
    b="type",
    requires=(_PACKED_NEEDS[0], _PACKED_NEEDS[2]),
    section=_SECTION,
)
def extreme(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """The smaller or larger; with ``.relu`` at least 0."""

    def element(x: Vocabulary, m: Value, n: Value) -> Value:
        functions = {"smin": x.smin, "smax": x.smax, "umin": x.umin, "umax": x.umax}
        result = functions[q.type[0] + q.base](m, n)
        return x.smax(result, x.const(0, x.type(m))) if q.get("relu") else result

    return each_integer(x, q.type, element, a, b)


# ------------------------------------------------------------------------------------------------ dot products


def _part(x: Vocabulary, a: Value, at: int, bits: int, signed: bool) -> Value:
    """Bits [at, at+bits) of an i32, extended."""
    left = x.shl(a, x.const(32 - bits - at, "i32"))
    return x.ashr(left, x.const(32 - bits, "i32")) if signed else x.lshr(left, x.const(32 - bits, "i32"))


@pure("dp4a.(m=u32|s32).(n=u32|s32)", d="b32", a="m", b="n", c="b32", section=_SECTION, fidelity="hardware")
def dp4a(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    products = [x.mul(_part(x, a, at, 8, q.m == "s32"), _part(x, b, at, 8, q.n == "s32")) for at in (0, 8, 16, 24)]
    return _accumulated(x, products, c, 0 if q.m == q.n == "u32" else 17)


@pure(
    "dp2a.(mode=lo|hi).(m=u32|s32).(n=u32|s32)",
    d="b32",
    a="m",
    b="n",
    c="b32",
    section=_SECTION,
    fidelity="hardware",
)
def dp2a(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    start = 0 if q.mode == "lo" else 16
    products = [x.mul(_part(x, a, 16 * i, 16, q.m == "s32"), _part(x, b, start + 8 * i, 8, q.n == "s32")) for i in (0, 1)]
    return _accumulated(x, products, c, 0 if q.m == q.n == "u32" else 24)


def _accumulated(x: Vocabulary, products: list[Value], c: Value, bits: int) -> Value:
    """A sum with c. With ``bits`` the products add up to less than ``2**bits``, with either sign.

    Of a sum counted from the smallest one, only the lower bits can be undefined; the sign would make all upper bits of c undefined.
    """
    if not bits:
        return reduce(x.add, products, c)
    smallest = x.const(1 << bits, "i32")
    return x.add(x.sub(c, smallest), x.and_(reduce(x.add, products, smallest), x.const((2 << bits) - 1, "i32")))


# ------------------------------------------------------------------------------------------------ carry


_SUM = {"a": "type", "b": "type"}
_PRODUCT = {**_SUM, "c": "type"}


@pure("add|sub.cc" + _CARRY_TYPES, d="type", out="carry", **_SUM, outputs=2, section=_EXTENDED + ".cc", fidelity="hardware")
@pure("addc|subc" + _CARRY_TYPES, d="type", **_SUM, flag="carry", section=_EXTENDED, fidelity="hardware")
@pure("addc|subc.cc" + _CARRY_TYPES, d="type", out="carry", **_SUM, flag="carry", outputs=2, section=_EXTENDED, fidelity="hardware")
@pure("mad.(mode=lo|hi).cc" + _CARRY_TYPES, d="type", out="carry", **_PRODUCT, outputs=2, section=_EXTENDED + ".cc", fidelity="hardware")
@pure("madc.(mode=lo|hi)" + _CARRY_TYPES, d="type", **_PRODUCT, flag="carry", section=_EXTENDED, fidelity="hardware")
@pure(
    "madc.(mode=lo|hi).cc" + _CARRY_TYPES,
    d="type",
    out="carry",
    **_PRODUCT,
    flag="carry",
    outputs=2,
    section=_EXTENDED,
    fidelity="hardware",
)
def with_carry(x: Vocabulary, q: Qualifiers, *values: Value) -> Value | tuple[Value, Value]:
    """Sum or difference; with ``.cc`` also the carry.

    A difference is a + ~b + carry, without a carry in a + ~b + 1: the flag is that of the adder, as an H200 shows it between additions
    and subtractions, and set where nothing is borrowed.
    """
    if q.get("mode"):
        values = (_product(x, q, *values[:2]), *values[2:])
    a, b, *carry = values
    if q.base in ("sub", "subc"):
        b, carry = x.not_(b), carry or [x.const(1, "i1")]
    result = x.add(a, b)
    out = x.ult(result, a)
    if carry:
        total = result
        result = x.add(total, x.zext(carry[0], x.type(a)))
        out = x.or_(out, x.ult(result, total))
    return (result, out) if q.get("cc") else result
