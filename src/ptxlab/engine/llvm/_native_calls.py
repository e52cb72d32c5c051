"""Native ops in compiled code: calls of the helpers, with rows and constants as arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from ptxlab._records import dataclass
from ptxlab.engine.context import Word
from ptxlab.engine.llvm.segment.segment import symbol_address
from ptxlab.engine.llvm.vocabulary import WIDE
from ptxlab.engine.lowering.register_use import constant_bits, flatten
from ptxlab.engine.program import LoadedWord, Program
from ptxlab.engine.support.accesses import COUNTS
from ptxlab.engine.support.counters import ATOMIC, COPY, LOAD, note_extent
from ptxlab.engine.word_sources import FIRST_CELL
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import Atomic, Collective, CopyAsync, LaneAccess, MatrixAccess, Native, Nothing, TensorAccess
from ptxlab.isa.operands import Addr, Const, Op, PairOf, Reg, Resolved, SymbolAddress, Unused
from ptxlab.layout import fragment
from ptxlab.native.builder import Function, Value

__all__ = ["Caller", "Check", "move_name"]

Check: TypeAlias = Callable[[Value], None]
"""How the status of a helper is handled: 0 continues, any other value leaves the region with this status."""

_COLUMN = 0xFFFF
"""The bits of an address in tensor memory that are the column."""
_UNKNOWN = (-1, 0, 0)
"""What a table has for a part of which it is not noted from where it comes."""
_PRIVATE = ("local", "param", "const")
"""Spaces whose accesses no other agent can conflict with."""
_SPACES = {"shared": "shared", "shared::cta": "shared", "shared::cluster": "cluster", "const": "global"}


def move_name(native: LaneAccess, bits: int, count: int) -> str:
    """The helper that moves vectors of so many elements between memory and rows of registers of ``bits``."""
    special = count if count in COUNTS.get(bits if bits == native.bits else 0, (1,)) else "n"
    if native.write:
        return f"store{native.bits}from{bits}x{special}"
    return f"load{native.bits}to{bits}{'s' if native.signed and bits > native.bits else ''}x{special}"


@dataclass(slots=True)
class Caller:
    """Emits the calls of one region; notes which helpers it uses."""

    code: Function
    program: Program
    context: Value
    hosts: Value
    used: dict[str, None] = field(default_factory=dict)

    # -------------------------------------------------------------------------------------------------------- operands

    def helper(self, name: str, result: str, *args: Value) -> Value:
        """Call a helper."""
        if name not in self.used:
            self.used[name] = None
            types = ", ".join(a.type for a in args)
            self.code.module.declare(f"@{name}", f"declare {result} @{name}({types})")
        return self.code.call(name, result, *args)

    def must(self, name: str, *args: Value) -> Value:
        """Call a helper that returns a status."""
        return self.helper(name, "i32", *args)

    def number(self, value: int) -> Value:
        """An i32 constant."""
        return self.code.const("i32", value)

    def row_offset(self, operand: Resolved, bits: int) -> int:
        """The frame offset of an operand's row."""
        program = self.program
        if isinstance(operand, Reg):
            return program.registers[operand.index].offset
        if isinstance(operand, Const):
            return program.constants[constant_bits(operand, bits), bits]
        return program.sink

    def row(self, frame: Value, operand: Resolved, bits: int) -> Value:
        """Pointer to an operand's row; the address of a variable is written into the sink row first."""
        if isinstance(operand, SymbolAddress):
            value = symbol_address(self.code, self.program, self.context, operand).to(f"i{bits}")
            place = frame.at(self.program.sink)
            place.store(value.splat(32), align=64)
            return place
        return frame.at(self.row_offset(operand, bits))

    def table(self, operand: Resolved, bits: int) -> tuple[Value, int]:
        """A table of the frame offsets of a vector operand's elements, and their number."""
        offsets = [self.row_offset(item, bits) for item in flatten(operand)]
        return self.code.constants("i32", offsets), len(offsets)

    def register_bits(self, operand: Resolved, otherwise: int) -> int:
        """Width of the rows of an operand: that of its registers."""
        for item in flatten(operand):
            if isinstance(item, Reg):
                return max(self.program.registers[item.index].bits, 16)
        return otherwise

    def predicate(self, frame: Value, operand: Resolved) -> Value:
        """A predicate operand as a 32-bit lane mask."""
        if isinstance(operand, Const):
            return self.number(-1 if operand.value & 1 else 0)
        if not isinstance(operand, Reg):
            return self.number(0)
        mask = frame.at(self.row_offset(operand, 1)).load("i32")
        return ~mask if operand.negated else mask

    def resolve(self, frame: Value, mask: Value, space: str, operand: Resolved, size: int, write: bool, op: Op, out: Value) -> Value:
        """Host addresses of a bracketed operand; the status."""
        source, row, offset = self.address(frame, operand)
        numbers = (self.number(size), self.number(int(write)), self.number(op.index))
        return self.must(f"resolve_{_SPACES.get(space, space)}_{source}", self.context, mask, row, offset, *numbers, out)

    def address(self, frame: Value, operand: Resolved) -> tuple[str, Value, Value]:
        """An address in brackets: the width of its register or ``u`` (uniform), the row of the register, and what is added."""
        code = self.code
        base = operand.base if isinstance(operand, Addr) else operand
        offset = code.const("i64", operand.offset if isinstance(operand, Addr) else 0)
        if isinstance(base, Reg):
            info = self.program.registers[base.index]
            return str(info.bits), frame.at(info.offset), offset
        if isinstance(base, SymbolAddress):
            offset = symbol_address(code, self.program, self.context, base) + offset
        return "u", code.const("ptr", 0), offset

    def count(self, frame: Value, mask: Value, space: str, operand: Resolved, size: int, op: Op, kind: str = "") -> None:
        """Count what an access costs, if the program is counted."""
        if self.program.counted and space not in _PRIVATE:
            source, row, offset = self.address(frame, operand)
            name = f"count_{_SPACES.get(space, space)}_{source}_{size}" + (f"_{kind}" if kind else "")
            self.helper(name, "void", self.context, mask, row, offset, self.number(op.index))

    # --------------------------------------------------------------------------------------------------------- natives

    def emit(self, op: Op, native: Native, frame: Value, mask: Value, check: Check) -> None:
        """One native op for the lanes of ``mask``; ``check`` handles a status that is not 0."""
        if isinstance(native, Nothing):
            self.record(op, mask)
            return
        emit: dict[type[Native], Callable[..., None]] = {
            LaneAccess: self._lane_access,
            Atomic: self._atomic,
            Collective: self._collective,
            MatrixAccess: self._matrix,
            TensorAccess: self._tensor,
            CopyAsync: self._copy,
        }
        emit[type(native)](op, native, frame, mask, check)

    def record(self, op: Op, mask: Value, number: Value | None = None, hosts: Value | None = None) -> None:
        """Note an access or a fence, if the program is recorded; of a copy the destination."""
        if self.program.recorded:
            code, index = self.code, self.number(op.index)
            self.helper("record", "void", self.context, mask, index, number or code.const("i64", 0), hosts or code.const("ptr", 0))

    def note_end(self, op: Op) -> None:
        """Note that lanes are at the end of a block, of which this is the last op, if a recorded program is to."""
        if op.index in self.program.noted_ends:
            code, mask = self.code, self.context.load("i32", 2 * Word.MASK)
            number = self.number(op.index + 2 * len(self.program.ops))
            self.helper("record", "void", self.context, mask, number, code.const("i64", 0), code.const("ptr", 0))

    def _lane_access(self, op: Op, native: LaneAccess, frame: Value, mask: Value, check: Check) -> None:
        size = native.size
        check(self.resolve(frame, mask, native.space, op.operands[native.address], size, native.write, op, self.hosts))
        self.count(frame, mask, native.space, op.operands[native.address], size, op, "" if native.write else LOAD)
        watched = self.program.recorded and native.space not in _PRIVATE
        if watched and native.write:
            self.helper("save", "void", self.context, mask, self.hosts, self.number(size))
        operand = op.operands[native.value]
        bits = self.register_bits(operand, max(native.bits, 16))
        table, count = self.table(operand, bits)
        self._follow(op, native, frame, mask)
        self.helper(move_name(native, bits, count), "void", frame, mask, self.hosts, self.number(count), table)
        if watched:
            unchanged = self.helper("unchanged", "i32", self.context, mask, self.hosts, self.number(size)) if native.write else None
            self.record(op, mask, None if unchanged is None else unchanged.to("i64"), self.hosts)

    def _follow(self, op: Op, native: LaneAccess, frame: Value, mask: Value) -> None:
        """Note for an observer from where lanes load, and that they store what they have loaded."""
        loaded = self.program.loaded
        if op.index in loaded.shared:
            name, each = ("wordsloaded", 32) if native.bits >= 32 else (f"elementsloaded_{native.bits // 8}", native.bits)
            self._follow_load(op, name, native.size * 8 // each, frame, mask)
        elif op.index in loaded.rows:
            self._note_addresses(op, op.operands[native.address], frame, mask)
        elif op.index in loaded.stores:
            size = min(native.bits // 8, 4)
            self._follow_store(op, "storedfrom" if size == 4 else f"elementsstoredfrom_{size}", frame, mask, size)

    def _note_addresses(self, op: Op, operand: Resolved, frame: Value, mask: Value, added: int = 0) -> None:
        """Note the addresses of an access in its row, with what is added to them."""
        source, row, offset = self.address(frame, operand)
        place = frame.at(self.program.loaded.rows[op.index])
        self.helper(f"loadedfrom_{source}", "void", self.context, mask, self._skipped(op, mask), row, offset + added, place)

    def _skipped(self, op: Op, mask: Value) -> Value:
        """The lanes that do not execute a load and whose registers are zero."""
        return self.context.load("i32", 2 * Word.MASK) & ~mask if op.index in self.program.loaded.zeros else self.number(0)

    def _follow_load(self, op: Op, helper: str, words: int, frame: Value, mask: Value) -> None:
        """Note from where the words come that lanes load from shared memory."""
        row = frame.at(self.program.loaded.rows[op.index])
        helper += "_bytes" if self.program.stores_parts_of_words else ""
        self.helper(helper, "void", self.context, mask, self._skipped(op, mask), self.hosts, self.number(words), row)

    def _follow_store(self, op: Op, helper: str, frame: Value, mask: Value, size: int = 4) -> None:
        """Note where the words come from that lanes store, or elements of fewer bytes."""
        parts, table, count = self._source_table(self.program.loaded.stores[op.index], size)
        self.helper(f"{helper}_{parts}", "void", self.context, mask, self.hosts, frame, count, table)

    def _source_table(self, words: Sequence[LoadedWord | None], size: int = 4) -> tuple[int, Value, Value]:
        """Into how many parts words are divided, a table that says where it is noted from where these come, and the number of words."""
        parts, noted = self.program.loaded.table(words, size)
        numbers = [number for part in noted for number in (_UNKNOWN if part is None else part)]
        return parts, self.code.constants("i32", numbers), self.number(len(words))

    def _atomic(self, op: Op, native: Atomic, frame: Value, mask: Value, check: Check) -> None:
        bits = TYPE_BITS[native.type]
        size = bits // 8 * native.count
        check(self.resolve(frame, mask, native.space, op.operands[native.address], size, True, op, self.hosts))
        self.count(frame, mask, native.space, op.operands[native.address], size, op, ATOMIC)
        self.record(op, mask, hosts=self.hosts)
        null = self.code.const("ptr", 0)
        count = native.count
        tables = [null] * 3
        if native.destination >= 0 and not isinstance(op.operands[native.destination], Unused):
            tables[0], count = self.table(op.operands[native.destination], bits)
        for k, position in enumerate(native.sources):
            tables[1 + k], count = self.table(op.operands[position], bits)
        name = f"atomic_{native.operation}_{native.type}{'_global' if native.adds_in_global else ''}"
        self.helper(name, "void", self.context, self.number(op.index), frame, mask, self.hosts, self.number(count), *tables)

    def _collective(self, op: Op, native: Collective, frame: Value, mask: Value, check: Check) -> None:
        operands = op.operands
        index = self.number(op.index)
        name = native.name
        if name == "activemask":
            self._merge(frame, operands[0], mask.splat(32), mask)
            return
        members = self.row(frame, operands[native.member], 32)
        if name == "warpsync":
            check(self.must("members", self.context, mask, members, index))
            return
        first = operands[0].first if isinstance(operands[0], PairOf) else operands[0]
        second: Resolved = operands[0].second if isinstance(operands[0], PairOf) else Unused()
        target = self.row(frame, first, 32)
        predicate = frame.at(self.row_offset(second, 1))
        if name == "elect":
            check(self.must("elect", self.context, mask, members, target, predicate, index))
        elif name == "shfl":
            rows = [self.row(frame, operand, 32) for operand in operands[1:4]]
            check(self.must(f"shfl_{native.mode}", self.context, mask, members, target, predicate, *rows, index))
        elif name == "vote":
            value = self.predicate(frame, operands[1])
            target = self.row(frame, first, 32 if native.mode == "ballot" else 1)
            check(self.must(f"vote_{native.mode}", self.context, mask, members, target, value, index))
        elif name == "match":
            bits = TYPE_BITS[native.type]
            source = self.row(frame, operands[1], bits)
            check(self.must(f"match_{native.mode}_{bits}", self.context, mask, members, target, predicate, source, index))
        elif name == "redux":
            source = self.row(frame, operands[1], 32)
            check(self.must(f"redux_{native.mode}_{native.type}", self.context, mask, members, target, source, index))
        else:
            raise ValueError(name)

    def _merge(self, frame: Value, operand: Resolved, value: Value, mask: Value) -> None:
        """Write a 32-bit value in all lanes of the mask."""
        place = self.row(frame, operand, 32)
        lanes = mask.cast("<32 x i1>")
        place.store(lanes.select(value, place.load("<32 x i32>", align=64)), align=64)

    def _matrix(self, op: Op, native: MatrixAccess, frame: Value, mask: Value, check: Check) -> None:
        code = self.code
        check(self.must("together", self.context, mask, self.number(op.index)))
        rows = mask & ((1 << 8 * native.registers) - 1)
        check(self.resolve(frame, rows, native.space, op.operands[native.address], native.row, native.write, op, self.hosts))
        self.count(frame, rows, native.space, op.operands[native.address], native.row, op)
        watched = self.program.recorded and native.write
        where = self.context, rows, self.hosts, self.number(native.row)
        if watched:
            self.helper("save", "void", *where)
        if op.index in self.program.loaded.stores:
            self._follow_store(op, "columnsstoredfrom" if native.transposed else "rowsstoredfrom", frame, mask)
        elif op.index in self.program.loaded.shared:
            self._follow_load(op, "columnsloaded" if native.transposed else "rowsloaded", native.registers, frame, mask)
        table, count = self.table(op.operands[native.value], 32)
        kind = f"{'st' if native.write else 'ld'}matrix_{native.element}{'t' if native.transposed else ''}"
        self.helper(kind, "void", frame, mask, self.hosts, code.const("i32", count), table)
        self.record(op, rows, self.helper("unchanged", "i32", *where).to("i64") if watched else None, self.hosts)

    def _tensor(self, op: Op, native: TensorAccess, frame: Value, mask: Value, check: Check) -> None:
        row, offset = self.tensor(op, native, frame, mask, self.table(op.operands[native.value], 32), check)
        if op.index in self.program.loaded.rows:
            self._note_addresses(op, op.operands[native.address], frame, mask, FIRST_CELL)
        if op.index in self.program.loaded.cells:
            parts, table, count = self._source_table(self.program.loaded.cells[op.index])
            name = f"cellsstoredfrom_{parts}_{native.shape}{'_pack' if native.pack else ''}"
            self.helper(name, "void", self.context, mask, row, self.number(offset), self._split(op, native), frame, count, table)
        if self.program.recorded or self.program.counted:
            first = row.load("i32", (mask.lowest_bit() & 31).to("i64")) if row.ref != "null" else self.number(0)
            place = (first + offset).to("i64")
            self.record(op, mask, place)
        if self.program.counted:
            column = place & _COLUMN
            columns = int(fragment(native.shape, native.repeat, native.pack).column.max()) + (2 if native.pack else 1)
            note_extent(self.context, op.index, column, column + columns)

    def tensor(
        self, op: Op, native: TensorAccess, frame: Value, mask: Value, registers: tuple[Value, int], check: Check
    ) -> tuple[Value, int]:
        """Move data between tensor memory and a table of rows; the row of the addresses, and what is added to them."""
        code = self.code
        operand = op.operands[native.address]
        base = operand.base if isinstance(operand, Addr) else operand
        offset = operand.offset if isinstance(operand, Addr) else 0
        if isinstance(base, Reg):
            row = frame.at(self.program.registers[base.index].offset)
        elif isinstance(base, SymbolAddress):
            row = self.row(frame, base, 32)
        else:
            row = code.const("ptr", 0)
            offset = constant_bits(base, 32) if isinstance(base, Const) else offset
        table, count = registers
        name = f"tensor_{'st' if native.write else 'ld'}_{native.shape}{'_pack' if native.pack else ''}"
        numbers = (self.number(offset), self.number(count), self._split(op, native), self.number(op.index))
        check(self.must(name, self.context, mask, row, table, *numbers))
        return row, offset

    def _split(self, op: Op, native: TensorAccess) -> Value:
        """The columns from the first to the second half of the lanes."""
        split = op.operands[native.split] if native.split >= 0 else Const(0)
        return self.number(constant_bits(split, 32) if isinstance(split, Const) else 0)

    def _copy(self, op: Op, native: CopyAsync, frame: Value, mask: Value, check: Check) -> None:
        code = self.code
        ignored = self.predicate(frame, op.operands[native.ignore]) if native.ignore >= 0 else self.number(0)
        check(self.resolve(frame, mask, "shared", op.operands[native.destination], native.size, True, op, self.hosts))
        self.record(op, mask, code.const("i64", native.size), self.hosts)
        self.count(frame, mask, "shared", op.operands[native.destination], native.size, op)
        sizes = code.const("ptr", 0)
        if native.source_size >= 0 and not isinstance(op.operands[native.source_size], Unused):
            sizes = self.row(frame, op.operands[native.source_size], 32)
        source, row, offset = self.address(frame, op.operands[native.source])
        numbers = (sizes, ignored, self.number(native.size), self.number(op.index))
        if self.program.counted:
            read = mask & ~ignored
            read = read if sizes.ref == "null" else read & sizes.load("<32 x i32>", align=64).ne(0).cast("i32")
            self.count(frame, read, "global", op.operands[native.source], native.size, op, COPY)
        check(self.must(f"copy_async_{source}", self.context, mask, self.hosts, row, offset, *numbers))
        if self.program.recorded:
            whole = sizes.ref == "null"
            name = f"source_{source}_{native.size}" + "_whole" * whole
            if name not in self.code.module.outlined:
                self.code.module.outlined[name] = name, "i32"
                self._define_source(name, source, native.size, whole)
            about = row, offset, sizes, self.number(op.index), self.number(op.index + len(self.program.ops))
            check(code.call(name, "i32", self.context, mask & ~ignored, self.hosts, *about))

    def _define_source(self, name: str, source: str, size: int, whole: bool) -> None:
        """A function that records for the observer, if it wants that, what the lanes of a copy read.

        That is one row for all lanes that read the same size. ``whole``: they all read the size of the copy.
        """
        parameters = "ptr context, i32 mask, ptr hosts, ptr row, i64 offset, ptr sizes, i32 op, i32 index"
        code = Function(self.code.module, name, "i32", parameters, attributes=WIDE, internal=True)
        context, mask, hosts, row, offset, sizes, op, index = code.parameters
        caller = Caller(code, self.program, context, hosts, self.used)

        def resolve(lanes: Value, bytes_: int) -> None:
            numbers = caller.number(bytes_), caller.number(0), op
            status = caller.must(f"resolve_global_{source}", context, lanes, row, offset, *numbers, hosts)
            with code.when(status.ne(0)):
                code.ret(status)

        def record(lanes: Value, bytes_: Value) -> None:
            caller.helper("record", "void", context, lanes, index, bytes_, hosts)

        with code.when(context.word(Word.SOURCES).eq(0)):
            code.ret(0)
        if whole:
            resolve(mask, size)
            record(mask, code.const("i64", size))
        else:
            read = sizes.load("<32 x i32>", align=64)
            # The copy itself has checked its source: one byte is enough to find the memory.
            resolve(mask & read.ne(0).cast("i32"), 1)
            all_bytes = mask & read.uge(size).cast("i32")
            record(all_bytes, code.const("i64", size))
            with code.when(mask.ne(all_bytes)), code.loop(code.const("i64", size - 1)) as before:
                record(mask & read.eq((before + 1).to("i32").splat(32)).cast("i32"), before + 1)
        code.ret(0)
