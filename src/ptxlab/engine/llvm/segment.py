"""The loop body of a run of inline instructions, for vectors of the native width.

Values stay in LLVM registers; rows of the frame are read when first needed and written at the end, masked with the lanes that run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from ptxlab.engine.context import Word
from ptxlab.engine.llvm._moved_notes import emit_notes
from ptxlab.engine.llvm._register_ranges import RegisterRanges
from ptxlab.engine.llvm.vocabulary import LlvmVocabulary
from ptxlab.engine.lowering.matching import OperandSpec, operand_specs, read_source
from ptxlab.engine.lowering.register_use import constant_bits, flatten
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.program import Program
from ptxlab.engine.shadow_vocabulary import Range, Shadowed, ShadowVocabulary, operands_once
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Addr, Const, Group, Op, PairOf, Reg, Resolved, SymbolAddress, Unused
from ptxlab.native.builder import Constant, Function, Value

__all__ = ["Segment", "element_type", "symbol_address"]

_BLOCK = 200
"""After so many LLVM instructions a basic block ends: the selection of instructions takes longer for each of a long block. In short
blocks many values pass from one to the next, in memory.
"""
_DEEP = 4
"""LLVM is not told how a value was computed that took so many operations.

For each sum it looks for bits of the operands that are known, through six instructions with all of their operands. In long scalar code
that was half of its time.
"""


def element_type(type: str) -> str:
    """The vocabulary's element type for an operand type; 128-bit operands are pairs of i64."""
    if type in ("f32", "f64"):
        return type
    bits = type_bits(type)
    return "i64" if bits == 128 else f"i{bits}"


