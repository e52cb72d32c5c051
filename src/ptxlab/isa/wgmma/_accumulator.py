"""A matrix D of a warpgroup: in the registers of the four warps, or in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa.operands import Resolved
from ptxlab.isa.warpgroup_words import Record
from ptxlab.isa.wgmma._fragments import AccumulatorIndex

if TYPE_CHECKING:
    from ptxlab.isa.wgmma._plan import Form

__all__ = ["Accumulator", "Undefined"]

_ALL_LANES = 0xFFFF_FFFF
_IN_FLIGHT, _LATEST, _STORE = int(Record.IN_FLIGHT), int(Record.LATEST), int(Record.STORE)

U32 = NDArray[np.uint32]


class Accumulator:
    """A matrix D.

    Attributes
    ----------
    cells : its elements in flight, uint32[column, row]
    undefined : of its undefined bits in flight, in a run that follows them through memory
    """

    __slots__ = ("_bases", "_form", "_record", "cells", "undefined")

    def __init__(self, form: Form, record: memoryview, bases: int) -> None:
        self._form, self._record, self._bases = form, record, bases
        self.cells: U32 = np.zeros(form.index.from_registers.shape, np.uint32)
        self.undefined: Undefined | None = None
        record[_STORE] = form.moves.store_address

    @property
    def index(self) -> AccumulatorIndex:
        """How its elements are in registers."""
        return self._form.index

    @property
    def in_flight(self) -> bool:
        """Whether the registers do not hold it."""
        return bool(self._record[_IN_FLIGHT])

    @property
    def latest(self) -> int:
        """The number of the last instruction on it that a warp has issued."""
        found: int = self._record[_LATEST]
        return found

    def take(self, needed: bool) -> None:
        """It is in flight from now on; the values in the registers are read only if they are ``needed``."""
        if needed:
            self.load()
        self.undefined = None
        self._record[_IN_FLIGHT] = 1

    def load(self) -> None:
        """Read the registers."""
        self._form.moves.load.run(self._bases, False, 0)

    def store(self) -> None:
        """Write the registers."""
        self._form.moves.store.run(self._bases, False, 0)

    def write_back(self) -> None:
        """It is in flight no longer."""
        self.store()
        if self.undefined is not None:
            self.undefined.store(self.index)
        self._record[_IN_FLIGHT] = 0


@dataclass(slots=True, eq=False)
class Undefined:
    """The undefined bits of a matrix D in flight: of its elements uint32[column, row], with their origin, and the registers for them."""

    cells: U32
    origin: int
    warps: list[context.WarpContext]
    operand: Resolved

    def store(self, index: AccumulatorIndex) -> None:
        """Give them to the registers."""
        for warp, masks in zip(self.warps, index.of_cells(self.cells), strict=True):
            warp.set_undefined(self.operand, masks, self.origin, _ALL_LANES)
