"""What the tables of tcgen05.mma allow an instruction descriptor to say; every finding names its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ptxlab.descriptors._errors import Finding
from ptxlab.tables import MMA_KINDS, SCALE_IDS, SCALE_VECTOR_TYPES, SHAPES, TRANSPOSED_8_BIT_N, TYPE_BITS, Kind, scale_vector_of

if TYPE_CHECKING:
    from ptxlab.descriptors._instruction import InstructionDescriptor

__all__ = ["check"]

_SHAPE = 'Matrix Shape, table "Various combinations of .kind and shapes"'
_TRANSPOSE = "Transpose and Negate operations"
_TRANSPOSE_KINDS = f'{_TRANSPOSE}, table "Transpose and Negate operation for various MMA-Kind"'
_COMBINATIONS = "Valid Combinations of Type-Size, Major-ness and Swizzling"
_SCALING = "Valid combinations of scale_vectorsize with types and MMA-Kind"
_SCALE_TYPES = f'{_SCALING}, table "Valid combinations of scale_vectorsize with types and MMA-Kind"'
_SCALE_SHAPES = f'{_SCALING}, table "Valid combinations of scale_vectorsize and shapes"'

_SELECTORS = {"f16": (0, 1), "tf32": (0, 1), "f8f6f4": (0,), "i8": (0,)}
"""Kind -> sparsity selectors that choose something; the field can hold 2 and 3, but no source says what they select."""


def check(
    i: InstructionDescriptor, table: str, cta_group: int | None, ws: bool, sparse: bool | None, scale_vector: str | None
) -> Iterator[Finding]:
    """What is not legal for an instruction with these qualifiers; ``table`` is the section of the descriptor's format."""
    kind = MMA_KINDS[i.kind]
    yield from _check_flags(i, kind, table, sparse)
    yield from _check_types(i, kind)
    if cta_group is not None:
        yield from _check_shape(i, cta_group, ws, i.sparse if sparse is None else sparse)
    if kind.scale:
        yield from _check_scaling(i, scale_vector)
    if cta_group is not None and i.transpose_b and TYPE_BITS.get(i.b) == 8 and i.n not in TRANSPOSED_8_BIT_N[cta_group]:
        steps = TRANSPOSED_8_BIT_N[cta_group]
        yield Finding(
            "D703",
            "n",
            f"N = {i.n} with a transposed 8-bit matrix B and cta_group::{cta_group}; N must be {_series(steps)}",
            f'{_TRANSPOSE}, table "Various combinations of N shape with .cta_group qualifier for 8bit transpose B"',
        )


def _check_flags(i: InstructionDescriptor, kind: Kind, table: str, sparse: bool | None) -> Iterator[Finding]:
    if sparse is not None and sparse != i.sparse:
        said, opcode = ("sparse", "tcgen05.mma") if i.sparse else ("dense", "tcgen05.mma.sp")
        message = f"the instruction descriptor says {said}, the instruction is {opcode}"
        yield Finding("D701", "sparse", message, table, f"{'clear' if i.sparse else 'set'} bit 2, or use the other instruction")
    if i.sparse and i.selector not in _SELECTORS.get(i.kind, (i.selector,)):
        allowed = " or ".join(map(str, _SELECTORS[i.kind]))
        message = f"the sparsity selector is {i.selector}; it must be {allowed} for .kind::{i.kind}"
        yield Finding("D701", "selector", message, "Sparsity selector", "write another value to bits 0-1")
    if i.saturate and not kind.saturate:
        yield Finding("D701", "saturate", f"saturation is not available for .kind::{i.kind}", table, "clear bit 3")
    for name, bit in (("negate_a", 13), ("negate_b", 14)):
        if getattr(i, name) and not kind.negate:
            message = f"matrix {name[-1].upper()} cannot be negated for .kind::{i.kind}"
            yield Finding("D701", name, message, _TRANSPOSE_KINDS, f"clear bit {bit}")


