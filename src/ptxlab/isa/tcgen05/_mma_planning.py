"""Make the plan of a tcgen05.mma from its operands, and check them against the tables of the specification."""

from __future__ import annotations

from typing import NamedTuple

from ptxlab import numerics
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor, ZeroColumnMask
from ptxlab.isa import context
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.tcgen05._collectors import HeldMatrix
from ptxlab.isa.tcgen05._descriptors import Gather, check_bounds, check_range, instruction_descriptor, matrix_gather, zero_columns
from ptxlab.isa.tcgen05._mma_plan import Plan
from ptxlab.isa.tcgen05._mma_units import format_of, units
from ptxlab.isa.tcgen05._side_operands import metadata_cells, scaling_of
from ptxlab.layout import Major, zero_column_mask
from ptxlab.tables import TYPE_BITS, data_path_of

__all__ = ["Key", "check_plan", "major_of", "make_plan"]

_MMA = "TensorCore 5th Generation Matrix Multiply and accumulate Operations"
_ALIGNMENT = "Data Path Layout Organization"
_SHIFTED_M = (128, 256)


class Key(NamedTuple):
    """Everything that a plan depends on; operands that the instruction does not have are 0."""

    kind: str
    group: int
    vector: str
    ws: bool
    sparse: bool
    a_tensor: bool
    shift_a: bool
    target: str
    d: int
    a: int
    b: int
    raw: int
    metadata: int
    scale_a: int
    scale_b: int
    zero_columns: int


