"""Truncated products and their sums in one instruction: fused multiply-adds of float64 that round down.

A float64 whose exponent does not change is a multiple of its last bit, which here is the window's. A fused multiply-add that rounds down
adds to it the largest multiple that is not above the product. That takes one instruction for eight lanes; a float32 product, its scaling,
its conversion and its addition take four for sixteen.

The window truncates toward zero, which for a negative product is one more, unless the product is a multiple. So that none is, the elements
of A are larger by a factor of 1 + 2^-30: then the sum of all products is that of the truncated ones, less the number of the negative ones,
which the signs of the elements tell. Nothing else changes: a product has at most 22 bits, so that it is at least 2^-22 of itself away from
each multiple that it is not, and it is less than 2^27 multiples.

Zeros become tiny numbers of their sign. Their products are less than one multiple, and negative ones are counted like the others.

The 32 low bits of such a float64 are those of the sum as an integer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ptxlab.native import host
from ptxlab.native.builder import Function, Value, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._cells import FieldCells, IntegerSum, is_avx512
from ptxlab.numerics.ir.prepare import CHUNK, SIGN

__all__ = ["STRETCH", "Float64Sums", "sums_in_float64"]

STRETCH = 128
"""Rows of A whose elements are kept as float64."""
LANES = 8
"""Of a vector of float64."""
CELLS = 2 * LANES
"""Of a vector of 32-bit integers: those with even numbers become one vector of float64, the others another one."""
UNROLLED = 4
"""Elements of one turn of the loop that adds products."""
WORD = 16
"""Elements of a row whose signs fit a 16-bit word."""
MOST_WORDS = 2
MOST_ELEMENTS = MOST_WORDS * WORD
"""Elements of a row."""
TINY = 32 << 23
"""2^-95: less than every moderate element by so much that the product with any is below the last bit of every window."""
LARGER = 1 + 2.0**-30
BIAS = 948
"""By how much the exponents of elements of A are less, but for the window: then the exponent field of a float32 is that of the float64
that holds the sum. They stay normal, tiny ones too."""
_DOWN = 9
"""The rounding of an AVX-512 instruction: down, without exceptions."""


def sums_in_float64(step: Step, lanes: int) -> bool:
    """Whether this processor truncates and adds a step's products faster this way. A sparse A has twice as many elements."""
    return host().prefers_float64_sums and is_avx512(vector("i32", lanes)) and 2 * step.k <= MOST_ELEMENTS