def _check_types(i: InstructionDescriptor, kind: Kind) -> Iterator[Finding]:
    wanted = kind.d_for_ab.get(i.d)
    for name, bit in (("a", 15), ("b", 16)):
        given = getattr(i, name)
        if wanted is not None and given in kind.ab and given not in wanted:
            types = " or ".join(f".{t}" for t in sorted(wanted))
            message = f"matrix D of type .{i.d} needs matrix {name.upper()} of type {types}, not .{given}"
            yield Finding("D701", "d", message, _SHAPE, "accumulate in .f32")
        if not getattr(i, f"transpose_{name}"):
            continue
        if not kind.transpose:
            message = f"matrix {name.upper()} cannot be transposed for .kind::{i.kind}"
            yield Finding("D701", f"transpose_{name}", message, _TRANSPOSE_KINDS, f"clear bit {bit} and lay the operand out K-major")
        elif TYPE_BITS.get(given, 8) < 8:
            message = f"matrix {name.upper()} of type .{given} cannot be transposed"
            yield Finding("D701", f"transpose_{name}", message, _COMBINATIONS, f"clear bit {bit} and lay the operand out K-major")


def _check_shape(i: InstructionDescriptor, cta_group: int, ws: bool, sparse: bool) -> Iterator[Finding]:
    what = f".kind::{i.kind}, cta_group::{cta_group}{', .ws' if ws else ''}, {'sparse' if sparse else 'dense'}"
    shapes = SHAPES.get((i.kind, ws, cta_group, sparse))
    if shapes is None:
        yield Finding("D703", "kind", f"the combination {what} is not supported", _SHAPE)
        return
    if i.m not in shapes.m:
        yield Finding("D703", "m", f"M = {i.m} for {what}; M must be {_series(shapes.m)}", _SHAPE)
    if i.n not in shapes.n:
        yield Finding("D703", "n", f"N = {i.n} for {what}; N must be {_series(shapes.n)}", _SHAPE)
    if i.k96 and sparse:
        yield Finding("D703", "k96", "K = 96 is for dense matrices only", _SHAPE, "clear bit 31")


def _check_scaling(i: InstructionDescriptor, vector: str | None) -> Iterator[Finding]:
    allowed = SCALE_VECTOR_TYPES.get((i.kind, i.scale), ())
    if vector is None:
        # Without the qualifier: the IDs that some qualifier of the kind and the scale type allows.
        rows = [row for name in allowed if (row := scale_vector_of(i.kind, name, i.k)) is not None]
    else:
        found = scale_vector_of(i.kind, vector, i.k)
        rows = [] if found is None else [found]
        if found is None:
            named = " or ".join(
                f".{name}" for name in dict.fromkeys(n for (k, _), names in SCALE_VECTOR_TYPES.items() for n in names if k == i.kind)
            )
            yield Finding("D701", "scale", f".{vector} does not go with .kind::{i.kind}; use {named}", _SCALE_SHAPES)
        elif allowed and vector not in allowed:
            named = " or ".join(f".{name}" for name in allowed)
            message = f"scale factors of type .{i.scale} for .kind::{i.kind} need {named}, not .{vector}"
            yield Finding("D701", "scale", message, _SCALE_TYPES, "change bit 23, or the qualifier")
    ids = sorted({value for row in rows for value in SCALE_IDS[row.scales]})
    for name, bits in (("scale_a_id", "29-30"), ("scale_b_id", "4-5")):
        given = getattr(i, name)
        if ids and given not in ids:
            scales = " or ".join(str(n) for n in sorted({row.scales for row in rows}))
            message = (
                f"the scale factor {name[6].upper()} ID is {given}; with {scales} scale factors of a row it must be {_series(tuple(ids))}"
            )
            yield Finding("D701", name, message, f"Scale Factor {name[6].upper()} ID", f"correct bits {bits}")


def _series(values: Sequence[int]) -> str:
    if isinstance(values, range):
        return f"{values[0]}, {values[1]}, ... {values[-1]}"
    if len(values) > 4:
        return f"{', '.join(map(str, values[:6]))}, ... {values[-1]}"
    return " or ".join(", ".join(map(str, values)).rsplit(", ", 1))
