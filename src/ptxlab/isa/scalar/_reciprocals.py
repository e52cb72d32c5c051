"""The approximate reciprocals, quotients and roots, with the bits of an H200: rcp, div, sqrt, rsqrt.

For most operands the unit of the GPU gives the truncated reciprocal or the next number, and roots whose bits are a difference or a sum of
the bits of the operand and of what `excess` gives. The other operands, such as zero, infinity and NaN, are rare. The instructions without
``.ftz`` scale subnormal and very large operands and their results around the unit, as the assembler's code for sm_90 does. Signs are those
of the operands, so that they are defined where those are (`ptxlab.engine.undefined.vocabulary`).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.scalar import approximation_tables as rows
from ptxlab.isa.scalar._approximation_unit import binade, excess, last_bits, masked, scaled, settled, subnormal, with_last_bit
from ptxlab.isa.scalar.float_helpers import NAN32, NAN64, canonical, flush, quiet
from ptxlab.isa.scalar.shared_functions import shared, two_vectors

_SECTION = "Floating Point Instructions: "
_INFINITY = 0x7F800000
_SIGN = 1 << 31
_MAGNITUDE = 0x7FFFFFFF
_NORMAL = 0x800000
"""The bits of the least normal f32."""

# The offsets make the truncation of the sum round it.
_RCP = last_bits(rows.RCP, 0x8FCE)
_RSQRT = binade(rows.RSQRT, 14, 0x7FFF, linear=-2, curvature=2, odd=True)
_SQRT = binade(rows.SQRT, 15, 0x7FFF, linear=2, curvature=1, more=250 << 23, odd=True)


def _shl(x: Vocabulary, a: Value, amount: int) -> Value:
    return x.shl(a, x.const(amount, "i32"))


def _lshr(x: Vocabulary, a: Value, amount: int) -> Value:
    return x.lshr(a, x.const(amount, "i32"))


def _outside(x: Vocabulary, word: Value, first: int, end: int) -> Value:
    """Whether an i32 without sign is below ``first``, or not below ``end``: one comparison."""
    return x.sle(x.const(end - first - _SIGN, "i32"), x.add(word, x.const(_SIGN - first, "i32")))


def _large(x: Vocabulary, a: Value) -> Value:
    return x.flt(x.const(2.0**126, "f32"), x.fabs(a))


# ------------------------------------------------------------------------------------------------ rcp


def _usual_rcp(x: Vocabulary, a: Value) -> Value:
    """1/a where a and 1/a are normal."""
    word = x.bitcast(a, "i32")
    result = with_last_bit(x, _RCP, word, x.bitcast(x.reciprocal_toward_zero(a), "i32"))
    return x.bitcast(x.signed_as(result, word), "f32")


def _rare(x: Vocabulary, usual: Value, a: Value) -> Value:
    """Where a or 1/a is not normal; 2**126 is the largest a with a normal 1/a."""
    return _outside(x, _shl(x, x.bitcast(a, "i32"), 1), 1 << 24, (253 << 24) + 1)


def _perhaps_rare(x: Vocabulary, usual: Value, a: Value) -> Value:
    """The same by high halves; also for 2**126."""
    exponent = x.shl(x.high_half(x.bitcast(a, "i32")), x.const(1, "i16"))
    return x.ule(x.const(252 << 8, "i16"), x.sub(exponent, x.const(1 << 8, "i16")))


def _rare_rcp(x: Vocabulary, a: Value) -> Value:
    """Infinity, zero or NaN."""
    result = x.select(subnormal(x, a), x.const(_INFINITY, "i32"), x.const(0, "i32"))
    return settled(x, a, x.or_(result, masked(x, x.bitcast(a, "i32"), _SIGN)))


def _rcp(x: Vocabulary, a: Value) -> Value:
    return x.rarely(_perhaps_rare, _rare, _rare_rcp, _usual_rcp(x, a), a)


def _scaled_rcp(x: Vocabulary, a: Value) -> Value:
    factor = x.select(subnormal(x, a), x.const(2.0**24, "f32"), x.const(1.0, "f32"))
    factor = x.select(_large(x, a), x.const(0.25, "f32"), factor)
    return canonical(x, x.fmul(factor, x.call(_rcp, x.fmul(a, factor))))


def _whole_rcp(x: Vocabulary, a: Value) -> Value:
    return x.rarely(_perhaps_rare, _rare, _scaled_rcp, _usual_rcp(x, a), a)


_RECIPROCAL = {True: shared("rcp.ftz", "f32", 1, _rcp), False: shared("rcp", "f32", 1, _whole_rcp)}


@pure("rcp.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "rcp", fidelity="hardware")
@two_vectors
def rcp_approx(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/a; the ISA bounds the error by 1 ulp."""
    return x.call(_RECIPROCAL[bool(q.ftz)], a)


