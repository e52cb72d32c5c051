"""add, sub, mul, fma, mad, div, rcp, sqrt, abs, neg, min, max, copysign, testp on f32, f32x2 and f64, exactly rounded."""

from __future__ import annotations

from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._rounding import (
    directed_div64,
    directed_fma64,
    directed_sqrt64,
    narrow_directed,
    sum_odd,
    zero_sign,
)
from ptxlab.isa.scalar.float_helpers import canonical, flush, quiet, saturate, widen_half

_RND = "{.rnd=rn|rz|rm|rp}"
_MUST_ROUND = ".(rnd=rn|rz|rm|rp)"

# ------------------------------------------------------------------------------------------------ f32


def _nearest32(x: Vocabulary, op: str, a: Value, b: Value, c: Value | None) -> Value:
    if op == "add":
        return x.fadd(a, b)
    if op == "sub":
        return x.fsub(a, b)
    return x.fmul(a, b) if c is None else x.fma(a, b, c)


@cache
def _directed32(op: str, mode: str) -> Any:
    def round32(x: Vocabulary, a: Value, b: Value, *c: Value) -> Value:
        wide_a, wide_b = x.fext(a), x.fext(x.fneg(b) if op == "sub" else b)
        if op in ("add", "sub"):
            exact = zero_sign(x, mode, sum_odd(x, wide_a, wide_b), wide_a, wide_b)
        else:
            exact = x.fmul(wide_a, wide_b)
            if c:
                product, addend = exact, x.fext(c[0])
                exact = zero_sign(x, mode, sum_odd(x, product, addend), product, addend)
        return narrow_directed(x, mode, exact)

    round32.__name__ = f"{op}_{mode}_f32"
    return round32


def arithmetic32(x: Vocabulary, op: str, q: Qualifiers, a: Value, b: Value, c: Value | None = None) -> Value:
    """One f32 operation with rounding, ``.ftz`` and ``.sat`` as in ``q``."""
    a, b = flush(x, q.ftz, a), flush(x, q.ftz, b)
    c = None if c is None else flush(x, q.ftz, c)
    if q.rnd in (None, "rn"):
        result = _nearest32(x, op, a, b, c)
    else:
        result = x.call(_directed32(op, q.rnd), a, b, *(() if c is None else (c,)))
    result = flush(x, q.ftz, result)
    return saturate(x, True, result) if q.sat else canonical(x, result)


_ARITHMETIC = "Floating Point Instructions: add, sub, mul, fma"


