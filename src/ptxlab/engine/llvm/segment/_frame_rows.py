"""Rows of a frame, in vectors of the native width."""

from __future__ import annotations

from typing import Any

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.vocabulary import LlvmVocabulary
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.program import Program
from ptxlab.native.builder import Function, Value

__all__ = ["FrameRows"]


class FrameRows:
    """Reads and writes the rows of a frame, one chunk of lanes in each iteration of the loop.

    Attributes
    ----------
    places : offsets of rows that compiled code chooses: of these registers the program says that of one of several
    """

    def __init__(self, code: Function, program: Program, width: int, context: Value, frame: Value, index: Value) -> None:
        self.code = code
        self.program = program
        self.width = width
        self.context = context
        self.frame = frame
        self.index = index
        self.x = LlvmVocabulary(code, width)
        self.bases: dict[int, Value] = {}
        self.places: dict[int, Value] = {}
        self._mask: Value | None = None

    def row(self, offset: int | Value, bits: int) -> Value:
        """Where this chunk of a row lies; ``bits`` of one lane."""
        base = self.bases.get(bits)
        if base is None:
            step = self.width * bits // 8
            base = self.bases[bits] = self.frame.at(self.index * step)
        return base.at(offset)

    def lanes(self, pointer: Value) -> Value:
        """A chunk of a 32-bit lane mask, as a vector of i1."""
        return pointer.load(f"i{self.width}", align=1).cast(f"<{self.width} x i1>")

    @property
    def mask(self) -> Value:
        """The converged lanes that run."""
        if self._mask is None:
            word = self.context.at(8 * Word.MASK)
            self._mask = self.lanes(word.at(self.index * (self.width // 8)))
        return self._mask

    def load(self, offset: int | Value, bits: int, kind: str | None = None) -> Any:
        """A row of the frame as vectors of ``kind``, or as integers (a pair of them for 128 bits)."""
        if bits == 1:
            return self.lanes(self.row(offset, 1))
        if bits == 128:
            return tuple(self.row(offset + 256 * half, 64).load(self.x.vectors["i64"], align=8) for half in range(2))
        bits = max(bits, 16)
        return self.row(offset, bits).load(kind or self.x.vectors[f"i{bits}"], align=min(self.width * bits // 8, 64))

    def load_row(self, register: int, kind: str | None = None) -> Any:
        """A register's row as vectors of ``kind``, or as integers (a pair of them for 128 bits)."""
        info = self.program.registers[register]
        if info.special in CLOCKS:
            return self.clock(register)
        if info.offset < 0:  # never written where this is reached
            kind = self.x.vectors["i64" if info.bits == 128 else f"i{16 if 1 < info.bits < 16 else info.bits}"]
            zero = self.code.const(kind, 0)
            return (zero, zero) if info.bits == 128 else zero
        return self.load(self.places.get(register, info.offset), info.bits, kind)

    def store(self, offset: int | Value, bits: int, new: Any, old: Any) -> None:
        """Write a row in the lanes that run."""
        if bits == 1:
            self.put_lanes(self.row(offset, 1), new, old)
        elif bits == 128:
            for half in range(2):
                self.row(offset + 256 * half, 64).store(self.mask.select(new[half], old[half]))
        else:
            bits = max(bits, 16)
            made = self.mask.select(new.cast(old.type), old)
            self.row(offset, bits).store(made, align=min(self.width * bits // 8, 64))

    def clock(self, register: int) -> Value:
        """The logical clock."""
        info = self.program.registers[register]
        value = self.context.word(Word.CLOCK) >> CLOCKS[info.special]
        return value.to(f"i{info.bits}").splat(self.width)

    def put_lanes(self, pointer: Value, new: Value, old: Value) -> None:
        """Merge a chunk into a lane mask."""
        kind = f"i{self.width}"
        mask = self.mask.cast(kind)
        merged = (new.cast(kind) & mask) | (old.cast(kind) & ~mask)
        pointer.store(merged, align=1)
