"""Legality of wgmma."""

from __future__ import annotations

from collections.abc import Iterable

from ptxlab.isa.legality._form import LONGS, WORDS, Form, Immediate, Predicate, Register, Rule, Vector, form
from ptxlab.isa.legality._tcgen05 import IGNORED
from ptxlab.isa.requirements import Values, needs
from ptxlab.isa.targets import WGMMA

__all__ = ["WGMMA_FORMS"]

_TRANSPOSABLE = ("f16.f16.f16", "f32.f16.f16", "f32.bf16.bf16")
_TF32 = ("f32.tf32.tf32",)
_FP8 = tuple(f"{d}.{a}.{b}" for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2"))
_INTEGER = tuple(f"s32.{a}.{b}" for a in ("s8", "u8") for b in ("s8", "u8"))
_BOOLEAN = ("s32.b1.b1",)
_TYPES = "f16|f32|bf16|tf32|e4m3|e5m2|s32|s8|u8|b1"
_EVERY_N = tuple(range(8, 257, 8))
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))
_SINCE = needs("8.0", WGMMA, what="wgmma")
_SYNC = frozenset({"sync"})

_K = {_TRANSPOSABLE: 16, _TF32: 8, _FP8: 32, _INTEGER: 32, _BOOLEAN: 256}


def _shapes(ns: Iterable[int], k: int) -> tuple[str, ...]:
    return tuple(f"m64n{n}k{k}" for n in ns)


def _accumulators(values: Values) -> int:
    n = int(str(values["shape"]).removeprefix("m64n").split("k")[0])
    return n // 4 if str(values["types"]).startswith("f16") else n // 2


def _accumulator_types(values: Values) -> tuple[str, ...]:
    return {"f32": ("b32", "f32"), "f16": ("b32",)}.get(str(values["types"]).split(".")[0], ("b32", "u32", "s32"))


def _fragment_types(values: Values) -> tuple[str, ...]:
    return ("b32", "u32", "s32", "f32") if str(values["types"]).startswith("s32") else ("b32",)


def _bit(value: int) -> bool:
    return value in (0, 1)


def _product(sparse: bool) -> Form:
    section = "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async" + (".sp" if sparse else "")
    factor = 2 if sparse else 1
    typed = {types: k for types, k in _K.items() if not (sparse and types is _BOOLEAN)}
    shapes = sorted({shape for k in typed.values() for shape in _shapes(_EVERY_N, k * factor)})
    rules = [Rule({}, "types", tuple(t for types in typed for t in types), "these element types do not go together", section)]
    for types, k in typed.items():
        ns = _INTEGER_N if types in (_INTEGER, _BOOLEAN) else _EVERY_N
        message = f"with these types the shape is .m64nNk{k * factor}" + (
            ", N one of 8, 16, 24, 32, 48, ... 256" if ns is _INTEGER_N else ""
        )
        rules.append(Rule({"types": types}, "shape", _shapes(ns, k * factor), message, section))
    head = " sp-meta sp-sel" if sparse else ""
    lines: list[tuple[str, dict[str, tuple[str, ...]]]] = []
    for a in ("a-desc", "a"):
        start = f"d {a} b-desc{head} scale-d"
        trans = " imm-trans-a imm-trans-b" if a == "a-desc" else " imm-trans-b"
        lines.append((f"{start} imm-scale-a imm-scale-b{trans}", {"types": _TRANSPOSABLE}))
        lines.append((f"{start} imm-scale-a imm-scale-b", {"types": (*_TF32, *_FP8)}))
        lines.append((start, {"types": (*_INTEGER, *_BOOLEAN)}))
    if sparse:
        # The selector has its own range for the types of one byte.
        wide = (*_TRANSPOSABLE, *_TF32)
        lines = [
            (line.replace("sp-sel", name), {"types": types})
            for line, when in lines
            for name, among in (("sp-sel", True), ("sp-sel-0", False))
            if (types := tuple(t for t in when["types"] if (t in wide) is among))
        ]
    modifiers = (".sp" if sparse else "") + f".sync{{.aligned}}.(shape={'|'.join(shapes)}).(types*3={_TYPES})"
    if not sparse:
        modifiers += "{.op*2=and|popc}"
        rules += [
            Rule({"types": _BOOLEAN}, "op", ("and.popc",), ".b1 needs .and.popc", section),
            Rule(
                {"types": tuple(t for types in _K if types is not _BOOLEAN for t in types)}, "op", (None,), ".and.popc is for .b1", section
            ),
        ]
    rules.append(
        Rule({"satfinite": ("satfinite",)}, "types", _INTEGER, ".satfinite is for .s8 and .u8", section),
    )
    scale = Immediate("-1 or 1", lambda value: value in (-1, 1))
    trans_kind = Immediate("0 or 1", _bit)
    return form(
        "wgmma.mma_async",
        modifiers + "{.satfinite}",
        *lines,
        kinds={
            "d": Vector(_accumulators, True, types=_accumulator_types),
            "a": Vector(lambda values: 4, False, constants=True, mixed=True, types=_fragment_types),
            "a-desc": Register(LONGS, "a matrix descriptor in a 64-bit register", True, True),
            "b-desc": Register(LONGS, "a matrix descriptor in a 64-bit register", True, True),
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
            "imm-scale-a": scale,
            "imm-scale-b": scale,
            "imm-trans-a": trans_kind,
            "imm-trans-b": trans_kind,
        },
        section=section,
        rules=tuple(rules),
        requires=(_SINCE,),
        ignored=IGNORED | {"row", "col", "pred"},
        repeatable=_SYNC | {"satfinite"},
    )


def _synchronisation(name: str, operands: str, section: str) -> Form:
    kinds = {"N": Immediate("a non-negative integer constant", lambda value: value >= 0)} if operands else {}
    title = f"Asynchronous Warpgroup Level Matrix Instructions: {section}"
    requires, ignored = (_SINCE,), IGNORED
    return form(name, ".sync{.aligned}", operands, kinds=kinds, section=title, requires=requires, ignored=ignored, repeatable=_SYNC)


WGMMA_FORMS: tuple[Form, ...] = (
    _product(False),
    _product(True),
    _synchronisation("wgmma.fence", "", "wgmma.fence"),
    _synchronisation("wgmma.commit_group", "", "wgmma.commit_group"),
    _synchronisation("wgmma.wait_group", "N", "wgmma.wait_group"),
)
