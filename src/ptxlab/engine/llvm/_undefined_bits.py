"""Undefined bits between the runs of pure instructions: where they are observed, and what natives make of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce

from ptxlab.engine.context import Word
from ptxlab.engine.llvm._native_calls import Caller, Check, move_name
from ptxlab.engine.lowering.register_use import flatten, kept_operands, operand_registers
from ptxlab.engine.program import HOW_SHIFT, UNWRITTEN_REGISTER, Observed, Program
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import Atomic, Collective, CopyAsync, LaneAccess, MatrixAccess, TensorAccess
from ptxlab.isa.operands import Const, Op, PairOf, Reg, Resolved, Unused
from ptxlab.native.builder import Function, Value

__all__ = ["UndefinedBits"]


class UndefinedBits:
    """Code for the registers of a frame whose bits may be undefined."""

    def __init__(self, caller: Caller, frame: Value) -> None:
        self.caller = caller
        self.code: Function = caller.code
        self.program: Program = caller.program
        self.frame = frame

    def tracked(self, operands: Iterable[Resolved]) -> list[int]:
        """The registers of operands whose bits may be undefined."""
        return self.of(r for operand in operands for r in operand_registers(operand))

    def of(self, registers: Iterable[int]) -> list[int]:
        """Those of some registers whose bits may be undefined."""
        return [r for r in registers if self.program.registers[r].shadow >= 0]

    def lanes(self, register: int) -> Value:
        """The lanes in which some bit of a register is undefined."""
        info = self.program.registers[register]
        if info.bits == 1:
            return self.frame.at(info.shadow).load("i32")
        found: Value | None = None
        for offset, kind in self._rows(register):
            some = self.frame.at(offset).load(kind, align=64).ne(0).cast("i32")
            found = some if found is None else found | some
        assert found is not None
        return found

    def any_lane(self, registers: list[int]) -> Value:
        """The lanes in which some bit of some register is undefined."""
        return reduce(operator.or_, map(self.lanes, registers))

    def _rows(self, register: int) -> list[tuple[int, str]]:
        """Offsets and types of the rows of a shadow wider than a bit."""
        info = self.program.registers[register]
        if info.bits == 128:
            return [(info.shadow, "<32 x i64>"), (info.shadow + 256, "<32 x i64>")]
        return [(info.shadow, f"<32 x i{max(info.bits, 16)}>")]

    def set(self, register: int, undefined: Value, mask: Value) -> None:
        """Make all bits of a register undefined in the lanes ``undefined`` of ``mask``, and defined in the others of it."""
        info = self.program.registers[register]
        if info.bits == 1:
            place = self.frame.at(info.shadow)
            place.store((place.load("i32") & ~mask) | (undefined & mask))
            return
        for offset, kind in self._rows(register):
            place = self.frame.at(offset)
            ones, zeros = self.code.const(kind, -1), self.code.const(kind, 0)
            new = undefined.cast("<32 x i1>").select(ones, zeros)
            place.store(mask.cast("<32 x i1>").select(new, place.load(kind, align=64)), align=64)

    def define(self, op: Op, mask: Value) -> None:
        """The registers that an op writes are defined in the lanes of ``mask``."""
        for register in self.of(self.program.writes[op.index]):
            self.set(register, self.code.const("i32", 0), mask)

    def left_by_load(self, op: Op, lanes: Value) -> None:
        """In these lanes the guard of a load is false: what nothing else has written is undefined because of it."""
        for register in self.of(self.program.writes[op.index]):
            place = self.frame.at(self.program.registers[register].origin)
            old = place.load("<32 x i32>", align=64)
            fresh = old.uge(self.code.const("<32 x i32>", UNWRITTEN_REGISTER)).cast("i32") & lanes
            new = self.code.const("<32 x i32>", op.index + 1)
            place.store(fresh.cast("<32 x i1>").select(new, old), align=64)

    def observe(self, op: Op, registers: list[int], mask: Value, how: Observed) -> None:
        """Report an event, with the lanes in which these registers have undefined bits."""
        self._notify(op, self.any_lane(registers) & mask, how)

    def _notify(self, op: Op, found: Value, how: int) -> None:
        with self.code.when(found.ne(0)):
            self.caller.helper("observe", "void", self.caller.context, self.caller.number(op.index | how << HOW_SHIFT), found)

    # ----------------------------------------------------------------------------------------------------- mirrors

    def mirror(self, op: Op, native: object, mask: Value, check: Check) -> None:
        """After a native op of a mirrored program: move undefined bits between registers and mirrors of memory like the data."""
        caller, code = self.caller, self.code
        if isinstance(native, LaneAccess) and native.space not in ("param", "const"):
            self._mirror_lanes(op, native, mask)
        elif isinstance(native, MatrixAccess):
            rows = mask & ((1 << 8 * native.registers) - 1)
            mirrors = self._mirrors(rows, native.write)
            kind = f"{'st' if native.write else 'ld'}matrix_{native.element}{'t' if native.transposed else ''}"
            table, count = self._table(op.operands[native.value], 32)
            caller.helper(kind, "void", self.frame, mask, mirrors, code.const("i32", count), table)
            self._moved(op, native.value, native.write, mask)
        elif isinstance(native, TensorAccess):
            caller.context.set_word(Word.OBSERVE_HOSTS, 0)
            data = caller.context.word(Word.TENSOR)
            caller.context.set_word(Word.TENSOR, caller.context.word(Word.TENSOR_MIRROR))
            caller.tensor(op, native, self.frame, mask, self._table(op.operands[native.value], 32), check)
            caller.context.set_word(Word.TENSOR, data)
            self._moved(op, native.value, native.write, mask)
        elif isinstance(native, CopyAsync):
            self._copy(op, native, mask, check)
        elif isinstance(native, Atomic):
            caller.context.set_word(Word.OBSERVE_HOSTS, caller.hosts.convert("ptrtoint", "i64"))
            self._notify(op, mask, Observed.ATOMIC)

    def _copy(self, op: Op, native: CopyAsync, mask: Value, check: Check) -> None:
        """A copy to shared memory: lanes that read nothing, and bytes behind those that are read, get zeros."""
        caller, code = self.caller, self.code
        target = self._mirrors(mask, True)
        size = caller.number(native.size)
        caller.helper("defined", "void", mask, target, size)
        ignored = caller.predicate(self.frame, op.operands[native.ignore]) if native.ignore >= 0 else caller.number(0)
        reads, sizes = mask & ~ignored, code.const("ptr", 0)
        if native.source_size >= 0 and not isinstance(op.operands[native.source_size], Unused):
            sizes = caller.row(self.frame, op.operands[native.source_size], 32)
            reads = reads & sizes.load("<32 x i32>", align=64).ne(0).cast("i32")
        # The copy itself has checked its source: one byte is enough to find the memory.
        check(caller.resolve(self.frame, reads, "global", op.operands[native.source], 1, False, op, caller.hosts))
        source = self._mirrors(reads, False, self.frame.at(self.program.zeros + 768))
        self._notify(op, caller.helper("moved", "i32", reads, target, source, sizes, size), Observed.COPIED)

    def _mirrors(self, mask: Value, write: bool, out: Value | None = None) -> Value:
        caller, out = self.caller, out or self.addresses
        caller.context.set_word(Word.OBSERVE_HOSTS, caller.hosts.convert("ptrtoint", "i64"))
        caller.helper("mirrors", "void", caller.context, mask, caller.hosts, out, caller.number(int(write)))
        return out

    @property
    def addresses(self) -> Value:
        """A buffer for 32 addresses."""
        return self.frame.at(self.program.zeros + 512)

    def _table(self, operand: Resolved, bits: int) -> tuple[Value, int]:
        """A table of the frame offsets of the undefined bits of a vector's elements, and their number."""
        offsets = []
        for item in flatten(operand):
            tracked = isinstance(item, Reg) and self.program.registers[item.index].shadow >= 0
            sink = self.program.sink if isinstance(item, Unused) else self.program.zeros
            offsets.append(self.program.registers[item.index].shadow if tracked and isinstance(item, Reg) else sink)
        return self.code.constants("i32", offsets), len(offsets)

    def _mirror_lanes(self, op: Op, native: LaneAccess, mask: Value) -> None:
        operand = op.operands[native.value]
        bits = self.caller.register_bits(operand, max(native.bits, 16))
        mirrors = self._mirrors(mask, native.write)
        table, count = self._table(operand, bits)
        self.caller.helper(move_name(native, bits, count), "void", self.frame, mask, mirrors, self.caller.number(count), table)
        self._moved(op, native.value, native.write, mask)

    def _moved(self, op: Op, position: int, write: bool, mask: Value) -> None:
        """Undefined bits have been loaded or stored; some loads are always reported, since they may race."""
        registers = self.tracked([op.operands[position]])
        if registers:
            found = mask if op.index in self.program.observed_loads else self.any_lane(registers) & mask
            self._notify(op, found, Observed.STORED if write else Observed.LOADED)

    # ----------------------------------------------------------------------------------------------------- natives

    def perform(self, op: Op, native: object, mask: Value, check: Check) -> None:
        """Before a native op executes in the lanes of ``mask``: what it makes of the undefined bits of its operands."""
        if isinstance(native, Collective) and native.name in ("shfl", "vote", "match", "redux"):
            if self.tracked(op.operands):
                self._exchange(op, native, mask, check)
            return
        self.keep(op, native, mask)
        if not self.of(self.program.writes[op.index]):
            return
        if isinstance(native, LaneAccess) and op.guard is not None:
            self.left_by_load(op, self.caller.context.load("i32", 2 * Word.MASK) & ~mask)
        self.define(op, mask)

    def keep(self, op: Op, native: object, mask: Value) -> None:
        """Report what an op stores in memory of its cluster; in a mirrored program that is a matter of the mirrors."""
        stored = [] if self.program.mirrored else self.tracked(kept_operands(op, native))
        if stored:
            self.observe(op, stored, mask, Observed.STORED)

    def _exchange(self, op: Op, native: Collective, mask: Value, check: Check) -> None:
        """An exchange between lanes: shfl moves the undefined bits, ballot and match.any have some for each lane, the others mix all."""
        destination, source, *rest = op.operands
        pair = destination if isinstance(destination, PairOf) else PairOf(destination, Const(0))
        if native.name == "shfl":
            chooses = self.tracked(rest[:2])
            open_lanes = self.any_lane(chooses) & mask if chooses else self.code.const("i32", 0)
            if self.tracked([source]):
                self._shuffle(op, native, mask, check)
            else:
                self._spread(pair.first, self.code.const("i32", 0), mask)
            self._open(pair.first, open_lanes, chooses)
            self._spread(pair.second, open_lanes, mask)
            return
        registers = self.tracked([source])
        bad = self.any_lane(registers) & mask if registers else self.code.const("i32", 0)
        everywhere = bad.ne(0).select(mask, 0)
        ballot = native.name == "vote" and native.mode == "ballot"
        for target in self.tracked([destination]):
            if registers and native.name == "match" and native.mode == "any":
                bits = TYPE_BITS[native.type]
                members, values = self.caller.row(self.frame, op.operands[native.member], 32), self.caller.row(self.frame, source, bits)
                rows = (self.frame.at(self.program.registers[r].shadow) for r in (target, registers[0]))
                self.caller.helper(f"undecided_{bits}", "void", mask, members, *rows, values)
                everywhere = self.lanes(target) & mask
            elif ballot:
                place = self.frame.at(self.program.registers[target].shadow)
                old = place.load("<32 x i32>", align=64)
                place.store(mask.cast("<32 x i1>").select(bad.splat(32), old), align=64)
            else:
                self.set(target, everywhere, mask)
            if registers:
                came = self.frame.at(self.program.registers[registers[0]].origin).load("i32", (bad.lowest_bit() & 31).to("i64"))
                self._set_origin(target, came.splat(32), everywhere)

    def _shuffle(self, op: Op, native: Collective, mask: Value, check: Check) -> None:
        caller, frame, registers = self.caller, self.frame, self.program.registers
        destination, source, *rest = op.operands
        first = destination.first if isinstance(destination, PairOf) else destination
        members = caller.row(frame, op.operands[native.member], 32)
        sink = frame.at(self.program.sink + 256)
        rows = [caller.row(frame, operand, 32) for operand in rest[:2]]
        (came,) = operand_registers(source)
        for target in self.tracked([first]):
            for row in ("shadow", "origin"):
                into, out_of = (frame.at(getattr(registers[r], row)) for r in (target, came))
                check(caller.must(f"shfl_{native.mode}", caller.context, mask, members, into, sink, out_of, *rows, caller.number(op.index)))

    def _spread(self, operand: Resolved, undefined: Value, mask: Value) -> None:
        for register in self.tracked([operand]):
            self.set(register, undefined, mask)

    def _open(self, operand: Resolved, lanes: Value, because: list[int]) -> None:
        """All bits are undefined in these lanes, since the bits of other registers are."""
        for register in self.tracked([operand]) if because else ():
            self.set(register, lanes, lanes)
            self._set_origin(register, self.frame.at(self.program.registers[because[0]].origin).load("<32 x i32>", align=64), lanes)

    def _set_origin(self, register: int, origin: Value, lanes: Value) -> None:
        place = self.frame.at(self.program.registers[register].origin)
        place.store(lanes.cast("<32 x i1>").select(origin, place.load("<32 x i32>", align=64)), align=64)
