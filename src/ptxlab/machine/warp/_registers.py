"""The registers of a warp, as operands of the instruction that it executes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.listed_words import source_maker
from ptxlab.engine.lowering.register_use import flatten, operand_registers
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operands import Addr, Const, Op, Reg, Resolved, SymbolAddress, Unused

if TYPE_CHECKING:
    from ptxlab.engine.program import NotedPart
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.frame import Frame

__all__ = ["ALL_LANES", "Registers", "lanes_of"]

ALL_LANES = 0xFFFF_FFFF

_LANE_BITS = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
_VIEWS = {8: 1, 16: 1, 32: 2, 64: 3}
_TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_DEFINED = np.zeros(32, np.uint32)
_LIMITS = {width: (1 << width) - 1 for width in (1, 8, 16, 32, 64, 128)}


@lru_cache(maxsize=4096)
def lanes_of(mask: int) -> NDArray[np.intp]:
    """Return the indices of the lanes in a mask."""
    return np.flatnonzero(_LANE_BITS & np.uint32(mask))


_ZEROS, _RANKS = 4, 5
"""Views that hold no registers: zeros, and the base of the CTA's shared window, to which constants and offsets are added."""


@lru_cache(maxsize=64)
def _row(value: int) -> memoryview:
    """A value in all lanes."""
    return np.full(32, value, np.uint64).data


