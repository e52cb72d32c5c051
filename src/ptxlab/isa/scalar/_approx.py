"""The approximate instructions ex2, lg2, sin, cos and tanh, with the bits of an H200.

One unit of the GPU computes them and those of `_reciprocals`: `_approximation_unit`. The instructions without ``.ftz`` scale their operand
and result around the unit, as the assembler's code for sm_90 does. Sums are masked below the sign, which they never reach, so that the sign
of a result is defined where that of the operand is (`ptxlab.engine.undefined.vocabulary`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar import approximation_tables as rows
from ptxlab.isa.scalar._approximation_unit import binade, binades, excess, interpolated, masked, scaled, settled, subnormal
from ptxlab.isa.scalar._half import each_half
from ptxlab.isa.scalar.float_helpers import NAN16, NAN32, canonical, half_kind, widen_half
from ptxlab.isa.scalar.shared_functions import shared, two_vectors

_SECTION = "Floating Point Instructions: "
_INFINITY = 0x7F800000
_SIGN = -1 << 31
_MAGNITUDE = 0x7FFFFFFF
_NORMAL = 0x800000
"""The bits of the least normal f32."""


# The offsets make the truncation of the sum round it.
_EX2 = binade(tuple((value, 2 * slope, second) for value, slope, second in rows.EX2), 14, 0xEFC4, linear=4, curvature=1, more=126 << 25)
_LG2 = binades(rows.LG2, 12, 0x3345, curvature=2)
_SIN = binades(rows.SIN, 11, 0)


def _truncated(x: Vocabulary, sum: Value, scale: int) -> Value:
    """The bits of the f32 ``sum * 2**-scale``, truncated, for a sum above zero."""
    bits = x.trunc(x.lshr(x.bitcast(sum, "i64"), x.const(29, "i64")), "i32")
    return x.add(bits, x.const((127 - 1023 - scale) << 23 & 0xFFFFFFFF, "i32"))


def _at_least(x: Vocabulary, result: Value, least: int) -> Value:
    """Zero where the bits of a result are those of a number below the least normal one."""
    return x.select(x.slt(result, x.const(least, "i32")), x.const(0, "i32"), result)


def _nan_below_zero(x: Vocabulary, word: Value, at_zero: Value, result: Value) -> Value:
    """The bits of a function of positive numbers: ``at_zero`` also for subnormals, NaN for other negative numbers."""
    result = x.select(x.slt(word, x.const(0, "i32")), x.const(NAN32, "i32"), result)
    return x.select(x.ult(masked(x, word, _MAGNITUDE), x.const(_NORMAL, "i32")), at_zero, result)


# ------------------------------------------------------------------------------------------------ ex2


def _clamped(x: Vocabulary, a: Value, bound: float) -> Value:
    """A float inside [-bound, bound]; NaN gives one of the ends."""
    type = x.type(a)
    low, high = x.const(-bound, type), x.const(bound, type)
    a = x.select(x.flt(low, a), a, low)
    return x.select(x.flt(a, high), a, high)


def _ex2(x: Vocabulary, a: Value) -> Value:
    fixed = x.ftosi(x.fmul(_clamped(x, a, 128.0), x.const(2.0**23, "f32")), "i32")
    # A negative number with a fraction is complemented, not negated: one less.
    whole = x.eq(masked(x, fixed, 0x7FFFFF), x.const(0, "i32"))
    fixed = x.add(fixed, x.select(whole, x.const(0, "i32"), x.ashr(fixed, x.const(31, "i32"))))
    result = x.add(fixed, x.lshr(excess(x, _EX2, fixed, 17), x.const(2, "i32")))
    return x.fabs(settled(x, a, _at_least(x, result, _NORMAL)))


shared("ex2", "f32", 1, _ex2)


@pure("ex2.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "ex2", fidelity="hardware")
@two_vectors
def ex2(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """2 to the power of a; the ISA bounds the distance from the correctly rounded result by 2 ulp."""
    if q.ftz:
        return x.call(_ex2, a)
    small = x.flt(a, x.const(-126.0, "f32"))
    result = x.call(_ex2, scaled(x, a, small, 0.5))
    return canonical(x, x.fmul(result, x.select(small, result, x.const(1.0, "f32"))))


def _narrow_half(x: Vocabulary, kind: str, a: Value) -> Value:
    """f32 to f16 or bf16, truncated, canonical NaN."""
    if kind == "bf16":
        return x.trunc(x.lshr(x.bitcast(a, "i32"), x.const(16, "i32")), "i16")
    rounded = x.f32_to_half(a)
    above = x.and_(x.flt(x.fabs(a), x.fabs(x.half_to_f32(rounded))), x.flt(x.fabs(a), x.const(65536.0, "f32")))
    result = x.sub(rounded, x.select(above, x.const(1, "i16"), x.const(0, "i16")))
    return x.select(x.isnan(a), x.const(NAN16, "i16"), result)


def _of_halves(x: Vocabulary, type: str, function: Callable[..., Value], a: Value) -> Value:
    """An f32 function of 16-bit floats."""
    kind = half_kind(type)

    def element(x: Vocabulary, m: Value) -> Value:
        return _narrow_half(x, kind, x.call(function, widen_half(x, kind, m)))

    return each_half(x, type, element, a)


@pure(
    "ex2.approx.(type=f16|f16x2)",
    "ex2.approx.ftz.(type=bf16|bf16x2)",
    d="type",
    a="type",
    requires=needs("7.8", "sm_90", when={"type": "bf16|bf16x2"}),
    section="Half Precision Floating Point Instructions: ex2",
    fidelity="hardware",
)
@two_vectors
def ex2_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Relative error within 2**-9.9 (f16) or 2**-7 (bf16)."""
    return _of_halves(x, q.type, _ex2, a)


