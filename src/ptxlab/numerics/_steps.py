"""What a wrong argument raises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Literal

from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["ARCHITECTURES", "STEPS", "NumericsError", "Output", "Step", "find_step", "is_wide", "steps_of"]


class NumericsError(PtxlabError, ValueError):
    """An argument that an arithmetic function cannot take; the text says what was expected."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(diagnose("N101", message, fix=fix))


Output = Literal["f32", "e8m13", "f16", "s32"]
Scale = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One fused step: k products and C, aligned to a window below the largest exponent, truncated, summed exactly, converted once.

    Attributes
    ----------
    a, b : element types that are accepted
    d : type of C and D
    k : most products in a step; an instruction with more is a chain of steps, low k first, D of one being C of the next
    lengths : K of the instructions (of the stored elements, if A is sparse)
    window : fraction bits that an aligned term keeps below the largest exponent
    floor : the largest exponent is never taken to be less than this
    output : conversion of the sum: f32 rounded toward zero, e8m13 (f32 with 13 fraction bits) likewise, f16 rounded to nearest even, s32
    scales : types and block sizes of the scales that are accepted; none: not block-scaled
    group : products that are summed exactly before they are scaled and aligned; 1: none are
    scaled_input : whether scale-input-d exists
    negates : whether the negation of A and B exists
    sparse : whether A may be sparse
    metadata : which metadata codes a sparse A may have, see `legal_codes`
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    d: str
    k: int
    lengths: tuple[int, ...]
    window: int
    floor: int
    output: Output
    scales: tuple[Scale, ...] = ()
    group: int = 1
    scaled_input: bool = False
    negates: bool = True
    sparse: bool = True
    metadata: str = "mma_async"


EIGHT_BIT = ("e4m3", "e5m2")
BYTES = ("s8", "u8")
NARROW = (*EIGHT_BIT, "e3m2", "e2m3", "e2m1")
UE8M0_32: Scale = ("ue8m0", 32)


@dataclass(frozen=True, slots=True)
class _Generation:
    """Window, floors for f32 and f16 accumulators, and bytes of A that a step takes."""

    window: int
    floors: tuple[int, int]
    bytes: int

    def floats(self, types: tuple[str, ...], d: str, *, lengths: tuple[int, ...] = ()) -> Step:
        size = 4 if types[0] == "tf32" else 2 if types[0] in ("f16", "bf16") else 1
        k = self.bytes // size
        output: Output = "f16" if d == "f16" else "f32"
        return Step(types, types, d, k, lengths or (k,), self.window, self.floors[d == "f16"], output)


_VOLTA = _Generation(23, (-131, -19), 8)
_AMPERE = _Generation(24, (-132, -20), 16)
_HOPPER = _Generation(25, (-133, -21), 32)


def _thirteen(step: Step) -> Step:
    """Eight-bit floating point on Ada and Hopper: 13 fraction bits of every term, and of an f32 result."""
    return replace(step, window=13, output="e8m13" if step.d == "f32" else "f16")


def _integers(*lengths: int) -> Step:
    return Step(BYTES, BYTES, "s32", max(lengths), lengths, 0, 0, "s32", negates=False)


def _scaled(*scales: Scale, lengths: tuple[int, ...]) -> Step:
    return Step(("e2m1",), ("e2m1",), "f32", max(lengths), lengths, 35, -139, "f32", scales, group=16)


_MXF8F6F4 = replace(_HOPPER.floats(NARROW, "f32"), scales=(UE8M0_32,))
_NVF4_SCALES: tuple[Scale, ...] = (UE8M0_32, ("ue8m0", 16), ("ue4m3", 16))


def _dense(*rows: Step) -> tuple[Step, ...]:
    """The mma.sync of generations without mma.sp."""
    return tuple(replace(row, sparse=False) for row in rows)


def _sync(*rows: Step) -> tuple[Step, ...]:
    """Of mma.sync and mma.sp."""
    return tuple(replace(row, metadata="sp") for row in rows)


def _half(by: _Generation, *lengths: int) -> tuple[Step, ...]:
    return tuple(by.floats(("f16",), d, lengths=lengths) for d in ("f32", "f16"))


def _since_ampere(by: _Generation) -> tuple[Step, ...]:
    wide = (by.floats(("bf16",), "f32", lengths=(8, 16)), by.floats(("tf32",), "f32", lengths=(4, 8)))
    return (*_half(by, 8, 16), *wide, _integers(16, 32))


