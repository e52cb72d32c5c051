"""The registers of a warp, as operands of the instruction that it executes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.operands import Addr, Const, Reg, Resolved, SymbolAddress, Unused
from ptxlab.machine.warp._register_rows import ALL_LANES, LANE_BITS, RANKS, TYPES, VIEWS, ZEROS, RegisterRows, lanes_of

if TYPE_CHECKING:
    pass

__all__ = ["Registers"]

_LIMITS = {width: (1 << width) - 1 for width in (1, 8, 16, 32, 64, 128)}


class Registers(RegisterRows):
    """Reads and writes operands of ``op`` in the lanes of ``mask``; see `ptxlab.isa.WarpContext`."""

    __slots__ = ()

    def fault(self, code: str, message: str, **fields: Any) -> NoReturn:
        """End the launch with an error at this instruction."""
        self.launch.reports.fault(code, message, op=self.op, warp=self, mask=self.mask, **fields)

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
            lanes: NDArray[Any] = (held & LANE_BITS) != 0
            return lanes if bits == 1 else lanes.astype(TYPES[bits])
        if width == 128:
            wide: NDArray[Any] = self._arrays[3][at >> 3 : (at >> 3) + 64].reshape(2, 32)
            return wide
        shift = VIEWS[width]
        found: NDArray[Any] = self._arrays[shift][at >> shift : (at >> shift) + 32]
        if operand.negated:
            found = np.negative(found)
        if bits in (width, 128):
            return found
        resized: NDArray[Any] = found != 0 if bits == 1 else found.astype(TYPES[bits])
        return resized

    def _spread(self, value: int, bits: int) -> NDArray[Any]:
        if bits == 1:
            return np.full(32, bool(value))
        if bits == 128:
            return np.array([[value & _LIMITS[64]] * 32, [value >> 64 & _LIMITS[64]] * 32], np.uint64)
        return np.full(32, value & _LIMITS[bits], TYPES[bits])

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
                shift = VIEWS[width]
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
            return ZEROS, 0, 0, 0
        if isinstance(operand, Const):
            return ZEROS, 0, operand.value + more, limit
        if isinstance(operand, SymbolAddress):
            view = RANKS if operand.space == "shared" else ZEROS
            return view, 0, self._names[operand.space, operand.name] + operand.offset + more, limit
        if not isinstance(operand, Reg) or operand.negated:
            return None
        width = self._widths[operand.index]
        if width not in (16, 32, 64):
            return None
        view = VIEWS[width]
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
                new = int(np.bitwise_or.reduce(np.where(values.astype(bool), LANE_BITS, np.uint32(0))))
            else:
                new = ALL_LANES if values else 0
            view = self._views[2]
            view[at >> 2] = (view[at >> 2] & ~mask & ALL_LANES) | (new & mask)
        elif width == 128:
            wide = self._arrays[3][at >> 3 : (at >> 3) + 64].reshape(2, 32)
            source = values if isinstance(values, np.ndarray) else self._spread(values, 128)
            wide[:, lanes_of(mask)] = source[:, lanes_of(mask)]
        else:
            shift = VIEWS[width]
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
