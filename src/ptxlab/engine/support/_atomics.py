"""Compiled helpers for atom and red: read-modify-write lane by lane, lowest first."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.vocabulary import LlvmVocabulary
from ptxlab.engine.support._lanes import float_extreme
from ptxlab.engine.support.accesses import frame_row
from ptxlab.engine.support.event_rows import note_addition
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.scalar.float_helpers import NAN64
from ptxlab.native.builder import Module, Value

__all__ = ["add_doubles", "combine", "emit_atomic", "is_float", "was_rounded"]


def emit_atomic(module: Module, name: str) -> None:
    """``void atomic_OPERATION_TYPE(context, op, frame, mask, hosts, count, old, a, b)``: tables of frame offsets, ``old`` null for red."""
    _, operation, type, *in_global = name.split("_")
    bits = TYPE_BITS[type]
    parameters = "ptr context, i32 op, ptr frame, i32 mask, ptr hosts, i32 count, ptr old, ptr a, ptr b"
    c, (context, op, frame, mask, hosts, count, old_table, a_table, b_table) = module.define(f"void {name}({parameters})")
    counted = operation == "add" and is_float(type)

    def row(table: Value, k: Value) -> Value:
        return frame_row(frame, table, k)

    with c.each_bit(mask) as lane, c.loop(count.to("i64")) as k:
        cell = hosts.load("ptr", lane).at(k * (bits // 8))
        old = cell.load(f"i{bits}", align=1)
        a = _get(row(a_table, k), lane, bits)
        b = _get(row(b_table, k), lane, bits) if operation == "cas" else a
        made = combine(operation, type, old, a, b, bool(in_global))
        cell.store(made, align=1)
        if counted:
            table = context.pointer(Word.ADDITIONS)
            with c.when(table.ne(0)):
                note_addition(c, table, op, context.word(Word.AGENT) + lane, cell, was_rounded(type, old, a, made))
        with c.when(old_table.ne(0)):
            _put(row(old_table, k), lane, old, bits)


def _get(row: Value, lane: Value, bits: int) -> Value:
    if bits < 128:
        return row.at(lane * (bits // 8)).load(f"i{bits}", align=bits // 8)
    low = row.load("i64", lane).to("i128")
    return low | (row.at(256).load("i64", lane).to("i128") << 64)


def _put(row: Value, lane: Value, value: Value, bits: int) -> None:
    if bits < 128:
        row.at(lane * (bits // 8)).store(value, align=bits // 8)
        return
    row.store(value.to("i64"), lane)
    row.at(256).store((value >> 64).to("i64"), lane)


def is_float(type: str) -> bool:
    """Whether elements of a type are floating-point numbers."""
    return type[0] not in "us" and not (type[0] == "b" and type[1:].isdigit())


def combine(operation: str, type: str, old: Value, a: Value, b: Value, in_global: bool) -> Value:
    """What an operation makes of the old value and of its operands; ``in_global``: additions of f32 flush subnormals."""
    if operation == "exch":
        return a
    if operation == "cas":
        return old.eq(a).select(b, old)
    if operation in ("and", "or", "xor"):
        return old.operation(operation, a)
    if operation == "inc":
        return old.uge(a).select(0, old + 1)
    if operation == "dec":
        return (old.eq(0) | old.ugt(a)).select(a, old - 1)
    if type[0] in "usb" and type[1:].isdigit():
        if operation == "add":
            return old + a
        predicate = ("s" if type[0] == "s" else "u") + ("lt" if operation == "min" else "gt")
        return old.compare(predicate, a).select(old, a)
    if type in ("f16x2", "bf16x2"):
        low = combine(operation, type[:-2], old.to("i16"), a.to("i16"), a, False)
        high = combine(operation, type[:-2], (old >> 16).to("i16"), (a >> 16).to("i16"), a, False)
        return low.to("i32") | (high.to("i32") << 16)
    if operation == "add":
        return add_doubles(old, a, in_global) if type == "f64" else _float_add(type, old, a, in_global)
    return float_extreme(operation, 0x7C00 if type == "f16" else 0x7F80, old, a)


def add_doubles(old: Value, a: Value, in_global: bool, nan: int = NAN64) -> Value:
    """An H200's NaN: in global memory that of the operand before that of the old value, as it is; else the old value's first, quieted.

    ``nan``: the one of a sum of numbers.
    """

    def is_nan(bits: Value) -> Value:
        return (bits & 0x7FFFFFFFFFFFFFFF).ugt(0x7FF << 52)

    total = (old.cast("double") + a.cast("double")).cast("i64")
    found = is_nan(total).select(nan, total)
    for operand in (old, a) if in_global else (a, old):
        found = is_nan(operand).select(operand if in_global else operand | 1 << 51, found)
    return found


def _float_add(type: str, old: Value, a: Value, flush: bool) -> Value:
    x, y = (_widen(type, v) for v in (old, a))
    if flush:
        x, y = _flushed(x), _flushed(y)
    total = (x.cast("float") + y.cast("float")).cast("i32")
    if flush:
        total = _flushed(total)
    nan = (total & 0x7FFFFFFF).ugt(0x7F800000)
    if type == "f32":
        return nan.select(0x7FFFFFFF, total)
    if type == "f16":
        narrow = LlvmVocabulary(total.function, 1).f32_to_half(total.cast("<1 x float>")).cast("i16")
    else:
        narrow = ((total + (((total >> 16) & 1) + 0x7FFF)) >> 16).to("i16")
    return nan.select(0x7FFF, narrow)


def was_rounded(type: str, old: Value, a: Value, total: Value) -> Value:
    """Whether a sum is not exact; a NaN is as good as exact, for it comes in every order."""
    if type in ("f16x2", "bf16x2"):
        halves = [was_rounded(type[:-2], *((v >> shift).to("i16") for v in (old, a, total))) for shift in (0, 16)]
        return halves[0] | halves[1]

    def number(value: Value) -> Value:
        return value.cast("double") if type == "f64" else _widen(type, value).cast("float").convert("fpext", "double")

    x, y = number(old), number(a)
    s = x + y
    t = s - x
    lost = (x - (s - t)) + (y - t)  # the rounding error, exactly: Knuth's two-sum
    return s.ne(number(total)) | lost.ne(0.0)


def _widen(type: str, value: Value) -> Value:
    """The f32 bits of a value."""
    if type == "f16":
        return LlvmVocabulary(value.function, 1).half_to_f32(value.cast("<1 x i16>")).cast("i32")
    return value.to("i32") << 16 if type == "bf16" else value


def _flushed(bits: Value) -> Value:
    """Subnormals as zeros of their sign."""
    return (bits & 0x7F800000).eq(0).select(bits & 0x80000000, bits)
