"""The rows of a warp's registers in its frame, their undefined bits, and where these and what registers hold come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.listed_words import source_maker
from ptxlab.engine.lowering.register_use import flatten, operand_registers
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operands import Op, Reg, Resolved

if TYPE_CHECKING:
    from ptxlab.engine.program import NotedPart
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.frame import Frame

__all__ = ["ALL_LANES", "LANE_BITS", "RANKS", "TYPES", "VIEWS", "ZEROS", "RegisterRows", "lanes_of"]

ALL_LANES = 0xFFFF_FFFF

LANE_BITS = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
VIEWS = {8: 1, 16: 1, 32: 2, 64: 3}
"""For the bits of a register the view of its frame whose elements have as many (16 for 8)."""
TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_DEFINED = np.zeros(32, np.uint32)
ZEROS, RANKS = 4, 5
"""Views that hold no registers: zeros, and the base of the CTA's shared window, to which constants and offsets are added."""


@lru_cache(maxsize=64)
def _row(value: int) -> memoryview:
    """A value in all lanes."""
    return np.full(32, value, np.uint64).data


@lru_cache(maxsize=4096)
def lanes_of(mask: int) -> NDArray[np.intp]:
    """Return the indices of the lanes in a mask."""
    return np.flatnonzero(LANE_BITS & np.uint32(mask))


