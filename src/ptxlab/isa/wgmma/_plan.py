"""Execution of wgmma.mma_async: decode the instruction and its descriptors, read the operands, multiply."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab._records import dataclass
from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.isa import context
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.tiles import MatrixOperand, MatrixProduct
from ptxlab.isa.wgmma._fragments import AccumulatorIndex, a_matrix, accumulator_index
from ptxlab.isa.wgmma._state import Accumulator, Share, Warpgroup
from ptxlab.isa.wgmma._undefined import multiply_undefined
from ptxlab.layout import Major, MetadataFragment, PlacedOperand, metadata_fragment
from ptxlab.native import BoundedCache
from ptxlab.tables import TYPE_BITS, WGMMA_M

__all__ = ["Form", "Operands", "Text", "codes_of_a", "form_of", "perform", "placed_operand"]

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

    ``matrices`` says the same for observers.
    """

    a: PlacedOperand | None
    b: PlacedOperand
    low: int
    high: int
    matrices: tuple[MatrixOperand, ...] = ()
    known: dict[int, tuple[context.MemoryAccess, ...]] = field(default_factory=dict)

    def accesses(self, cta: context.Cta) -> tuple[context.MemoryAccess, ...]:
        """The bytes that the operation reads in this CTA, for observers; cached for each CTA."""
        base = cta.shared_address
        found = self.known.get(base)
        if found is None:
            runs = [placed.runs for placed in (self.a, self.b) if placed is not None]
            accesses = (context.MemoryAccess(starts + np.uint64(base), sizes, False) for starts, sizes in runs)
            found = self.known[base] = context.MemoryAccess.together(accesses)
        return found


@dataclass(slots=True, eq=False)
class Form:
    """A decoded instruction: everything that does not depend on the descriptors.

    Attributes
    ----------
    k, stored : elements in a row of B and in a stored row of A (bytes for .b1); a sparse A stores half of them
    fragment, codes, chunks : for a sparse A: the location of a warp's metadata, the legal codes, the number of codes in a row
    rows, a_rows : indices of the registers of D, and of A if it is in registers
    registers, key : the registers of D as a set, and a key for their order and format
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
    registers: frozenset[int]
    key: bytes
    index: AccumulatorIndex
    fragment: MetadataFragment | None = None
    codes: tuple[int, ...] = ()
    plans: BoundedCache[tuple[int, int], Operands] = field(default_factory=lambda: BoundedCache(8192))

    def product(self, share: Share, cta: context.Cta, warpgroup: int) -> MatrixProduct:
        """What is multiplied, for observers."""
        return MatrixProduct(share.operands.matrices, (cta,), (cta, warpgroup, self.key), self.d, share.accumulate)

    @property
    def chunks(self) -> int:
        """The number of metadata codes in a row of a sparse A."""
        return 0 if self.fragment is None else int(self.fragment.lane.shape[1])

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
            found = Operands(of_a, of_b, min(low for low, _ in bounds), max(high for _, high in bounds), tuple(matrices))
            self.plans[a, b] = found
        if found.low < SHARED_RESERVED or found.high > warp.cta.shared.size:
            _outside(warp, found)
        return found

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
    return Form(
        d=d,
        a=a,
        b=b,
        n=int(n),
        k=int(k) // per_byte,
        stored=stored // per_byte,
        saturate=q.satfinite,
        negate_a=-1 in scales[:1],
        negate_b=-1 in scales[1:],
        major_a="k" if text.in_registers else majors[0],
        major_b=majors[-1],
        rows=rows,
        a_rows=warp.row_numbers(1) if text.in_registers else None,
        registers=frozenset(rows.tolist()),
        key=rows.tobytes() + d.encode(),
        index=accumulator_index(int(n), d == "f16"),
        fragment=_metadata_fragment(warp, a) if text.sparse else None,
        codes=numerics.legal_codes(a) if text.sparse else (),
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
    found = group.accumulators.get(form.key)
    if found is None:
        group.evict(form.registers)
        found = Accumulator.load(form.rows, form.index, share.frames, share.accumulate)
        group.accumulators[form.key] = found
    _product(form, codes_of_a(share, cta), share.operands.b.read(cta.shared), share.metadata, found.cells, share.accumulate)
    if share.undefined is not None:
        multiply_undefined(share, found)
    if launch.early_results:
        group.evict(form.registers)
    group.performed = share.number + 1
    if group.waiters:
        launch.wake(group.waiters)


def codes_of_a(share: Share, cta: context.Cta) -> NDArray[Any]:
    """The elements [64, k] of A that are stored, from registers or shared memory."""
    if share.a_words is not None:
        return a_matrix(share.a_words, np.dtype(f"u{_container(share.form.a)}"))
    assert share.operands.a is not None
    return share.operands.a.read(cta.shared)


def _product(
    form: Form, a: NDArray[Any], b: NDArray[Any], metadata: NDArray[np.uint8] | None, cells: NDArray[np.uint32], accumulate: bool
) -> None:
    if form.a == "b1":
        common = np.ascontiguousarray(b).view(np.uint64)[:, None] & np.ascontiguousarray(a).view(np.uint64)
        counted = np.bitwise_count(common).sum(axis=2, dtype=np.uint32)
        np.add(cells, counted, out=cells) if accumulate else np.copyto(cells, counted)
        return
    codes = None if metadata is None else metadata.reshape(WGMMA_M, -1)
    left = numerics.prepare(a, form.a, role="a", kind=None, negate=form.negate_a, metadata=codes)
    right = numerics.prepare(b, form.b, role="b", kind=None, negate=form.negate_b)
    numerics.mma_prepared(None, form.d, left, right, cells, arch="wgmma", accumulate=accumulate, saturate=form.saturate)
