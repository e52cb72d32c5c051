"""Instructions that PTX has but that are not executed yet: they are refused by name, and not as unknown.

The forms of a family in `isa.form.FORMS` are known without a pattern here.
"""

from __future__ import annotations

import re
from functools import cache

from ptxlab.isa.catalogue import CATALOGUE
from ptxlab.isa.form import find_forms, form
from ptxlab.isa.kinds import WORDS, Kind, Register
from ptxlab.isa.requirements import Condition

__all__ = ["is_known", "refusal"]

_NOT_EXECUTED = (
    # matrix instructions of earlier generations
    r"wmma\..*",
    # tensor memory: what only sm_107 has
    r"tcgen05\.ld\..*spcompress.*",
    # scalar: what only sm_107 has, and video instructions
    r"cvt\..*(pzo|scaled::n1|ue5m3x2).*",
    r"cvt\.rz\.satfinite\..*(e4m3|e5m2|e2m3|e3m2|e2m1|s2f6)x2.*",
    r"(add|sub)\..*f32x2\.b?f16x2\.f32x2",
    r"mul\..*f16x2\.f32x2\.f32x2",
    r"fma\..*f32x2\.b?f16x2\.f32x2\.f32x2",
    r"sp(de)?compress\..*",
    r"(vadd|vsub|vavrg|vabsdiff|vmin|vmax|vset)[24]\..*",
    r"(vshl|vshr)\..*",
    # what the assembler takes and the specification does not have
    r"rcp\.r[nzmp]\.ftz\.f64",
    # other
    r"(tex|tld4|txq|suld|sust|sured|suq|istypep)\..*",
)


@cache
def _pattern() -> re.Pattern[str]:
    """Any of them; no program that executes asks for it."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in _NOT_EXECUTED))


def is_known(opcode: str) -> bool:
    """Whether the opcode is an instruction that ptxlab knows by name but does not execute.

    >>> is_known("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"), is_known("madd.f32")
    (True, False)
    """
    return _pattern().fullmatch(opcode) is not None or any(form.takes(opcode) for form in find_forms(opcode))


def refusal(opcode: str) -> tuple[str, str, str]:
    """Code, message and fix for an opcode that no row takes."""
    base, *modifiers = opcode.split(".")
    if is_known(opcode):
        return "U201", f"{opcode} is not executed by this version of ptxlab", ""
    if base not in CATALOGUE:
        from difflib import get_close_matches

        close = get_close_matches(base, CATALOGUE, 1)
        return "U202", f"there is no instruction {opcode}", f"did you mean {close[0]}?" if close else ""
    wanted = {base, *modifiers}
    forms = sorted({row.pattern for row in CATALOGUE[base]}, key=lambda p: (-len(wanted & set(re.findall(r"[\w:]+", p))), p))
    return "U202", f"{base} does not exist with the modifiers of {opcode}", f"forms like {' or '.join(forms[:2])} exist"


_SECTION = "Scalar Video Instructions: "
_PARTS = ("b0", "b1", "b2", "b3", "h0", "h1")
_SOURCE = Register(WORDS, "a 32-bit integer register, or a part of one, or an integer", immediate=True, integers=True, parts=_PARTS)
_KINDS: dict[str, Kind] = {
    "d": Register(WORDS, "a 32-bit integer register, or a part of one", parts=_PARTS),
    **dict.fromkeys(("a", "b", "c"), _SOURCE),
}
_TYPES = ".(dtype=u32|s32).(atype=u32|s32)"
_THREE = _TYPES + ".(btype=u32|s32)"
_SECOND = "{.second=add|min|max}"
_LINES: tuple[tuple[str, Condition, Condition, str] | str, ...] = (("d a b", {"second": (None,)}, {}, ""), "d a b c")

for _name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
    form(
        _name,
        _THREE + "{.sat}" + _SECOND,
        *_LINES,
        kinds=_KINDS,
        section=_SECTION + "vadd, vsub, vabsdiff, vmin, vmax",
    )
form("vmad", _THREE + "{.po}{.sat}{.scale=shr7|shr15}", "d a b c", kinds=_KINDS, section=_SECTION + "vmad")
form("vset", _TYPES + ".(compare=eq|ne|lt|le|gt|ge)" + _SECOND, *_LINES, kinds=_KINDS, section=_SECTION + "vset")