# ------------------------------------------------------------------------------------------------ div


def _quotient(others: Callable[..., Value], ftz: bool) -> Callable[..., Value]:
    """a/b, by the product of a and 1/b; ``others`` gives all other quotients.

    Those are where b or 1/b is not normal, or the product is NaN, or something is flushed.
    """

    def unless_usual(unit: Callable[..., Value]) -> Callable[..., Value]:
        def rare(x: Vocabulary, product: Value, a: Value, b: Value) -> Value:
            flushed_or_nan = x.or_(x.subnormal_or_nan(a), x.subnormal_or_nan(product)) if ftz else x.isnan(product)
            return x.or_(unit(x, product, b), flushed_or_nan)

        return rare

    def divide(x: Vocabulary, a: Value, b: Value) -> Value:
        product = x.fmul(a, _usual_rcp(x, b))
        return x.rarely(unless_usual(_perhaps_rare), unless_usual(_rare), others, product, a, b)

    return divide


def _product(x: Vocabulary, ftz: bool, a: Value, b: Value) -> Value:
    return canonical(x, flush(x, ftz, x.fmul(a, b)))


def _scaled_full(ftz: bool) -> Callable[..., Value]:
    def divide(x: Vocabulary, a: Value, b: Value) -> Value:
        a, b = flush(x, ftz, a), flush(x, ftz, b)
        factor = x.select(_large(x, b), x.const(0.25, "f32"), x.const(1.0, "f32"))
        if not ftz:
            factor = x.select(subnormal(x, b), x.const(2.0**24, "f32"), factor)
        return _product(x, ftz, flush(x, ftz, x.fmul(a, factor)), x.call(_rcp, x.fmul(b, factor)))

    return divide


def _scaled_approx(ftz: bool) -> Callable[..., Value]:
    def divide(x: Vocabulary, a: Value, b: Value) -> Value:
        a = flush(x, ftz, a)
        if not ftz:
            small = subnormal(x, b)
            a, b = scaled(x, a, small, 2.0**24), scaled(x, b, small, 2.0**24)
        return _product(x, ftz, a, x.call(_rcp, b))

    return divide


_FULL = {ftz: shared(f"div.full{'.ftz' * ftz}", "f32", 2, _quotient(_scaled_full(ftz), ftz)) for ftz in (False, True)}
_APPROX = {ftz: shared(f"div.approx{'.ftz' * ftz}", "f32", 2, _quotient(_scaled_approx(ftz), ftz)) for ftz in (False, True)}