@pure("add" + _RND + "{.ftz}{.sat}.f32", d="f32", a="f32", b="f32", section=_ARITHMETIC, fidelity="hardware")
def add_f32(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return arithmetic32(x, "add", q, a, b)


@pure("sub" + _RND + "{.ftz}{.sat}.f32", d="f32", a="f32", b="f32", section=_ARITHMETIC, fidelity="hardware")
def sub_f32(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return arithmetic32(x, "sub", q, a, b)


@pure("mul" + _RND + "{.ftz}{.sat}.f32", d="f32", a="f32", b="f32", section=_ARITHMETIC, fidelity="hardware")
def mul_f32(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return arithmetic32(x, "mul", q, a, b)


@pure(
    "fma" + _MUST_ROUND + "{.ftz}{.sat}.f32",
    "mad" + _MUST_ROUND + "{.ftz}{.sat}.f32",
    d="f32",
    a="f32",
    b="f32",
    c="f32",
    section=_ARITHMETIC,
    fidelity="hardware",
)
def fma_f32(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return arithmetic32(x, "fma", q, a, b, c)


_MIXED = "Mixed Precision Floating Point Instructions: add, sub, fma"


_BLACKWELL = needs("8.6", "sm_100")


class _Mixed(Qualifiers):
    """Mixed-precision forms have no ``.ftz``."""

    def __init__(self, q: Qualifiers) -> None:
        super().__init__({**q.__dict__, "ftz": False})


@pure("add" + _RND + "{.sat}.f32.(type=f16|bf16)", d="f32", a="type", c="f32", requires=_BLACKWELL, section=_MIXED)
def add_mixed(x: Vocabulary, q: Qualifiers, a: Value, c: Value) -> Value:
    return arithmetic32(x, "add", _Mixed(q), widen_half(x, q.type, a), c)


@pure("sub" + _RND + "{.sat}.f32.(type=f16|bf16)", d="f32", a="type", c="f32", requires=_BLACKWELL, section=_MIXED)
def sub_mixed(x: Vocabulary, q: Qualifiers, a: Value, c: Value) -> Value:
    return arithmetic32(x, "sub", _Mixed(q), widen_half(x, q.type, a), c)


@pure("fma" + _MUST_ROUND + "{.sat}.f32.(type=f16|bf16)", d="f32", a="type", b="type", c="f32", requires=_BLACKWELL, section=_MIXED)
def fma_mixed(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return arithmetic32(x, "fma", _Mixed(q), widen_half(x, q.type, a), widen_half(x, q.type, b), c)


# ------------------------------------------------------------------------------------------------ f32x2


class _Packed(Qualifiers):
    """Packed forms have no ``.sat``."""

    def __init__(self, q: Qualifiers) -> None:
        super().__init__({**q.__dict__, "sat": False})


def _packed32(x: Vocabulary, op: str, q: Qualifiers, *packed: Value) -> Value:
    return x.each(lambda x, *elements: arithmetic32(x, op, _Packed(q), *elements), "f32", *packed)


@pure("add" + _RND + "{.ftz}.f32x2", d="f32x2", a="f32x2", b="f32x2", requires=_BLACKWELL, section=_ARITHMETIC)
def add_f32x2(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _packed32(x, "add", q, a, b)


@pure("sub" + _RND + "{.ftz}.f32x2", d="f32x2", a="f32x2", b="f32x2", requires=_BLACKWELL, section=_ARITHMETIC)
def sub_f32x2(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _packed32(x, "sub", q, a, b)


@pure("mul" + _RND + "{.ftz}.f32x2", d="f32x2", a="f32x2", b="f32x2", requires=_BLACKWELL, section=_ARITHMETIC)
def mul_f32x2(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _packed32(x, "mul", q, a, b)


@pure("fma" + _MUST_ROUND + "{.ftz}.f32x2", d="f32x2", a="f32x2", b="f32x2", c="f32x2", requires=_BLACKWELL, section=_ARITHMETIC)
def fma_f32x2(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return _packed32(x, "fma", q, a, b, c)


# ------------------------------------------------------------------------------------------------ f64


@pure("add" + _RND + ".f64", d="f64", a="f64", b="f64", section=_ARITHMETIC, fidelity="hardware")
def add_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    if q.rnd in (None, "rn"):
        return quiet(x, x.fadd(a, b), a, b)
    return quiet(x, x.call(directed_fma64(q.rnd), a, x.const(1.0, "f64"), b), a, b)


@pure("sub" + _RND + ".f64", d="f64", a="f64", b="f64", section=_ARITHMETIC, fidelity="hardware")
def sub_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    if q.rnd in (None, "rn"):
        return quiet(x, x.fsub(a, b), a, b)
    return quiet(x, x.call(directed_fma64(q.rnd), a, x.const(1.0, "f64"), x.fneg(b)), a, b)


@pure("mul" + _RND + ".f64", d="f64", a="f64", b="f64", section=_ARITHMETIC, fidelity="hardware")
def mul_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    product = x.fmul(a, b)
    if q.rnd not in (None, "rn"):  # the zero added has the sign of the product, and so changes nothing
        sign = x.and_(x.xor(x.bitcast(a, "i64"), x.bitcast(b, "i64")), x.const(1 << 63, "i64"))
        product = x.call(directed_fma64(q.rnd), a, b, x.bitcast(sign, "f64"))
    return quiet(x, product, a, b)


@pure(
    "fma" + _MUST_ROUND + ".f64",
    "mad" + _MUST_ROUND + ".f64",
    d="f64",
    a="f64",
    b="f64",
    c="f64",
    section=_ARITHMETIC,
    fidelity="hardware",
)
def fma_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    result = x.fma(a, b, c) if q.rnd == "rn" else x.call(directed_fma64(q.rnd), a, b, c)
    return quiet(x, result, a, b, c)


# ------------------------------------------------------------------------------------------------ div, rcp, sqrt

_DIVISION = "Floating Point Instructions: div, rcp, sqrt"


@cache
def _directed_div32(mode: str, ftz: bool) -> Any:
    def div32(x: Vocabulary, a: Value, b: Value) -> Value:
        quotient = x.fdiv(x.fext(a), x.fext(b))
        result = narrow_directed(x, mode, quotient)
        if not ftz:
            return result
        # Silicon flushes what is subnormal before it is rounded.
        tiny = x.flt(x.fabs(quotient), x.const(2.0**-126, "f64"))
        sign = x.and_(x.bitcast(result, "i32"), x.const(1 << 31, "i32"))
        return x.select(tiny, x.bitcast(sign, "f32"), result)

    return div32


@cache
def _directed_sqrt32(mode: str) -> Any:
    def sqrt32(x: Vocabulary, a: Value) -> Value:
        return narrow_directed(x, mode, x.fsqrt(x.fext(a)))

    return sqrt32


@pure("div" + _MUST_ROUND + "{.ftz}.f32", d="f32", a="f32", b="f32", section=_DIVISION, fidelity="hardware")
def div_f32(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    a, b = flush(x, q.ftz, a), flush(x, q.ftz, b)
    result = x.fdiv(a, b) if q.rnd == "rn" else x.call(_directed_div32(q.rnd, q.ftz), a, b)
    return canonical(x, flush(x, q.ftz, result))


@pure("rcp" + _MUST_ROUND + "{.ftz}.f32", d="f32", a="f32", section=_DIVISION, fidelity="hardware")
def rcp_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return div_f32(x, q, x.const(1.0, "f32"), a)


@pure("sqrt" + _MUST_ROUND + "{.ftz}.f32", d="f32", a="f32", section=_DIVISION, fidelity="hardware")
def sqrt_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    a = flush(x, q.ftz, a)
    return canonical(x, x.fsqrt(a) if q.rnd == "rn" else x.call(_directed_sqrt32(q.rnd), a))


@pure("div" + _MUST_ROUND + ".f64", d="f64", a="f64", b="f64", section=_DIVISION, fidelity="hardware")
def div_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    result = x.fdiv(a, b) if q.rnd == "rn" else x.call(directed_div64(q.rnd), a, b)
    return quiet(x, result, b, a)


@pure("rcp" + _MUST_ROUND + ".f64", d="f64", a="f64", section=_DIVISION, fidelity="hardware")
def rcp_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return div_f64(x, q, x.const(1.0, "f64"), a)


@pure("sqrt" + _MUST_ROUND + ".f64", d="f64", a="f64", section=_DIVISION, fidelity="hardware")
def sqrt_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    result = x.fsqrt(a) if q.rnd == "rn" else x.call(directed_sqrt64(q.rnd), a)
    return quiet(x, result, a)
