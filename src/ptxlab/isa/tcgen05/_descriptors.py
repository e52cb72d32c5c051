"""Descriptors and tensor memory operands of tcgen05 instructions: decoding, checks, and the addresses of matrix elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NoReturn

import numpy as np

from ptxlab._records import dataclass
from ptxlab.descriptors import Finding, InstructionDescriptor, SharedMemoryDescriptor, ZeroColumnMask, check_mma
from ptxlab.isa import context
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.tcgen05._state import freed, state_of
from ptxlab.layout import Major, PlacedOperand, operand_index
from ptxlab.tables import TENSOR_MEMORY_COLUMNS

__all__ = ["Gather", "check_bounds", "check_range", "instruction_descriptor", "matrix_gather", "zero_columns"]

_Descriptor = SharedMemoryDescriptor | InstructionDescriptor | ZeroColumnMask

_PATTERN = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Gather(PlacedOperand):
    """A matrix operand in shared memory; ``raw`` is its descriptor."""

    raw: int


def _illegal(warp: context.WarpContext, findings: Sequence[Finding], what: str, descriptor: _Descriptor) -> NoReturn:
    first = findings[0]
    warp.fault(
        first.code,
        f"{what} is not legal: {first.message}",
        reason=first.section,
        fix=first.fix or f"correct {', '.join(dict.fromkeys(f.field for f in findings))}",
        details=_facts(descriptor, findings[1:]),
    )


def _facts(descriptor: _Descriptor, further: Sequence[Finding] = ()) -> tuple[tuple[str, str], ...]:
    """The fields of a descriptor, for the details of a diagnostic."""
    return (*((name, str(value)) for name, value in descriptor.fields()), *(("also", f.message) for f in further))


def instruction_descriptor(
    warp: context.WarpContext, raw: int, kind: str, group: int, ws: bool, sparse: bool, vector: str | None = None
) -> InstructionDescriptor:
    """Decode the instruction descriptor; a fault if it is not legal for the instruction; ``vector`` is .scale_vectorsize."""
    found = InstructionDescriptor.decode(raw, kind=kind)
    findings = check_mma(found, group, ws, sparse, vector, target=warp.machine.target)
    if findings:
        _illegal(warp, findings, f"the instruction descriptor {raw:#010x}", found)
    return found


def zero_columns(warp: context.WarpContext, raw: int, found: InstructionDescriptor) -> ZeroColumnMask:
    """Decode the zero-column mask descriptor; a fault if it is not legal with this instruction descriptor."""
    mask = ZeroColumnMask.decode(raw)
    findings = mask.findings(found.m, found.max_shift)
    if findings:
        _illegal(warp, findings, f"the zero-column mask descriptor {raw:#018x}", mask)
    return mask


def matrix_gather(
    warp: context.WarpContext, raw: int, what: str, rows: int, k: int, bits: int, container: int, major: Major = "k", absolute: bool = False
) -> Gather:
    """Decode a shared memory descriptor and compute the address of each element.

    ``bits`` is the size of an element, ``container`` its size in shared memory. ``absolute``: the leading dimension may be an address.
    Elements that share a byte are gathered as bytes.
    """
    found, findings = _gather(raw, rows, k, bits, container, major, absolute)
    if found is None:
        _illegal(warp, findings, f"the shared memory descriptor {raw:#018x} of {what}", SharedMemoryDescriptor.decode(raw))
    return found


@lru_cache(maxsize=4096)
def _gather(
    raw: int, rows: int, k: int, bits: int, container: int, major: Major, absolute: bool
) -> tuple[Gather | None, tuple[Finding, ...]]:
    """What a descriptor selects, or what is not legal about it."""
    descriptor = SharedMemoryDescriptor.decode(raw)
    findings = descriptor.findings(major=major, bits=bits)
    if descriptor.leading_mode == "absolute" and not absolute:
        rule = "Absolute address mode for K dimension being 48B"
        findings.append(Finding("D702", "leading_mode", "the absolute leading dimension is for K = 96 only", rule))
    if findings:
        return None, tuple(findings)
    far = descriptor.leading_mode == "absolute"
    index = operand_index(
        descriptor.start % _PATTERN,
        descriptor.leading - (descriptor.start & -_PATTERN if far else 0),
        descriptor.stride,
        descriptor.swizzle,
        descriptor.base_offset,
        major,
        rows,
        k * container // 8 if container < 8 else k,
        max(container // 8, 1),
        far,
    )
    return Gather(descriptor.start, index, raw), ()


def check_bounds(
    warp: context.WarpContext, ctas: tuple[context.Cta, ...], gather: Gather, what: str, operand: MatrixOperand | None = None
) -> None:
    """A fault if a matrix extends past the shared memory of a CTA; ``operand`` says the same for observers."""
    low, high = gather.bounds
    for cta in ctas:
        size = cta.shared.size
        if low < SHARED_RESERVED or high > size:
            warp.fault(
                "D704",
                f"{what} reads shared memory from {low:#x} to {high - 1:#x}; the CTA has {SHARED_RESERVED:#x} to {size - 1:#x}",
                fix=(operand and warp.machine.advice(operand, cta))
                or "check start address, leading and stride dimension byte offset of the descriptor (each holds bytes >> 4)",
                details=_facts(SharedMemoryDescriptor.decode(gather.raw)),
            )


def check_range(warp: context.WarpContext, ctas: tuple[context.Cta, ...], column: int, columns: int, what: str, n: int = 0) -> None:
    """A fault unless columns of tensor memory are allocated to each CTA; successful checks are cached until an allocation changes.

    ``n``: N of a matrix instruction of whose D these are the columns.
    """
    key = (column, columns)
    for cta in ctas:
        checked = state_of(cta).checked
        if key in checked:
            continue
        owned = cta.tensor.owned(cta)[column : column + columns]
        if column + columns > TENSOR_MEMORY_COLUMNS or not np.all(owned):
            held = ", ".join(f"columns {s}-{s + n - 1}" for s, n in cta.tensor.allocations_of(cta)) or "nothing"
            missing = next((column + i for i in np.flatnonzero(owned == 0).tolist()), TENSOR_MEMORY_COLUMNS)
            gone = freed(cta, missing, warp.cta, warp.warp_id)
            warp.fault(
                "T607",
                f"{what} occupies columns {column} to {column + columns - 1} of tensor memory, but CTA {cta.ctaid} has allocated {held}"
                + (f": tcgen05.dealloc at line {gone[0].line} has freed column {missing}" if gone else ""),
                fix=gone[1]
                if gone
                else "allocate enough columns with tcgen05.alloc, and compute addresses from the one that it wrote"
                + (f"; or set N to {n * (missing - column) // columns} in the instruction descriptor" if n and missing > column else ""),
            )
        checked.add(key)
