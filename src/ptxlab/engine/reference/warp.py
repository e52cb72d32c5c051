"""The registers of one warp as NumPy arrays: their values, and the shadow that holds undefined bits and origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Context, Word
from ptxlab.engine.lowering.register_use import constant_bits
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.program import Program, Register
from ptxlab.engine.reference._host_memory import bytes_at
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Group, Reg, Resolved, SymbolAddress

__all__ = ["ALL_LANES", "ShadowRows", "Warp", "as_integers", "filled", "lanes_of", "mask_of", "pack", "unpack"]

ALL_LANES = (1 << 32) - 1


def lanes_of(mask: int) -> NDArray[np.bool_]:
    """A lane mask as 32 booleans.

    >>> lanes_of(5)[:4].tolist()
    [True, False, True, False]
    """
    return np.unpackbits(np.array([mask & ALL_LANES], "<u4").view(np.uint8), bitorder="little").astype(np.bool_)


def mask_of(lanes: NDArray[np.bool_]) -> int:
    """The reverse of `lanes_of`."""
    return int(np.packbits(np.broadcast_to(lanes, 32), bitorder="little").view("<u4")[0])


class Warp:
    """Registers and words of the warp that a context describes."""

    def __init__(self, program: Program, context: Context) -> None:
        self.program = program
        self.words = context.words
        self.frame = bytes_at(int(context.words[Word.FRAME]), program.frame_bytes)
        self.loose: dict[int, Any] = {}

    def word(self, word: Word) -> int:
        """A word of the context."""
        return int(self.words[word])

    def get(self, register: int) -> Any:
        """A register in all lanes: booleans, or unsigned integers of at least 16 bits, [2, 32] uint64 for 128 bits."""
        info = self.program.registers[register]
        if info.special in CLOCKS:
            clock = self.word(Word.CLOCK) >> CLOCKS[info.special]
            return np.full(32, clock & (1 << info.bits) - 1, f"u{info.bits // 8}")
        if info.offset < 0:
            return self.loose.setdefault(register, filled(0, info.bits))
        row = info.view(self.frame)
        return lanes_of(int(row[0])) if info.bits == 1 else row.copy()

    def put(self, register: int, value: Any, lanes: NDArray[np.bool_]) -> None:
        """Write a register in some lanes."""
        info = self.program.registers[register]
        value = np.where(lanes, value, self.get(register))
        if info.offset < 0:
            self.loose[register] = value
        else:
            info.view(self.frame)[:] = mask_of(value) if info.bits == 1 else value

    def bits(self, operand: Resolved, bits: int) -> Any:
        """A source as unsigned integers of ``bits`` in all lanes."""
        if isinstance(operand, Reg):
            value = self.get(operand.index)
            if bits == 1:
                return ~value if operand.negated else value
            return value if bits == 128 else value.astype(f"u{bits // 8}")
        if isinstance(operand, Const):
            return filled(constant_bits(operand, bits), bits)
        if isinstance(operand, SymbolAddress):
            return filled(self.symbol(operand) & (1 << bits) - 1, bits)
        if isinstance(operand, Group):
            return pack([self.bits(item, bits // len(operand.items)) for item in operand.items], bits)
        return filled(0, bits)

    def symbol(self, symbol: SymbolAddress) -> int:
        """The address of a variable in its space."""
        if symbol.space == "shared":
            return self.word(Word.SHARED_RANK) + symbol.offset
        if symbol.space in ("global", "const"):
            slot = self.program.symbols.index(symbol.name)
            return int(bytes_at(self.word(Word.SYMBOLS) + 8 * slot, 8).view(np.uint64)[0]) + symbol.offset
        return symbol.offset

    def write(self, operand: Resolved, type: str, value: Any, *, lanes: NDArray[np.bool_]) -> None:
        """Give a destination a value of a PTX type."""
        if isinstance(operand, Group):
            width = type_bits(type) // len(operand.items)
            for item, part in zip(operand.items, unpack(value, len(operand.items), type_bits(type)), strict=True):
                self.write(item, f"b{width}", part, lanes=lanes)
        elif isinstance(operand, Reg):
            bits = self.program.registers[operand.index].bits
            if bits not in (1, 128):
                value = as_integers(np.broadcast_to(value, 32))
                if type[0] == "s":
                    value = value.view(f"i{value.itemsize}").astype(f"i{max(bits, 16) // 8}")
                value = value.astype(f"u{max(bits, 16) // 8}")
            self.put(operand.index, value, lanes)


class ShadowRows(Warp):
    """The undefined bits of the registers, read and written like the registers; those of others are zeros, and are not kept."""

    def __init__(self, warp: Warp) -> None:
        self.program, self.words, self.frame = warp.program, warp.words, warp.frame

    def bits(self, operand: Resolved, bits: int) -> Any:
        if isinstance(operand, Reg):
            return super().bits(Reg(operand.index), bits)
        return super().bits(operand, bits) if isinstance(operand, Group) else filled(0, bits)

    def get(self, register: int) -> Any:
        info = self.program.registers[register]
        if info.shadow < 0:
            return filled(0, info.bits if info.bits == 1 else max(info.bits, 16))
        row = replace(info, offset=info.shadow).view(self.frame)
        return lanes_of(int(row[0])) if info.bits == 1 else row.copy()

    def put(self, register: int, value: Any, lanes: NDArray[np.bool_]) -> None:
        info = self.program.registers[register]
        if info.shadow >= 0:
            value = np.where(lanes, value, self.get(register))
            replace(info, offset=info.shadow).view(self.frame)[:] = mask_of(value) if info.bits == 1 else value

    def some(self, register: int) -> NDArray[np.bool_]:
        """The lanes in which some bit of a register is undefined."""
        found: NDArray[np.bool_] = (self.get(register) != 0).reshape(-1, 32).any(axis=0)
        return found

    def add(self, register: int, old: Any, new: Any, more: Any, lanes: NDArray[np.bool_]) -> None:
        """The bits in which two values differ are undefined, too, and those of another mask."""
        self.put(register, self.get(register) | (old ^ new) | more, lanes)

    def origins(self, info: Register) -> NDArray[np.uint32]:
        """Where the undefined bits of a register come from, in each lane."""
        return self.frame[info.origin : info.origin + 128].view(np.uint32)

    def joined_origin(self, registers: Sequence[int]) -> NDArray[np.uint32]:
        """The origin of the undefined bits of the first register that has some."""
        found = np.zeros(32, np.uint32)
        for register in reversed(registers):
            info = self.program.registers[register]
            if info.shadow >= 0:
                found = np.where(self.some(register), self.origins(info), found)
        return found

    def set_origin(self, register: int, origin: NDArray[np.uint32], lanes: NDArray[np.bool_]) -> None:
        """Say where the undefined bits of a register come from."""
        info = self.program.registers[register]
        if info.shadow >= 0:
            row = self.origins(info)
            row[:] = np.where(lanes, origin, row)


def filled(pattern: int, bits: int) -> NDArray[Any]:
    """A value in all lanes."""
    if bits == 1:
        return np.full(32, bool(pattern))
    if bits == 128:
        return np.stack([filled(pattern & (1 << 64) - 1, 64), filled(pattern >> 64, 64)])
    return np.full(32, pattern, f"u{bits // 8}")


def as_integers(value: NDArray[Any]) -> NDArray[Any]:
    """The bits of floats; integers as they are."""
    return np.ascontiguousarray(value).view(f"u{value.itemsize}") if value.dtype.kind in "fi" else value


def pack(items: list[Any], bits: int) -> NDArray[Any]:
    """Join narrow values, the first lowest."""
    if bits == 128:
        half = len(items) // 2
        return np.stack([pack(items[:half], 64), pack(items[half:], 64)])
    made = filled(0, bits)
    for i, item in enumerate(items):
        made |= item.astype(made.dtype) << made.dtype.type(bits // len(items) * i)
    return made


def unpack(value: Any, count: int, bits: int) -> list[Any]:
    """Cut a wide value into narrow ones."""
    if bits == 128:
        return [*unpack(value[0], count // 2, 64), *unpack(value[1], count // 2, 64)]
    step = bits // count
    value = as_integers(value)
    return [(value >> value.dtype.type(step * i)).astype(f"u{step // 8}") for i in range(count)]
