"""Runs of pure instructions: one loop over the lanes of the warp in vectors of the native width.

Values stay in LLVM registers; rows of the frame are read when first needed and written at the end, masked with the lanes that run.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.vocabulary import LlvmVocabulary
from ptxlab.engine.lowering.matching import operand_specs, read_source, write_result
from ptxlab.engine.lowering.register_use import constant_bits, flatten
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.program import Program
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.effects import Masking, Selection
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.native_ops import LaneAccess, Nothing
from ptxlab.isa.operands import Addr, Const, Group, Op, Reg, Resolved, SymbolAddress, Unused
from ptxlab.native.builder import Function, Value

__all__ = ["Segment", "element_type", "emit_segment"]


def element_type(type: str) -> str:
    """The vocabulary's element type for an operand type; 128-bit operands are pairs of i64."""
    if type in ("f32", "f64"):
        return type
    bits = type_bits(type)
    return "i64" if bits == 128 else f"i{bits}"


def emit_segment(
    code: Function, program: Program, width: int, context: Value, frame: Value, ops: list[Op], live: frozenset[int] | set[int]
) -> None:
    """Emit a run of inline ops; ``live``: the registers that are needed after it."""
    if not any(op.row.kind == "pure" or not isinstance(program.natives[op.index], Nothing) for op in ops):
        return
    with code.loop(32 // width, entered=True) as index:
        segment = Segment(code, program, width, context, frame, index)
        for op in ops:
            segment.emit(op)
        segment.flush(live)


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
        self.bases: dict[int, Value] = {}
        self.values: dict[int, Any] = {}
        self.old: dict[int, Any] = {}
        self.dirty: dict[int, None] = {}
        self.shadows: dict[int, Value] = {}
        self.dirty_shadows: dict[int, None] = {}
        self.symbols: dict[tuple[Resolved, int], Value] = {}
        self._mask: Value | None = None

    # ------------------------------------------------------------------------------------------------------------ rows

    def row(self, offset: int, bits: int) -> Value:
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

    def load_row(self, register: int) -> Any:
        """A register's row as integers (a pair of them for 128 bits)."""
        info = self.program.registers[register]
        if info.special in CLOCKS:
            return self.clock(register)
        if info.offset < 0:  # never written where this is reached
            kind = self.x.vectors["i64" if info.bits == 128 else f"i{16 if 1 < info.bits < 16 else info.bits}"]
            zero = self.code.const(kind, 0)
            return (zero, zero) if info.bits == 128 else zero
        if info.bits == 1:
            return self.lanes(self.row(info.offset, 1))
        if info.bits == 128:
            return tuple(self.row(info.offset + 256 * half, 64).load(self.x.vectors["i64"], align=8) for half in range(2))
        bits = max(info.bits, 16)
        return self.row(info.offset, bits).load(self.x.vectors[f"i{bits}"], align=self.width * bits // 8 if bits < 64 else 64)

    def clock(self, register: int) -> Value:
        """The logical clock."""
        info = self.program.registers[register]
        value = self.context.word(Word.CLOCK) >> CLOCKS[info.special]
        return value.to(f"i{info.bits}").splat(self.width)

    def get(self, register: int) -> Any:
        """What a register holds, in the type it was last made in."""
        value = self.values.get(register)
        if value is None:
            value = self.values[register] = self.old[register] = self.load_row(register)
        return value

    def flush(self, live: frozenset[int] | set[int]) -> None:
        """Write what is needed later into the frame, in the lanes that run."""
        for register in self.dirty:
            info = self.program.registers[register]
            if register not in live or info.offset < 0:
                continue
            new = self.values[register]
            old = self.old.get(register)
            if old is None:
                old = self.load_row(register)
            if info.bits == 1:
                self.put_lanes(self.row(info.offset, 1), new, old)
            elif info.bits == 128:
                for half in range(2):
                    made = self.mask.select(new[half], old[half])
                    self.row(info.offset + 256 * half, 64).store(made)
            else:
                bits = max(info.bits, 16)
                made = self.mask.select(new.cast(self.x.vectors[f"i{bits}"]), old)
                self.row(info.offset, bits).store(made, align=self.width * bits // 8 if bits < 64 else 64)
        for register in self.dirty_shadows:
            pointer = self.row(self.program.registers[register].shadow, 1)
            self.put_lanes(pointer, self.shadows[register], self.lanes(pointer))

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
            value = self.get(operand.index)
            have = self.program.registers[operand.index].bits
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

    def write(self, operand: Resolved, spec_type: str, value: Any, *, guard: Value | None) -> None:
        """Give a destination its value."""
        if isinstance(operand, Group):
            bits = type_bits(spec_type)
            narrow = f"b{bits // len(operand.items)}"
            for item, part in zip(operand.items, self.unpack(value, len(operand.items), bits), strict=True):
                self.write(item, narrow, part, guard=guard)
            return
        if not isinstance(operand, Reg):
            return
        info = self.program.registers[operand.index]
        if info.bits == 128:
            if guard is not None:
                old = self.get(operand.index)
                value = tuple(guard.select(n, o) for n, o in zip(value, old, strict=True))
        else:
            have = type_bits(spec_type)
            want = max(info.bits, 16) if info.bits > 1 else 1
            if have != want:
                value = value.cast(self.x.vectors[f"i{have}"])
                kind = self.x.vectors[f"i{want}"]
                value = value.sext(kind) if spec_type[0] == "s" and have < want else value.to(kind)
            if guard is not None:
                value = guard.select(value, self.get(operand.index).cast(value.type))
        self.values[operand.index] = value
        self.dirty[operand.index] = None

    # ------------------------------------------------------------------------------------------------------------- ops

    def emit(self, op: Op) -> None:
        """One instruction."""
        if op.row.kind == "native":
            native = self.program.natives[op.index]
            if isinstance(native, LaneAccess):
                self.parameter(op, native)
            return
        specs = operand_specs(op)
        outputs = op.row.outputs
        registers = self.program.registers
        tainted = any(registers[r].shadow >= 0 for r in self.program.writes[op.index])
        guard = None if op.guard is None else self.read(op.guard, "pred")
        sources = [read_source(self.read, operand, spec) for operand, spec in zip(op.operands[outputs:], specs[outputs:], strict=True)]
        shadow = self.shadow_of(op, sources, guard) if tainted else None
        result = op.row.semantics(self.x, op.q, *sources)
        results = (result,) if outputs == 1 else result
        for operand, spec, value in zip(op.operands[:outputs], specs, results, strict=False):
            write_result(partial(self.write, guard=guard), operand, spec, value)
        if shadow is not None:
            for register in self.program.writes[op.index]:
                self.shadows[register] = shadow
                self.dirty_shadows[register] = None

    def parameter(self, op: Op, native: LaneAccess) -> None:
        """A load from a constant address in the param space: the same value in all lanes."""
        address = op.operands[native.address]
        assert isinstance(address, Addr)
        assert isinstance(address.base, SymbolAddress)
        guard = None if op.guard is None else self.read(op.guard, "pred")
        base = self.context.pointer(Word.PARAM)
        at = address.base.offset + address.offset - PARAM_BASE
        target = op.operands[native.value]
        for k, item in enumerate(flatten(target)):
            if isinstance(item, Unused):
                continue
            scalar = base.at(at + k * native.bits // 8).load(f"i{native.bits}", align=native.bits // 8)
            value = scalar.splat(self.width)
            self.write(item, f"{'s' if native.signed else 'u'}{native.bits}", value, guard=guard)
        for register in self.program.writes[op.index]:
            if self.program.registers[register].shadow >= 0:
                self.shadows[register] = guard if guard is not None else self.code.const(self.x.vectors["i1"], 1)
                self.dirty_shadows[register] = None

    # ------------------------------------------------------------------------------------------------ undefined values

    def defined(self, register: int) -> Value | None:
        """The lanes in which a register is defined; None for all."""
        info = self.program.registers[register]
        if info.shadow < 0:
            return None
        known = self.shadows.get(register)
        if known is None:
            known = self.shadows[register] = self.lanes(self.row(info.shadow, 1))
        return known

    def shadow_of(self, op: Op, sources: list[Any], guard: Value | None) -> Value:
        """Where the result of an op is defined: where its sources are, selections and masking by constants taken exactly."""
        everywhere = self.code.const(self.x.vectors["i1"], 1)
        parts = [self.operand_defined(operand) for operand in op.operands[op.row.outputs :]]
        effects = op.effects
        if isinstance(effects, Selection):
            chosen = sources[2].select(parts[0] or everywhere, parts[1] or everywhere)
            parts = [chosen, parts[2]]
        elif isinstance(effects, Masking) and (parts[0] is not None or parts[1] is not None):
            one, other = parts[0] or everywhere, parts[1] or everywhere
            kind = sources[0].type
            decisive = self.code.const(kind, -1 if effects.decisive else 0)
            first = one & self.x.eq(sources[0], decisive)
            second = other & self.x.eq(sources[1], decisive)
            parts = [(one & other) | first | second]
        made = everywhere
        for part in parts:
            if part is not None:
                made = made & part
        if op.guard is not None and guard is not None:
            decided = self.defined(op.guard.index)
            if decided is not None:
                made = made & decided
            kept = self.defined(self.program.writes[op.index][0])
            made = guard.select(made, kept if kept is not None else everywhere)
        return made

    def operand_defined(self, operand: Resolved) -> Value | None:
        """The lanes in which an operand is defined; None for all."""
        if isinstance(operand, Reg):
            return self.defined(operand.index)
        if isinstance(operand, Group):
            found = [d for d in (self.operand_defined(item) for item in operand.items) if d is not None]
            if found:
                made = found[0]
                for part in found[1:]:
                    made = made & part
                return made
        return None


def symbol_address(code: Function, program: Program, context: Value, symbol: SymbolAddress) -> Value:
    """The address of a variable in its space, as i64."""
    if symbol.space == "shared":
        return context.word(Word.SHARED_RANK) + symbol.offset
    if symbol.space in ("global", "const"):
        slot = program.symbols.index(symbol.name)
        return context.pointer(Word.SYMBOLS).load("i64", slot) + symbol.offset
    return code.const("i64", symbol.offset)
