"""The undefined bits of registers in a segment."""

from __future__ import annotations

from typing import Any

from ptxlab.engine.llvm.segment._register_ranges import RegisterRanges
from ptxlab.engine.llvm.segment._register_values import RegisterValues
from ptxlab.engine.lowering.matching import OperandSpec, element_type
from ptxlab.engine.program import Program
from ptxlab.engine.undefined.vocabulary import Range, Shadowed, ShadowVocabulary, operands_once
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Group, Op, Reg, Resolved, SymbolAddress
from ptxlab.native.builder import Function, Value

__all__ = ["UndefinedValues"]


class UndefinedValues(RegisterValues):
    """Values of registers with their undefined bits, where these come from, and the ranges of numbers.

    Attributes
    ----------
    shadows, origins : of registers
    dirty_shadows : registers whose undefined bits are not in their rows
    """

    def __init__(self, code: Function, program: Program, width: int, context: Value, frame: Value, index: Value) -> None:
        super().__init__(code, program, width, context, frame, index)
        self.shadows: dict[int, Any] = {}
        self.origins: dict[int, Value] = {}
        self.dirty_shadows: dict[int, None] = {}
        self.ranges = RegisterRanges(code, program, width, self.load)

    def write_back_undefined(self, live: frozenset[int] | set[int]) -> None:
        """Write the undefined bits, origins and ranges that are needed later into the frame, in the lanes that run."""
        written = [register for register in self.dirty_shadows if register in live and self.program.registers[register].offset >= 0]
        for row, bits, end in self.ranges.written(written):
            self.store(row, bits, end, self.load(row, bits))
        for register in written:
            info = self.program.registers[register]
            self.store(info.shadow, info.bits, self.shadows[register], self.load(info.shadow, info.bits))
            self.store(info.origin, 32, self.origins[register], self.load(info.origin, 32))

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