class Segment:
    """The body of the loop: what registers hold so far."""

    def __init__(self, code: Function, program: Program, width: int, context: Value, frame: Value, index: Value) -> None:
        self.code = code
        self.program = program
        self.width = width
        self.context = context
        self.frame = frame
        self.index = index
        self.x = LlvmVocabulary(code, width)
        self.floats = self.x.vectors["f32"], self.x.vectors["f64"]
        self.integers = self.x.vectors["i32"], self.x.vectors["i64"]
        self.bases: dict[int, Value] = {}
        self.places: dict[int, Value] = {}
        """Offsets of rows that compiled code chooses: of these registers the program says that of one of several."""
        self.values: dict[int, Any] = {}
        self.old: dict[int, Any] = {}
        self.dirty: dict[int, None] = {}
        self.written: dict[int, Value | None] = {}
        """Of stepped programs: the lanes in which a register is written; None for all that run."""
        self.shadows: dict[int, Any] = {}
        self.origins: dict[int, Value] = {}
        self.dirty_shadows: dict[int, None] = {}
        self.ranges = RegisterRanges(code, program, width, self.load)
        self.symbols: dict[tuple[Resolved, int], Value] = {}
        self.depths: dict[int, int] = {}
        """Through how many operations LLVM can follow the value of a register; those that are not here have been loaded."""
        self._mask: Value | None = None

    # ------------------------------------------------------------------------------------------------------------ rows

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

    def load(self, offset: int | Value, bits: int, kind: str | None = None) -> Any:
        """A row of the frame as vectors of ``kind``, or as integers (a pair of them for 128 bits)."""
        if bits == 1:
            return self.lanes(self.row(offset, 1))
        if bits == 128:
            return tuple(self.row(offset + 256 * half, 64).load(self.x.vectors["i64"], align=8) for half in range(2))
        bits = max(bits, 16)
        return self.row(offset, bits).load(kind or self.x.vectors[f"i{bits}"], align=min(self.width * bits // 8, 64))

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

    def flush(self, live: frozenset[int] | set[int]) -> None:
        """Write what is needed later into the frame, in the lanes that run."""
        self.write_back(list(self.dirty), live)
        if self.program.stepped:
            self.note_writes()
        written = [register for register in self.dirty_shadows if register in live and self.program.registers[register].offset >= 0]
        for row, bits, end in self.ranges.written(written):
            self.store(row, bits, end, self.load(row, bits))
        for register in written:
            info = self.program.registers[register]
            self.store(info.shadow, info.bits, self.shadows[register], self.load(info.shadow, info.bits))
            self.store(info.origin, 32, self.origins[register], self.load(info.origin, 32))

    def note_writes(self) -> None:
        """Note for a debugger in which lanes registers have been written."""
        rows, kind = self.context.pointer(Word.WRITTEN), f"i{self.width}"
        for register, lanes in self.written.items():
            place = rows.at(self.index * (self.width // 8)).at(4 * register)
            new = self.mask if lanes is None else self.mask & lanes
            place.store(place.load(kind, align=1) | new.cast(kind), align=1)

    def put_lanes(self, pointer: Value, new: Value, old: Value) -> None:
        """Merge a chunk into a lane mask."""
        kind = f"i{self.width}"
        mask = self.mask.cast(kind)
        merged = (new.cast(kind) & mask) | (old.cast(kind) & ~mask)
        pointer.store(merged, align=1)

    # -------------------------------------------------------------------------------------------------------- operands

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

    # ------------------------------------------------------------------------------------------------------------- ops

    def emit(self, op: Op) -> None:
        """One instruction."""
        guard = None if op.guard is None else self.read(op.guard, "pred")
        self.note(op, guard)
        if op.row.kind == "native":
            native = self.program.natives[op.index]
            if isinstance(native, LaneAccess):
                self.parameter(op, native, guard)
            return
        specs = operand_specs(op)
        outputs = op.row.outputs
        sources = [read_source(self.read, operand, spec) for operand, spec in zip(op.operands[outputs:], specs[outputs:], strict=True)]
        if self.tracks(op):
            result = self.follow(op, specs, sources, guard)
        else:
            result = op.row.semantics(self.x, op.q, *sources)
        for operand, spec, value in zip(op.operands[:outputs], specs, (result,) if outputs == 1 else result, strict=False):
            for target, type, part in self.targets(operand, spec, value):
                self.write(target, type, part, guard)
        self.limit_depth(op)

    def limit_depth(self, op: Op) -> None:
        """Hide from LLVM how the results of an op were computed if that took many operations."""
        depth = 1 + max(map(self.depths.get, self.program.reads[op.index], repeat(0)), default=0)
        for register in self.program.writes[op.index]:
            value = self.values.get(register)
            self.depths[register] = 0
            if isinstance(value, Value) and not isinstance(value, Constant) and value.type in self.integers:
                if depth < _DEEP:
                    self.depths[register] = depth
                else:
                    self.values[register] = self.code.opaque(value)

    def note(self, op: Op, guard: Value | None) -> None:
        """Note from where what an op moves to registers comes."""
        notes = self.program.loaded.moves.get(op.index)
        if notes:
            lanes = self.mask if guard is None else self.mask & guard
            emit_notes(notes, lambda row: self.row(row, 64), lanes, self.x.vectors["i64"], lambda register: self.read(register, "pred"))

    def parameter(self, op: Op, native: LaneAccess, guard: Value | None) -> None:
        """A load from a constant address in the param space: the same value in all lanes."""
        address = op.operands[native.address]
        assert isinstance(address, Addr)
        assert isinstance(address.base, SymbolAddress)
        base = self.context.pointer(Word.PARAM)
        at = address.base.offset + address.offset - PARAM_BASE
        target = op.operands[native.value]
        for k, item in enumerate(flatten(target)):
            if isinstance(item, Unused):
                continue
            scalar = base.at(at + k * native.bits // 8).load(f"i{native.bits}", align=native.bits // 8)
            value = scalar.splat(self.width)
            self.write(item, f"{'s' if native.signed else 'u'}{native.bits}", value, guard)
        for register in self.program.writes[op.index]:
            info = self.program.registers[register]
            if info.shadow >= 0:
                defined = self.code.const(self.x.vectors[f"i{max(info.bits, 16)}"], 0)
                self.set_shadow(register, defined, self.code.const(self.x.vectors["i32"], 0), guard)
                self.ranges.set(register, None)

    # ------------------------------------------------------------------------------------------------- undefined bits

    def tracks(self, op: Op) -> bool:
        """Whether a register that an op writes may have undefined bits."""
        return any(self.program.registers[r].shadow >= 0 for r in self.program.writes[op.index])

    def shadow(self, register: int) -> Any:
        """The undefined bits of a register, in the form of its row; None for none."""
        info = self.program.registers[register]
        if info.shadow < 0:
            return None
        known = self.shadows.get(register)
        if known is None:
            known = self.shadows[register] = self.load(info.shadow, info.bits)
        return known

    def origin(self, register: int) -> Value:
        """Where the undefined bits of a register come from."""
        known = self.origins.get(register)
        if known is None:
            known = self.origins[register] = self.load(self.program.registers[register].origin, 32)
        return known

    def shadowed(self, operand: Resolved, type: str, value: Any) -> Any:
        """A source that has been read, with its undefined bits."""
        if value is None or not isinstance(operand, Reg | Const | SymbolAddress | Group):
            return value
        mask = self.read_shadow(operand, type_bits(type))
        if isinstance(value, tuple):
            return tuple(Shadowed(part, None if mask is None else mask[half]) for half, part in enumerate(value))
        if isinstance(operand, Reg) and operand.negated and mask is not None and element_type(type)[0] == "i" and type != "pred":
            mask = mask | self.x.neg(mask)
        known = None
        if mask is not None and isinstance(operand, Reg) and not operand.negated and self.has_range(operand.index, type):
            known = self.ranges.get(operand.index)
        return Shadowed(value, mask, known)

    def has_range(self, register: int, type: str) -> bool:
        """Whether a register may have a range as an operand of a type."""
        return element_type(type)[0] == "i" and self.ranges.follows(register, type_bits(type))

    def read_shadow(self, operand: Resolved, bits: int) -> Any:
        """The undefined bits of an operand, as an integer of so many bits, or a pair; None for none."""
        if isinstance(operand, Group):
            step = bits // len(operand.items)
            parts = [self.read_shadow(item, step) for item in operand.items]
            if all(part is None for part in parts):
                return None
            zero = self.code.const(self.x.vectors[f"i{step}"], 0) if step < 128 else None
            return self.pack([zero if part is None else part for part in parts], bits)
        mask = self.shadow(operand.index) if isinstance(operand, Reg) else None
        if mask is None or isinstance(mask, tuple):
            return mask
        return mask if mask.type == self.x.vectors[f"i{bits}"] else mask.to(self.x.vectors[f"i{bits}"])

    def follow(self, op: Op, specs: tuple[OperandSpec, ...], sources: list[Any], guard: Value | None) -> Any:
        """Evaluate an op with the undefined bits of its operands, give its destinations theirs, and return the values."""
        outputs = op.row.outputs
        given = [
            tuple(self.shadowed(item, spec.type, part) for item, part in zip(operand.items, source, strict=True))
            if spec.kind == "vector" and isinstance(operand, Group)
            else self.shadowed(operand, spec.type, source)
            if spec.kind in ("scalar", "vector", "pair")
            else source
            for operand, spec, source in zip(op.operands[outputs:], specs[outputs:], sources, strict=True)
        ]
        x = ShadowVocabulary(self.x)
        given = operands_once(op.operands[outputs:], (spec.type for spec in specs[outputs:]), given)
        result = op.row.semantics(x, op.q, *given)
        results = (result,) if outputs == 1 else result
        origin = self.joined_origin(op)
        undecided = None if op.guard is None else self.shadow(op.guard.index)
        masks: list[tuple[int, Any, Any, Range | None]] = []
        for operand, spec, made in zip(op.operands[:outputs], specs, results, strict=False):
            values = self.targets(operand, spec, _values(made))
            for (target, type, value), (_, _, mask) in zip(values, self.targets(operand, spec, _masks(x, made)), strict=True):
                if isinstance(target, Reg) and self.program.registers[target.index].shadow >= 0:
                    mask = self.fitted(mask, type, target.index)
                    change = None
                    if undecided is not None:
                        change = self.change(
                            mask, self.shadow(target.index), self.fitted(value, type, target.index), self.get(target.index)
                        )
                    follows = target is operand and isinstance(made, Shadowed) and self.has_range(target.index, type)
                    masks.append((target.index, mask, change, made.range if follows else None))
        for register, mask, change, made_range in masks:
            self.ranges.set(register, made_range, guard, undecided)
            self.set_shadow(register, mask, origin, guard)
            if undecided is not None:
                self.open(register, change, origin, undecided)
        return _values(result)

    def change(self, mask: Any, old_mask: Any, new: Any, old: Any) -> Any:
        """The bits that depend on whether a register is written: those undefined before or after the write, and those that it changes."""
        if isinstance(mask, tuple):
            return tuple(map(self.change, mask, old_mask, new, old))
        return mask | old_mask | (new.cast(mask.type) ^ old.cast(mask.type))

    def open(self, register: int, change: Any, origin: Value, undecided: Value) -> None:
        """Where it is undefined whether a register is written, the bits that depend on it are undefined."""
        mask = self.shadows[register]
        if isinstance(mask, tuple):
            self.shadows[register] = tuple(m | undecided.select(c, self.code.const(c.type, 0)) for m, c in zip(mask, change, strict=True))
        else:
            self.shadows[register] = mask | undecided.select(change, self.code.const(change.type, 0))
        self.origins[register] = undecided.select(origin, self.origins[register])

    def set_shadow(self, register: int, mask: Any, origin: Value, guard: Value | None) -> None:
        """Give a register its undefined bits."""
        if guard is not None:
            old = self.shadow(register)
            origin = guard.select(origin, self.origin(register))
            mask = tuple(guard.select(n, o) for n, o in zip(mask, old, strict=True)) if isinstance(mask, tuple) else guard.select(mask, old)
        self.shadows[register] = mask
        self.origins[register] = origin
        self.dirty_shadows[register] = None

    def joined_origin(self, op: Op) -> Value:
        """The origin of the undefined bits of the first operand that has some."""
        found = self.code.const(self.x.vectors["i32"], 0)
        guard = () if op.guard is None else (op.guard.index,)
        for register in reversed((*self.program.reads[op.index], *guard)):
            mask = self.shadow(register)
            if mask is not None:
                mask = mask[0] | mask[1] if isinstance(mask, tuple) else mask
                some = mask if mask.type == self.x.vectors["i1"] else mask.ne(0)
                found = some.select(self.origin(register), found)
        return found


def _values(result: Any) -> Any:
    """What semantics over `ShadowVocabulary` give, without the undefined bits."""
    return tuple(map(_values, result)) if isinstance(result, tuple | list) else result.value


def _masks(x: ShadowVocabulary, result: Any) -> Any:
    """The undefined bits alone."""
    return tuple(_masks(x, each) for each in result) if isinstance(result, tuple | list) else x.mask(result)


def symbol_address(code: Function, program: Program, context: Value, symbol: SymbolAddress) -> Value:
    """The address of a variable in its space, as i64."""
    if symbol.space == "shared":
        return context.word(Word.SHARED_RANK) + symbol.offset
    if symbol.space in ("global", "const"):
        slot = program.symbols.index(symbol.name)
        return context.pointer(Word.SYMBOLS).load("i64", slot) + symbol.offset
    return code.const("i64", symbol.offset)
