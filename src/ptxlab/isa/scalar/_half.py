"""add, sub, mul, fma, abs, neg, min, max on f16, f16x2, bf16 and bf16x2.

A sum or product is computed in f32, whose double rounding is harmless here. A fused multiply-add is summed in f64, where the sum of an
exact f16 product and an f16 is exact enough; for bf16, whose exponents lie further apart, it is rounded to odd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar.float_helpers import NAN16, flush_half, half_kind, narrow_odd, narrow_saturated, operation, sum_odd, widen_half

_SECTION = "Half Precision Floating Point Instructions: {base}"
_F16 = "{.rnd=rn}{.ftz}{.sat}.(type=f16|f16x2)"
_BF16 = "{.rnd=rn}.(type=bf16|bf16x2)"


def each_half(x: Vocabulary, type: str, function: Callable[..., Value], *values: Value) -> Value:
    """``function(x, *elements)`` of i16, for a value or for both elements of a packed one."""
    return x.each(function, "i16", *values) if type.endswith("x2") else function(x, *values)


_BF16_ARITHMETIC = needs("7.8", "sm_90", when={"type": "bf16|bf16x2"})
_FMA = (
    needs("7.0", "sm_80", when={"relu": "relu"}),
    needs("7.0", "sm_80", when={"type": "bf16|bf16x2"}),
    needs("8.1", "sm_90", when={"oob": "oob"}),
)


@pure(
    "add|sub|mul" + _F16,
    "add|sub|mul" + _BF16,
    d="type",
    a="type",
    b="type",
    requires=_BF16_ARITHMETIC,
    section=_SECTION,
    fidelity="hardware",
)
def arithmetic_half(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    kind, ftz = half_kind(q.type), q.get("ftz")

    def element(x: Vocabulary, *values: Value) -> Value:
        result = operation(x, q.base)(*(widen_half(x, kind, flush_half(x, ftz, value)) for value in values))
        return flush_half(x, ftz, narrow_saturated(x, q.get("sat"), kind, result))

    return each_half(x, q.type, element, a, b)


@cache
def _fused(kind: str) -> Any:
    def fma_half(x: Vocabulary, a: Value, b: Value, c: Value) -> Value:
        a, b, c = (x.fext(widen_half(x, kind, v)) for v in (a, b, c))
        product = x.fmul(a, b)
        return narrow_odd(x, x.fadd(product, c) if kind == "f16" else sum_odd(x, product, c))

    return fma_half


@pure(
    "fma.rn{.ftz}{.sat}.(type=f16|f16x2)",
    "fma.rn{.ftz}{.relu}.(type=f16|f16x2)",
    "fma.rn{.relu}.(type=bf16|bf16x2)",
    "fma.rn.oob{.relu}.(type=f16|f16x2|bf16|bf16x2)",
    d="type",
    a="type",
    b="type",
    c="type",
    requires=_FMA,
    section=_SECTION,
    fidelity="hardware",
)
def fma_half(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    kind, ftz = half_kind(q.type), q.get("ftz")

    def element(x: Vocabulary, *values: Value) -> Value:
        wide = x.call(_fused(kind), *(flush_half(x, ftz, v) for v in values))
        result = flush_half(x, ftz, narrow_saturated(x, q.get("sat"), kind, wide))
        return _without_oob(x, q.get("oob"), relu_half(x, q.get("relu"), kind, result), *values[:2])

    return each_half(x, q.type, element, a, b, c)


_OOB_NAN = 0x7FF7
"""What a tensor copy puts outside the tensor, in the fill mode that makes NaN."""


def _without_oob(x: Vocabulary, on: bool, result: Value, *factors: Value) -> Value:
    """``.oob``: +0, whatever C is, where a factor is the NaN of either sign that stands for an element outside the tensor."""
    if not on:
        return result
    for factor in factors:
        outside = x.eq(x.and_(factor, x.const(0x7FFF, "i16")), x.const(_OOB_NAN, "i16"))
        result = x.select(outside, x.const(0, "i16"), result)
    return result


def relu_half(x: Vocabulary, on: bool, kind: str, a: Value) -> Value:
    """``.relu``: negative values become +0; the NaN is canonical (and positive) already. The sign is 0, and defined."""
    if not on:
        return a
    zero = x.const(0, "i16")
    return x.and_(x.select(x.slt(a, zero), zero, a), x.const(0x7FFF, "i16"))


# ------------------------------------------------------------------------------------------------ sign, min, max


def _is_nan(x: Vocabulary, kind: str, a: Value) -> Value:
    infinity = 0x7C00 if kind == "f16" else 0x7F80
    return x.ult(x.const(infinity, "i16"), x.and_(a, x.const(0x7FFF, "i16")))


@pure(
    "abs|neg{.ftz}.(type=f16|f16x2)",
    "abs|neg.(type=bf16|bf16x2)",
    d="type",
    a="type",
    requires=needs("7.0", "sm_80", when={"type": "bf16|bf16x2"}),
    section=_SECTION,
    fidelity="hardware",
)
def change_sign_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    kind = half_kind(q.type)

    def element(x: Vocabulary, m: Value) -> Value:
        number = flush_half(x, q.get("ftz"), m)
        changed = x.and_(number, x.const(0x7FFF, "i16")) if q.base == "abs" else x.xor(number, x.const(0x8000, "i16"))
        return x.select(_is_nan(x, kind, m), x.const(NAN16, "i16"), changed)

    return each_half(x, q.type, element, a)


def _ordered(x: Vocabulary, a: Value) -> Value:
    """An i16 whose signed order is that of the floats, -0 below +0; of that i16, the float."""
    return x.xor(a, x.lshr(x.ashr(a, x.const(15, "i16")), x.const(1, "i16")))


@pure(
    "min|max{.ftz}{.NaN}.(type=f16|f16x2)",
    "min|max{.ftz}{.NaN}.xorsign.abs.(type=f16|f16x2)",
    "min|max{.NaN}.(type=bf16|bf16x2)",
    "min|max{.NaN}.xorsign.abs.(type=bf16|bf16x2)",
    d="type",
    a="type",
    b="type",
    requires=(needs("7.0", "sm_80"), needs("7.2", "sm_86", when={"xorsign": "xorsign"})),
    section=_SECTION,
    fidelity="hardware",
)
def extreme_half(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    kind, xorsign = half_kind(q.type), q.get("xorsign")
    size = x.const(0x7FFF, "i16")

    def element(x: Vocabulary, *values: Value) -> Value:
        m, n = (flush_half(x, q.get("ftz"), value) for value in values)
        bad_m, bad_n = _is_nan(x, kind, m), _is_nan(x, kind, n)
        left, right = (x.and_(m, size), x.and_(n, size)) if xorsign else (m, n)
        chosen = (x.smax if q.base == "max" else x.smin)(_ordered(x, left), _ordered(x, right))
        result = x.select(bad_m, right, x.select(bad_n, left, _ordered(x, chosen)))
        if xorsign:
            result = x.or_(result, x.and_(x.xor(m, n), x.const(0x8000, "i16")))
        spoiled = x.or_(bad_m, bad_n) if q.NaN else x.and_(bad_m, bad_n)
        return x.select(spoiled, x.const(NAN16, "i16"), result)

    return each_half(x, q.type, element, a, b)
