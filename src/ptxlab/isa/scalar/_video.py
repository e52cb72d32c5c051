"""Scalar video instructions: they are checked, and not executed."""

from __future__ import annotations

from ptxlab.isa.form import form
from ptxlab.isa.kinds import WORDS, Kind, Register

__all__: list[str] = []

_SECTION = "Scalar Video Instructions: "
_PARTS = ("b0", "b1", "b2", "b3", "h0", "h1")
_SOURCE = Register(WORDS, "a 32-bit integer register, or a part of one, or an integer", immediate=True, integers=True, parts=_PARTS)
_KINDS: dict[str, Kind] = {
    "d": Register(WORDS, "a 32-bit integer register, or a part of one", parts=_PARTS),
    **dict.fromkeys(("a", "b", "c"), _SOURCE),
}
_TYPES = "=u32|s32)"
_SECOND = "{.second=add|min|max}"

for _name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
    form(
        _name,
        f".(types*3{_TYPES}{{.sat}}{_SECOND}",
        "d a b c?",
        kinds=_KINDS,
        section=_SECTION + "vadd, vsub, vabsdiff, vmin, vmax",
    )
form("vmad", f".(types*3{_TYPES}{{.po}}{{.sat}}{{.scale=shr7|shr15}}", "d a b c", kinds=_KINDS, section=_SECTION + "vmad")
form("vset", f".(types*2{_TYPES}.(compare=eq|ne|lt|le|gt|ge){_SECOND}", "d a b c?", kinds=_KINDS, section=_SECTION + "vset")