# ------------------------------------------------------------------------------------------------ lg2


def _lg2(x: Vocabulary, a: Value) -> Value:
    word = x.bitcast(a, "i32")
    exponent = x.sub(x.lshr(masked(x, word, _MAGNITUDE), x.const(23, "i32")), x.const(127, "i32"))
    sum = interpolated(x, _LG2, masked(x, word, 0x7FFFFF))
    sum = x.fadd(sum, x.fmul(x.sitof(exponent, "f64"), x.const(2.0**38, "f64")))
    below = x.flt(sum, x.const(0.0, "f64"))
    # A negative sum is complemented, not negated. The lowest two bits of either are dropped.
    size = x.select(below, x.fsub(x.const(-1.0, "f64"), sum), sum)
    unit = x.const(2.0**52, "f64")
    size = x.fsub(x.bitcast(x.and_(x.bitcast(x.fadd(size, unit), "i64"), x.const(-4, "i64")), "f64"), unit)
    result = x.or_(_truncated(x, size, 38), x.select(below, x.const(_SIGN, "i32"), x.const(0, "i32")))
    result = x.select(x.eq(word, x.const(0x3F800000, "i32")), x.const(0, "i32"), result)
    result = x.select(x.eq(word, x.const(_INFINITY, "i32")), word, result)
    return settled(x, a, _nan_below_zero(x, word, x.const(0xFF800000, "i32"), result))


shared("lg2", "f32", 1, _lg2)


