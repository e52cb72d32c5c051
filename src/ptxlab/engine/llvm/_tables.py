"""Constant tables, and the halves of i32 as vectors of i16, in instructions that this processor is fast at.

The i16 of two registers of i32 stand in one register, by turns one of the first and one of the second: a shift and a choice of halves move
them. What works lane by lane need not know the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxlab.native import host
from ptxlab.native.builder import Value, element_of, lanes_of, vector

__all__ = ["high_halves", "joined", "looked_up", "looked_up_halves", "low_halves", "with_halves", "with_low_half"]


def joined(low: Value, high: Value) -> Value:
    """A vector of the lanes of two others."""
    lanes = 2 * lanes_of(low.type)
    return _shuffled(vector(element_of(low.type), lanes), range(lanes), low, high)


def _shuffled(type: str, lanes: Iterable[int], *vectors: Value) -> Value:
    """A vector of lanes of one vector, or of two."""
    first = vectors[0]
    second = str(vectors[1]) if len(vectors) > 1 else f"{first.type} poison"
    places = [f"i32 {lane}" for lane in lanes]
    return first.function.emit(f"shufflevector {first}, {second}, <{len(places)} x i32> <{', '.join(places)}>", type)


# ------------------------------------------------------------------------------------------------ halves


def low_halves(a: Value) -> Value:
    """The low halves of i32."""
    first, second = _two(a)
    return _alternating(first, second.operation("shl", 16))


def high_halves(a: Value) -> Value:
    """The high halves of i32."""
    first, second = _two(a)
    return _alternating(first.operation("lshr", 16), second)


def with_halves(low: Value, high: Value) -> Value:
    """The i32 with these halves."""
    words = vector("i32", lanes_of(low.type) // 2)
    low, high = low.cast(words), high.cast(words)
    if host().has_funnel_shift:
        amount = high.function.const(words, 16)
        turned = high.intrinsic("fshl", high, amount)
        return joined(_alternating(low, turned).cast(words), turned.intrinsic("fshl", low, amount))
    return joined(_alternating(low, high.operation("shl", 16)).cast(words), _alternating(low.operation("lshr", 16), high).cast(words))


def with_low_half(low: Value) -> Value:
    """I32 with this low half; the high half is that of another one."""
    words = low.cast(vector("i32", lanes_of(low.type) // 2))
    return joined(words, words.operation("lshr", 16))


def _two(a: Value) -> tuple[Value, Value]:
    """The lanes of the first half of a vector, and those of the second."""
    lanes = lanes_of(a.type) // 2
    return a.part(0, lanes), a.part(lanes, lanes)


def _alternating(even: Value, odd: Value) -> Value:
    """The low halves of i32 of one vector, and in the places between them the high halves of another: one instruction."""
    lanes = 2 * lanes_of(even.type)
    words = [each.cast(vector("i16", lanes)) for each in (even, odd)]
    return _shuffled(words[0].type, [lane + lanes * (lane % 2) for lane in range(lanes)], *words)


# ------------------------------------------------------------------------------------------------ tables


def looked_up(a: Value, first: int, table: tuple[int, ...]) -> tuple[Value, Value]:
    """The low and the high words of the 64-bit entries that the bits of i32 from ``first`` on select."""
    lanes, in_registers = lanes_of(a.type), _in_registers(table, 4)
    if lanes > (32 if in_registers else 16):
        halves = (looked_up(a.part(at, lanes // 2), first, table) for at in (0, lanes // 2))
        low, high = (joined(*each) for each in zip(*halves, strict=True))
        return low, high
    if in_registers and lanes == 32:
        found = _permuted(a, first, table, 4)
        return with_halves(found[0], found[1]), with_halves(found[2], found[3])
    index = _index(a, first, table)
    if host().vector_bits == 512 and lanes == 16:
        return _gathered(index, table)
    return _one_by_one(index, table)


def looked_up_halves(a: Value, first: int, table: tuple[int, ...]) -> tuple[Value, Value]:
    """The low and the high halves of the 32-bit entries that the bits of i32 from ``first`` on select."""
    if lanes_of(a.type) == 32 and _in_registers(table, 2):
        low, high = _permuted(a, first, table, 2)
        return low, high
    whole, _ = looked_up(a, first, table)
    return low_halves(whole), high_halves(whole)


def _in_registers(table: tuple[int, ...], parts: int) -> bool:
    """Whether so many halves of each entry are looked up in registers: an instruction selects from 64."""
    return len(table) in (64, 128) and parts * len(table) // 64 <= host().table_permutations


def _index(a: Value, first: int, table: tuple[int, ...]) -> Value:
    return a.operation("lshr", a.function.const(a.type, first)) & ((1 << (len(table) - 1).bit_length()) - 1)


def _permuted(a: Value, first: int, table: tuple[int, ...], parts: int) -> list[Value]:
    """So many halves of entries from tables of i16 in registers: an instruction selects from 64 by the low six bits of an index."""
    code, words, name = a.function, vector("i16", 32), "llvm.x86.avx512.vpermi2var.hi.512"
    code.module.declare(f"@{name}", f"declare {words} @{name}({words}, {words}, {words})")
    if first < 16:
        a = a.operation("shl", code.const(a.type, 16 - first))
    index = high_halves(a)
    if first > 16:
        index = index.operation("lshr", code.const(words, first - 16))
    found = []
    upper = (index & 64).ne(0)
    for part in range(parts):
        memory = code.constants("i16", [entry >> 16 * part & 0xFFFF for entry in table])
        rows = [memory.load(words, at) for at in range(0, len(table), 32)]
        each = [code.call(name, words, rows[i], index, rows[i + 1]) for i in range(0, len(rows), 2)]
        found.append(upper.select(each[1], each[0]) if len(each) > 1 else each[0])
    return found


def _gathered(index: Value, table: tuple[int, ...]) -> tuple[Value, Value]:
    """Entries from memory, eight with one instruction."""
    code = index.function
    name, entries = "llvm.x86.avx512.mask.gather.dpq.512", code.constants("i64", table)
    code.module.declare(f"@{name}", f"declare <8 x i64> @{name}(<8 x i64>, ptr, <8 x i32>, <8 x i1>, i32 immarg)")
    every = "<8 x i1> splat (i1 true), i32 8"
    eights = [
        code.emit(f"call <8 x i64> @{name}(<8 x i64> zeroinitializer, {entries}, {index.part(first, 8)}, {every})", "<8 x i64>")
        for first in (0, 8)
    ]
    return _words(eights, (range(0, 32, 2), range(1, 32, 2)))


def _one_by_one(index: Value, table: tuple[int, ...]) -> tuple[Value, Value]:
    """Entries lane by lane, which takes less time than a gather on Zen 3.

    The lanes of two vectors stand as one shuffle a word needs them.
    """
    code, lanes = index.function, lanes_of(index.type)
    entries, half = code.constants("i64", table), vector("i64", lanes // 2)
    pairs = index.cast(half)
    found = ["poison", "poison"]
    for lane in range(lanes):
        pair = code.emit(f"extractelement {pairs}, i32 {lane // 2}", "i64")
        entry = entries.load("i64", pair >> 32 if lane % 2 else pair & 0xFFFFFFFF)
        which, place = lane // 2 % 2, lane // 4 * 2 + lane % 2
        found[which] = code.emit(f"insertelement {half} {found[which]}, {entry}, i32 {place}", half).ref
    places = [4 * (lane // 4) + 2 * (lane % 2) + lanes * (lane // 2 % 2) for lane in range(lanes)]
    return _words([Value(code, half, ref) for ref in found], (places, [place + 1 for place in places]))


def _words(entries: Sequence[Value], places: Iterable[Sequence[int]]) -> tuple[Value, Value]:
    """The low and the high words of the entries in two vectors, which stand in these places."""
    lanes = 2 * lanes_of(entries[0].type)
    words = [each.cast(vector("i32", lanes)) for each in entries]
    low, high = (_shuffled(words[0].type, each, *words) for each in places)
    return low, high
