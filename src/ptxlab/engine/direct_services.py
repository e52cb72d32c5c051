"""Services that compiled code completes itself where their outcome is certain, without a call of the machine's handler.

These are a wait for a phase of an mbarrier that is complete, groups of copies, which perform at once, arrivals that continue nobody whom
the scheduler has blocked (`ptxlab.engine.arrivals`), and words of 128-bit registers. Where a phase is not complete, the warp is blocked,
after a turn of its other lanes if these can run (`ptxlab.engine.turns`). Elsewhere the handler is called: for lanes that name several
mbarriers, for errors.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import Program
from ptxlab.isa.effects import (
    BoxForm,
    BoxOperands,
    CommitGroup,
    Completion,
    CompletionArrival,
    Extract,
    LineOperands,
    MbarrierArrive,
    MbarrierTransactions,
    MbarrierWait,
    WaitGroup,
)
from ptxlab.isa.operands import Addr, Const, Group, Op, Reg, Resolved, Unused

__all__ = [
    "COORDINATE_BITS",
    "MBARRIER_TOKEN",
    "are_addresses",
    "direct_arrivals",
    "direct_groups",
    "direct_services",
    "has_box_operands",
    "has_line_operands",
    "is_direct",
    "is_direct_arrival",
    "numbers_of",
]

MBARRIER_TOKEN = 0x6D62_6172_7269_6572
"""What shared memory holds where there is an mbarrier object."""
COORDINATE_BITS, OFFSET_BITS = 32, 16
_NOT_OF_IMAGE = 2
_HALO_AND_OFFSET = 2
"""The dimensions of a tensor in im2col mode that are none of the image: channels and images."""


def is_direct(program: Program, op: Op) -> bool:
    """Whether compiled code may complete an instruction that is no arrival."""
    effects = op.effects
    if op.row.kind != "service":
        return False
    if isinstance(effects, CommitGroup | WaitGroup):
        return effects.of is Completion.COPY_GROUP and all(type(operand) is Const for operand in op.operands)
    if isinstance(effects, Extract) and op.row.flow is None:
        targets, source = op.operands
        known = all(isinstance(target, Unused) or _is_register(program, target, 1, 32) for target in flatten(targets))
        return known and _is_register(program, source, 128)
    if not isinstance(effects, MbarrierWait) or op.row.flow is not None:
        return False
    complete, address, phase = op.operands[:3]
    return (
        (isinstance(complete, Unused) or _is_register(program, complete, 1))
        and _is_address(program, address)
        and (type(phase) is Const or _is_register(program, phase, 32 if effects.parity else 64))
    )


def is_direct_arrival(program: Program, op: Op) -> bool:
    """Whether compiled code may complete an arrival, an expectation, a commit, or a group of operations, if the launch permits it.

    See `Word.PERMITTED`. Bulk copies that have performed are in no group. Groups of wgmma are those of the warps of a warpgroup
    (`ptxlab.engine.warpgroups`).
    """
    effects, operands = op.effects, op.operands
    if op.row.kind != "service" or op.row.flow is not None or program.stepped:
        return False
    if isinstance(effects, CommitGroup | WaitGroup):
        return effects.of is not Completion.COPY_GROUP and all(type(operand) is Const for operand in operands)
    if isinstance(effects, CompletionArrival):
        address, *ctas = operands
        return effects.of is Completion.COMMIT and _is_address(program, address) and _are_numbers(program, ctas, 16)
    if isinstance(effects, MbarrierArrive):
        state, address, *count = operands
        takes = not effects.drops and not op.q.get("noComplete")
        return (
            takes
            and (isinstance(state, Unused) or _is_register(program, state, 64))
            and _is_address(program, address)
            and _are_numbers(program, count, 32)
        )
    if isinstance(effects, MbarrierTransactions):
        address, *count = operands
        return not effects.completes and _is_address(program, address) and _are_numbers(program, count, 32)
    return False


def _coordinates_of(operand: Resolved) -> tuple[Resolved, ...]:
    """The coordinates beside a tensor map."""
    items = operand.extra[0] if isinstance(operand, Addr) and operand.extra else None
    return items.items if isinstance(items, Group) else ()


def has_box_operands(program: Program, op: Op, box: BoxOperands) -> bool:
    """Whether compiled code can read the operands of a copy of a box, rows or pixels (`ptxlab.engine.copies.boxes`)."""
    addresses = (op.operands[at] for at in (box.tensor_map, box.shared, box.barrier) if at >= 0)
    coordinates, offsets = _coordinates_of(op.operands[box.tensor_map]), _offsets_of(op, box)
    masks = [op.operands[box.ctas]] if box.ctas >= 0 else []
    if offsets and len(offsets) != (_HALO_AND_OFFSET if box.halo else len(coordinates) - _NOT_OF_IMAGE):
        return False
    return (
        are_addresses(program, addresses)
        and _are_numbers(program, coordinates, COORDINATE_BITS)
        and _are_numbers(program, (*masks, *offsets), OFFSET_BITS)
    )


def _offsets_of(op: Op, box: BoxOperands) -> tuple[Resolved, ...]:
    """The im2col offsets of a copy of pixels; none where it has none."""
    operand = op.operands[box.offsets] if box.offsets >= 0 else None
    return operand.items if isinstance(operand, Group) else ()


def numbers_of(op: Op, box: BoxOperands) -> list[tuple[Resolved, int]]:
    """What says where a copy is, and the bits of each number: signed coordinates; for pixels an offset for each dimension of the image.

    The number of further pixels is last, if there is one.
    """
    coordinates, offsets = _coordinates_of(op.operands[box.tensor_map]), _offsets_of(op, box)
    zeros = (Const(0),) * (len(coordinates) - _NOT_OF_IMAGE)
    if box.halo:
        halo, offset = offsets
        offsets = offset, *zeros[1:], halo
    elif box.form is BoxForm.PIXELS and not offsets:
        offsets = zeros
    return [*((item, COORDINATE_BITS) for item in coordinates), *((item, OFFSET_BITS) for item in offsets)]


def has_line_operands(program: Program, op: Op, line: LineOperands) -> bool:
    """The same for a copy of contiguous bytes, with addresses in registers (`ptxlab.engine.copies.lines`)."""
    operands = op.operands
    memory = operands[line.memory]
    base = memory.base if isinstance(memory, Addr) else memory
    addresses = [operands[at] for at in (line.memory, line.shared, line.barrier) if at >= 0]
    masks = [operands[at] for at in (line.ctas, line.mask) if at >= 0]
    return (
        isinstance(base, Reg)
        and are_addresses(program, addresses)
        and _are_numbers(program, (operands[line.size],), 32)
        and _are_numbers(program, masks, 16)
    )


def are_addresses(program: Program, operands: Iterable[Resolved]) -> bool:
    """Whether compiled code can read all of some operands as addresses."""
    return all(_is_address(program, operand) for operand in operands)


def _is_register(program: Program, operand: Resolved, *bits: int) -> bool:
    return isinstance(operand, Reg) and not operand.negated and program.registers[operand.index].bits in bits


def _is_address(program: Program, operand: Resolved) -> bool:
    base = operand.base if isinstance(operand, Addr) else operand
    return not isinstance(base, Reg) or _is_register(program, base, 32, 64)


def _are_numbers(program: Program, operands: Iterable[Resolved], bits: int) -> bool:
    return all(type(operand) in (Const, Unused) or _is_register(program, operand, bits) for operand in operands)


def direct_services(program: Program) -> tuple[Op, ...]:
    """The instructions of a program that compiled code may complete, without arrivals."""
    return tuple(op for op in program.ops if is_direct(program, op))


def direct_arrivals(program: Program) -> tuple[Op, ...]:
    """The arrivals of a program that compiled code may complete."""
    return tuple(op for op in program.ops if is_direct_arrival(program, op) and not isinstance(op.effects, CommitGroup | WaitGroup))


def direct_groups(program: Program) -> tuple[Op, ...]:
    """The groups of operations that compiled code may complete where observers permit it and all of them perform at once."""
    return tuple(op for op in program.ops if is_direct_arrival(program, op) and isinstance(op.effects, CommitGroup | WaitGroup))
