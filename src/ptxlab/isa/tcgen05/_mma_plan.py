"""The plan of a tcgen05.mma: the addresses of its operands, its products, and its place in tensor memory.

A plan depends only on descriptors and addresses. One plan is used for all executions of an instruction, on any CTA.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab._records import dataclass
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.formats import decode
from ptxlab.isa import context, operations
from ptxlab.isa.operations.matrices import MatrixOperand, MatrixProduct, ScaleFactors, TensorMatrix
from ptxlab.isa.tcgen05._accesses import block, cells, operand, placed
from ptxlab.isa.tcgen05._agreement import ask_address, words_to_ask
from ptxlab.isa.tcgen05._collectors import HeldMatrix
from ptxlab.isa.tcgen05._cp import shift_down
from ptxlab.isa.tcgen05._descriptors import Gather
from ptxlab.isa.tcgen05._mma_units import Format, Lanes, Unit, metadata, scales, shared_operand, tensor_operand
from ptxlab.isa.tcgen05._side_operands import Scaling, TensorBitFields, legal_metadata
from ptxlab.isa.tcgen05._state import CtaGroup
from ptxlab.native import BoundedCache, address_of

__all__ = ["A_COLUMNS", "Disabled", "Plan"]

Codes = NDArray[Any]
Disabled = tuple[NDArray[np.intp], ...]
"""For each CTA the lanes of D that are not written."""

_WARP_LANES = 32

A_COLUMNS = 8
"""Columns of A in tensor memory: 256 bits for each row."""


@dataclass(slots=True, eq=False)
class Plan:
    """A tcgen05.mma that any CTA group can perform.

    Attributes
    ----------
    a : a gather from shared memory, or the first column of A in tensor memory
    metadata : location of the metadata of a sparse A, for each bank
    operands, instruction : the matrices in shared memory and the instruction descriptor, for observers
    b_first : the first column of B that is used (the shift of the zero-column mask)
    zeroed : columns of the product whose column of B counts as zero
    shift_a : whether A is shifted down by one row afterwards (.ashift)
    kernel : the compiled multiplication that each unit performs
    program : compiled code for the whole operation
    held : the matrix that a collector buffer can hold: A, or B of .ws
    d_bits : bits of an element of D, the lowest of its cell; the others are 0
    """

    kind: str
    kernel: numerics.MmaKernel
    column: int
    a: Gather | int
    a_format: Format
    b: Gather
    b_format: Format
    units: tuple[Unit, ...]
    instruction: InstructionDescriptor
    held: HeldMatrix
    d_bits: int = 32
    a_columns: int = A_COLUMNS
    scaling: Scaling | None = None
    metadata: tuple[TensorBitFields, ...] = ()
    b_first: int = 0
    zeroed: NDArray[np.bool_] | None = None
    shift_a: bool = False
    operands: tuple[MatrixOperand, ...] = ()
    known: BoundedCache[Hashable, tuple[operations.MemoryAccess, ...]] = field(default_factory=lambda: BoundedCache(64))
    _placed: dict[tuple[int, bool], list[operations.PlacedRanges]] = field(init=False, default_factory=dict)
    """By the number of CTAs and whether D is added to, for each access its ranges in the memories of `CtaGroup.places`."""
    program: numerics.MmaProgram = field(init=False)
    _asked: tuple[NDArray[np.int64], numerics.MmaProgram | None] | None = field(init=False, default=None)
    """What compiled code asks before it repeats the operation (`words_to_ask`), and what it keeps."""
    columns: int = field(init=False, default=0)
    """Columns of D."""
    lanes: int = field(init=False, default=0)
    """How many of the lanes that a warp can access D takes."""
    _scale_factors: tuple[ScaleFactors, ...] = field(init=False, default=())
    _tensor_a: TensorMatrix | None = field(init=False, default=None)
    d_lane: int = field(init=False, default=0)
    """The first lane of D."""

    def __post_init__(self) -> None:
        lanes = np.concatenate([np.arange(128)[unit.lanes] for unit in self.units])
        self.lanes, self.d_lane = len(set((lanes % _WARP_LANES).tolist())), int(lanes[0])
        self.columns = max(unit.column + unit.columns for unit in self.units)
        found = self.instruction
        if self.scaling is not None:
            of_a, of_b = (("A", self.scaling.a, found.scale_a_id), ("B", self.scaling.b, found.scale_b_id))
            self._scale_factors = tuple(fields.scale_factors(name, "scale factors", number) for name, fields, number in (of_a, of_b))
        if self.metadata:
            self._scale_factors += (self.metadata[0].scale_factors("A", "metadata", found.selector),)
        self._tensor_a = self._matrix_in_tensor_memory()
        self.program = self._program()

    def repetition(self, accumulate: bool, scale: int) -> tuple[int, tuple[int, ...], int] | None:
        """How compiled code does what `perform` does if it disables no lanes, for `WarpContext.repeat`; None if it cannot (yet)."""
        program = self.program
        if not program.optimised or self.shift_a:
            return None
        function, given = program.repetition(accumulate, scale)
        if self.scaling is None and not self.metadata:
            return function, given, 0
        if self._asked is None:
            about = self.kernel.metadata_program(self._gather_a(unit) for unit in self._holders) if self.metadata else None
            self._asked = words_to_ask(self.scaling, self.units[-1].cta + 1, about), about
        return function, (*given, address_of(self._asked[0])), ask_address()

    def perform(self, cta_group: CtaGroup, accumulate: bool, scale: int, disabled: Disabled | None) -> None:
        """Read the operands and multiply; disabled lanes keep their values."""
        for number, cta in enumerate(cta_group.ctas):
            for unit in self._holders if self.metadata else ():
                if unit.cta == number:
                    self._check_metadata(cta, unit)
            if self.scaling is not None:
                self.scaling.check_copies(cta.tensor.words)
        kept = () if disabled is None else self._kept(cta_group, disabled)
        self.program.run(cta_group.bases, accumulate, scale)
        for words, lanes, held in kept:
            words[:, lanes] = held
        if self.shift_a and isinstance(self.a, int):
            for cta in cta_group.ctas:
                shift_down(cta.tensor.words, self.a)

    def _kept(self, cta_group: CtaGroup, disabled: Disabled) -> Sequence[tuple[NDArray[np.uint32], NDArray[np.intp], NDArray[np.uint32]]]:
        """For each CTA its accumulator, the disabled lanes, and their values."""
        accumulators = [cta.tensor.words[self.column : self.column + self.columns] for cta in cta_group.ctas[: len(disabled)]]
        return [(words, lanes, words[:, lanes]) for words, lanes in zip(accumulators, disabled, strict=True)]

    def _program(self) -> numerics.MmaProgram:
        """Build the program."""
        of_a: dict[tuple[int, int], numerics.OperandGather] = {}
        of_b: dict[tuple[int, int | None], numerics.OperandGather] = {}
        whole = [shared_operand(self.b, self.b_format, holder) for holder in range(self.units[-1].cta + 1)]
        found = []
        for unit in self.units:
            # Each bank has its own copy of A and of the metadata in tensor memory.
            source = (unit.cta, 0 if isinstance(self.a, Gather) and not self.metadata else unit.bank)
            if source not in of_a:
                of_a[source] = self._gather_a(unit)
            # Each CTA has its own scale factors of all parts.
            part = unit.part, None if self.scaling is None else unit.cta
            if part not in of_b:
                of_b[part] = self._gather_b(whole[unit.holder], unit)
            found.append((of_a[source], of_b[part], unit.accumulator(self.column)))
        return self.kernel.program(found)

    def accesses(self, cta_group: CtaGroup, accumulate: bool, disabled: Disabled | None) -> Iterable[operations.MemoryAccess]:
        """The bytes that the operation reads and writes; cached for each CTA group."""
        key: Hashable = cta_group.places, accumulate
        if disabled is not None:
            key = key, tuple(lanes.tobytes() for lanes in disabled)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = tuple([ranges.within(cta_group.places) for ranges in self._merged(cta_group, accumulate, disabled)])
        return found

    def _merged(self, cta_group: CtaGroup, accumulate: bool, disabled: Disabled | None) -> list[operations.PlacedRanges]:
        """The same as at most one read and one write; in another CTA group they are at the same distances from its memories."""
        key = len(cta_group.ctas), accumulate
        found = None if disabled is not None else self._placed.get(key)
        if found is None:
            merged = operations.MemoryAccess.together(self._all_accesses(cta_group.ctas, accumulate, disabled))
            found = [placed(access, cta_group.places) for access in merged]
            if disabled is None:
                self._placed[key] = found
        return found

    def _all_accesses(
        self, ctas: tuple[context.Cta, ...], accumulate: bool, disabled: Disabled | None
    ) -> Iterator[operations.MemoryAccess]:
        for number, cta in enumerate(ctas):
            yield operand(cta, self.b, self.b_format.slot_bytes)
            if isinstance(self.a, Gather):
                yield operand(cta, self.a, self.a_format.slot_bytes)
            parts: list[TensorBitFields] = [] if self.scaling is None else [self.scaling.a, self.scaling.b]
            for part in (*parts, *self.metadata):
                yield cells(cta, part.column, part.place, part.lane)
            for unit in self.units:
                if unit.cta != number:
                    continue
                lanes = np.arange(128)[unit.lanes]
                if isinstance(self.a, int):
                    yield from block(cta, self.a, self.a_columns, lanes, self.shift_a)
                if disabled is not None:
                    lanes = np.setdiff1d(lanes, disabled[number])
                yield from block(cta, self.column + unit.column, unit.columns, lanes, True, accumulate)

    def product(self, cta_group: CtaGroup, accumulate: bool) -> MatrixProduct:
        """What is multiplied, for observers."""
        found: MatrixProduct | None = cta_group.products.get((self, accumulate))
        if found is None:
            accumulator = cta_group.name, self.column, self.d_lane
            size = self.column, self.columns, self.lanes
            found = cta_group.products[self, accumulate] = MatrixProduct(
                self.operands, cta_group.ctas, accumulator, self.instruction.d, accumulate, *size, self._scale_factors, self._tensor_a
            )
        return found

    def _matrix_in_tensor_memory(self) -> TensorMatrix | None:
        """A, if it is in tensor memory: the lanes of the first unit of each CTA."""
        if not isinstance(self.a, int):
            return None
        lanes = {unit.cta: np.arange(128)[unit.lanes] for unit in reversed(self.units)}
        bits = 0 if self.shift_a else self.a_format.container
        stored = 2 if self.metadata else 1
        return TensorMatrix(self.a, self.a_columns, tuple(lanes[cta] for cta in sorted(lanes)), self.a_format.name, bits, stored)

    def share_of_b(self, shared: context.U8) -> Codes:
        """The columns of B in a CTA's shared memory, as rows of codes."""
        codes = self.b_format.shared(self.b.read(shared))[self.b_first :]
        if self.zeroed is not None:
            codes[self.zeroed] = 0
        return codes

    @property
    def _holders(self) -> list[Unit]:
        """A unit for each copy of the metadata, in order."""
        return list({(unit.cta, unit.bank): unit for unit in reversed(self.units)}.values())[::-1]

    def _gather_a(self, unit: Unit) -> numerics.OperandGather:
        if isinstance(self.a, Gather):
            found = shared_operand(self.a, self.a_format, unit.cta)
        else:
            found = tensor_operand(self.a, self.a_format, unit.lanes, self.a_columns, unit.cta)
        if self.scaling is not None:
            found = found._replace(scales=scales(self.scaling.a, unit.cta, slice(None)))
        return found._replace(metadata=metadata(self.metadata[unit.bank], unit.cta)) if self.metadata else found

    def _gather_b(self, whole: numerics.OperandGather, unit: Unit) -> numerics.OperandGather:
        found = whole._replace(first=self.b_first + unit.first)
        if self.zeroed is not None:
            found = found._replace(zeros=np.flatnonzero(self.zeroed[unit.first : unit.first + unit.columns]))
        if self.scaling is None:
            return found
        return found._replace(scales=scales(self.scaling.b, unit.cta, _part_of_b(unit)))

    def codes_of_a(self, shared: context.U8, words: context.U32, lanes: Lanes) -> Codes:
        """The elements [rows, k] of A, from shared memory or from these lanes of tensor memory."""
        if isinstance(self.a, Gather):
            return self.a_format.shared(self.a.read(shared))
        cells = words[self.a : self.a + self.a_columns, lanes]
        return self.a_format.tensor(np.ascontiguousarray(cells.T))

    def _check_metadata(self, cta: context.Cta, unit: Unit) -> None:
        """Raise `Misuse` if a code is not legal; 0 of a chunk that stores only zeros, as CUTLASS and zero fill write it, is."""
        codes = self.metadata[unit.bank].read(cta.tensor.words)
        wrong = ~np.isin(codes, legal_metadata(self.kind))
        if wrong.any():
            stored = self.codes_of_a(cta.shared, cta.tensor.words, unit.lanes)
            values = decode(stored, self.a_format.name).reshape(*codes.shape, -1)
            wrong &= (codes != 0) | (values != 0).any(axis=-1)
        if wrong.any():
            row, chunk = np.argwhere(wrong)[0]
            code = int(codes[row, chunk])
            legal = ", ".join(f"{known:#06b}" for known in legal_metadata(self.kind))
            message = f"the sparsity metadata of row {row}, chunk {chunk} is {code:#06b}, which selects nothing"
            raise context.Misuse("D707", message, fix=f"write {legal}; check the address and the sparsity selector")


def _part_of_b(unit: Unit) -> slice:
    """The columns of the whole B that a product takes."""
    return slice(unit.part * unit.columns, (unit.part + 1) * unit.columns)
