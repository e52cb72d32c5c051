"""abs, neg, copysign, testp, min, max on f32 and f64."""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar.float_helpers import NAN32, canonical, flush, quiet

_SIGNS = "Floating Point Instructions: abs, neg, copysign"


@pure("abs|neg{.ftz}.f32", d="f32", a="f32", section=_SIGNS, fidelity="hardware")
def change_sign_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    a = flush(x, q.ftz, a)
    return canonical(x, x.fabs(a) if q.base == "abs" else x.fneg(a))


@pure("abs|neg.f64", d="f64", a="f64", section=_SIGNS, fidelity="hardware")
def change_sign_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return quiet(x, x.fabs(a) if q.base == "abs" else x.fneg(a), a)


@pure("copysign.(type=f32|f64)", d="type", a="type", b="type", section=_SIGNS, fidelity="hardware")
def copysign(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """The magnitude of b with the sign of a."""
    width = int(q.type[1:])
    integer = f"i{width}"
    sign = x.and_(x.bitcast(a, integer), x.const(1 << (width - 1), integer))
    size = x.and_(x.bitcast(b, integer), x.const((1 << (width - 1)) - 1, integer))
    return x.bitcast(x.or_(sign, size), q.type)


@pure(
    "testp.(op=finite|infinite|number|notanumber|normal|subnormal).(type=f32|f64)",
    p="pred",
    a="type",
    outputs=1,
    section="Floating Point Instructions: testp",
    fidelity="hardware",
)
def testp(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    integer, infinity, least = ("i32", 0x7F800000, 0x00800000) if q.type == "f32" else ("i64", 0x7FF0000000000000, 0x0010000000000000)
    size = x.bitcast(x.fabs(a), integer)
    top, zero = x.const(infinity, integer), x.const(0, integer)
    if q.op == "normal":  # zero is normal
        return x.and_(x.ult(size, top), x.or_(x.ule(x.const(least, integer), size), x.eq(size, zero)))
    if q.op == "subnormal":
        return x.and_(x.ult(size, x.const(least, integer)), x.ne(size, zero))
    tests = {
        "finite": lambda: x.ult(size, top),
        "infinite": lambda: x.eq(size, top),
        "number": lambda: x.ule(size, top),
        "notanumber": lambda: x.ult(top, size),
    }
    return tests[q.op]()


# ------------------------------------------------------------------------------------------------ min, max


def _extreme(x: Vocabulary, largest: bool, a: Value, b: Value) -> Value:
    """The smaller or larger of two floats; -0 is below +0; a NaN yields to a number."""
    type = x.type(a)
    integer = f"i{type[1:]}"
    left, right = x.bitcast(a, integer), x.bitcast(b, integer)
    # Equal numbers have equal bits, but for zeros: and gives +0 if either is, or gives -0.
    both = x.bitcast(x.and_(left, right) if largest else x.or_(left, right), type)
    chosen = x.select(x.or_(x.flt(b, a) if largest else x.flt(a, b), x.isnan(b)), a, b)
    return x.select(x.feq(a, b), both, chosen)


_EXTREMES = "Floating Point Instructions: min, max"


@pure(
    "min|max{.ftz}{.NaN}.f32",
    "min|max{.ftz}{.NaN}.xorsign.abs.f32",
    d="f32",
    a="f32",
    b="f32",
    requires=(needs("7.0", "sm_80", when={"NaN": "NaN"}), needs("7.2", "sm_86", when={"xorsign": "xorsign"})),
    section=_EXTREMES,
    fidelity="hardware",
)
@pure("min|max{.ftz}{.NaN}{.abs}.f32", d="f32", a="f32", b="f32", c="f32", requires=needs("8.8", "sm_100"), section=_EXTREMES)
def extreme_f32(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    values = tuple(flush(x, q.ftz, v) for v in values)
    result, *others = (x.fabs(v) for v in values) if q.get("abs") else values
    for other in others:
        result = _extreme(x, q.base == "max", result, other)
    spoiled = x.isnan(result)
    if q.NaN:
        for value in values:
            spoiled = x.or_(spoiled, x.isnan(value))
    if q.get("xorsign"):
        signs = x.xor(x.bitcast(values[0], "i32"), x.bitcast(values[1], "i32"))
        result = x.bitcast(x.or_(x.bitcast(result, "i32"), x.and_(signs, x.const(1 << 31, "i32"))), "f32")
    return x.select(spoiled, x.bits(NAN32, "f32"), result)


@pure("min|max.f64", d="f64", a="f64", b="f64", section=_EXTREMES, fidelity="hardware")
def extreme_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return quiet(x, _extreme(x, q.base == "max", a, b), a, b)
