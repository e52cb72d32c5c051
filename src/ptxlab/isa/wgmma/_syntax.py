"""The syntax of the wgmma instructions: section "Asynchronous Warpgroup Level Matrix Instructions"."""

from __future__ import annotations

import re

from ptxlab.isa.form import IGNORED, Form, Rule, form
from ptxlab.isa.kinds import LONGS, WORDS, Immediate, Kind, Predicate, Register, Vector
from ptxlab.isa.requirements import Condition, Values, needs
from ptxlab.isa.targets import WGMMA
from ptxlab.tables import WGMMA_KINDS, WGMMA_M

__all__ = ["COMMIT_GROUP", "FENCE", "MMA", "WAIT_GROUP", "types_of"]

_SECTION = "Asynchronous Warpgroup Level Matrix Instructions: "
_TYPES = "f16|f32|bf16|tf32|e4m3|e5m2|s32|s8|u8|b1"
_SINCE = needs("8.0", WGMMA, what="wgmma")
_SPARSE = needs("8.2", WGMMA, what="wgmma.mma_async.sp")
_MIXED = needs("8.4", when={"types": ("s32.s8.u8", "s32.u8.s8")}, what="wgmma of .s8 and .u8")
_SYNC = frozenset({"sync"})
_INTEGERS = ("i8", "b1")
"""Kinds without imm-scale operands and with fewer values of N."""


def types_of(kind: str, d: str = "") -> tuple[str, ...]:
    """The types of D, A and B of a kind, or those with one type of D: ``f32.f16.f16``."""
    row = WGMMA_KINDS[kind]
    return tuple(f"{each}.{a}.{b}" for each in row.d if d in ("", each) for a in row.ab for b in row.ab)


def _accumulators(values: Values) -> int:
    n = int(str(values["shape"]).removeprefix(f"m{WGMMA_M}n").split("k")[0])
    return n // 4 if str(values["types"]).startswith("f16") else n // 2


def _accumulator_types(values: Values) -> tuple[str, ...]:
    return {"f32": ("b32", "f32"), "f16": ("b32",)}.get(str(values["types"]).split(".")[0], WORDS)


def _fragment_types(values: Values) -> tuple[str, ...]:
    return (*WORDS, "f32") if str(values["types"]).startswith("s32") else ("b32",)


def _bit(value: int) -> bool:
    return value in (0, 1)


_DESCRIPTOR = Register(LONGS, "a matrix descriptor in a 64-bit register", True, True)
_SCALE = Immediate("-1 or 1", lambda value: value in (-1, 1))
_TRANSPOSE = Immediate("0 or 1", _bit)
_KINDS: dict[str, Kind] = {
    "d": Vector(_accumulators, True, types=_accumulator_types),
    "a": Vector(lambda values: 4, False, constants=True, mixed=True, types=_fragment_types),
    "a-desc": _DESCRIPTOR,
    "b-desc": _DESCRIPTOR,
    "sp-meta": Register(
        (*WORDS, "f32", "pred"),
        "the sparsity metadata in a 32-bit register",
        False,
        True,
        addends=WORDS,
        float_width=32,
        braces=(*WORDS, "f32"),
    ),
    "sp-sel": Immediate("the sparsity selector, 0 or 1", _bit),
    "sp-sel-0": Immediate("the sparsity selector, 0 for these types", lambda value: value == 0),
    "scale-d": Predicate("a predicate register or 0 or 1", _bit),
    "imm-scale-a": _SCALE,
    "imm-scale-b": _SCALE,
    "imm-trans-a": _TRANSPOSE,
    "imm-trans-b": _TRANSPOSE,
}


def _product(sparse: bool) -> Form:
    """The form of a dense or sparse wgmma.mma_async."""
    variant = ".sp" if sparse else ""
    section = f"{_SECTION}wgmma.mma_async{variant}"
    shapes = {
        kind: tuple(f"m{WGMMA_M}n{n}k{k}" for n in row.n) for kind, row in WGMMA_KINDS.items() if (k := row.sparse_k if sparse else row.k)
    }
    rules = [Rule({}, "types", tuple(t for kind in shapes for t in types_of(kind)), "these element types do not go together", section)]
    lines: list[tuple[str, Condition, Condition, str]] = []
    for kind, named in shapes.items():
        row, types = WGMMA_KINDS[kind], types_of(kind)
        which = ", N one of 8, 16, 24, 32, 48, ... 256" if kind in _INTEGERS else ""
        rules.append(
            Rule({"types": types}, "shape", named, f"with these types the shape is .m{WGMMA_M}nNk{named[0].split('k')[1]}{which}", section)
        )
        # The selector has its own range for the types of one byte.
        metadata = "" if not sparse else " sp-meta sp-sel" if row.bits > 8 else " sp-meta sp-sel-0"
        scales = "" if kind in _INTEGERS else " imm-scale-a imm-scale-b"
        for a, place in (("a-desc", "shared"), ("a", "registers")):
            transposed = "" if not row.transpose else " imm-trans-a imm-trans-b" if a == "a-desc" else " imm-trans-b"
            lines.append((f"d {a} b-desc{metadata} scale-d{scales}{transposed}", {"types": types}, {"A": place}, ""))
    every = sorted({shape for named in shapes.values() for shape in named}, key=lambda shape: [int(n) for n in re.findall(r"\d+", shape)])
    modifiers = f"{variant}.sync{{.aligned}}.(shape={'|'.join(every)}).(types*3={_TYPES})"
    if not sparse:
        modifiers += "{.op*2=and|popc}"
        others = tuple(t for kind in shapes if kind != "b1" for t in types_of(kind))
        rules += [
            Rule({"types": types_of("b1")}, "op", ("and.popc",), ".b1 needs .and.popc", section),
            Rule({"types": others}, "op", (None,), ".and.popc is for .b1", section),
        ]
    rules.append(Rule({"satfinite": ("satfinite",)}, "types", types_of("i8"), ".satfinite is for .s8 and .u8", section))
    return form(
        "wgmma.mma_async",
        modifiers + "{.satfinite}",
        *lines,
        kinds=_KINDS,
        section=section,
        rules=tuple(rules),
        requires=(_SPARSE, _MIXED) if sparse else (_SINCE, _MIXED),
        ignored=IGNORED | {"row", "col", "pred"},
        repeatable=_SYNC | {"satfinite"},
        length="v4",
    )


def _synchronisation(name: str, operands: str = "") -> Form:
    """The form of wgmma.fence, commit_group or wait_group."""
    kinds = {"N": Immediate("a non-negative integer constant", lambda value: value >= 0)}
    return form(name, ".sync{.aligned}", operands, kinds=kinds, section=_SECTION + name, requires=_SINCE, repeatable=_SYNC)


MMA = {sparse: _product(sparse) for sparse in (False, True)}
FENCE, COMMIT_GROUP = _synchronisation("wgmma.fence"), _synchronisation("wgmma.commit_group")
WAIT_GROUP = _synchronisation("wgmma.wait_group", "N")