@pure("lg2.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "lg2", fidelity="hardware")
@two_vectors
def lg2(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Logarithm to base 2; the ISA bounds the error by 2**-22, absolute near 1 and relative elsewhere."""
    if q.ftz:
        return x.call(_lg2, a)
    small = subnormal(x, a)
    result = x.call(_lg2, scaled(x, a, small, 2.0**24))
    return canonical(x, x.select(small, x.fsub(result, x.const(24.0, "f32")), result))


# ------------------------------------------------------------------------------------------------ sin, cos


def _periodic(quarter: int) -> Any:
    def sine(x: Vocabulary, a: Value) -> Value:
        """sin(a + quarter * pi / 2). The f32 product with 1 / (2 pi) is truncated, and so is its fraction, to 25 bits."""
        product = x.bitcast(x.fmul(x.fext(x.fabs(a)), x.const(0.15915493667125702, "f64")), "i64")
        turns = x.bitcast(x.and_(product, x.const(-1 << 29, "i64")), "f64")
        fraction = x.fsub(turns, x.fround(turns, "rmi"))
        fixed = x.ftosi(x.fmul(fraction, x.const(2.0**25, "f64")), "i32")
        fixed = x.add(fixed, x.const(quarter << 23, "i32"))
        falling = x.ashr(x.shl(fixed, x.const(8, "i32")), x.const(31, "i32"))
        sum = interpolated(x, _SIN, masked(x, x.xor(fixed, falling), 0x7FFFFF))
        result = x.select(x.feq(sum, x.const(0.0, "f64")), x.const(0, "i32"), _truncated(x, sum, 37))
        sign = x.shl(masked(x, fixed, 1 << 24), x.const(7, "i32"))
        if not quarter:
            sign = x.xor(sign, masked(x, x.bitcast(a, "i32"), _SIGN))
        finite = x.flt(x.fabs(a), x.bits(_INFINITY, "f32"))
        return x.select(finite, x.bitcast(x.or_(result, sign), "f32"), x.bits(NAN32, "f32"))

    return sine


_SINE, _COSINE = (shared(name, "f32", 1, _periodic(quarter)) for quarter, name in enumerate(("sin", "cos")))


@pure("sin.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "sin", fidelity="hardware")
@two_vectors
def sin(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Sine; the ISA bounds the absolute error by 2**-20.5 in [-2 pi, 2 pi]."""
    return x.call(_SINE, a)


@pure("cos.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "cos", fidelity="hardware")
@two_vectors
def cos(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Cosine; the ISA bounds the absolute error by 2**-20.4 in [-2 pi, 2 pi]."""
    return x.call(_COSINE, a)


# ------------------------------------------------------------------------------------------------ tanh

_TANH_START = 119
"""The biased exponent of the first binade with a table: below it, the result is the operand."""
_TANH_BITS = (0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3)
"""For each binade, how many bits of the significand select the interval."""


def _tanh_rows() -> rows.Rows:
    """The rows by the exponent and the first four bits of the significand."""
    found, at = [], 0
    for bits in _TANH_BITS:
        found += [rows.TANH[at + (i >> (4 - bits))] for i in range(16)]
        at += 1 << bits
    return tuple(found)


_TANH = binades(_tanh_rows(), 15, 0)


def _tanh(x: Vocabulary, a: Value) -> Value:
    word = x.bitcast(a, "i32")
    magnitude = masked(x, word, _MAGNITUDE)
    first, end = (x.const(exponent << 23, "i32") for exponent in (_TANH_START, _TANH_START + len(_TANH_BITS)))
    small, large = x.ult(magnitude, first), x.ule(end, magnitude)
    place = x.sub(x.select(small, first, x.select(large, x.sub(end, x.const(1, "i32")), magnitude)), first)
    row = x.lshr(place, x.const(19, "i32"))
    three = x.mul(x.lshr(place, x.const(23, "i32")), x.const(3, "i32"))
    bits = masked(x, x.lshr(x.const(sum(b << 3 * i for i, b in enumerate(_TANH_BITS)), "i32"), three), 7)
    rest = masked(x, x.lshr(place, x.sub(x.const(6, "i32"), bits)), 0x1FFFF)
    found = interpolated(x, _TANH, x.or_(x.shl(row, x.const(17, "i32")), rest))
    result = x.select(small, magnitude, x.select(large, x.const(0x3F800000, "i32"), _truncated(x, found, 39)))
    return settled(x, a, x.or_(masked(x, result, _MAGNITUDE), masked(x, word, _SIGN)))


shared("tanh", "f32", 1, _tanh)


@pure("tanh.approx.f32", d="f32", a="f32", section=_SECTION + "tanh", fidelity="hardware")
@two_vectors
def tanh(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Hyperbolic tangent; the ISA bounds the relative error by 2**-11."""
    return x.call(_tanh, a)


@pure(
    "tanh.approx.(type=f16|f16x2|bf16|bf16x2)",
    d="type",
    a="type",
    requires=needs("7.8", "sm_90", when={"type": "bf16|bf16x2"}),
    section="Half Precision Floating Point Instructions: tanh",
    fidelity="hardware",
)
@two_vectors
def tanh_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Absolute error within 2**-10.987 (f16) or 2**-8 (bf16)."""
    return _of_halves(x, q.type, _tanh, a)
