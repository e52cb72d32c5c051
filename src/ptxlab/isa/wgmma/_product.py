"""A wgmma.mma_async in numbers, for observers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.isa import context
from ptxlab.isa.operations.matrices import RegisterMatrix
from ptxlab.isa.operations.products import NO_BYTES, HeldLine, Product, ProductPlace
from ptxlab.isa.warpgroup_words import WARPS
from ptxlab.isa.wgmma._fragments import a_index
from ptxlab.isa.wgmma._plan import codes_of_a
from ptxlab.isa.wgmma._state import Share, Warpgroup
from ptxlab.tables import WGMMA_M

__all__ = ["WarpgroupProduct"]

Codes = NDArray[Any]


class WarpgroupProduct(Product):
    """A wgmma.mma_async that all four warps have issued."""

    m = WGMMA_M

    def __init__(self, group: Warpgroup, share: Share, cta: context.Cta) -> None:
        form = share.form
        self.n, self.k, self.a, self.b, self.d = form.n, form.k, form.a, form.b, form.d
        self.accumulate, self.sparse = share.accumulate, share.metadata is not None
        self._group, self._share, self._cta = group, share, cta

    @property
    def ctas(self) -> tuple[context.Cta, ...]:
        """The CTA."""
        return (self._cta,)

    @property
    def accumulator(self) -> Hashable:
        """The warpgroup and the registers of D."""
        return self._cta, self._group.index, self._share.form.key

    def facts(self) -> tuple[tuple[str, tuple[tuple[str, object], ...]], ...]:
        """The matrix descriptors, and what the instruction says about the operands."""
        form, share = self._share.form, self._share
        flags = (("major of A", form.major_a), ("major of B", form.major_b), ("negate A", form.negate_a), ("negate B", form.negate_b))
        found: list[tuple[str, tuple[tuple[str, object], ...]]] = [("instruction", flags)]
        given = ([] if share.a_words is not None else [("A", share.a)]) + [("B", share.b)]
        found += [(f"descriptor of {name}", tuple(WgmmaDescriptor.decode(raw).fields())) for name, raw in given]
        if share.a_words is not None:
            found.append(("A in registers", (("registers", share.a_words.shape[1]),)))
        registers = form.rows
        found.append(("D in registers", (("warpgroup", self._group.index), ("registers", len(registers)))))
        return tuple(found)

    def place(self, m: int, n: int) -> ProductPlace:
        """The register: the flat index of the element is [warp, register, lane, value]."""
        index = self._share.form.index
        warp, register, lane, _ = np.unravel_index(int(index.from_registers[n, m]), (WARPS, index.registers, 32, index.values))
        return ProductPlace(self._cta, int(lane), warp=WARPS * self._group.index + int(warp), register=int(register))

    def in_registers(self) -> tuple[RegisterMatrix, ...]:
        """A, unless it is in shared memory."""
        if self._share.a_words is None:
            return ()
        form = self._share.form
        return (RegisterMatrix("A", "a", form.a, 256 // form.stored, form.k // form.stored, a_index(), WARPS),)

    def held(self, operand: str, line: int) -> tuple[HeldLine, ...]:
        """Of a warp of the group A, unless it is in shared memory, and the metadata of its rows."""
        fragment = self._share.form.fragment
        if operand != "metadata" or fragment is None:
            return super().held(operand, line)
        warp, row = divmod(line, WGMMA_M // WARPS)
        lanes = distinct(fragment.lane[row]).tolist()
        return (HeldLine(self._cta, self.first_warp + warp, "sp-meta", tuple((0, lane) for lane in lanes)),)

    @property
    def first_warp(self) -> int:
        """The first one of the warpgroup."""
        return WARPS * self._group.index

    def frames(self) -> tuple[NDArray[np.uint32], ...]:
        """Those of the warps of the warpgroup."""
        return tuple(self._group.frames)

    def codes(self, operand: str) -> Codes:
        """The elements of A, from shared memory or registers, or of B."""
        return codes_of_a(self._share, self._cta) if operand == "a" else self._share.operands.b.read(self._cta.shared)

    def metadata(self) -> Codes | None:
        """Read from registers when the instruction is issued, of each warp for its rows."""
        found = self._share.metadata
        return None if found is None else found.reshape(WGMMA_M, -1)

    def bytes_of(self, operand: str, line: int) -> tuple[tuple[context.Cta, NDArray[np.intp]], ...]:
        """The bytes of the row, unless A is in registers."""
        placed = {"a": self._share.operands.a, "b": self._share.operands.b}.get(operand)
        return NO_BYTES if placed is None else ((self._cta, placed.bytes_of(line)),)

    def read_d(self) -> Codes:
        """The elements of D in flight, or in the registers if they are there already."""
        held = self._group.held(self._share.form)
        if not held.in_flight:
            held.load()
        found = held.cells.T
        return found.astype(np.uint16) if self.d == "f16" else found.copy()

    def write_d(self, bits: Codes) -> None:
        """Change D in flight, or in the registers."""
        held = self._group.held(self._share.form)
        held.cells[:] = bits.T
        if not held.in_flight:
            held.store()