class RegisterRows:
    """The registers of a warp as rows of its frame, and their undefined bits; see `ptxlab.isa.WarpContext`."""

    __slots__ = (
        "_arrays",
        "_names",
        "_offsets",
        "_rank_bits",
        "_shadows",
        "_views",
        "_widths",
        "frame",
        "launch",
        "mask",
        "op",
        "rows",
    )

    op: Op

    def __init__(self, launch: Launch, rank_bits: int, frame: Frame) -> None:
        self.launch = launch
        self.mask = 0
        self.frame = frame
        self._arrays = frame.arrays
        self.rows = frame.rows
        self._views = (*frame.views, _row(0), _row(rank_bits))
        self._offsets = launch.register_offsets
        self._shadows = launch.register_shadows
        self._widths = launch.register_widths
        self._names = launch.symbol_addresses
        self._rank_bits = rank_bits

    def lanes(self) -> NDArray[np.intp]:
        """Indices of the lanes in ``mask``."""
        return lanes_of(self.mask)

    def one_lane(self) -> int:
        """The lowest executing lane."""
        return (self.mask & -self.mask).bit_length() - 1

    def row_numbers(self, operand: Resolved | int) -> NDArray[np.intp]:
        """Return the rows of the 32-bit registers of a vector, as indices of ``rows``."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        return np.array([self._offsets[r] >> 7 for r in operand_registers(operand)], np.intp)

    def row_bytes(self, position: int) -> bytes:
        """The row of a register as it is; empty for a constant."""
        operand = self.op.operands[position]
        if type(operand) is not Reg:
            return b""
        at = self._offsets[operand.index]
        width = self._widths[operand.index]
        return self._views[0][at : at + (4 if width == 1 else 4 * width)].tobytes()

    def undefined(self, operand: Resolved | int) -> NDArray[Any]:
        """The undefined bits of the elements of an operand, [elements, 32]; see `ptxlab.isa.WarpContext`."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        rows = [self._undefined_row(item.index) if isinstance(item, Reg) else _DEFINED for item in flatten(operand)]
        return np.stack(rows)

    def _undefined_row(self, register: int) -> NDArray[Any]:
        at, width = self._shadows[register], self._widths[register]
        if at < 0:
            return np.zeros(32, TYPES.get(max(width, 16), np.uint32))
        if width == 1:
            lanes: NDArray[np.bool_] = (np.uint32(self._views[2][at >> 2]) & LANE_BITS) != 0
            return lanes
        if width == 128:
            wide: NDArray[Any] = self._arrays[3][at >> 3 : (at >> 3) + 64].reshape(2, 32)
            return wide
        shift = VIEWS[width]
        row: NDArray[Any] = self._arrays[shift][at >> shift : (at >> shift) + 32]
        return row

    def origin(self, registers: Iterable[int], mask: int, bits: int | None = None) -> int:
        """Where the first undefined bits of these registers in these lanes come from (`ptxlab.engine.program`); 0 if all are defined.

        With ``bits``, here and below, only so many low bits of a register count.
        """
        for register in registers:
            lanes = self._undefined_lanes(register, mask, bits)
            if lanes.size:
                return int(self._origin_row(register)[lanes[0]])
        return 0

    def origins(self, registers: Iterable[int], mask: int, bits: int | None = None) -> set[int]:
        """Where all undefined bits of these registers in these lanes come from."""
        found: set[int] = set()
        for register in registers:
            found.update(self._origin_row(register)[self._undefined_lanes(register, mask, bits)].tolist())
        return found

    def origins_by_lane(self, register: int, mask: int, bits: int | None = None) -> dict[int, int]:
        """Where the undefined bits of a register come from, for each of these lanes in which it has some."""
        lanes = self._undefined_lanes(register, mask, bits)
        return dict(zip(lanes.tolist(), self._origin_row(register)[lanes].tolist(), strict=True))

    def origins_of(self, operand: Resolved | int) -> set[int]:
        """Where the undefined bits of an operand in the executing lanes come from."""
        return self.origins(operand_registers(self.op.operands[operand] if isinstance(operand, int) else operand), self.mask)

    def _undefined_lanes(self, register: int, mask: int, bits: int | None = None) -> NDArray[np.intp]:
        """The lanes of a mask in which a register has undefined bits."""
        some = (self._undefined_low(register, bits) != 0).reshape(-1, 32).any(axis=0)
        return np.flatnonzero(some & ((np.uint32(mask) & LANE_BITS) != 0))

    def _origin_row(self, register: int) -> NDArray[np.uint32]:
        at = self.launch.program.registers[register].origin >> 2
        row: NDArray[np.uint32] = self._arrays[2][at : at + 32]
        return row

    def set_origin(self, register: int, origin: int, mask: int) -> None:
        """Say where the undefined bits of a register in these lanes come from."""
        if self._shadows[register] >= 0:
            self._origin_row(register)[lanes_of(mask)] = origin

    def undefine(self, register: int, lane: int, bits: int = -1) -> None:
        """Make some bits of a register wider than a bit undefined in a lane, and the others defined."""
        row = self._undefined_row(register)
        width = 8 * row.itemsize
        for number, part in enumerate(row.reshape(-1, 32)):
            part[lane] = bits >> number * width & (1 << width) - 1

    def _undefined_low(self, register: int, bits: int | None) -> NDArray[Any]:
        """The undefined bits among the low ones of a register."""
        row = self._undefined_row(register)
        if bits is None or bits >= self._widths[register]:
            return row
        low: NDArray[Any] = (row if row.ndim == 1 else row[0]) & row.dtype.type((1 << bits) - 1)
        return low

    def undefined_bits(self, register: int, mask: int, bits: int | None = None) -> tuple[int, int]:
        """The lanes of a mask in which a register has undefined bits, and those bits of all of them together."""
        row = self._undefined_low(register, bits)
        lanes = self._undefined_lanes(register, mask, bits)
        among = sum(1 << lane for lane in lanes.tolist())
        if row.ndim == 1:
            return among, int(np.bitwise_or.reduce(row[lanes]))
        low, high = (int(np.bitwise_or.reduce(half[lanes])) for half in row)
        return among, low | high << 64

    def set_undefined(self, operand: Resolved, masks: NDArray[Any] | None, origin: int, mask: int | None = None) -> None:
        """Give 32- or 64-bit registers their undefined bits in the executing lanes, or in those of a mask; see `ptxlab.isa.WarpContext`."""
        lanes = lanes_of(self.mask if mask is None else mask)
        for number, item in enumerate(flatten(operand)):
            if isinstance(item, Reg) and self._shadows[item.index] >= 0:
                self._undefined_row(item.index)[lanes] = 0 if masks is None else masks[number][lanes]
                self._origin_row(item.index)[lanes] = origin

    def loaded_from(self, lane: int) -> NDArray[np.uint64]:
        """From where a lane has loaded the words that the instruction stores; see `ptxlab.isa.WarpContext`."""
        loaded = self.launch.program.loaded
        words = loaded.stores.get(self.op.index, ())
        source = source_maker(int(self.frame.words[Word.LISTED_WORDS]))
        return np.array([0 if word is None else source(self._sources(loaded.noted(word), lane)) for word in words], np.uint64)

    def _sources(self, parts: Sequence[NotedPart], lane: int) -> list[int]:
        found = [(self._arrays[3].item((part.row >> 3) + lane), part.added) for part in parts]
        return [address + added if address > NO_SOURCE else address for address, added in found]
