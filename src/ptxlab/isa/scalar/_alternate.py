"""add, sub, mul and fma of four 8-, 6- or 4-bit floats: exact, then rounded once.

Sections "Alternate Floating Point Instructions: add, sub, mul, fma".
"""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._rounding import narrow_odd
from ptxlab.isa.scalar._small import decoder, encoder
from ptxlab.isa.scalar.float_helpers import operation

_SECTION = "Alternate Floating Point Instructions: {base}"
_SOURCES = "e5m2x4|e4m3x4|e3m2x4|e2m3x4|e2m1x4|e2m1p4x4|ue8m0x4"
_WORDS = {source: "b16" if source == "e2m1x4" else "b32" for source in _SOURCES.split("|")}
_TO = "{.rnd=rn}{.satfinite}.(to=e5m2x4|e4m3x4)"


def _values(x: Vocabulary, type: str, word: Value) -> list[Value]:
    """The four elements as f64, the lowest first."""
    decode = decoder(type.removesuffix("x4").removesuffix("p4"))
    bits = 4 if type == "e2m1x4" else 8
    wide, mask = x.zext(word, "i32") if bits == 4 else word, x.const((1 << bits) - 1, "i32")
    return [x.fext(x.call(decode, x.and_(x.lshr(wide, x.const(bits * i, "i32")), mask))) for i in range(4)]


def _rounded(x: Vocabulary, q: Qualifiers, values: list[Value]) -> Value:
    """f64 results, packed.

    An f64 holds every product, and every sum in which both terms count. Rounded to odd, an f32 says all that the last rounding needs.
    """
    encode = encoder(q.to.removesuffix("x4"), bool(q.satfinite))
    word = None
    for i, value in enumerate(values):
        code = x.shl(x.call(encode, x.call(narrow_odd, value)), x.const(8 * i, "i32"))
        word = code if word is None else x.or_(word, code)
    return word


_NEEDS = needs("9.4", "sm_100a sm_103a")


_BOTH = {"word": ("source", _WORDS), "second": ("other", _WORDS)}
_PRODUCT = f"{_TO}.(source={_SOURCES}).(other={_SOURCES})"


@pure(
    f"add|sub{_TO}.(source={_SOURCES})",
    d="b32",
    a="word",
    c="b32",
    derived={"word": ("source", _WORDS)},
    requires=_NEEDS,
    section=_SECTION,
)
@pure("mul" + _PRODUCT, d="b32", a="word", c="second", derived=_BOTH, requires=_NEEDS, section=_SECTION)
def arithmetic_small(x: Vocabulary, q: Qualifiers, a: Value, c: Value) -> Value:
    pairs = zip(_values(x, q.source, a), _values(x, q.get("other") or q.to, c), strict=True)
    return _rounded(x, q, [operation(x, q.base)(m, n) for m, n in pairs])


@pure("fma" + _PRODUCT, d="b32", a="word", b="second", c="b32", derived=_BOTH, requires=_NEEDS, section=_SECTION)
def fma_small(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    terms = zip(_values(x, q.source, a), _values(x, q.other, b), _values(x, q.to, c), strict=True)
    return _rounded(x, q, [x.fadd(x.fmul(m, n), addend) for m, n, addend in terms])
