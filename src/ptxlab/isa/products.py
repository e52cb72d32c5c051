"""A matrix instruction in numbers: its shape, its descriptors, and where its operands and its accumulator are.

Families make a `Product` for observers; nothing is read before an observer asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.context import Cta

__all__ = ["NO_BYTES", "Product", "ProductPlace"]

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


class Product(ABC):
    """One executed product D = A B or D = A B + D, with A [m, k] and B [n, k].

    Attributes
    ----------
    m, n, k : shape of the instruction; a sparse A stores fewer elements of a row than k
    a, b, d : element types
    accumulate : whether what D (or C) held is added
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    accumulate: bool

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

    @abstractmethod
    def read_d(self) -> Codes:
        """The bits of D [m, n], after the product."""

    @abstractmethod
    def write_d(self, bits: Codes) -> None:
        """Replace D, after the product."""

    def bytes_of(self, operand: str, line: int) -> tuple[tuple[Cta, NDArray[np.intp]], ...]:
        """The bytes of row ``line`` of A, or of row ``line`` of B (a column of the product), in shared memory."""
        return NO_BYTES
