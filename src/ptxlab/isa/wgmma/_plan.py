"""Execution of wgmma.mma_async: decode the instruction and its descriptors, read the operands, multiply."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab._records import dataclass
from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.isa import context, operations
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.warpgroup_words import A_BYTES, WARPS, Base
from ptxlab.isa.wgmma._fragments import AccumulatorIndex, a_index, a_matrix, accumulator_index
from ptxlab.isa.wgmma._matrices import matrices_of
from ptxlab.isa.wgmma._state import Share, Warpgroup
from ptxlab.isa.wgmma._undefined import multiply_undefined
from ptxlab.layout import Major, MetadataFragment, PlacedOperand, metadata_fragment
from ptxlab.native import BoundedCache, address_of
from ptxlab.tables import TYPE_BITS, WGMMA_M

__all__ = ["Form", "Operands", "Text", "codes_of_a", "form_of", "perform", "placed_operand"]

_REGISTER_BYTES = 4
_METADATA = 3
"""The position of the metadata of a sparse instruction."""
_MMA = "Asynchronous wgmma Instructions: wgmma.mma_async"


@dataclass(frozen=True, slots=True)
class Text:
    """The operand list of an instruction: A in registers or by descriptor; if sparse, metadata and selector before scale-d."""

    in_registers: bool
    sparse: bool

    @property
    def enable(self) -> int:
        """The position of scale-d."""
        return 5 if self.sparse else 3


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The matrices in shared memory (``a`` is None if A is in registers), and the range of offsets that they occupy.

    ``matrices`` says the same for observers. ``program`` is compiled code for the whole product; None for .b1. ``repetitions`` are what
    `WarpContext.repeat_share` is given, by whether the product is added to D.
    """

    a: PlacedOperand | None
    b: PlacedOperand
    low: int
    high: int
    matrices: tuple[MatrixOperand, ...] = ()
    program: numerics.MmaProgram | None = None
    repetitions: dict[bool, tuple[int, tuple[int, ...], object]] = field(default_factory=dict)
    known: BoundedCache[int, tuple[operations.MemoryAccess, ...]] = field(default_factory=lambda: BoundedCache(64))

    def accesses(self, cta: context.Cta) -> tuple[operations.MemoryAccess, ...]:
        """The bytes that the operation reads in this CTA, for observers; cached for each CTA."""
        base = cta.shared_address
        found = self.known.get(base)
        if found is None:
            runs = [placed.runs for placed in (self.a, self.b) if placed is not None]
            accesses = (operations.MemoryAccess(starts + np.uint64(base), sizes, False) for starts, sizes in runs)
            found = self.known[base] = operations.MemoryAccess.together(accesses)
        return found


class Moves:
    """Programs that move an accumulator from its registers to its place and back.

    ``store_address`` is the host address of what compiled code stores with (`ptxlab.isa.warpgroup_words.Record`).
    """

    __slots__ = ("_store", "load", "store", "store_address")

    def __init__(self, index: AccumulatorIndex, rows: NDArray[np.intp], number: int) -> None:
        self.load, self.store = index.moves(rows, number)
        function, words = self.store.repetition(False, 0)
        self._store: NDArray[np.int64] = np.array([function, *words], np.int64)
        self.store_address = address_of(self._store)