class Registers:
    """Reads and writes operands of ``op`` in the lanes of ``mask``; see `ptxlab.isa.WarpContext`."""

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

    def fault(self, code: str, message: str, **fields: Any) -> NoReturn:
        """End the launch with an error at this instruction."""
        self.launch.reports.fault(code, message, op=self.op, warp=self, mask=self.mask, **fields)

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
            return np.zeros(32, _TYPES.get(max(width, 16), np.uint32))
        if width == 1:
            lanes: NDArray[np.bool_] = (np.uint32(self._views[2][at >> 2]) & _LANE_BITS) != 0
            return lanes
        if width == 128:
            wide: NDArray[Any] = self._arrays[3][at >> 3 : (at >> 3) + 64].reshape(2, 32)
            return wide
        shift = _VIEWS[width]
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
        return np.flatnonzero(some & ((np.uint32(mask) & _LANE_BITS) != 0))

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

    def values(self, operand: Resolved | int, bits: int = 32) -> NDArray[Any]:
        """The operand in all 32 lanes; see `ptxlab.isa.WarpContext`. 128 bits: uint64[2, 32], low halves first."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        if type(operand) is Reg:
            return self._register(operand, bits)
        if isinstance(operand, Addr):
            return self.addresses(operand)
        return self._spread(self._constant(operand), bits)

    def _register(self, operand: Reg, bits: int) -> NDArray[Any]:
        at = self._offsets[operand.index]
        width = self._widths[operand.index]
        if width == 1:
            held = np.uint32(self._views[2][at >> 2])
            if operand.negated:
                held = ~held
            lanes: NDArray[Any] = (held & _LANE_BITS) != 0
            return lanes if bits == 1 else lanes.astype(_TYPES[bits])
        if width == 128:
            wide: NDArray[Any] = self._arrays[3][at >> 3 : (at >> 3) + 64].reshape(2, 32)
            return wide
        shift = _VIEWS[width]
        found: NDArray[Any] = self._arrays[shift][at >> shift : (at >> shift) + 32]
        if operand.negated:
            found = np.negative(found)
        if bits in (width, 128):
            return found
        resized: NDArray[Any] = found != 0 if bits == 1 else found.astype(_TYPES[bits])
        return resized

    def _spread(self, value: int, bits: int) -> NDArray[Any]:
        if bits == 1:
            return np.full(32, bool(value))
        if bits == 128:
            return np.array([[value & _LIMITS[64]] * 32, [value >> 64 & _LIMITS[64]] * 32], np.uint64)
        return np.full(32, value & _LIMITS[bits], _TYPES[bits])

    def _constant(self, operand: Resolved) -> int:
        if isinstance(operand, Const):
            return operand.value
        if isinstance(operand, SymbolAddress):
            return self.symbol(operand)
        if isinstance(operand, Addr) and not isinstance(operand.base, Reg):
            return self.uniform_address(operand)
        raise TypeError(f"operand {operand!r} of {self.op.opcode} has no value")

    def symbol(self, operand: SymbolAddress) -> int:
        """The address of a variable in its own state space."""
        value = self._names[operand.space, operand.name] + operand.offset
        return value | self._rank_bits if operand.space == "shared" else value

    def uniform(self, operand: Resolved | int, bits: int = 32) -> int:
        """Return the operand's value; a fault if it differs between executing lanes."""
        found = self.common(operand, bits)
        if found is None:
            self._not_uniform(self.op.operands[operand] if isinstance(operand, int) else operand)
        return found

    def common(self, operand: Resolved | int, bits: int = 32) -> int | None:
        """The operand's value if it is the same in all executing lanes, else None."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        if type(operand) is Const:
            return operand.value & _LIMITS[bits]
        if type(operand) is not Reg:
            return self._constant(operand) & _LIMITS[bits]
        index = operand.index
        width = self._widths[index]
        mask = self.mask
        lane = (mask & -mask).bit_length() - 1
        if width == 1:
            held = self._views[2][self._offsets[index] >> 2] & mask
            if held and held != mask:
                return None
            return int(bool(held) != operand.negated)
        if width < 32 or width > 64 or operand.negated:
            found = self.lane_value(operand, bits, lane)
            same = all(self.lane_value(operand, bits, other) == found for other in lanes_of(mask).tolist())
            return found if same else None
        at = self._offsets[index]
        shift = 2 if width == 32 else 3
        view = self._views[shift]
        value: int = view[(at >> shift) + lane]
        if mask == ALL_LANES:
            size = width >> 3
            if self._views[0][at : at + 32 * size].tobytes() != value.to_bytes(size, "little") * 32:
                return None
        elif mask & (mask - 1):
            start = at >> shift
            for lane in lanes_of(mask).tolist():
                if view[start + lane] != value:
                    return None
        return value & _LIMITS[bits]

    def _not_uniform(self, operand: Resolved) -> NoReturn:
        if isinstance(operand, Addr) and operand.base is not None:
            operand = operand.base
        assert isinstance(operand, Reg)
        register = self.launch.program.registers[operand.index]
        found = [self.lane_value(operand, max(register.bits, 8), lane) for lane in lanes_of(self.mask).tolist()]
        lane = next(i for i, value in enumerate(found) if value != found[0])
        first, other = int(lanes_of(self.mask)[0]), int(lanes_of(self.mask)[lane])
        self.fault(
            "R801",
            f"{register.name} must be the same in all executing threads, but is {found[0]:#x} in lane {first} "
            f"and {found[lane]:#x} in lane {other}",
            fix="compute the operand from values that do not depend on the thread, or let one thread execute the instruction",
        )

    def lane_value(self, operand: Resolved | int, bits: int, lane: int) -> int:
        """The operand's value in one lane."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        if isinstance(operand, Reg):
            at = self._offsets[operand.index]
            width = self._widths[operand.index]
            if width == 1:
                value = (self._views[2][at >> 2] >> lane & 1) ^ operand.negated
            elif width == 128:
                words = self._views[3]
                value = words[(at >> 3) + lane] | words[(at >> 3) + 32 + lane] << 64
            else:
                shift = _VIEWS[width]
                value = self._views[shift][(at >> shift) + lane]
                if operand.negated:
                    value = -value & _LIMITS[width]
            return value & _LIMITS[bits]
        if isinstance(operand, Addr):
            return self._lane_address(operand, lane)
        return self._constant(operand) & _LIMITS[bits]

    def fetch(self, operands: Sequence[tuple[Resolved, int]], lane: int) -> tuple[int, ...]:
        """Return several operands (with their widths in bits) in one lane, 0 for an absent one; an instruction always asks for the same."""
        parts = self.launch.fetches[self.op.index]
        if parts is None:
            found = [self._part(operand, _LIMITS[bits]) for operand, bits in operands]
            parts = self.launch.fetches[self.op.index] = () if None in found else tuple(found)
        if not parts:
            return tuple([0 if type(each) is Unused else self.lane_value(each, bits, lane) for each, bits in operands])
        views = self._views
        return tuple([views[view][at + lane] + more & limit for view, at, more, limit in parts])

    def _part(self, operand: Resolved, limit: int) -> tuple[int, int, int, int] | None:
        """Return for `fetch` the view, index, addend and mask of an operand; None if it needs more than that."""
        more = 0
        if isinstance(operand, Addr):
            more = operand.offset
            operand = Const(0) if operand.base is None else operand.base
        if isinstance(operand, Unused):
            return _ZEROS, 0, 0, 0
        if isinstance(operand, Const):
            return _ZEROS, 0, operand.value + more, limit
        if isinstance(operand, SymbolAddress):
            view = _RANKS if operand.space == "shared" else _ZEROS
            return view, 0, self._names[operand.space, operand.name] + operand.offset + more, limit
        if not isinstance(operand, Reg) or operand.negated:
            return None
        width = self._widths[operand.index]
        if width not in (16, 32, 64):
            return None
        view = _VIEWS[width]
        return view, self._offsets[operand.index] >> view, more, limit

    def _lane_address(self, operand: Addr, lane: int) -> int:
        if isinstance(operand.base, Reg):
            return self.lane_value(operand.base, 64, lane) + operand.offset & _LIMITS[64]
        return (operand.offset if operand.base is None else self.symbol(operand.base) + operand.offset) & _LIMITS[64]

    def addresses(self, operand: Resolved | int) -> NDArray[np.uint64]:
        """Base plus offset of a bracketed operand in all lanes."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        if isinstance(operand, Addr):
            if isinstance(operand.base, Reg):
                found = self._register(operand.base, 64)
                return found + np.uint64(operand.offset & _LIMITS[64]) if operand.offset else found
            return np.full(32, self._lane_address(operand, 0), np.uint64)
        return self.values(operand, 64)

    def uniform_address(self, operand: Resolved | int) -> int:
        """Return base plus offset of a bracketed operand; a fault if it differs between executing lanes."""
        found = self.common_address(operand)
        if found is None:
            self._not_uniform(self.op.operands[operand] if isinstance(operand, int) else operand)
        return found

    def common_address(self, operand: Resolved | int) -> int | None:
        """Base plus offset of a bracketed operand if it is the same in all executing lanes, else None."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        if type(operand) is not Addr:
            return self.common(operand, 64)
        base = operand.base
        if isinstance(base, Reg):
            found = self.common(base, 64)
            return found if found is None or not operand.offset else found + operand.offset & _LIMITS[64]
        return (operand.offset if base is None else self.symbol(base) + operand.offset) & _LIMITS[64]

    def write(self, operand: Resolved | int, values: NDArray[Any] | int, bits: int = 32) -> None:
        """Write a destination register in the executing lanes."""
        operand = self.op.operands[operand] if isinstance(operand, int) else operand
        if isinstance(operand, Unused):
            return
        if not isinstance(operand, Reg):
            raise TypeError(f"{operand!r} of {self.op.opcode} cannot be written")
        at = self._offsets[operand.index]
        if at < 0:
            return
        width = self._widths[operand.index]
        mask = self.mask
        if width == 1:
            if isinstance(values, np.ndarray):
                new = int(np.bitwise_or.reduce(np.where(values.astype(bool), _LANE_BITS, np.uint32(0))))
            else:
                new = ALL_LANES if values else 0
            view = self._views[2]
            view[at >> 2] = (view[at >> 2] & ~mask & ALL_LANES) | (new & mask)
        elif width == 128:
            wide = self._arrays[3][at >> 3 : (at >> 3) + 64].reshape(2, 32)
            source = values if isinstance(values, np.ndarray) else self._spread(values, 128)
            wide[:, lanes_of(mask)] = source[:, lanes_of(mask)]
        else:
            shift = _VIEWS[width]
            target: NDArray[Any] = self._arrays[shift][at >> shift : (at >> shift) + 32]
            if not isinstance(values, np.ndarray):
                limit = _LIMITS[width]
                if not mask & (mask - 1):
                    target[mask.bit_length() - 1] = values & limit
                    return
                target[lanes_of(mask)] = values & limit
            elif mask == ALL_LANES:
                target[:] = values
            else:
                lanes = lanes_of(mask)
                target[lanes] = values[lanes]
