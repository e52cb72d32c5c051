"""The sums of products of groups, as integers, and the scales of groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ptxlab.native import host
from ptxlab.native.builder import Function, Value, has_byte_pairs, lanes_of, vector
from ptxlab.numerics.ir._general import DEAD

__all__ = ["Operands", "sums_of"]

UNROLLED = 4
"""Words of one turn of the loop: those of a group, or half of them if A is sparse."""


class Operands:
    """Lanes of A against one row of B: scales and exponents of groups."""

    def __init__(self, code: Function, a: list[Value], b: list[Value], lanes: int) -> None:
        self.code, self.lanes = code, lanes
        self.a_values, self.a_scales, self.a_exponents, self.a_live, self.lda = a
        self.b_values, self.b_scales, self.b_exponents, self.b_live, self.b_starts = b

    def exponent(self, group: Value, m: Value) -> Value:
        """Of a group's scales; DEAD if all its products are zero."""
        at = group * self.lda + m
        both = self.a_live.load(vector("i32", self.lanes), at) & self.b_live.load("i32", group).splat(self.lanes)
        sum_ = self.a_exponents.load(vector("i32", self.lanes), at) + self.b_exponents.load("i32", group).splat(self.lanes)
        return both.eq(0).select(sum_.constant(DEAD), sum_)

    def scale(self, group: Value, m: Value) -> tuple[Value, Value]:
        """The scales of a group of A and of B; their product is that of the scales in units of the sums."""
        a = self.a_scales.load(vector("float", self.lanes), group * self.lda + m)
        return a, self.b_scales.load("float", group).splat(self.lanes)


class _ByteSum:
    """The sum of products of bytes in each lane of a vector; those of a group fit 16 bits."""

    def __init__(self, start: Value) -> None:
        self.start, self.lanes = start, lanes_of(start.type)
        self.in_pairs = not host().has_added_dots and has_byte_pairs(self.lanes)
        self.sum = start.function.variable(vector("i16", 2 * self.lanes), 0) if self.in_pairs else start.variable()

    def add(self, unsigned: Value, signed: Value) -> None:
        """Add the products of the four bytes of each lane."""
        sum_ = self.sum.get()
        self.sum.set(sum_ + unsigned.byte_pairs(signed) if self.in_pairs else sum_.add_byte_dot(unsigned, signed))

    def get(self) -> Value:
        """The sum, with what it starts from."""
        if not self.in_pairs:
            return self.sum.get()
        return self.start.add_pair_dot(self.sum.get().cast(self.start.type), self.start.constant(0x00010001))


def sums_of(rows: Sequence[Operands], group: Value, words: Value, at: Sequence[Value]) -> list[Value]:
    """Of a group's products, as integers: for some vectors of lanes, and for each of some rows of B. A group has so many words."""
    code, lanes, lda = rows[0].code, rows[0].lanes, rows[0].lda
    sums = [_ByteSum(row.b_starts.load("i32", group).splat(lanes)) for _ in at for row in rows]
    first = group * words
    with code.loop(first + words, UNROLLED, first) as word:
        for j in range(UNROLLED):
            b = [row.b_values.load("i32", word + j).splat(lanes) for row in rows]
            line = rows[0].a_values.at((word + j) * lda, "i32")
            a = [line.load(vector("i32", lanes), m) for m in at]
            for total, (raised, values) in zip(sums, product(a, b), strict=True):
                total.add(raised, values)
    return [total.get() for total in sums]
