"""The loop body of a run of inline instructions, for vectors of the native width.

Values stay in LLVM registers; rows of the frame are read when first needed and written at the end, masked with the lanes that run.
"""

from __future__ import annotations

from itertools import repeat

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.segment._moved_notes import emit_notes
from ptxlab.engine.llvm.segment._register_values import symbol_address
from ptxlab.engine.llvm.segment._undefined_values import UndefinedValues
from ptxlab.engine.lowering.matching import operand_specs, read_source
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import Program
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Addr, Op, SymbolAddress, Unused
from ptxlab.native.builder import Constant, Function, Value

__all__ = ["Segment", "symbol_address"]

_DEEP = 4
"""LLVM is not told how a value was computed that took so many operations.

For each sum it looks for bits of the operands that are known, through six instructions with all of their operands. In long scalar code
that was half of its time.
"""


class Segment(UndefinedValues):
    """Emits instructions.

    Attributes
    ----------
    depths : through how many operations LLVM can follow the value of a register; those that are not here have been loaded
    """

    def __init__(self, code: Function, program: Program, width: int, context: Value, frame: Value, index: Value) -> None:
        super().__init__(code, program, width, context, frame, index)
        self.depths: dict[int, int] = {}

    def flush(self, live: frozenset[int] | set[int]) -> None:
        """Write what is needed later into the frame, in the lanes that run."""
        self.write_back(list(self.dirty), live)
        if self.program.stepped:
            self.note_writes()
        self.write_back_undefined(live)

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
        written = self.program.writes[op.index]
        computed = [(r, v) for r in written if isinstance(v := self.values.get(r), Value) and v.type in self.integers]
        depth = 1 + max(map(self.depths.get, self.program.reads[op.index], repeat(0)), default=0) if computed else 0
        for register in written:
            self.depths[register] = 0
        for register, value in computed:
            if isinstance(value, Constant):
                continue
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
