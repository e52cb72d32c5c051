"""A matrix instruction in numbers: shape, descriptors, and where its operands and its accumulator are, wherever that is.

Families make a `Product` for observers, and nothing is read before one asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.context import Cta
from ptxlab.isa.operations.matrices import RegisterMatrix

__all__ = ["NO_BYTES", "HeldLine", "Product", "ProductPlace", "Rate"]

_WARP = 32

Codes = NDArray[Any]

NO_BYTES: tuple[tuple[Cta, NDArray[np.intp]], ...] = ()
"""The bytes of an operand that is not in shared memory."""


class ProductPlace(NamedTuple):
    """Where an element of D is: tensor memory (CTA, lane, column), or a register (CTA, lane, warp and the number of the register)."""

    cta: Cta
    lane: int
    column: int | None = None
    warp: int | None = None
    register: int | None = None

    def __str__(self) -> str:
        if self.column is not None:
            return f"lane {self.lane}, column {self.column} of tensor memory"
        return f"register {self.register} of D in warp {self.warp}, lane {self.lane}"


class Rate(NamedTuple):
    """What decides how many operations tensor cores do in a cycle.

    Attributes
    ----------
    types : ``f64``, ``tf32``, ``f16``, ``f8`` (also 6 bits), ``f4``, ``int8``, or the types themselves for those that are older
    sparse : whether A is sparse
    """

    types: str
    sparse: bool

    def __str__(self) -> str:
        return f"sparse {self.types}" if self.sparse else self.types


_RATES = {
    **{name: name for name in ("f64", "tf32", "f16")},
    "bf16": "f16",
    **dict.fromkeys(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), "f8"),
    **dict.fromkeys(("s8", "u8"), "int8"),
}
_NARROW = 64
"""Elements of k of a dense product of 4-bit floats that runs at their own rate; the kinds that also take 8-bit ones have fewer."""


class HeldLine(NamedTuple):
    """Where a row of an operand is that is not in shared memory: in registers of a warp, or in cells of tensor memory.

    Attributes
    ----------
    warp, operand, registers : the warp, what the row of the instruction calls the operand, and of each word the number of its register
        and the lane
    cells : the lanes of tensor memory, and the columns
    """

    cta: Cta
    warp: int = -1
    operand: str = ""
    registers: tuple[tuple[int, int], ...] = ()
    cells: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


class Product(ABC):
    """One executed product D = A B or D = A B + D, with A [m, k] and B [n, k].

    Attributes
    ----------
    m, n, k : shape of the instruction; a sparse A stores fewer elements of a row than k
    a, b, d : element types
    accumulate : whether what D (or C) held is added
    sparse : whether A is stored with metadata
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    accumulate: bool
    sparse: bool = False

    @property
    def rate(self) -> Rate:
        """By what tensor cores are fast."""
        if self.a == self.b == "e2m1" and self.k >= _NARROW * (2 if self.sparse else 1):
            return Rate("f4", self.sparse)
        return Rate(_RATES.get(self.a, self.a), self.sparse)

    @property
    @abstractmethod
    def ctas(self) -> tuple[Cta, ...]:
        """The CTAs whose memory it uses."""

    @property
    @abstractmethod
    def accumulator(self) -> Hashable:
        """Identifies where D is; with ``accumulate``, the product is added to the one before with the same accumulator."""

    @property
    def result(self) -> Hashable:
        """What `accumulator` of a product is that adds to this D."""
        return self.accumulator

    @abstractmethod
    def facts(self) -> tuple[tuple[str, tuple[tuple[str, object], ...]], ...]:
        """Descriptors and addresses: the name of each, and its fields."""

    @abstractmethod
    def place(self, m: int, n: int) -> ProductPlace:
        """Where an element of D is."""

    @abstractmethod
    def codes(self, operand: str) -> Codes:
        """The elements of ``"a"`` [m, stored k] or ``"b"`` [n, k] as the instruction takes them, in unsigned numbers."""

    def scale_factors(self, operand: str) -> tuple[str, Codes] | None:
        """The scale factors of ``"a"`` [m, factors] or ``"b"`` [n, factors], and their type; None without block scaling."""
        return None

    def metadata(self) -> Codes | None:
        """The sparsity metadata [m, chunks of k] of a sparse A, as codes of 4 bits."""
        return None

    @abstractmethod
    def read_d(self) -> Codes:
        """The bits of D [m, n] as they are now."""

    @abstractmethod
    def write_d(self, bits: Codes) -> None:
        """Replace D, after the product."""

    def in_registers(self) -> tuple[RegisterMatrix, ...]:
        """The matrices in registers, A before B."""
        return ()

    def frames(self) -> tuple[NDArray[np.uint32], ...]:
        """The registers of the warps that hold matrices, with which compiled code works: uint32[row, lane]."""
        return ()

    def held(self, operand: str, line: int) -> tuple[HeldLine, ...]:
        """Where row ``line`` of ``"a"`` or ``"b"`` is, unless it is in shared memory; or what belongs to it.

        That are ``"scale_a"`` and ``"scale_b"``, the scale factors of the row, and ``"metadata"``, the sparsity metadata of a row of A.
        """
        found = next((matrix for matrix in self.in_registers() if matrix.name.lower() == operand), None)
        if found is None:
            return ()
        register, lane = np.divmod(found.index[line] % (found.index.size // found.warps), _WARP)
        registers = tuple(zip(register.tolist(), lane.tolist(), strict=True))
        warp = self.first_warp + line * found.warps // len(found.index)
        return (HeldLine(self.ctas[0], warp, found.operand, registers),)

    @property
    def first_warp(self) -> int:
        """The first of the warps that hold matrices in registers."""
        return -1

    def bytes_of(self, operand: str, line: int) -> tuple[tuple[Cta, NDArray[np.intp]], ...]:
        """The bytes of row ``line`` of A, or of row ``line`` of B (a column of the product), in shared memory."""
        return NO_BYTES
