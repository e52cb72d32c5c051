"""mov, and cvt between integers and f16, bf16, f32, f64."""

from __future__ import annotations

from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.kinds import Typed
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar.float_helpers import (
    canonical,
    flush,
    narrow_directed,
    narrow_half,
    narrow_odd,
    narrow_saturated,
    quiet,
    saturate,
    step,
    sum_odd,
    two_sum,
    widen_half,
)

__all__ = ["narrow_half_directed"]

_SECTION = "Data Movement and Conversion Instructions: cvt"
_INTEGERS = "u8|s8|u16|s16|u32|s32|u64|s64"
_BF16_SOURCE = needs("7.8", "sm_90", when={"source": "bf16"})
_BF16_RESULT = needs("7.8", "sm_90", when={"to": "bf16"})


def _bits(type: str) -> int:
    return int(type[1:])


@pure(
    "mov.(type=pred|b128|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64)",
    d=Typed("type", parts=True),
    a=Typed("type", symbols=True, special=True, parts=True),
    requires=needs("8.3", "sm_70", when={"type": "b128"}),
    section="Data Movement and Conversion Instructions: mov",
)
def mov(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """A copy of the bits; packing and unpacking vectors is the engine's way of reading and writing operands."""
    return a


# ------------------------------------------------------------------------------------------------ integer to integer


def _resize(x: Vocabulary, a: Value, source: str, to: str) -> Value:
    have, want = _bits(source), _bits(to)
    if have == want:
        return a
    if have > want:
        return x.trunc(a, f"i{want}")
    return x.sext(a, f"i{want}") if source[0] == "s" else x.zext(a, f"i{want}")


def _limit(x: Vocabulary, a: Value, source: str, to: str) -> Value:
    """The value clamped to the range of ``to``, still in the width of ``source``."""
    integer, signed = f"i{_bits(source)}", source[0] == "s"
    less = x.slt if signed else x.ult
    most = (1 << (_bits(to) - (to[0] == "s"))) - 1
    least = -(1 << (_bits(to) - 1)) if to[0] == "s" else 0
    if most < (1 << (_bits(source) - signed)) - 1:
        top = x.const(most, integer)
        a = x.select(less(top, a), top, a)
    if signed and least > -(1 << (_bits(source) - 1)):
        bottom = x.const(least, integer)
        a = x.select(x.slt(a, bottom), bottom, a)
    return a


def _holds(to: str, source: str) -> bool:
    """Whether every value of one integer type is one of another; then there is nothing to saturate."""
    return _bits(source) <= _bits(to) if to[0] == source[0] else source[0] == "u" and _bits(source) < _bits(to)


def _saturating() -> list[str]:
    names = _INTEGERS.split("|")
    return [f"cvt.sat.(to={to}).(source={'|'.join(s for s in names if not _holds(to, s))})" for to in names]


@pure(
    f"cvt.(to={_INTEGERS}).(source={_INTEGERS})",
    *_saturating(),
    d="to",
    a=Typed("source", special=True),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_integer(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return _resize(x, _limit(x, a, q.source, q.to) if q.get("sat") else a, q.source, q.to)


@pure("cvt.pack.sat.(to=u16|s16).s32", d="u32", a="s32", b="s32", section=_SECTION + ".pack", fidelity="hardware")
@pure("cvt.pack.sat.(to=u2|s2|u4|s4|u8|s8).s32.b32", d="u32", a="s32", b="s32", c="b32", section=_SECTION + ".pack", fidelity="hardware")
def cvt_pack(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *above: Value) -> Value:
    """Clamp both; b comes lowest, a above it, and above these the low bits of c."""
    width = _bits(q.to)
    mask, step = x.const((1 << width) - 1, "i32"), x.const(width, "i32")
    upper, lower = (x.and_(_limit(x, value, "s32", q.to), mask) for value in (a, b))
    pair = x.or_(x.shl(upper, step), lower)
    return x.or_(x.shl(above[0], x.const(2 * width, "i32")), pair) if above else pair


# ------------------------------------------------------------------------------------------------ float to integer


@pure(
    f"cvt.(rnd=rni|rzi|rmi|rpi){{.ftz}}{{.sat}}.(to={_INTEGERS}).(source=f32)",
    f"cvt.(rnd=rni|rzi|rmi|rpi){{.sat}}.(to={_INTEGERS}).(source=f16|f64)",
    f"cvt.(rnd=rni|rzi|rmi|rpi).(to={_INTEGERS}).(source=bf16)",
    d="to",
    a="source",
    requires=_BF16_SOURCE,
    section=_SECTION,
    fidelity="hardware",
)
def cvt_to_integer(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Out of range: the nearest end. NaN: 0, or the highest bit if one of the types is 64 bits wide."""
    if q.source in ("f16", "bf16"):
        a = widen_half(x, q.source, a)
    a = flush(x, q.get("ftz"), a)
    whole = a if q.rnd == "rzi" else x.fround(a, q.rnd)
    integer = f"i{_bits(q.to)}"
    result = x.ftosi(whole, integer) if q.to[0] == "s" else x.ftoui(whole, integer)
    if q.source == "f64" or _bits(q.to) == 64:
        result = x.select(x.isnan(a), x.const(1 << (_bits(q.to) - 1), integer), result)
    return result


# ------------------------------------------------------------------------------------------------ integer to float


def _halves_of_64(x: Vocabulary, signed: bool, a: Value) -> tuple[Value, Value]:
    """Two f64 whose exact sum is the 64-bit integer."""
    half = x.const(32, "i64")
    high = x.sitof(x.ashr(a, half), "f64") if signed else x.uitof(x.lshr(a, half), "f64")
    low = x.uitof(x.and_(a, x.const(0xFFFFFFFF, "i64")), "f64")
    return x.fmul(high, x.const(2.0**32, "f64")), low


@cache
def _integer_to_float(signed: bool, to: str, mode: str) -> Any:
    """For what is not a single conversion instruction."""

    def from_integer(x: Vocabulary, a: Value) -> Value:
        if x.type(a) == "i64":
            high, low = _halves_of_64(x, signed, a)
            if to == "f64":
                s, lost = two_sum(x, high, low)
                return step(x, mode, s, lost)
            wide = sum_odd(x, high, low)
        else:
            wide = x.sitof(a, "f64") if signed else x.uitof(a, "f64")
        if to == "f32":
            return narrow_directed(x, mode, wide)
        return narrow_half_directed(x, to, mode, narrow_odd(x, wide))

    from_integer.__name__ = f"{'s' if signed else 'u'}_to_{to}_{mode}"
    return from_integer


@pure(
    f"cvt.(rnd=rn|rz|rm|rp){{.ftz}}{{.sat}}.(to=f32).(source={_INTEGERS})",
    f"cvt.(rnd=rn|rz|rm|rp){{.sat}}.(to=f16|f64).(source={_INTEGERS})",
    f"cvt.(rnd=rn|rz|rm|rp).(to=bf16).(source={_INTEGERS})",
    d="to",
    a="source",
    requires=_BF16_RESULT,
    section=_SECTION,
    fidelity="hardware",
)
def cvt_from_integer(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    signed = q.source[0] == "s"
    exact = q.to == "f64" and _bits(q.source) <= 32
    if q.to in ("f32", "f64") and (q.rnd == "rn" or exact):
        result = x.sitof(a, q.to) if signed else x.uitof(a, q.to)
    else:
        result = x.call(_integer_to_float(signed, q.to, q.rnd), a)
    return _saturate(x, q, result)


def _saturate(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    if not q.get("sat"):
        return a
    if q.to in ("f16", "bf16"):
        return narrow_saturated(x, True, q.to, widen_half(x, q.to, a))
    return saturate(x, True, a)


# ------------------------------------------------------------------------------------------------ float to float


def narrow_half_directed(x: Vocabulary, kind: str, mode: str, a: Value) -> Value:
    """f32 to f16 or bf16 in any mode, canonical NaN."""
    nearest = narrow_half(x, kind, a)
    if mode == "rn":
        return nearest
    wide = widen_half(x, kind, nearest)
    above, below = x.flt(wide, a), x.flt(a, wide)
    one = x.const(1, "i16")
    negative = x.slt(nearest, x.const(0, "i16"))
    if mode == "rz":
        return x.select(x.select(negative, above, below), x.sub(nearest, one), nearest)
    moves = below if mode == "rm" else above
    grows = negative if mode == "rm" else x.not_(negative)
    return x.select(moves, x.select(grows, x.add(nearest, one), x.sub(nearest, one)), nearest)


def _nan_of_f64(x: Vocabulary, kind: str, a: Value) -> Value:
    """What a NaN becomes on narrowing from f64: sign and the high payload bits, quieted."""
    word = x.bitcast(a, "i64")
    width, mantissa = {"f32": (32, 23), "f16": (16, 10), "bf16": (16, 7)}[kind]
    payload = x.lshr(x.shl(word, x.const(12, "i64")), x.const(64 - mantissa, "i64"))
    top = x.shl(x.lshr(word, x.const(63, "i64")), x.const(width - 1, "i64"))
    rest = ((1 << (width - 1 - mantissa)) - 1) << mantissa | 1 << (mantissa - 1)
    return x.trunc(x.or_(x.or_(top, payload), x.const(rest, "i64")), f"i{width}")


@pure("cvt.(rnd=rn|rz|rm|rp){.ftz}{.sat}.(to=f32).(source=f64)", d="to", a="source", section=_SECTION, fidelity="hardware")
def cvt_f32_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    if q.ftz:  # what is subnormal before it is rounded
        sign = x.bitcast(x.and_(x.bitcast(a, "i64"), x.const(1 << 63, "i64")), "f64")
        a = x.select(x.flt(x.fabs(a), x.const(2.0**-126, "f64")), sign, a)
    result = narrow_directed(x, q.rnd, a)
    if q.sat:
        return saturate(x, True, result)
    return x.select(x.isnan(a), x.bitcast(_nan_of_f64(x, "f32", a), "f32"), result)


@pure(
    "cvt.(rnd=rn|rz|rm|rp){.sat}.(to=f16).(source=f64)",
    "cvt.(rnd=rn|rz|rm|rp).(to=bf16).(source=f64)",
    d="to",
    a="source",
    requires=_BF16_RESULT,
    section=_SECTION,
    fidelity="hardware",
)
def cvt_half_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    result = x.call(_half_from_f64(q.to, q.rnd), a)
    if q.get("sat"):
        return _saturate(x, q, result)
    return x.select(x.isnan(a), _nan_of_f64(x, q.to, a), result)


@cache
def _half_from_f64(kind: str, mode: str) -> Any:
    def half_from_f64(x: Vocabulary, a: Value) -> Value:
        return narrow_half_directed(x, kind, mode, narrow_odd(x, a))

    return half_from_f64


@pure(
    "cvt.(rnd=rn|rz|rm|rp){.ftz}{.sat}.(to=f16).(source=f32)",
    "cvt.(rnd=rn|rz|rm|rp){.ftz}.(to=bf16).(source=f32)",
    d="to",
    a="source",
    requires=needs("7.0", "sm_80", when={"to": "bf16"}),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_half_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Silicon flushes before it rounds to bf16, and not at all to f16, whatever ``.ftz`` says."""
    a = flush(x, bool(q.ftz) and q.to == "bf16", a)
    return narrow_half_directed(x, q.to, q.rnd, saturate(x, q.get("sat"), a))


@pure(
    "cvt{.sat}.(to=f16).(source=f16)",
    "cvt.(to=bf16).(source=bf16)",
    "cvt{.rnd=rn|rz|rm|rp}.(to=f16).(source=bf16)",
    "cvt{.rnd=rn|rz|rm|rp}.(to=bf16).(source=f16)",
    d="to",
    a="source",
    requires=(_BF16_SOURCE, _BF16_RESULT),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_half_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    wide = saturate(x, q.get("sat"), widen_half(x, q.source, a))
    return narrow_half_directed(x, q.to, q.get("rnd") or "rn", wide)


@pure(
    "cvt{.ftz}{.sat}.(to=f32).(source=f16)",
    "cvt{.ftz}.(to=f32).(source=bf16)",
    d="to",
    a="source",
    requires=(needs("7.1", "sm_80", when={"source": "bf16"}), needs("7.8", "sm_90", when={"source": "bf16", "ftz": "ftz"})),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_f32_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """A bf16 NaN keeps its payload, but with ``.ftz``; an f16 NaN becomes the canonical one."""
    wide = flush(x, q.ftz, widen_half(x, q.source, a))
    if q.get("sat"):
        return saturate(x, True, wide)
    return wide if q.source == "bf16" and not q.ftz else canonical(x, wide)


def _widen_nan(x: Vocabulary, wide: Value, a: Value, mantissa: int) -> Value:
    """An f64 widened from a float whose bits are ``a``: a NaN keeps sign and payload, quieted."""
    bits = int(x.type(a)[1:])
    word = x.zext(a, "i64")
    sign = x.shl(x.lshr(word, x.const(bits - 1, "i64")), x.const(63, "i64"))
    payload = x.lshr(x.shl(word, x.const(64 - mantissa, "i64")), x.const(12, "i64"))
    nan = x.or_(x.or_(sign, payload), x.const(0x7FF8 << 48, "i64"))
    return x.select(x.isnan(wide), x.bitcast(nan, "f64"), wide)


@pure("cvt{.ftz}{.sat}.(to=f64).(source=f32)", d="to", a="source", section=_SECTION, fidelity="hardware")
def cvt_f64_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """A NaN keeps its payload; with ``.ftz`` it becomes the canonical one."""
    a = canonical(x, flush(x, True, a)) if q.ftz else a
    wide = x.fext(a)
    return saturate(x, True, wide) if q.sat else _widen_nan(x, wide, x.bitcast(a, "i32"), 23)


@pure(
    "cvt{.sat}.(to=f64).(source=f16)",
    "cvt.(to=f64).(source=bf16)",
    d="to",
    a="source",
    requires=_BF16_SOURCE,
    section=_SECTION,
    fidelity="hardware",
)
def cvt_f64_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    wide = x.fext(widen_half(x, q.source, a))
    return saturate(x, True, wide) if q.get("sat") else _widen_nan(x, wide, a, 10 if q.source == "f16" else 7)


@pure("cvt{.rnd=rni|rzi|rmi|rpi}{.sat}.(to=f64).f64", d="to", a="to", section=_SECTION, fidelity="hardware")
@pure("cvt{.rnd=rni|rzi|rmi|rpi}{.ftz}{.sat}.(to=f32).f32", d="to", a="to", section=_SECTION, fidelity="hardware")
def cvt_integral(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Without a modifier it is a move, of NaN too."""
    if not (q.rnd or q.get("ftz") or q.sat):
        return a
    a = flush(x, q.get("ftz"), a)
    result = x.fround(a, q.rnd) if q.rnd else a
    if q.sat:
        return saturate(x, True, result)
    return canonical(x, result) if q.to == "f32" else quiet(x, result, a)


@pure(
    "cvt.(rnd=rni|rzi|rmi|rpi){.sat}.(to=f16).f16",
    "cvt.(rnd=rni|rzi|rmi|rpi).(to=bf16).bf16",
    d="to",
    a="to",
    requires=_BF16_RESULT,
    section=_SECTION,
    fidelity="hardware",
)
def cvt_half_integral(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    whole = x.fround(widen_half(x, q.to, a), q.rnd)
    return narrow_saturated(x, q.get("sat"), q.to, whole)