_ADA_EIGHT = tuple(_thirteen(_AMPERE.floats(EIGHT_BIT, d, lengths=(16, 32))) for d in ("f32", "f16"))
_EIGHT = tuple(_HOPPER.floats(EIGHT_BIT, d, lengths=(16, 32)) for d in ("f32", "f16"))
_NARROW = tuple(_HOPPER.floats(NARROW, d) for d in ("f32", "f16"))

STEPS: dict[tuple[str, str | None], tuple[Step, ...]] = {
    ("tcgen05", "f16"): (
        replace(_HOPPER.floats(("f16", "bf16"), "f32"), scaled_input=True),
        replace(_HOPPER.floats(("f16",), "f16"), scaled_input=True),
    ),
    ("tcgen05", "tf32"): (replace(_HOPPER.floats(("tf32",), "f32"), scaled_input=True),),
    ("tcgen05", "f8f6f4"): _NARROW,
    ("tcgen05", "i8"): (_integers(32),),
    ("tcgen05", "mxf8f6f4"): (_MXF8F6F4,),
    ("tcgen05", "mxf4"): (_scaled(UE8M0_32, lengths=(64, 96)),),
    ("tcgen05", "mxf4nvf4"): (_scaled(*_NVF4_SCALES, lengths=(64, 96)),),
    ("wgmma", None): (
        _HOPPER.floats(("f16",), "f32"),
        _HOPPER.floats(("bf16",), "f32"),
        _HOPPER.floats(("f16",), "f16"),
        _HOPPER.floats(("tf32",), "f32"),
        *(_thirteen(_HOPPER.floats(EIGHT_BIT, d)) for d in ("f32", "f16")),
        _integers(32),
    ),
    ("mma.sm_70", None): _dense(*_half(_VOLTA, 4)),
    # m8n8k4 stays as it was on Volta.
    ("mma.sm_75", None): _dense(*_half(_AMPERE, 8), *_half(_VOLTA, 4), _integers(16)),
    ("mma.sm_80", None): _sync(*_since_ampere(_AMPERE)),
    ("mma.sm_89", None): _sync(*_since_ampere(_AMPERE), *_ADA_EIGHT),
    ("mma.sm_90", None): _sync(*_since_ampere(_HOPPER)),
    ("mma.sm_100", None): _sync(*_since_ampere(_HOPPER)),
    ("mma.sm_120", None): _sync(*_since_ampere(_HOPPER), *_EIGHT),
    ("mma.sm_120", "f8f6f4"): _NARROW,
    ("mma.sm_120", "mxf8f6f4"): (_MXF8F6F4,),
    ("mma.sm_120", "mxf4"): (_scaled(UE8M0_32, lengths=(64,)),),
    ("mma.sm_120", "mxf4nvf4"): (_scaled(*_NVF4_SCALES, lengths=(64,)),),
}
"""Sections "Matrix Shape" and "Data Types" of the tcgen05, wgmma and mma instructions; windows and floors as measured on silicon."""

ARCHITECTURES = tuple(dict.fromkeys(arch for arch, _ in STEPS))


@cache
def is_wide(*formats: str) -> bool:
    """Whether products of these types can leave float32's range."""
    return any(name in ("bf16", "tf32") for name in formats)


@cache
def steps_of(arch: str, kind: str | None, a: str, b: str, d: str) -> tuple[Step, ...]:
    """The steps of a combination of types; more than one if they depend on K.

    Raises
    ------
    NumericsError
        if there is none
    """
    rows = STEPS.get((arch, kind))
    if rows is None:
        if arch not in ARCHITECTURES:
            raise NumericsError(f"no arch {arch!r}; there are {_list(ARCHITECTURES)}")
        kinds = [k for name, k in STEPS if name == arch]
        raise NumericsError(f"arch {arch!r} has no kind {kind!r}; it has {_list(kinds)}")
    found = tuple(row for row in rows if a in row.a and b in row.b and d == row.d)
    if not found:
        offered = "; ".join(dict.fromkeys(f"d={row.d!r} with a and b of {_list(row.a)}" for row in rows))
        where = f"kind {kind!r}" if kind else f"arch {arch!r}"
        raise NumericsError(f"{where} does not multiply a={a!r} by b={b!r} into d={d!r}; it offers {offered}")
    return found


def find_step(arch: str, kind: str | None, a: str, b: str, d: str, k: int | None = None) -> Step:
    """The step of a combination of types, for this K; the first one if K is not theirs."""
    rows = steps_of(arch, kind, a, b, d)
    return next((row for row in rows if k in row.lengths), rows[0])


def _list(names: Iterable[str | None]) -> str:
    return ", ".join(repr(name) for name in names)