def make_plan(warp: context.WarpContext, key: Key) -> Plan:
    """The plan of an instruction; a fault if a descriptor or an address is not legal."""
    kind, group = key.kind, key.group
    found = instruction_descriptor(warp, key.raw, kind, group, key.ws, key.sparse, key.vector or None)
    lane = _start_lane(warp, key, found)
    stored = found.k // 2 if key.sparse else found.k
    a_format, b_format = format_of(kind, found.a), format_of(kind, found.b)
    major_a, major_b = (major_of(transposed) for transposed in (found.transpose_a, found.transpose_b))
    source: Gather | int
    if key.a_tensor:
        _check_tensor_a(warp, key, found, lane)
        source = key.a & 0xFFFF
    else:
        source = matrix_gather(warp, key.a, "A", found.m // group, stored, a_format.bits, a_format.container, major_a, found.k96)
    mask = zero_columns(warp, key.zero_columns, found) if key.zero_columns else ZeroColumnMask()
    rows = found.n // group + mask.shift
    made = units(found.m, found.n, group, key.ws, key.sparse, lane)
    b = matrix_gather(warp, key.b, "B", rows, found.k, b_format.bits, b_format.container, major_b, found.k96)
    unit = made[0]
    descriptor_a, descriptor_b = (SharedMemoryDescriptor.decode(raw) for raw in (key.a, key.b))
    operands = [MatrixOperand.of("B", b, major_b, found.b, b_format.container, 1, descriptor_b, found.n, b_format.slot_bytes)]
    if isinstance(source, Gather):
        about = found.a, a_format.container, 1 + key.sparse, descriptor_a, found.m, a_format.slot_bytes
        operands.insert(0, MatrixOperand.of("A", source, major_a, *about))
    types, negate = (found.d, found.a, found.b), (found.negate_a, found.negate_b)
    scaling = scaling_of(found, key.vector, group, key.scale_a, key.scale_b) if key.vector else None
    scale = None if scaling is None else (scaling.type, scaling.block)
    kernel = numerics.mma_kernel(kind, types, unit.rows, unit.columns, found.k, negate, found.saturate, key.sparse, scale)
    return Plan(
        kind=kind,
        kernel=kernel,
        column=key.d & 0xFFFF,
        a=source,
        a_format=a_format,
        b=b,
        b_format=b_format,
        units=made,
        instruction=found,
        held=_held(key, found),
        d_bits=TYPE_BITS[found.d],
        a_columns=stored * a_format.container // 32,
        scaling=scaling,
        metadata=metadata_cells(found, group, key.ws, key.metadata, lane) if key.sparse else (),
        b_first=mask.shift,
        zeroed=zero_column_mask(mask, found.m, found.n) if mask.non_zero else None,
        shift_a=key.shift_a,
        operands=tuple(operands),
    )


def check_plan(warp: context.WarpContext, plan: Plan, ctas: tuple[context.Cta, ...]) -> None:
    """Check what depends on the CTAs: operands are inside shared memory and inside allocated columns."""
    *others, of_b = plan.operands
    if isinstance(plan.a, Gather):
        check_bounds(warp, ctas, plan.a, "A", others[0])
    else:
        check_range(warp, ctas, plan.a, plan.a_columns, "A")
    check_bounds(warp, ctas, plan.b, "B", of_b)
    check_range(warp, ctas, plan.column, plan.columns, "D", (plan.b.index.rows - plan.b_first) * len(ctas))
    if plan.scaling is not None:
        check_range(warp, ctas, plan.scaling.a.column, plan.scaling.a.columns, "the scale factors of A")
        check_range(warp, ctas, plan.scaling.b.column, plan.scaling.b.columns, "the scale factors of B")
    for cells in plan.metadata[:1]:
        check_range(warp, ctas, cells.column, cells.columns, "the sparsity metadata")


def major_of(transposed: bool) -> Major:
    """The major-ness of an operand that is transposed or not."""
    return "mn" if transposed else "k"


def _start_lane(warp: context.WarpContext, key: Key, found: InstructionDescriptor) -> int:
    lane = key.d >> 16
    allowed = data_path_of(found.m, key.group, key.ws, key.sparse).alignment
    if lane not in allowed:
        warp.fault(
            "T611",
            f"D starts at lane {lane}; with M = {found.m} and .cta_group::{key.group} it must start at lane "
            + " or ".join(map(str, allowed)),
            fix="clear the lane, bits 16-31, of the address of D",
        )
    if key.sparse and key.metadata >> 16 != lane:
        message = f"the sparsity metadata starts at lane {key.metadata >> 16} and D at lane {lane}; they must be the same"
        warp.fault("T611", message, fix="give the addresses of D, the metadata, and A in tensor memory the same lane, bits 16-31")
    for name, address in (("A", key.scale_a), ("B", key.scale_b)):
        # Bits 30 and 31 of these addresses may hold the byte of the scale factor ID.
        first = address >> 16 & 0x3FFF
        if first:
            message = f"the scale factors of {name} start at lane {first}; they must start at lane 0"
            warp.fault("T611", message, fix="clear the lane, bits 16-29, of their address: every group of 32 lanes holds the factors")
    return lane


def _check_tensor_a(warp: context.WarpContext, key: Key, found: InstructionDescriptor, lane: int) -> None:
    if key.a >> 16 != lane:
        message = f"A starts at lane {key.a >> 16} and D at lane {lane}; they must be the same"
        warp.fault("T611", message, reason=_ALIGNMENT, fix="give the addresses of A and D the same lane, bits 16-31")
    if found.transpose_a:
        warp.fault("D705", "A in tensor memory cannot be transposed", fix="clear bit 15 of the instruction descriptor")
    if key.shift_a and found.m not in _SHIFTED_M:
        allowed = " or ".join(map(str, _SHIFTED_M))
        warp.fault("D703", f"M = {found.m} with .ashift; M must be {allowed}", reason=_MMA, fix="omit .ashift, or use another M")


def _held(key: Key, found: InstructionDescriptor) -> HeldMatrix:
    """The matrix in a collector buffer."""
    if key.ws:
        return HeldMatrix.at(key.b, "B", found.b, found.transpose_b, found.n, found.k)
    return HeldMatrix.at(key.a, "A", key.a_tensor, found.a, found.transpose_a, found.m, found.k, key.sparse)