@pure("div.full{.ftz}.f32", d="f32", a="f32", b="f32", section=_SECTION + "div", fidelity="hardware")
@two_vectors
def div_full(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """a/b; the ISA bounds the error by 2 ulp."""
    return x.call(_FULL[bool(q.ftz)], a, b)


@pure("div.approx{.ftz}.f32", d="f32", a="f32", b="f32", section=_SECTION + "div", fidelity="hardware")
@two_vectors
def div_approx(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """a/b; 2 ulp for 2**-126 <= abs(b) <= 2**126; for larger b the quotient is zero, or NaN for an infinite a."""
    return x.call(_APPROX[bool(q.ftz)], a, b)


# ------------------------------------------------------------------------------------------------ sqrt, rsqrt


def _not_positive(x: Vocabulary, usual: Value, a: Value) -> Value:
    """Where a is not a normal positive number."""
    return _outside(x, x.bitcast(a, "i32"), _NORMAL, _INFINITY)


def _some_not_positive(x: Vocabulary, usual: Value, a: Value) -> Value:
    """The same in lanes of any order."""
    return x.outside_positive_normals(a)


def _usual_sqrt(x: Vocabulary, a: Value) -> Value:
    """The root of a normal positive number."""
    word = x.bitcast(a, "i32")
    result = _lshr(x, x.add(word, _lshr(x, excess(x, _SQRT, word, 17), 1)), 1)
    return x.bitcast(result, "f32")


def _rare_sqrt(x: Vocabulary, a: Value) -> Value:
    """Infinity, zero or NaN."""
    zero = x.bitcast(masked(x, x.bitcast(a, "i32"), _SIGN), "f32")
    result = x.select(x.flt(a, x.const(0.0, "f32")), x.bits(NAN32, "f32"), a)
    return canonical(x, x.select(subnormal(x, a), zero, result))


def _usual_rsqrt(x: Vocabulary, a: Value) -> Value:
    """1/sqrt(a) of a normal positive number."""
    word = x.bitcast(a, "i32")
    found = x.ashr(_exact_at_one(x, word, 17), x.const(1, "i32"))
    result = _lshr(x, x.add(x.sub(x.const(377 << 23, "i32"), word), found), 1)
    return x.bitcast(result, "f32")


def _exact_at_one(x: Vocabulary, word: Value, first: int) -> Value:
    """What `excess` gives for 1/sqrt; the result for 1 is 1."""
    at_one = x.eq(_shl(x, word, 25 - first), x.const(_SIGN, "i32"))
    return x.add(excess(x, _RSQRT, word, first), x.select(at_one, x.const(4, "i32"), x.const(0, "i32")))


def _rare_rsqrt(x: Vocabulary, a: Value) -> Value:
    """Zero, infinity or NaN."""
    word = x.bitcast(a, "i32")
    infinity = x.or_(masked(x, word, _SIGN), x.const(_INFINITY, "i32"))
    result = x.select(x.slt(word, x.const(0, "i32")), x.const(NAN32, "i32"), x.const(0, "i32"))
    return settled(x, a, x.select(subnormal(x, a), infinity, result))


def _root(name: str, usual: Callable[..., Value], rare: Callable[..., Value], factor: float) -> dict[bool, Callable[..., Value]]:
    """The functions with and without ``.ftz``; without, a subnormal operand is scaled, and the result with ``factor``."""

    def root(x: Vocabulary, a: Value) -> Value:
        return x.rarely(_some_not_positive, _not_positive, rare, usual(x, a), a)

    def with_subnormal(x: Vocabulary, a: Value) -> Value:
        small = subnormal(x, a)
        return canonical(x, scaled(x, x.call(root, scaled(x, a, small, 2.0**24)), small, factor))

    def whole(x: Vocabulary, a: Value) -> Value:
        return x.rarely(_some_not_positive, _not_positive, with_subnormal, usual(x, a), a)

    return {True: shared(f"{name}.ftz", "f32", 1, root), False: shared(name, "f32", 1, whole)}


_ROOT = _root("sqrt", _usual_sqrt, _rare_sqrt, 2.0**-12)
_RECIPROCAL_ROOT = _root("rsqrt", _usual_rsqrt, _rare_rsqrt, 2.0**12)


@pure("sqrt.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "sqrt", fidelity="hardware")
@two_vectors
def sqrt_approx(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """The square root; the ISA bounds the relative error by 2**-23."""
    return x.call(_ROOT[bool(q.ftz)], a)


@pure("rsqrt.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION + "rsqrt", fidelity="hardware")
@two_vectors
def rsqrt_approx(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/sqrt(a); the ISA bounds the relative error by 2**-22.9."""
    return x.call(_RECIPROCAL_ROOT[bool(q.ftz)], a)


# ------------------------------------------------------------------------------------------------ f64

_HIGH_NORMAL = 0x100000
"""The high word of the least normal f64."""
_HIGH_INFINITY = 0x7FF00000


def _high_word(x: Vocabulary, a: Value) -> Value:
    return x.trunc(x.lshr(x.bitcast(a, "i64"), x.const(32, "i64")), "i32")


def _settled_high(x: Vocabulary, magnitude: Value, result: Value) -> Value:
    """The f64 with this high word; a NaN where the high word of the operand is that of a NaN."""
    nan = x.ult(x.const(_HIGH_INFINITY, "i32"), magnitude)
    return x.bitcast(x.shl(x.zext(x.select(nan, x.const(NAN32, "i32"), result), "i64"), x.const(32, "i64")), "f64")


def _rcp_high(x: Vocabulary, a: Value) -> Value:
    word = _high_word(x, a)
    magnitude = masked(x, word, _MAGNITUDE)
    # That of the significand, in 20 bits of it.
    significand = x.or_(_shl(x, masked(x, word, 0xFFFFF), 3), x.const(0x3F800000, "i32"))
    found = _lshr(x, x.bitcast(_usual_rcp(x, x.bitcast(significand, "f32")), "i32"), 3)
    result = x.sub(x.add(found, x.const(0x77F00000, "i32")), masked(x, word, _HIGH_INFINITY))
    result = x.select(x.slt(result, x.const(_HIGH_NORMAL, "i32")), x.const(0, "i32"), result)
    result = x.select(x.ult(magnitude, x.const(_HIGH_NORMAL, "i32")), x.const(_HIGH_INFINITY, "i32"), result)
    return _settled_high(x, magnitude, x.or_(masked(x, result, _MAGNITUDE), masked(x, word, _SIGN)))


def _rsqrt_high(x: Vocabulary, a: Value) -> Value:
    word = _high_word(x, a)
    magnitude = masked(x, word, _MAGNITUDE)
    found = x.ashr(_exact_at_one(x, word, 14), x.const(4, "i32"))
    result = _lshr(x, x.add(x.sub(x.const(3065 << 20, "i32"), magnitude), found), 1)
    result = x.select(x.eq(word, x.const(_HIGH_INFINITY, "i32")), x.const(0, "i32"), result)
    result = x.select(x.slt(word, x.const(0, "i32")), x.const(NAN32, "i32"), result)
    infinity = x.or_(masked(x, word, _SIGN), x.const(_HIGH_INFINITY, "i32"))
    return _settled_high(x, magnitude, x.select(x.ult(magnitude, x.const(_HIGH_NORMAL, "i32")), infinity, result))


shared("rcp.f64", "f64", 1, _rcp_high)
shared("rsqrt.ftz.f64", "f64", 1, _rsqrt_high)


@pure("rcp.approx.ftz.f64", d="f64", a="f64", section=_SECTION + "rcp.approx.ftz.f64", fidelity="hardware")
@two_vectors
def rcp_approx_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/a from the high word of a; the low word of the result is zero."""
    return x.call(_rcp_high, a)


@pure("rsqrt.approx.ftz.f64", d="f64", a="f64", section=_SECTION + "rsqrt.approx.ftz.f64", fidelity="hardware")
@two_vectors
def rsqrt_approx_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/sqrt(a) from the high word of a; the low word of the result is zero."""
    return x.call(_rsqrt_high, a)


def _refined_root(x: Vocabulary, a: Value) -> Value:
    """1/sqrt(a) from the approximation and one step of refinement."""
    small = x.flt(a, x.const(2.0**-1022, "f64"))
    scaled = x.fmul(a, x.select(small, x.const(2.0**54, "f64"), x.const(1.0, "f64")))
    root = x.call(_rsqrt_high, scaled)
    error = x.fma(scaled, x.fneg(x.fmul(root, root)), x.const(1.0, "f64"))
    refined = x.fma(x.fma(error, x.const(0.375, "f64"), x.const(0.5, "f64")), x.fmul(root, error), root)
    refined = x.fmul(refined, x.select(small, x.const(2.0**27, "f64"), x.const(1.0, "f64")))
    zero, infinity = x.const(0.0, "f64"), x.bits(0x7FF0000000000000, "f64")
    ordinary = x.and_(x.flt(zero, a), x.flt(a, infinity))
    at_zero = x.bitcast(x.or_(x.bitcast(a, "i64"), x.const(0x7FF0000000000000, "i64")), "f64")
    special = x.select(x.feq(a, infinity), zero, x.select(x.feq(a, zero), at_zero, x.bits(NAN64, "f64")))
    return x.select(ordinary, refined, x.select(x.isnan(a), a, special))


shared("rsqrt.f64", "f64", 1, _refined_root)


@pure("rsqrt.approx.f64", d="f64", a="f64", section=_SECTION + "rsqrt", fidelity="hardware")
@two_vectors
def rsqrt_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/sqrt(a), as the assembler's code for it is on an H200."""
    return quiet(x, x.call(_refined_root, a), a)
