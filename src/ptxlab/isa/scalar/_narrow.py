"""cvt to and from narrow floats: 8, 6 and 4 bits, ue8m0 and s2f6, two or four elements at a time, and tf32.

Also cvt with ``.relu``, ``.satfinite`` and ``.rs`` to f16 and bf16, alone and in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._convert import narrow_half_directed
from ptxlab.isa.scalar._half import relu_half
from ptxlab.isa.scalar._small import FORMATS, decoder, encoder, scale_value, stochastic
from ptxlab.isa.scalar.float_helpers import half_kind, join, narrow_half, split, widen_half
from ptxlab.isa.targets import at_least

_SECTION = "Data Movement and Conversion Instructions: cvt"
_RECORDED, _OTHERS = "e4m3x2|e5m2x2", "e2m3x2|e3m2x2|e2m1x2"
"""Those that silicon has been asked about, and the rest."""

_WORDS = {"e4m3x2": "b16", "e5m2x2": "b16", "e2m3x2": "b16", "e3m2x2": "b16", "e2m1x2": "b8", "s2f6x2": "b16"}
_WORDS |= {"e4m3x4": "b32", "e5m2x4": "b32", "e2m3x4": "b32", "e3m2x4": "b32", "e2m1x4": "b16"}
_TO, _FROM = {"word": ("to", _WORDS)}, {"word": ("source", _WORDS)}


def _kind(type: str) -> str:
    return type[: type.rindex("x")]


def _step(type: str) -> int:
    """Bits from element to element."""
    return 4 if _kind(type) == "e2m1" else 8


def _pack(x: Vocabulary, type: str, codes: Sequence[Value]) -> Value:
    """Join codes (i32), the first highest."""
    word = codes[0]
    for code in codes[1:]:
        word = x.or_(x.shl(word, x.const(_step(type), "i32")), code)
    bits = _step(type) * len(codes)
    return word if bits == 32 else x.trunc(word, f"i{bits}")


def _relu(x: Vocabulary, on: bool, value: Value, code: Value) -> Value:
    """``.relu``: the code 0 for what is negative, -0 too."""
    if not on:
        return code
    negative = x.and_(x.slt(x.bitcast(value, "i32"), x.const(0, "i32")), x.not_(x.isnan(value)))
    return x.select(negative, x.const(0, "i32"), code)


# ------------------------------------------------------------------------------------------------ to small floats


_FAMILY = at_least(100, "af")
_FP8 = needs("7.8", "sm_89")
_FP6_FP4 = needs("8.6", _FAMILY)
_TO_BF16 = (
    needs("9.1", _FAMILY),
    needs("9.2", when={"source": "e4m3x2|e5m2x2|e2m3x2|e3m2x2"}),
    needs("9.1", at_least(100, "a"), when={"source": "s2f6x2"}),
)


def _upper_lower(x: Vocabulary, type: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """The upper and the lower value, which may be packed in one register."""
    if len(values) == 2:
        return tuple(values)
    low, high = (widen_half(x, half_kind(type), part) for part in split(x, values[0]))
    return high, low


@pure(
    f"cvt.rn.satfinite{{.relu}}.(to={_RECORDED}).(source=f16x2)",
    d="word",
    a="source",
    derived=_TO,
    requires=_FP8,
    section=_SECTION,
    fidelity="hardware",
)
@pure(
    f"cvt.rn.satfinite{{.relu}}.(to={_RECORDED}).(source=bf16x2)",
    f"cvt.rn.satfinite{{.relu}}.(to={_OTHERS}).(source=f16x2|bf16x2)",
    d="word",
    a="source",
    derived=_TO,
    requires=needs("9.1", _FAMILY),
    section=_SECTION,
)
@pure(
    f"cvt.rn.satfinite{{.relu}}.(to={_RECORDED}).f32",
    d="word",
    a="f32",
    b="f32",
    derived=_TO,
    requires=_FP8,
    section=_SECTION,
    fidelity="hardware",
)
@pure(f"cvt.rn.satfinite{{.relu}}.(to={_OTHERS}).f32", d="word", a="f32", b="f32", derived=_TO, requires=_FP6_FP4, section=_SECTION)
def cvt_small(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    """Put the first value into the upper element, the second into the lower."""
    encode = encoder(_kind(q.to))
    return _pack(x, q.to, [_relu(x, q.relu, value, x.call(encode, value)) for value in _upper_lower(x, q.get("source"), values)])


def _random_chunks(x: Vocabulary, type: str, rbits: Value) -> list[Value]:
    """The 16 random bits of each element, the first operand's first.

    The operands form two pairs, each with 16 bits of ``rbits``: the halves, or for 4-bit elements the upper and the lower bytes of both
    halves. The second operand of a pair takes them as they stand, the first one in reversed order, as users have measured on sm_100a
    (e4m3) and sm_103a (e2m1).
    """

    def part(at: int, bits: int) -> Value:
        return x.and_(x.lshr(rbits, x.const(at, "i32")), x.const((1 << bits) - 1, "i32"))

    pairs = [part(16, 16), part(0, 16)]
    if _kind(type) == "e2m1":
        eight = x.const(8, "i32")
        pairs = [x.or_(x.shl(part(at + 16, 8), eight), part(at, 8)) for at in (8, 0)]
    return [chunk for pair in pairs for chunk in (x.lshr(x.brev(pair), x.const(16, "i32")), pair)]


@pure(
    "cvt.rs{.relu}.satfinite.(to=e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4).f32",
    d="word",
    a="v4.f32",
    rbits="b32",
    derived=_TO,
    requires=needs("8.7", "sm_100a sm_103a sm_107a"),
    section=_SECTION,
    fidelity="deduced",
)
def cvt_small_random(x: Vocabulary, q: Qualifiers, a: Sequence[Value], rbits: Value) -> Value:
    encode = stochastic(_kind(q.to), 16)
    chunks = _random_chunks(x, q.to, rbits)
    return _pack(x, q.to, [_relu(x, q.relu, value, x.call(encode, value, random)) for value, random in zip(a, chunks, strict=True)])


# ------------------------------------------------------------------------------------------------ s2f6


def _to_fixed(x: Vocabulary, relu: bool, a: Value) -> Value:
    """The code (i32) of an f32 in units of 2**-6, to nearest even, saturating; NaN gives the largest."""
    bottom, top = x.const(-128.0, "f32"), x.const(127.0, "f32")
    scaled = x.fround(x.fmul(a, x.const(64.0, "f32")), "rni")
    if relu:
        bottom = x.const(0.0, "f32")
    whole = x.select(x.flt(scaled, top), x.select(x.flt(bottom, scaled), scaled, bottom), top)
    return x.and_(x.ftosi(whole, "i32"), x.const(0xFF, "i32"))


def _scales(x: Vocabulary, scale: Sequence[Value]) -> list[Value] | None:
    """The scale factors of the upper and the lower element, if there are any."""
    if not scale:
        return None
    word = x.zext(scale[0], "i32")
    return [x.call(scale_value, code) for code in (x.lshr(word, x.const(8, "i32")), word)]


_SCALED = ".scaled::n2::ue8m0"
_S2F6 = needs("9.1", at_least(100, "a"))
_FIXED = "cvt.rn.satfinite{.relu}%s.(to=s2f6x2)."


@pure(_FIXED % "" + "f32", d="b16", a="f32", b="f32", requires=_S2F6, section=_SECTION)
@pure(_FIXED % _SCALED + "f32", d="b16", a="f32", b="f32", scale="b16", requires=_S2F6, section=_SECTION)
@pure(_FIXED % "" + "bf16x2", d="b16", a="bf16x2", requires=_S2F6, section=_SECTION)
@pure(_FIXED % _SCALED + "bf16x2", d="b16", a="bf16x2", scale="b16", requires=_S2F6, section=_SECTION)
def cvt_fixed(x: Vocabulary, q: Qualifiers, *operands: Value) -> Value:
    count = 1 if q.get("bf16x2") else 2
    values, scales = _upper_lower(x, "bf16", operands[:count]), _scales(x, operands[count:])
    if scales is not None:
        values = tuple(x.fdiv(value, by) for value, by in zip(values, scales, strict=True))
    return _pack(x, q.to, [_to_fixed(x, q.relu, value) for value in values])


# ------------------------------------------------------------------------------------------------ from small floats


def _elements(x: Vocabulary, type: str, word: Value) -> tuple[Value, Value]:
    """The upper and the lower element as f32."""
    wide, step = x.zext(word, "i32"), x.const(_step(type), "i32")
    codes = (x.lshr(wide, step), x.and_(wide, x.const((1 << _step(type)) - 1, "i32")))
    if type == "s2f6x2":
        up, unit = x.const(24, "i32"), x.const(2.0**-6, "f32")
        high, low = (x.fmul(x.sitof(x.ashr(x.shl(code, up), up), "f32"), unit) for code in codes)
    else:
        high, low = (x.call(decoder(_kind(type)), code) for code in codes)
    return high, low


@pure(
    f"cvt.rn{{.relu}}.(to=f16x2).(source={_RECORDED})",
    d="to",
    a="word",
    derived=_FROM,
    requires=_FP8,
    section=_SECTION,
    fidelity="hardware",
)
@pure(f"cvt.rn{{.relu}}.(to=f16x2).(source={_OTHERS})", d="to", a="word", derived=_FROM, requires=_FP6_FP4, section=_SECTION)
def cvt_from_small(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    high, low = (relu_half(x, q.relu, "f16", narrow_half(x, "f16", value)) for value in _elements(x, q.source, a))
    return join(x, low, high)


_BF16 = f"cvt.rn{{.relu}}{{.satfinite}}%s.(to=bf16x2).(source={_RECORDED}|{_OTHERS}|s2f6x2)"


@pure(_BF16 % "", d="to", a="word", derived=_FROM, requires=_TO_BF16, section=_SECTION)
@pure(_BF16 % _SCALED, d="to", a="word", scale="b16", derived=_FROM, requires=_TO_BF16, section=_SECTION)
def cvt_bf16_from_small(x: Vocabulary, q: Qualifiers, a: Value, *scale: Value) -> Value:
    """Exact, but for what a scale factor brings out of range."""
    values, scales = _elements(x, q.source, a), _scales(x, scale)
    halves = []
    for i, value in enumerate(values):
        product = value if scales is None else x.fmul(value, scales[i])
        half = narrow_half(x, "bf16", product)
        if q.satfinite:
            size, infinity = x.and_(half, x.const(0x7FFF, "i16")), x.const(0x7F80, "i16")
            half = x.select(x.eq(size, infinity), x.sub(half, x.const(1, "i16")), half)
        halves.append(relu_half(x, q.relu, "bf16", half))
    return join(x, halves[1], halves[0])


# ------------------------------------------------------------------------------------------------ ue8m0


def _scale_code(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """The exponent of an f32 (i32): rounded down (rz) or up (rp). The sign is ignored."""
    word = x.and_(x.bitcast(a, "i32"), x.const(0x7FFFFFFF, "i32"))
    code = x.lshr(word, x.const(23, "i32"))
    if q.rnd == "rp":
        # 2**-127, the least scale, is a subnormal f32: half of the least normal one.
        rest = x.and_(word, x.const(0x7FFFFF, "i32"))
        free = x.select(x.eq(code, x.const(0, "i32")), x.const(0x400000, "i32"), x.const(0, "i32"))
        code = x.add(code, x.zext(x.ult(free, rest), "i32"))
    top = x.const(0xFE if q.satfinite else 0xFF, "i32")
    code = x.select(x.ult(x.const(0xFE, "i32"), code), top, code)
    return x.select(x.isnan(a), x.const(0xFF, "i32"), code)


@pure("cvt.(rnd=rz|rp){.satfinite}.ue8m0x2.f32", d="b16", a="f32", b="f32", requires=_FP6_FP4, section=_SECTION, fidelity="deduced")
@pure("cvt.(rnd=rz|rp){.satfinite}.ue8m0x2.bf16x2", d="b16", a="bf16x2", requires=_FP6_FP4, section=_SECTION, fidelity="deduced")
def cvt_ue8m0(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    return _pack(x, "ue8m0x2", [_scale_code(x, q, value) for value in _upper_lower(x, "bf16", values)])


@pure("cvt.rn.bf16x2.ue8m0x2", d="bf16x2", a="b16", requires=_FP6_FP4, section=_SECTION, fidelity="deduced")
def cvt_from_ue8m0(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Powers of two; code 0 is the subnormal 2**-127, code 255 is NaN."""
    word = x.zext(a, "i32")
    low, high = (narrow_half(x, "bf16", x.call(scale_value, code)) for code in (word, x.lshr(word, x.const(8, "i32"))))
    return join(x, low, high)


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
    pairs = ((b, rbits), (a, x.lshr(rbits, x.const(16, "i32"))))
    return join(x, *(relu_half(x, q.relu, kind, x.trunc(x.call(encode, value, random), "i16")) for value, random in pairs))


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
    if q.get("satfinite"):
        size = x.and_(rounded, x.const(0x7FFFFFFF, "i32"))
        beyond = x.ule(x.const(0x7F800000, "i32"), size)
        rounded = x.select(beyond, x.sub(rounded, x.const(0x2000, "i32")), rounded)  # so too for NaN, on silicon
    if q.rnd != "rna":
        rounded = x.select(x.isnan(a), x.const(0x7FFFE000, "i32"), rounded)
    if q.get("relu"):
        zero = x.const(0, "i32")
        rounded = x.select(x.slt(rounded, zero), zero, rounded)
    return rounded
