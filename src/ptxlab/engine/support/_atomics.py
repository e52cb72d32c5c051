"""Compiled helpers for atom and red: read-modify-write lane by lane, lowest first."""

from __future__ import annotations

from ptxlab.engine.addition_table import note_addition
from ptxlab.engine.context import Word
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.engine.llvm.vocabulary import LlvmVocabulary
from ptxlab.engine.lowering.register_use import atomic_bits
from ptxlab.isa.scalar.float_helpers import NAN64

__all__ = ["emit_atomic"]


def emit_atomic(unit: Unit, name: str) -> None:
    """``void atomic_OPERATION_TYPE(context, op, frame, mask, hosts, count, old, a, b)``: tables of frame offsets, ``old`` null for red."""
    _, operation, type, *in_global = name.split("_")
    bits = atomic_bits(type)
    params = [("ptr", "context"), ("i32", "op"), ("ptr", "frame"), ("i32", "mask"), ("ptr", "hosts"), ("i32", "count")]
    c = Code(unit, name, "void", [*params, ("ptr", "old"), ("ptr", "a"), ("ptr", "b")], attributes="nounwind")
    context, op, frame, mask, hosts, count, old_table, a_table, b_table = c.params
    counted = operation == "add" and not (type[0] in "us" and type[1:].isdigit())

    def row(table: Value, k: Value) -> Value:
        return c.at(frame, c.load("i32", c.at(table, k << 2), 4).to("i64"))

    with c.each_lane(mask) as lane, c.repeat(count.to("i64")) as k:
        cell = c.at(c.load("ptr", c.at(hosts, lane << 3), 8), k * (bits // 8))
        old = c.load(f"i{bits}", cell)
        a = _get(c, row(a_table, k), lane, bits)
        b = _get(c, row(b_table, k), lane, bits) if operation == "cas" else a
        made = _combine(c, operation, type, old, a, b, bool(in_global))
        c.store(made, cell)
        if counted:
            table = c.pointer(context, Word.ADDITIONS)
            with c.if_(table.ne(0)):
                note_addition(c, table, op, c.word(context, Word.AGENT) + lane, cell, _was_rounded(c, type, old, a, made))
        with c.if_(old_table.ne(0)):
            _put(c, row(old_table, k), lane, old, bits)
    c.ret()
    c.finish()


def _get(c: Code, row: Value, lane: Value, bits: int) -> Value:
    if bits < 128:
        return c.load(f"i{bits}", c.at(row, lane * (bits // 8)), bits // 8)
    low = c.load("i64", c.at(row, lane << 3), 8).to("i128")
    return low | (c.load("i64", c.at(c.at(row, 256), lane << 3), 8).to("i128") << 64)


def _put(c: Code, row: Value, lane: Value, value: Value, bits: int) -> None:
    if bits < 128:
        c.store(value, c.at(row, lane * (bits // 8)), bits // 8)
        return
    c.store(value.to("i64"), c.at(row, lane << 3), 8)
    c.store((value >> 64).to("i64"), c.at(c.at(row, 256), lane << 3), 8)


def _combine(c: Code, operation: str, type: str, old: Value, a: Value, b: Value, in_global: bool) -> Value:
    if operation == "exch":
        return a
    if operation == "cas":
        return c.select(old.eq(a), b, old)
    if operation in ("and", "or", "xor"):
        return c.binary(operation, old, a)
    if operation == "inc":
        return c.select(old.compare("uge", a), 0, old + 1)
    if operation == "dec":
        return c.select(old.eq(0) | old.compare("ugt", a), a, old - 1)
    if type[0] in "usb" and type[1:].isdigit():
        if operation == "add":
            return old + a
        predicate = ("s" if type[0] == "s" else "u") + ("lt" if operation == "min" else "gt")
        return c.select(old.compare(predicate, a), old, a)
    if type in ("f16x2", "bf16x2"):
        low = _combine(c, operation, type[:-2], old.to("i16"), a.to("i16"), a, False)
        high = _combine(c, operation, type[:-2], (old >> 16).to("i16"), (a >> 16).to("i16"), a, False)
        return low.to("i32") | (high.to("i32") << 16)
    if operation == "add":
        return _add_doubles(c, old, a, in_global) if type == "f64" else _float_add(c, type, old, a, in_global)
    return _float_extreme(c, type, operation, old, a)


def _add_doubles(c: Code, old: Value, a: Value, in_global: bool) -> Value:
    """An H200's NaN: in global memory that of the operand before that of the old value, as it is; else the old value's first, quieted."""

    def is_nan(bits: Value) -> Value:
        return (bits & 0x7FFFFFFFFFFFFFFF).compare("ugt", 0x7FF << 52)

    total = c.binary("fadd", old.cast("double"), a.cast("double")).cast("i64")
    found = c.select(is_nan(total), NAN64, total)
    for operand in (old, a) if in_global else (a, old):
        found = c.select(is_nan(operand), operand if in_global else operand | 1 << 51, found)
    return found


def _float_add(c: Code, type: str, old: Value, a: Value, flush: bool) -> Value:
    x, y = (_widen(c, type, v) for v in (old, a))
    if flush:
        x, y = _flushed(c, x), _flushed(c, y)
    total = c.binary("fadd", x.cast("float"), y.cast("float")).cast("i32")
    if flush:
        total = _flushed(c, total)
    nan = (total & 0x7FFFFFFF).compare("ugt", 0x7F800000)
    if type == "f32":
        return c.select(nan, 0x7FFFFFFF, total)
    if type == "f16":
        narrow = LlvmVocabulary(c, 1).f32_to_half(total.cast("<1 x float>")).cast("i16")
    else:
        narrow = ((total + (((total >> 16) & 1) + 0x7FFF)) >> 16).to("i16")
    return c.select(nan, 0x7FFF, narrow)


def _was_rounded(c: Code, type: str, old: Value, a: Value, total: Value) -> Value:
    """Whether a sum is not exact; a NaN is as good as exact, for it comes in every order."""
    if type in ("f16x2", "bf16x2"):
        halves = [_was_rounded(c, type[:-2], *((v >> shift).to("i16") for v in (old, a, total))) for shift in (0, 16)]
        return halves[0] | halves[1]

    def number(value: Value) -> Value:
        return value.cast("double") if type == "f64" else c.convert("fpext", _widen(c, type, value).cast("float"), "double")

    x, y = number(old), number(a)
    s = c.binary("fadd", x, y)
    t = c.binary("fsub", s, x)
    lost = c.binary("fadd", c.binary("fsub", x, c.binary("fsub", s, t)), c.binary("fsub", y, t))  # exactly, as Knuth has shown
    differs = c.raw(f"fcmp one double {s.ref}, {number(total).ref}", "i1")
    return differs | c.raw(f"fcmp one double {lost.ref}, 0.0", "i1")


def _widen(c: Code, type: str, value: Value) -> Value:
    """The f32 bits of a value."""
    if type == "f16":
        return LlvmVocabulary(c, 1).half_to_f32(value.cast("<1 x i16>")).cast("i32")
    return value.to("i32") << 16 if type == "bf16" else value


def _flushed(c: Code, bits: Value) -> Value:
    """Subnormals as zeros of their sign."""
    return c.select((bits & 0x7F800000).eq(0), bits & 0x80000000, bits)


def _float_extreme(c: Code, type: str, operation: str, old: Value, a: Value) -> Value:
    """Minimum or maximum of 16-bit floats: a NaN loses, -0 is below +0."""
    infinity = 0x7C00 if type == "f16" else 0x7F80

    def ordered(v: Value) -> Value:
        return v ^ (c.binary("ashr", v, 15) & 0x7FFF)

    better = ordered(old).compare("slt" if operation == "min" else "sgt", ordered(a))
    nan_old = (old & 0x7FFF).compare("ugt", infinity)
    nan_a = (a & 0x7FFF).compare("ugt", infinity)
    chosen = c.select(nan_old, a, c.select(nan_a, old, c.select(better, old, a)))
    return c.select(nan_old & nan_a, 0x7FFF, chosen)
