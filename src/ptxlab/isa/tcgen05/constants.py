"""What is wrong with a tcgen05 instruction whose operands are known from the text: the checks of the run, without a launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from ptxlab.isa import context
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.effects import TensorTransfer
from ptxlab.isa.operands import Group, Op, Reg
from ptxlab.isa.tcgen05._collectors import usage_of
from ptxlab.isa.tcgen05._cp import destination_of
from ptxlab.isa.tcgen05._descriptors import Gather, instruction_descriptor, matrix_gather
from ptxlab.isa.tcgen05._mma import form_of, is_weight_stationary
from ptxlab.isa.tcgen05._mma_planning import major_of
from ptxlab.isa.tcgen05._mma_units import format_of, units

__all__ = ["Buffer", "buffer_of", "columns_of", "faults"]


class _Machine(NamedTuple):
    target: str


class _Text:
    """What the checks ask of a warp."""

    def __init__(self, target: str) -> None:
        self.machine = _Machine(target)

    def fault(self, code: str, message: str, **fields: Any) -> NoReturn:
        raise context.Misuse(code, message, **fields)


def faults(op: Op, values: Mapping[str, int], target: str, shared_end: int) -> Iterator[context.Misuse]:
    """The mistakes in descriptors of known values.

    Parameters
    ----------
    values : the operands that are known, by name
    shared_end : the end of shared memory; 0 if it is not known
    """
    warp: Any = _Text(target)
    names = {name for name, _ in op.row.operands}
    if "idesc" in names:
        yield from _product(warp, op, values, shared_end, "a-tmem" in names)
    elif "s-desc" in values:
        try:
            destination = destination_of(op)
            _inside(
                warp, matrix_gather(warp, values["s-desc"], "the source", len(destination.lanes), destination.columns, 32, 32), shared_end
            )
        except context.Misuse as misuse:
            yield misuse


def _product(warp: Any, op: Op, values: Mapping[str, int], shared_end: int, a_tensor: bool) -> Iterator[context.Misuse]:
    if "idesc" not in values:
        return
    form = form_of(op, a_tensor)
    group = 2 if op.q.cta_group == "cta_group::2" else 1
    try:
        found = instruction_descriptor(warp, values["idesc"], form.kind, group, is_weight_stationary(op), form.sparse, form.vector or None)
    except context.Misuse as misuse:
        yield misuse
        return
    stored = found.k // 2 if form.sparse else found.k
    sides = (
        ("a-desc", "A", found.m // group, stored, found.a, found.transpose_a),
        ("b-desc", "B", found.n // group, found.k, found.b, found.transpose_b),
    )
    for operand, what, rows, k, element, transposed in sides:
        if operand not in values:
            continue
        stored_as = format_of(form.kind, element)
        try:
            gather = matrix_gather(
                warp, values[operand], what, rows, k, stored_as.bits, stored_as.container, major_of(transposed), found.k96
            )
            _inside(warp, gather, shared_end, what)
        except context.Misuse as misuse:
            yield misuse


def _inside(warp: Any, gather: Gather, shared_end: int, what: str = "the source") -> None:
    low, high = gather.bounds
    if low < SHARED_RESERVED or (shared_end and high > shared_end):
        warp.fault(
            "D704",
            f"{what} reads shared memory from {low:#x} to {high - 1:#x}; the CTA has {SHARED_RESERVED:#x} to {shared_end - 1:#x}",
            fix="check start address, leading and stride dimension byte offset of the descriptor (each holds bytes >> 4)",
        )


def columns_of(op: Op, values: Mapping[str, int], target: str) -> int | None:
    """The columns of tensor memory that a product, a copy, a load or a store occupies from its address on; None if that is not known."""
    names = {name for name, _ in op.row.operands}
    if "idesc" in names:
        return _accumulator_columns(op, values["idesc"], target) if "idesc" in values else None
    if "s-desc" in names:
        return destination_of(op).columns
    vector = next((operand for operand in op.operands if isinstance(operand, Group | Reg)), None)
    if vector is None or not isinstance(op.effects, TensorTransfer) or op.q.shape not in _COLUMNS:
        return None
    return _COLUMNS[op.q.shape] * int(op.q.num[1:])


_COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}
"""The columns that one repetition of a shape occupies."""


def _accumulator_columns(op: Op, descriptor: int, target: str) -> int | None:
    """The columns of tensor memory that D occupies, with an instruction descriptor; None if that is not legal."""
    names = {name for name, _ in op.row.operands}
    form = form_of(op, "a-tmem" in names)
    group = 2 if op.q.cta_group == "cta_group::2" else 1
    warp: Any = _Text(target)
    try:
        found = instruction_descriptor(warp, descriptor, form.kind, group, is_weight_stationary(op), form.sparse, form.vector or None)
    except context.Misuse:
        return None
    made = units(found.m, found.n, group, is_weight_stationary(op), form.sparse, 0)
    return max(unit.column + unit.columns for unit in made)


class Buffer(NamedTuple):
    """What a product does with a collector buffer: ``use`` is fill, use, lastuse or discard; ``matrix`` names the operand that it holds."""

    name: str
    use: str
    matrix: str

    @property
    def needs_matrix(self) -> bool:
        """Whether the buffer must hold the matrix."""
        return self.use in ("use", "lastuse")

    @property
    def leaves_matrix(self) -> bool:
        """Whether the buffer holds the matrix afterwards."""
        return self.use in ("fill", "use")


def buffer_of(op: Op) -> Buffer | None:
    """The collector buffer of a product; None for other instructions."""
    names = {name for name, _ in op.row.operands}
    if "idesc" not in names:
        return None
    stationary = is_weight_stationary(op)
    _, name, use = usage_of(op.q.collector, stationary)
    return Buffer(name, use, "b-desc" if stationary else "a-tmem" if "a-tmem" in names else "a-desc")