@dataclass(slots=True, eq=False)
class Form:
    """A decoded instruction: everything that does not depend on the descriptors.

    Attributes
    ----------
    k, stored : elements in a row of B and in a stored row of A (bytes for .b1); a sparse A stores half of them
    fragment, codes : for a sparse A: the location of a warp's metadata, and the legal codes
    metadata_row, used : of a sparse A: the index of the register with metadata, and the bits that are used, uint32[lane]
    metadata : those that are a constant, uint32[lane]
    rows, a_rows : indices of the registers of D, and of A if it is in registers
    key, number : the registers of D, their order and format, and the number of this accumulator in the program
    kernel : compiled code for the product; None for .b1
    """

    d: str
    a: str
    b: str
    n: int
    k: int
    stored: int
    saturate: bool
    negate_a: bool
    negate_b: bool
    major_a: Major
    major_b: Major
    rows: NDArray[np.intp]
    a_rows: NDArray[np.intp] | None
    key: bytes
    number: int
    moves: Moves
    kernel: numerics.MmaKernel | None
    index: AccumulatorIndex
    fragment: MetadataFragment | None = None
    codes: tuple[int, ...] = ()
    metadata_row: int = -1
    metadata: NDArray[np.uint32] | None = None
    used: NDArray[np.uint32] | None = None
    plans: BoundedCache[tuple[int, int], Operands] = field(default_factory=lambda: BoundedCache(512))

    def operands(self, warp: context.WarpContext, a: int, b: int) -> Operands:
        """Decode two descriptors, and check that the matrices are inside the CTA's shared memory."""
        found = self.plans.get((a, b))
        if found is None:
            of_a = None if self.a_rows is not None else self._gather(warp, a, "A", WGMMA_M, self.stored, self.a, self.major_a)
            of_b = self._gather(warp, b, "B", self.n, self.k, self.b, self.major_b)
            bounds = [g.bounds for g in (of_a, of_b) if g is not None]
            parts = (("A", of_a, self.major_a, self.a, self.k // self.stored, a), ("B", of_b, self.major_b, self.b, 1, b))
            matrices = [
                MatrixOperand.of(name, placed, major, element, 8 * _container(element), share, WgmmaDescriptor.decode(raw))
                for name, placed, major, element, share, raw in parts
                if placed is not None
            ]
            program = self._program(of_a, of_b)
            found = Operands(of_a, of_b, min(low for low, _ in bounds), max(high for _, high in bounds), tuple(matrices), program)
            self.plans[a, b] = found
        if found.low < SHARED_RESERVED or found.high > warp.cta.shared.size:
            _outside(warp, found)
        return found

    def _program(self, a: PlacedOperand | None, b: PlacedOperand) -> numerics.MmaProgram | None:
        """Compiled code for the product of these operands."""
        if self.kernel is None:
            return None
        size = _container(self.a)
        if a is None:
            left = numerics.OperandGather(Base.A, 0, a_index().reshape(-1), _REGISTER_BYTES, size * self.stored, size)
        else:
            left = _gathered(a)
        if self.fragment is not None:
            left = left._replace(metadata=_metadata_gather(self.fragment))
        cells = numerics.AccumulatorRef(Base.CELLS + self.number, 0, _REGISTER_BYTES * WGMMA_M)
        return self.kernel.program([(left, _gathered(b), cells)])

    def _gather(self, warp: context.WarpContext, raw: int, what: str, rows: int, k: int, element: str, major: Major) -> PlacedOperand:
        descriptor = WgmmaDescriptor.decode(raw)
        findings = descriptor.findings()
        if findings:
            first = findings[0]
            warp.fault(
                first.code,
                f"the matrix descriptor {raw:#018x} of {what} is not legal: {first.message}",
                reason=first.section,
                fix=first.fix or f"correct {', '.join(dict.fromkeys(f.field for f in findings))}",
                details=(*_facts(raw), *(("also", f.message) for f in findings[1:])),
            )
        return PlacedOperand.of(descriptor, major, rows, k, _container(element))


def _gathered(placed: PlacedOperand) -> numerics.OperandGather:
    offset, order, over_rows, over_k = placed.slots
    return numerics.OperandGather(Base.SHARED, offset, order, 16, over_rows, over_k)


def _metadata_gather(fragment: MetadataFragment) -> numerics.MetadataGather:
    """The metadata of all rows, in the registers of the warps."""
    warp = np.arange(WARPS)[:, None, None] * 32
    places = A_BYTES + _REGISTER_BYTES * (warp + fragment.lane) + fragment.bit // 8
    shifts = np.broadcast_to((fragment.bit % 8).astype(np.uint8), places.shape)
    return numerics.MetadataGather(Base.A, *(np.ascontiguousarray(each.reshape(WGMMA_M, -1).T) for each in (places, shifts)))


def _used(fragment: MetadataFragment) -> NDArray[np.uint32]:
    """The bits of a register that are metadata, for each lane."""
    found = np.zeros(32, np.uint32)
    np.bitwise_or.at(found, fragment.lane, np.uint32(0xF) << fragment.bit.astype(np.uint32))
    return found


def _container(element: str) -> int:
    """Bytes of an element in a gathered array; eight elements of .b1 share a byte."""
    return 1 if element == "b1" else TYPE_BITS[element] // 8


def _facts(raw: int) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in WgmmaDescriptor.decode(raw).fields())


def _outside(warp: context.WarpContext, operands: Operands) -> None:
    size = warp.cta.shared.size
    for operand in operands.matrices:
        low, high = operand.placed.bounds
        if low < SHARED_RESERVED or high > size:
            warp.fault(
                "D704",
                f"{operand.name} reads shared memory from {low:#x} to {high - 1:#x}; the CTA has {SHARED_RESERVED:#x} to {size - 1:#x}",
                reason="Matrix Descriptor Format",
                fix=warp.machine.advice(operand, warp.cta)
                or "check start address, leading and stride dimension byte offset of the descriptor (each holds bytes >> 4)",
                details=tuple((name, str(value)) for name, value in operand.descriptor.fields()),
            )


def _immediate(warp: context.WarpContext, position: int, name: str, allowed: tuple[int, ...]) -> int:
    operand = warp.op.operands[position]
    if not isinstance(operand, Const) or operand.value not in allowed:
        warp.fault("W904", f"{name} must be an immediate, {' or '.join(map(str, allowed))}", reason=_MMA)
    return operand.value


def form_of(warp: context.WarpContext, text: Text) -> Form:
    """Decode an instruction."""
    q = warp.op.q
    d, a, b = q.types.split(".")
    n, _, k = q.shape[4:].partition("k")
    per_byte = 8 if a == "b1" else 1
    stored = int(k) // 2 if text.sparse else int(k)
    start = text.enable + 1
    count = len(warp.op.operands)
    scales = [_immediate(warp, start + i, name, (-1, 1)) for i, name in enumerate(("imm-scale-a", "imm-scale-b")) if start + i < count]
    names = ("imm-trans-b",) if text.in_registers else ("imm-trans-a", "imm-trans-b")
    transposed = [_immediate(warp, start + 2 + i, name, (0, 1)) for i, name in enumerate(names) if start + 2 + i < count]
    majors: list[Major] = ["mn" if flag else "k" for flag in transposed] or ["k"]
    rows = warp.row_numbers(0)
    number = warp.machine.of_program(matrices_of).number_of(warp.op)
    index = accumulator_index(int(n), d == "f16")
    negate = -1 in scales[:1], -1 in scales[1:]
    fragment = _metadata_fragment(warp, a) if text.sparse else None
    metadata_row = next(iter(warp.row_numbers(_METADATA).tolist()), -1) if text.sparse else -1
    return Form(
        d=d,
        a=a,
        b=b,
        n=int(n),
        k=int(k) // per_byte,
        stored=stored // per_byte,
        saturate=q.satfinite,
        negate_a=negate[0],
        negate_b=negate[1],
        major_a="k" if text.in_registers else majors[0],
        major_b=majors[-1],
        rows=rows,
        a_rows=warp.row_numbers(1) if text.in_registers else None,
        key=rows.tobytes() + d.encode(),
        number=number,
        moves=Moves(index, rows, number),
        kernel=numerics.mma_kernel(None, (d, a, b), WGMMA_M, int(n), int(k), negate, bool(q.satfinite), text.sparse) if a != "b1" else None,
        index=index,
        fragment=fragment,
        codes=numerics.legal_codes(a) if text.sparse else (),
        metadata_row=metadata_row,
        metadata=warp.values(_METADATA).astype(np.uint32) if text.sparse and metadata_row < 0 else None,
        used=None if fragment is None else _used(fragment),
    )


def _metadata_fragment(warp: context.WarpContext, element: str) -> MetadataFragment:
    """The location of the metadata, which the sparsity selector determines."""
    bits = TYPE_BITS[element]
    selector = _immediate(warp, 4, "the sparsity selector", (0, 1) if bits >= 16 else (0,))
    return metadata_fragment(bits, 8 if bits >= 16 else 16, selector)


def placed_operand(op: Op, what: str, raw: int) -> PlacedOperand:
    """Where the elements of A or B lie that a legal descriptor describes."""
    _, a, b = op.q.types.split(".")
    at = dict(zip([name for name, _ in op.row.operands], op.operands, strict=False))
    n, _, k = op.q.shape[4:].partition("k")
    element = a if what == "A" else b
    depth = int(k) // (8 if a == "b1" else 1)
    flag = at.get(f"imm-trans-{what.lower()}")
    major: Major = "mn" if isinstance(flag, Const) and flag.value else "k"
    rows, columns = (WGMMA_M, depth // (2 if "sp-meta" in at else 1)) if what == "A" else (int(n), depth)
    return PlacedOperand.of(WgmmaDescriptor.decode(raw), major, rows, columns, _container(element))


def perform(group: Warpgroup, share: Share, cta: context.Cta, launch: context.Machine) -> None:
    """Read the operands and multiply."""
    form = share.form
    held = group.held(form)
    if not held.in_flight:
        group.evict(form)
        held.take(share.accumulate)
    if share.operands.program is not None:
        group.run(share)
    else:
        _count_common(codes_of_a(share, cta), share.operands.b.read(cta.shared), held.cells, share.accumulate)
    if share.undefined is not None:
        multiply_undefined(share, held)
    if launch.early_results:
        held.write_back()
    group.complete(share.number, launch)


def codes_of_a(share: Share, cta: context.Cta) -> NDArray[Any]:
    """The elements [64, k] of A that are stored, from registers or shared memory."""
    if share.a_words is not None:
        return a_matrix(share.a_words, np.dtype(f"u{_container(share.form.a)}"))
    assert share.operands.a is not None
    return share.operands.a.read(cta.shared)


def _count_common(a: NDArray[Any], b: NDArray[Any], cells: NDArray[np.uint32], accumulate: bool) -> None:
    """The product of .b1: the bits that a row of A and a column of B have in common."""
    common = np.ascontiguousarray(b).view(np.uint64)[:, None] & np.ascontiguousarray(a).view(np.uint64)
    counted = np.bitwise_count(common).sum(axis=2, dtype=np.uint32)
    np.add(cells, counted, out=cells) if accumulate else np.copyto(cells, counted)
