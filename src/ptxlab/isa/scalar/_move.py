"""mov, selp, slct."""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.kinds import Typed
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar.float_helpers import flush

_WORDS = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"


@pure(
    f"mov.(type=pred|b128|{_WORDS})",
    d="type",
    a=Typed("type", symbols=True, special=True),
    requires=needs("8.3", "sm_70", when={"type": "b128"}),
    section="Data Movement and Conversion Instructions: mov",
)
def mov(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """A copy of the bits; packing and unpacking vectors is the engine's way of reading and writing operands."""
    return a


@pure(
    f"selp.(type={_WORDS})",
    d="type",
    a="type",
    b="type",
    c="pred",
    section="Comparison and Selection Instructions: selp",
    fidelity="hardware",
)
def selp(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.select(c, a, b)


@pure(
    f"slct.(type={_WORDS}).s32",
    d="type",
    a="type",
    b="type",
    c="s32",
    section="Comparison and Selection Instructions: slct",
    fidelity="hardware",
)
def slct(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.select(x.slt(c, x.const(0, "i32")), b, a)


@pure(
    f"slct{{.ftz}}.(type={_WORDS}).f32",
    d="type",
    a="type",
    b="type",
    c="f32",
    section="Comparison and Selection Instructions: slct",
    fidelity="hardware",
)
def slct_f32(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    return x.select(x.fle(x.const(0.0, "f32"), flush(x, q.ftz, c)), a, b)
