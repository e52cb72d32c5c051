"""add, sub, neg, min, max on two 16-bit or four 8-bit integers in a word."""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._integer import clamped_sum, extreme

__all__ = ["each_integer"]

_SECTION = "Integer Arithmetic Instructions: "


def each_integer(x: Vocabulary, type: str, function: Callable[..., Value], *words: Value) -> Value:
    """``function(x, *elements)`` for both or all four elements of packed words."""
    if type.endswith("x2"):
        return x.each(function, "i16", *words)
    return x.each(lambda x, *halves: x.each(function, "i8", *halves), "i16", *words)


def _sum(x: Vocabulary, q: Qualifiers, subtract: bool, a: Value, b: Value) -> Value:
    """One sum or difference, saturated if asked for."""
    if q.sat and q.type[0] == "s":
        return clamped_sum(x, a, b, subtract)
    result = x.sub(a, b) if subtract else x.add(a, b)
    if not q.sat:
        return result
    overflow = x.ult(a, b) if subtract else x.ult(result, a)
    return x.select(overflow, x.const(0 if subtract else -1, x.type(a)), result)


_NEW = "sm_107f sm_120f"
_BYTES = needs("9.2", _NEW, when={"type": "u8x4|s8x4"})


@pure(
    "add{.sat}.(type=u16x2|s16x2|u8x4|s8x4)",
    d="type",
    a="type",
    b="type",
    requires=(needs("8.0", "sm_90"), needs("9.2", _NEW, when={"sat": "sat"}), _BYTES),
    section=_SECTION + "add",
)
def add_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return each_integer(x, q.type, lambda x, m, n: _sum(x, q, False, m, n), a, b)


@pure("sub{.sat}.(type=u8x4|s8x4)", d="type", a="type", b="type", requires=needs("9.2", _NEW), section=_SECTION + "sub")
def sub_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return each_integer(x, q.type, lambda x, m, n: _sum(x, q, True, m, n), a, b)


@pure("add.sat.(type=u32)", d="type", a="type", b="type", requires=needs("9.2", _NEW), section=_SECTION + "add")
def add_sat_u32(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return _sum(x, q, False, a, b)


@pure("neg.(type=s8x4)", d="type", a="type", requires=needs("9.2", _NEW), section=_SECTION + "neg")
def neg_packed(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return each_integer(x, q.type, lambda x, m: x.neg(m), a)


@pure(
    "min{.relu}.(type=s16x2|s8x4)",
    "min.(type=u16x2|u8x4)",
    d="type",
    a="type",
    b="type",
    requires=(needs("8.0", "sm_90"), _BYTES),
    section=_SECTION + "min",
)
def min_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return each_integer(x, q.type, lambda x, m, n: extreme(x, q, False, m, n), a, b)


@pure(
    "max{.relu}.(type=s16x2|s8x4)",
    "max.(type=u16x2|u8x4)",
    d="type",
    a="type",
    b="type",
    requires=(needs("8.0", "sm_90"), _BYTES),
    section=_SECTION + "max",
)
def max_packed(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return each_integer(x, q.type, lambda x, m, n: extreme(x, q, True, m, n), a, b)
