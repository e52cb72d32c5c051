"""Which floating-point instructions may be fused: those that carry no rounding modifier.

The assembler may do so: section "Floating Point Instructions: mul".
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

__all__ = ["Term", "term_of"]


class Term(NamedTuple):
    """A product, or a sum, that may be fused.

    Attributes
    ----------
    form : a product and a sum of one form can be fused
    fused : the instruction that replaces the sum; empty for a product
    subtracts : whether it is a difference
    """

    form: str
    fused: str = ""
    subtracts: bool = False


_PLAIN = re.compile(r"(add|sub|mul)(\.ftz|)(\.sat|)(\.f32|\.f64|\.f32x2|\.f16|\.f16x2|\.bf16|\.bf16x2)")


@cache
def term_of(opcode: str) -> Term | None:
    """What an instruction is for contraction; differences of packed and 16-bit numbers are none, as their operands cannot be negated.

    >>> term_of("mul.f32"), term_of("sub.sat.f32"), term_of("add.rn.f32")
    (Term(form='.f32', fused='', subtracts=False), Term(form='.f32', fused='fma.rn.sat.f32', subtracts=True), None)
    """
    found = _PLAIN.fullmatch(opcode)
    if found is None:
        return None
    name, ftz, sat, type = found.groups()
    if name == "mul":
        return None if sat else Term(ftz + type)
    if name == "sub" and type not in (".f32", ".f64"):
        return None
    return Term(ftz + type, f"fma.rn{ftz}{sat}{type}", name == "sub")
