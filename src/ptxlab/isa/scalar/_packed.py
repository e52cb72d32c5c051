"""cvt with ``.relu``, ``.satfinite`` and ``.rs`` to f16 and bf16, alone and packed, and to tf32."""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._convert import narrow_half_directed
from ptxlab.isa.scalar._half import relu_half
from ptxlab.isa.scalar._small import FORMATS, stochastic
from ptxlab.isa.scalar.float_helpers import half_kind, join

_SECTION = "Data Movement and Conversion Instructions: cvt"

# ------------------------------------------------------------------------------------------------ f16, bf16


def _to_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    kind = half_kind(q.to)
    result = narrow_half_directed(x, kind, q.rnd, a)
    if q.satfinite:
        size, top = x.and_(result, x.const(0x7FFF, "i16")), x.const(FORMATS[kind].largest, "i16")
        beyond = x.and_(x.ult(top, size), x.not_(x.isnan(a)))
        result = x.select(beyond, x.or_(x.and_(result, x.const(0x8000, "i16")), top), result)
    return relu_half(x, q.relu, kind, result)


_SATFINITE = needs("8.1", when={"satfinite": "satfinite"})


@pure(
    "cvt.(rnd=rn|rz){.relu}{.satfinite}.(to=f16|bf16).f32",
    d="to",
    a="f32",
    requires=(needs("7.0", "sm_80", when={"relu": "relu"}), needs("7.0", "sm_80", when={"to": "bf16"}), _SATFINITE),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return _to_half(x, q, a)


@pure(
    "cvt.(rnd=rn|rz){.relu}{.satfinite}.(to=f16x2|bf16x2).f32",
    d="to",
    a="f32",
    b="f32",
    requires=(needs("7.0", "sm_80"), _SATFINITE),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_half_pair(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """Put a into the upper half, b into the lower."""
    return join(x, _to_half(x, q, b), _to_half(x, q, a))


_RANDOM_BITS = {"f16": 13, "bf16": 16}


@pure(
    "cvt.rs{.relu}{.satfinite}.(to=f16x2|bf16x2).f32",
    d="to",
    a="f32",
    b="f32",
    rbits="b32",
    requires=needs("8.7", "sm_100a sm_103a sm_107a"),
    section=_SECTION,
)
def cvt_half_pair_random(x: Vocabulary, q: Qualifiers, a: Value, b: Value, rbits: Value) -> Value:
    """The upper half of ``rbits`` is for a, the lower for b."""
    kind = half_kind(q.to)
    encode = stochastic(kind, _RANDOM_BITS[kind], q.satfinite)
    halves = []
    for value, random in ((b, rbits), (a, x.lshr(rbits, x.const(16, "i32")))):
        halves.append(relu_half(x, q.relu, kind, x.trunc(x.call(encode, value, random), "i16")))
    return join(x, *halves)


# ------------------------------------------------------------------------------------------------ tf32


@pure("cvt.(rnd=rn|rz).satfinite{.relu}.tf32.f32", d="b32", a="f32", requires=needs("8.6", "sm_100"), section=_SECTION)
@pure(
    "cvt.(rnd=rn|rz){.relu}.tf32.f32",
    "cvt.(rnd=rna){.satfinite}.tf32.f32",
    d="b32",
    a="f32",
    requires=(needs("7.0", "sm_80"), needs("7.8", "sm_90", when={"rnd": "rn|rz"}), _SATFINITE),
    section=_SECTION,
    fidelity="hardware",
)
def cvt_tf32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Round to 10 mantissa bits. ``.rna`` truncates a NaN; the other modes make it canonical."""
    word = x.bitcast(a, "i32")
    keep = x.const(0xFFFFE000, "i32")
    truncated = x.and_(word, keep)
    special = x.eq(x.and_(word, x.const(0x7F800000, "i32")), x.const(0x7F800000, "i32"))
    if q.rnd == "rz":
        rounded = truncated
    else:
        half = x.const(0x1000, "i32")
        if q.rnd == "rn":
            odd = x.and_(x.lshr(word, x.const(13, "i32")), x.const(1, "i32"))
            half = x.add(odd, x.const(0xFFF, "i32"))
        rounded = x.select(special, truncated, x.and_(x.add(word, half), keep))
    if q.__dict__.get("satfinite"):
        size = x.and_(rounded, x.const(0x7FFFFFFF, "i32"))
        beyond = x.ule(x.const(0x7F800000, "i32"), size)
        rounded = x.select(beyond, x.sub(rounded, x.const(0x2000, "i32")), rounded)  # so too for NaN, on silicon
    if q.rnd != "rna":
        rounded = x.select(x.isnan(a), x.const(0x7FFFE000, "i32"), rounded)
    if q.__dict__.get("relu"):
        zero = x.const(0, "i32")
        rounded = x.select(x.slt(rounded, zero), zero, rounded)
    return rounded
