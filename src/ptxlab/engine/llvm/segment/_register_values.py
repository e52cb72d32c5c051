"""What registers hold in a segment, as operands and results of instructions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.segment._frame_rows import FrameRows
from ptxlab.engine.lowering.matching import OperandSpec, element_type
from ptxlab.engine.lowering.register_use import constant_bits
from ptxlab.engine.program import Program
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Group, PairOf, Reg, Resolved, SymbolAddress, Unused
from ptxlab.native.builder import Function, Value

__all__ = ["RegisterValues", "symbol_address"]

_BLOCK = 200
"""After so many LLVM instructions a basic block ends: the selection of instructions takes longer for each of a long block. In short
blocks many values pass from one to the next, in memory.
"""


class RegisterValues(FrameRows):
    """Values of registers: read from their rows when they are first needed, and written at the end.

    Attributes
    ----------
    values, old : of registers, and what these held before
    dirty : registers whose rows do not hold their values
    written : of stepped programs: the lanes in which a register is written; None for all that run
    """

    def __init__(self, code: Function, program: Program, width: int, context: Value, frame: Value, index: Value) -> None:
        super().__init__(code, program, width, context, frame, index)
        self.floats = self.x.vectors["f32"], self.x.vectors["f64"]
        self.integers = self.x.vectors["i32"], self.x.vectors["i64"]
        self.values: dict[int, Any] = {}
        self.old: dict[int, Any] = {}
        self.dirty: dict[int, None] = {}
        self.written: dict[int, Value | None] = {}
        self.symbols: dict[tuple[Resolved, int], Value] = {}

    def get(self, register: int, kind: str | None = None) -> Any:
        """What a register holds, in the type it was last made in; if it is not yet known, its row is read as ``kind``."""
        value = self.values.get(register)
        if value is None:
            value = self.values[register] = self.old[register] = self.load_row(register, kind)
        return value

    def write_back(self, registers: list[int], live: frozenset[int] | set[int]) -> None:
        """Write registers that are needed later into the frame, in the lanes that run."""
        for register in registers:
            del self.dirty[register]
            info = self.program.registers[register]
            if register not in live or info.offset < 0:
                continue
            new = self.values[register]
            old = self.old.get(register)
            if old is None:
                old = self.load_row(register, new.type if isinstance(new, Value) and new.type in self.floats else None)
            self.store(self.places.get(register, info.offset), info.bits, new, old)
            self.divide()

    def divide(self) -> None:
        """Go on in a new basic block if the current one is long."""
        self.code.divide(_BLOCK)

    def note_writes(self) -> None:
        """Note for a debugger in which lanes registers have been written."""
        rows, kind = self.context.pointer(Word.WRITTEN), f"i{self.width}"
        for register, lanes in self.written.items():
            place = rows.at(self.index * (self.width // 8)).at(4 * register)
            new = self.mask if lanes is None else self.mask & lanes
            place.store(place.load(kind, align=1) | new.cast(kind), align=1)

    def read(self, operand: Resolved, type: str) -> Any:
        """A source operand in the vocabulary's type for an operand type; None for an absent one."""
        bits = type_bits(type)
        element = element_type(type)
        if isinstance(operand, Reg):
            have = self.program.registers[operand.index].bits
            value = self.get(operand.index, self.x.vectors[element] if bits == have in (32, 64) else None)
            if have == 128:
                return value
            have = max(have, 16) if have > 1 else 1
            if have != bits:
                value = value.cast(self.x.vectors[f"i{have}"]).to(self.x.vectors[f"i{bits}"])
            value = value.cast(self.x.vectors[element])
            if operand.negated:
                value = self.x.not_(value) if bits == 1 else self.x.fneg(value) if element[0] == "f" else self.x.neg(value)
            return value
        if isinstance(operand, Const):
            pattern = constant_bits(operand, bits)
            if bits == 128:
                return self.x.const(pattern, "i64"), self.x.const(pattern >> 64, "i64")
            return self.x.bits(pattern, element) if element[0] == "f" else self.x.const(pattern, element)
        if isinstance(operand, SymbolAddress):
            return self.symbol(operand, bits).cast(self.x.vectors[element])
        if isinstance(operand, Group):
            return self.pack([self.read(item, f"b{bits // len(operand.items)}") for item in operand.items], bits)
        return None

    def symbol(self, symbol: SymbolAddress, bits: int) -> Value:
        """The address of a variable."""
        known = self.symbols.get((symbol, bits))
        if known is None:
            known = self.symbols[symbol, bits] = (
                symbol_address(self.code, self.program, self.context, symbol).to(f"i{bits}").splat(self.width)
            )
        return known

    def pack(self, items: list[Any], bits: int) -> Any:
        """Join narrow values into a wide one, the first lowest."""
        if bits == 128:
            half = len(items) // 2
            return self.pack(items[:half], 64), self.pack(items[half:], 64)
        kind = self.x.vectors[f"i{bits}"]
        step = bits // len(items)
        made: Value | None = None
        for i, item in enumerate(items):
            part = item.to(kind) << step * i if i else item.to(kind)
            made = part if made is None else made | part
        return made

    def unpack(self, value: Any, count: int, bits: int) -> list[Any]:
        """Cut a wide value into narrow ones."""
        if bits == 128:
            return [*self.unpack(value[0], count // 2, 64), *self.unpack(value[1], count // 2, 64)]
        step = bits // count
        value = value.cast(self.x.vectors[f"i{bits}"])
        return [(value >> step * i if i else value).to(self.x.vectors[f"i{step}"]) for i in range(count)]

    def targets(self, operand: Resolved, spec: OperandSpec, value: Any) -> Iterator[tuple[Resolved, str, Any]]:
        """The registers of a destination of any kind, each with a type and its part of the value."""
        if spec.kind == "pair":
            pair = operand if isinstance(operand, PairOf) else PairOf(operand, Unused())
            parts: list[tuple[Resolved, str, Any]] = [(pair.first, spec.type, value[0]), (pair.second, spec.second, value[1])]
        elif spec.kind == "vector" and isinstance(operand, Group):
            parts = [(item, spec.type, part) for item, part in zip(operand.items, value, strict=True)]
        else:
            parts = [(operand, spec.type, value)]
        for target, type, part in parts:
            if isinstance(target, Group):
                bits, count = type_bits(type), len(target.items)
                yield from zip(target.items, [f"b{bits // count}"] * count, self.unpack(part, count, bits), strict=True)
            else:
                yield target, type, part

    def fitted(self, value: Any, type: str, register: int) -> Any:
        """A value of a PTX type in the width of a register's row."""
        bits = self.program.registers[register].bits
        if bits == 128:
            return value
        have = type_bits(type)
        want = max(bits, 16) if bits > 1 else 1
        if have == want:
            return value
        value = value.cast(self.x.vectors[f"i{have}"])
        kind = self.x.vectors[f"i{want}"]
        return value.sext(kind) if type[0] == "s" and have < want else value.to(kind)

    def write(self, operand: Resolved, type: str, value: Any, guard: Value | None) -> None:
        """Give a destination register its value."""
        if not isinstance(operand, Reg):
            return
        value = self.fitted(value, type, operand.index)
        if guard is not None:
            old = self.get(operand.index)
            if isinstance(value, tuple):
                value = tuple(guard.select(n, o) for n, o in zip(value, old, strict=True))
            else:
                value = guard.select(value, old.cast(value.type))
        self.values[operand.index] = value
        self.dirty[operand.index] = None
        before = self.written.get(operand.index, guard)
        self.written[operand.index] = None if guard is None or before is None else before | guard


def symbol_address(code: Function, program: Program, context: Value, symbol: SymbolAddress) -> Value:
    """The address of a variable in its space, as i64."""
    if symbol.space == "shared":
        return context.word(Word.SHARED_RANK) + symbol.offset
    if symbol.space in ("global", "const"):
        slot = program.symbols.index(symbol.name)
        return context.pointer(Word.SYMBOLS).load("i64", slot) + symbol.offset
    return code.const("i64", symbol.offset)
