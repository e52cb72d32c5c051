"""An mma of one warp in numbers, for observers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.isa import context
from ptxlab.isa.mma._fragments import register_matrix, scatter_d, write
from ptxlab.isa.operations.matrices import RegisterMatrix
from ptxlab.isa.operations.products import HeldLine, Product, ProductPlace

__all__ = ["WarpProduct"]

Codes = NDArray[Any]


class WarpProduct(Product):
    """An mma that a warp has just executed: its matrices, and the warp.

    What D adds to is known by its bits: the same bits as the D of an earlier mma of the warp, wherever moves have taken them.
    """

    def __init__(
        self,
        warp: context.WarpContext,
        k: int,
        bits: int,
        types: tuple[str, str, str],
        matrices: tuple[Codes, Codes, Codes, Codes],
        lanes: Mapping[str, NDArray[np.intp]],
    ) -> None:
        self._a, self._b, c, self._d = matrices
        self._bits, self._lanes = bits, lanes
        self.m, self.n, self.k = len(self._a), len(self._b), k
        self.a, self.b, self.d = types
        self.sparse = self._a.shape[1] < self._b.shape[1]
        self._warp, self._added = warp, c.tobytes()
        self.accumulate = self._added != bytes(len(self._added))
        self._half = self.d == "f16"

    @property
    def ctas(self) -> tuple[context.Cta, ...]:
        """The CTA."""
        return (self._warp.cta,)

    @property
    def accumulator(self) -> Hashable:
        """The warp and the bits of C."""
        return self._warp.cta, self._warp.warp_id, self._added

    @property
    def result(self) -> Hashable:
        """What `accumulator` of an mma is that adds to this D."""
        return self._warp.cta, self._warp.warp_id, self._d.tobytes()

    def facts(self) -> tuple[tuple[str, tuple[tuple[str, object], ...]], ...]:
        """All operands are in registers."""
        return (("D in registers", (("warp", self._warp.warp_id),)),)

    def place(self, m: int, n: int) -> ProductPlace:
        """The register that holds the element."""
        marks = np.zeros((self.m, self.n), self._d.dtype)
        marks[m, n] = 1
        register, lane = np.argwhere(scatter_d(marks, self._half))[0]
        return ProductPlace(self._warp.cta, int(lane), warp=self._warp.warp_id, register=int(register))

    def in_registers(self) -> tuple[RegisterMatrix, ...]:
        """A and B."""
        return tuple(
            register_matrix(name, element, self._bits, *codes.shape, self.k // codes.shape[1])
            for name, element, codes in (("A", self.a, self._a), ("B", self.b, self._b))
        )

    def held(self, operand: str, line: int) -> tuple[HeldLine, ...]:
        """All are in registers, also scale factors and metadata."""
        if operand not in self._lanes:
            return super().held(operand, line)
        lanes = distinct(self._lanes[operand][line]).tolist()
        return (HeldLine(self._warp.cta, self._warp.warp_id, operand, tuple((0, lane) for lane in lanes)),)

    @property
    def first_warp(self) -> int:
        """The warp."""
        return self._warp.warp_id

    def frames(self) -> tuple[NDArray[np.uint32], ...]:
        """Those of the warp."""
        return (self._warp.rows,)

    def codes(self, operand: str) -> Codes:
        """The elements that the registers hold."""
        return self._a if operand == "a" else self._b

    def read_d(self) -> Codes:
        """The elements of D."""
        return self._d

    def write_d(self, bits: Codes) -> None:
        """Write the registers of D."""
        self._d = bits.astype(self._d.dtype)
        write(self._warp, scatter_d(self._d, self._half), max(8 * self._d.itemsize, 32))
