"""Extended-precision arithmetic through the carry flag: add.cc, addc, sub.cc, subc, mad.cc, madc.

The flag is the carry of the adder: an H200 also shows it where an addition and a subtraction follow each other.
"""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure

_SECTION = "Extended-Precision Integer Arithmetic Instructions: "
_TYPES = ".(type=u32|s32|u64|s64)"


def _sum(x: Vocabulary, a: Value, b: Value, carry: Value | None = None) -> tuple[Value, Value]:
    """Sum and carry out."""
    total = x.add(a, b)
    out = x.ult(total, a)
    if carry is None:
        return total, out
    result = x.add(total, x.zext(carry, x.type(a)))
    return result, x.or_(out, x.ult(result, total))


def _difference(x: Vocabulary, a: Value, b: Value, carry: Value | None = None) -> tuple[Value, Value]:
    """The sum a + ~b + carry, and its carry: the flag is set where nothing is borrowed, also between additions and subtractions."""
    return _sum(x, a, x.not_(b), x.const(1, "i1") if carry is None else carry)


def _product(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    if q.mode == "lo":
        return x.mul(a, b)
    return x.smulhi(a, b) if q.type[0] == "s" else x.umulhi(a, b)


@pure("add.cc" + _TYPES, d="type", flag="carry", a="type", b="type", outputs=2, section=_SECTION + "add.cc", fidelity="hardware")
def add_cc(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> tuple[Value, Value]:
    return _sum(x, a, b)


@pure("addc" + _TYPES, d="type", a="type", b="type", flag="carry", section=_SECTION + "addc", fidelity="hardware")
def addc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, flag: Value) -> Value:
    return _sum(x, a, b, flag)[0]


@pure(
    "addc.cc" + _TYPES, d="type", out="carry", a="type", b="type", flag="carry", outputs=2, section=_SECTION + "addc", fidelity="hardware"
)
def addc_cc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, flag: Value) -> tuple[Value, Value]:
    return _sum(x, a, b, flag)


@pure("sub.cc" + _TYPES, d="type", flag="carry", a="type", b="type", outputs=2, section=_SECTION + "sub.cc", fidelity="hardware")
def sub_cc(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> tuple[Value, Value]:
    return _difference(x, a, b)


@pure("subc" + _TYPES, d="type", a="type", b="type", flag="carry", section=_SECTION + "subc", fidelity="hardware")
def subc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, flag: Value) -> Value:
    return _difference(x, a, b, flag)[0]


@pure(
    "subc.cc" + _TYPES, d="type", out="carry", a="type", b="type", flag="carry", outputs=2, section=_SECTION + "subc", fidelity="hardware"
)
def subc_cc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, flag: Value) -> tuple[Value, Value]:
    return _difference(x, a, b, flag)


@pure(
    "mad.(mode=lo|hi).cc" + _TYPES,
    d="type",
    flag="carry",
    a="type",
    b="type",
    c="type",
    outputs=2,
    section=_SECTION + "mad.cc",
    fidelity="hardware",
)
def mad_cc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    return _sum(x, _product(x, q, a, b), c)


@pure("madc.(mode=lo|hi)" + _TYPES, d="type", a="type", b="type", c="type", flag="carry", section=_SECTION + "madc", fidelity="hardware")
def madc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value, flag: Value) -> Value:
    return _sum(x, _product(x, q, a, b), c, flag)[0]


@pure(
    "madc.(mode=lo|hi).cc" + _TYPES,
    d="type",
    out="carry",
    a="type",
    b="type",
    c="type",
    flag="carry",
    outputs=2,
    section=_SECTION + "madc",
    fidelity="hardware",
)
def madc_cc(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value, flag: Value) -> tuple[Value, Value]:
    return _sum(x, _product(x, q, a, b), c, flag)