class Float64Sums:
    """Sums of products of STRETCH rows of A and ``rows`` rows of B, of two rows of B at a time.

    It keeps the elements of these rows as float64, and their signs.
    """

    def __init__(self, code: Function, step: Step, rows: int) -> None:
        self._code = code
        self._elements, self._factors = (code.stack(f"[{lines * MOST_ELEMENTS} x double]", 64) for lines in (STRETCH, rows))
        self._signs = code.stack(f"[{MOST_WORDS * STRETCH} x i32]", 64)
        self._row_signs = code.stack(f"[{MOST_WORDS * rows} x i16]", 64)
        self._pair_signs = code.stack(f"[{MOST_WORDS} x i32]", 64)
        self._factor = LARGER * 2.0 ** (step.window - BIAS)

    def read(self, a: Value, lda: Value, first: Value, end: Value) -> None:
        """Convert the elements of some rows of A."""
        code = self._code
        with code.loop(end, CELLS, first, entered=True) as m:
            signs = code.variable(vector("i32", CELLS), 0)
            with code.loop(code["count"], entered=True) as k:
                some = a.load(vector("i32", CELLS), k * lda + m)
                signs.set((some >> 31).intrinsic("fshr", signs.get(), some.constant(1)))
                numbers = _without_zeros(some)
                for half in range(2):
                    part = numbers.chosen(range(half, CELLS, 2)).convert("fpext", "double")
                    self._elements.store(part * self._factor, k * STRETCH + (m - first) + half * LANES)
            bits = signs.get() >> (code.const("i64", MOST_ELEMENTS) - code["count"]).to("i32").splat(CELLS)
            for number in range(MOST_WORDS):
                word = (bits >> WORD * number) & 0xFFFF
                self._signs.store(word | (word << WORD), m - first + STRETCH * number)

    def read_row(self, values: Value, sign: Value, place: Value) -> None:
        """Convert the elements of a row of B, the one at ``place`` of those that are kept; ``sign`` is XORed with them."""
        code = self._code
        present = (code.const("i32", 1) << code["count"].min(WORD).to("i32")) - 1
        with code.loop(code["count"], CHUNK, entered=True) as k:
            some = values.load(vector("i32", CHUNK), k) ^ sign
            self._factors.store(_without_zeros(some).convert("fpext", "double"), place * MOST_ELEMENTS + k)
            signs = some.lt(0).cast(f"i{CHUNK}") & present.to(f"i{CHUNK}")
            self._row_signs.store(signs, place * MOST_WORDS + (k >> CHUNK.bit_length() - 1))

    def begin(self, places: Sequence[Value]) -> None:
        """Join the signs of the rows of B at two places, whose products `add` adds next."""
        one, other = (self._row_signs.at(place * MOST_WORDS, "i16") for place in places)
        for number in range(MOST_WORDS):
            low, high = (row.load("i16", number).convert("zext", "i32") for row in (one, other))
            self._pair_signs.store(low | (high << WORD), number)

    def add(self, places: Sequence[Value], m: Value, sums: Sequence[IntegerSum]) -> None:
        """Add the truncated products to sums of neighbouring vectors of cells, from the m-th row of A on, each of both rows of B."""
        code = self._code
        # LLVM does not know the mask: so an instruction that shifts clears the other lanes, too.
        odd = code.opaque(code.const("i16", 0xAAAA)).cast(vector("i1", CELLS))
        cells = [each.cell for each in sums if isinstance(each.cell, FieldCells)]
        parts = [[start.variable() for start in _starts(cell.top, odd)] for cell in cells]
        rows = [self._factors.at(place * MOST_ELEMENTS, "double") for place in places]
        with code.loop(code["count"], UNROLLED, entered=True) as first:
            for k in (first + j for j in range(UNROLLED)):
                factors = [row.load("double", k).splat(LANES) for row in rows]
                line = self._elements.at(k * STRETCH + m, "double")
                for i, half in product(range(len(sums) // 2), range(2)):
                    elements = line.load(vector("double", LANES), i * CELLS + half * LANES)
                    for factor, halves in zip(factors, parts[2 * i :], strict=False):
                        rounded = "x86.avx512.vfmadd.pd.512", elements.type, f"i32 {_DOWN}"
                        halves[half].set(elements.target_intrinsic(*rounded, factor, halves[half].get()))
        for each, halves in zip(sums, parts, strict=True):
            even, odds = (half.get().cast(vector("i32", CELLS)) for half in halves)
            low = even.chosen([lane + side for lane in range(0, CELLS, 2) for side in (0, CELLS)], odds)
            each.total.set(each.total.get() + low)
        with code.loop(code["count"], WORD, entered=True) as first:
            number = first >> WORD.bit_length() - 1
            of_rows = self._pair_signs.load("i32", number).splat(CELLS)
            for i in range(len(sums) // 2):
                signs = self._signs.load(of_rows.type, number * STRETCH + m + i * CELLS) ^ of_rows
                counts = signs.cast(vector("i16", 2 * CELLS)).intrinsic("ctpop").cast(signs.type)
                for each, one in zip(sums[2 * i :], (1, 1 << WORD), strict=False):
                    each.total.set(each.total.get().add_pair_dot(counts, counts.constant(one)))


def _without_zeros(bits: Value) -> Value:
    """The float32 numbers with these bits, or tiny ones of the same sign."""
    return ((bits & ~SIGN).intrinsic("umax", bits.constant(TINY)) | (bits & SIGN)).bits("float")


def _starts(top: Value, odd: Value) -> tuple[Value, Value]:
    """What the sums of the even and the odd cells begin with, whose last bit is the window's: `FieldCells.top`, as float64."""
    pairs, double = vector("i64", LANES), vector("double", LANES)
    return (top.cast(pairs) << 29).cast(double), odd.select(top >> 3, 0).cast(double)
