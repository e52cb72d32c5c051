"""ldmatrix and stmatrix: section "Warp-level matrix load instruction: ldmatrix" and the one on stmatrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ptxlab.isa.catalogue import Fidelity, Qualifiers, native
from ptxlab.isa.memory import space_of
from ptxlab.isa.native_ops import MatrixAccess
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import Needs, needs
from ptxlab.isa.targets import at_least

__all__: list[str] = []

_SECTION = "Warp Level Matrix Load and Store Instructions: "
_SPACE = "{.space=shared|shared::cta}"
_ONE_EACH = {"x1": "v1", "x2": "v2", "x4": "v4"}
_TWO_EACH = {"x1": "v2", "x2": "v4"}
"""Repetition -> registers of a thread."""
_WIDENED = {"b6x16_p32": "b6", "b4x16_p64": "b4"}
_BLACKWELL = needs("8.6", at_least(100, "af"))


def _access(q: Qualifiers, op: Op, write: bool, element: str, transposed: bool | None) -> MatrixAccess:
    """What a row does; a row without fixed transposition or element reads them from the text."""
    wide = q.trans if transposed is None else transposed
    address, value = (0, 1) if write else (1, 0)
    return MatrixAccess(write, int(q.vec[1:]), wide, element or _WIDENED[q.source], address, value, space_of(q.space))


def _declare(
    name: str,
    form: str,
    element: str,
    transposed: bool | None,
    registers: Mapping[str, str],
    fidelity: Fidelity = "hardware",
    requires: Needs = _BLACKWELL,
) -> None:
    """``form``: the modifiers, with ``(count)`` for the repetition."""
    write = name == "stmatrix"
    pattern = f"{name}.sync.aligned" + form.replace("(count)", f"(count={'|'.join(registers)})")
    operands = {"a": "addr", "b": "vec.b32"} if write else {"d": "vec.b32", "a": "addr"}
    native(
        pattern,
        requires=(requires, needs("7.8", when={"space": "shared::cta"})),
        section=_SECTION + name,
        fidelity=fidelity,
        outputs=int(not write),
        ordered=False,
        derived={"vec": ("count", registers)},
        **operands,
    )(partial(_access, write=write, element=element, transposed=transposed))


for _name, _needs in (("ldmatrix", needs("6.5", "sm_75")), ("stmatrix", needs("7.8", "sm_90"))):
    _declare(_name, f".m8n8.(count){{.trans}}{_SPACE}.b16", "b16", None, _ONE_EACH, requires=_needs)
_declare("ldmatrix", f".m16n16.(count).trans{_SPACE}.b8", "b8", True, _TWO_EACH, "two-models")
_declare("ldmatrix", f".m16n16.(count).trans{_SPACE}.b8x16.(source=b6x16_p32|b4x16_p64)", "", True, _TWO_EACH, "two-models")
_declare("ldmatrix", f".m8n16.(count){_SPACE}.b8x16.(source=b6x16_p32|b4x16_p64)", "", False, _ONE_EACH, "two-models")
_declare("ldmatrix", f".m8n16.(count){_SPACE}.s8.s4", "s4", False, _ONE_EACH, requires=needs("9.4", at_least(75, "af")))
_declare("stmatrix", f".m16n8.(count).trans{_SPACE}.b8", "b8", True, _ONE_EACH, "two-models")
