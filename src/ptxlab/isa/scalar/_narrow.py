"""cvt to and from 8-, 6- and 4-bit floats, ue8m0 and s2f6, two or four elements at a time."""

from __future__ import annotations

from collections.abc import Sequence

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._half import relu_half
from ptxlab.isa.scalar._small import decoder, encoder, scale_value, stochastic
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


def _to_pair(x: Vocabulary, q: Qualifiers, high: Value, low: Value) -> Value:
    encode = encoder(_kind(q.to))
    return _pack(x, q.to, [_relu(x, q.relu, value, x.call(encode, value)) for value in (high, low)])


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
def cvt_small(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """Put a into the upper element, b into the lower."""
    return _to_pair(x, q, a, b)


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
def cvt_small_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    low, high = (widen_half(x, half_kind(q.source), part) for part in split(x, a))
    return _to_pair(x, q, high, low)


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


def _fixed_pair(x: Vocabulary, q: Qualifiers, values: Sequence[Value], scale: Sequence[Value]) -> Value:
    scales = _scales(x, scale)
    if scales is not None:
        values = [x.fdiv(value, by) for value, by in zip(values, scales, strict=True)]
    return _pack(x, q.to, [_to_fixed(x, q.relu, value) for value in values])


_SCALED = ".scaled::n2::ue8m0"


@pure("cvt.rn.satfinite{.relu}.(to=s2f6x2).f32", d="b16", a="f32", b="f32", requires=needs("9.1", at_least(100, "a")), section=_SECTION)
@pure(
    f"cvt.rn.satfinite{{.relu}}{_SCALED}.(to=s2f6x2).f32",
    d="b16",
    a="f32",
    b="f32",
    scale="b16",
    requires=needs("9.1", at_least(100, "a")),
    section=_SECTION,
)
def cvt_fixed(x: Vocabulary, q: Qualifiers, a: Value, b: Value, *scale: Value) -> Value:
    return _fixed_pair(x, q, (a, b), scale)


@pure("cvt.rn.satfinite{.relu}.(to=s2f6x2).bf16x2", d="b16", a="bf16x2", requires=needs("9.1", at_least(100, "a")), section=_SECTION)
@pure(
    f"cvt.rn.satfinite{{.relu}}{_SCALED}.(to=s2f6x2).bf16x2",
    d="b16",
    a="bf16x2",
    scale="b16",
    requires=needs("9.1", at_least(100, "a")),
    section=_SECTION,
)
def cvt_fixed_half(x: Vocabulary, q: Qualifiers, a: Value, *scale: Value) -> Value:
    low, high = (widen_half(x, "bf16", part) for part in split(x, a))
    return _fixed_pair(x, q, (high, low), scale)


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
def cvt_ue8m0(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _pack(x, "ue8m0x2", [_scale_code(x, q, value) for value in (a, b)])


@pure("cvt.(rnd=rz|rp){.satfinite}.ue8m0x2.bf16x2", d="b16", a="bf16x2", requires=_FP6_FP4, section=_SECTION, fidelity="deduced")
def cvt_ue8m0_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    low, high = (widen_half(x, "bf16", part) for part in split(x, a))
    return _pack(x, "ue8m0x2", [_scale_code(x, q, value) for value in (high, low)])


@pure("cvt.rn.bf16x2.ue8m0x2", d="bf16x2", a="b16", requires=_FP6_FP4, section=_SECTION, fidelity="deduced")
def cvt_from_ue8m0(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Powers of two; code 0 is the subnormal 2**-127, code 255 is NaN."""
    word = x.zext(a, "i32")
    low, high = (narrow_half(x, "bf16", x.call(scale_value, code)) for code in (word, x.lshr(word, x.const(8, "i32"))))
    return join(x, low, high)
