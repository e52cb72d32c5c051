"""LLVM code that turns codes and scales of grouped steps into what their kernel reads.

A prepared operand is a header and its arrays. Values are halves of the elements' unit, as bytes, four neighbours along K in a word: a line
of A holds one word of all rows, a line of B all words of one row. Those of A are raised by RAISED, so that none is negative; what this adds
to the sum of a group of products is subtracted by where the sum begins, which B has for each group.

For each group there are its scale, the scale's exponent as the significand is not normalised, a bit for each element that is not zero if
the scale is not, and the scale as an integer in the unit of its row. For each row there are the largest and the smallest exponent of its
scales, the exponent of the unit in its place in a float32, the bits of the largest integer, and a flag if a scale needs the general path. A
has the extremes of these for each BLOCK of rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS, decode
from ptxlab.native.builder import Function, Module, Value, vector
from ptxlab.numerics.ir.prepare import transposed

__all__ = [
    "BITS",
    "BLOCK",
    "BLOCKS",
    "BLOCK_BITS",
    "BLOCK_HIGH",
    "BLOCK_LOW",
    "EXPONENTS",
    "FACTORS",
    "FLAGS",
    "HIGH",
    "LINE",
    "LIVE",
    "LOW",
    "RANGE",
    "SCALES",
    "STARTS",
    "UNIT",
    "UNITS",
    "VALUES",
    "WORD",
    "extent",
    "prepare_groups_ir",
]

VALUES, SCALES, EXPONENTS, LIVE, FLAGS, HIGH, LOW, LINE, FACTORS, STARTS, UNITS, BITS, BLOCKS = range(13)
"""Words of the header: addresses of the arrays, and words from one line of values to the next."""
BLOCK = 64
BLOCK_HIGH, BLOCK_LOW, RANGE, BLOCK_BITS = range(4)
"""Words of a block: the largest and the smallest exponent of scales, the largest distance of two in a row, and the largest bits."""
HEADER = 128
"""Bytes of the header."""
WORD = 4
"""Elements in a word of values."""
UNIT = -1
"""The exponent of an integer 1. It is a factor of the scales."""
RAISED = 12
"""What is added to the values of A: the largest magnitude."""
MODEST = 50
"""Exponents of scales, up to which products of two scales stay inside float32's range."""
FAR = 1 << 12
"""Beyond every exponent: the smallest and the largest one of a row that needs the general path."""
MOST_BITS = 24
"""Of an integer; a row that needs more has FAR."""
LANES = 16


def extent(padded: int, k: int, groups: int) -> int:
    """Bytes of the header beyond that of other operands, and of the arrays, of so many rows."""
    return 64 + 4 * padded * (k // WORD + 5 * groups + 6)


_ENTRY = 8
"""Words of a table of scales about one code."""


def _scales(fmt: str) -> list[NDArray[np.int32]]:
    """Columns about every code.

    The bits of its value times that of UNIT, its exponent as the significand is not normalised, a mask of zero, whether it needs the
    general path, its significand as an odd integer, and the exponent of that integer's unit.
    """
    row = FORMATS[fmt]
    codes = np.arange(256, dtype=np.uint8)
    value = decode(codes, fmt)
    field = (codes & row.magnitude_mask).astype(np.int32) >> row.mantissa
    exponent = (field - row.bias if row.mantissa == 0 else np.maximum(field, 1) - row.bias).astype(np.int32)
    with np.errstate(over="ignore"):
        scaled = (value * np.float32(2.0**UNIT)).astype(np.float32)
    is_plain = np.isfinite(value) & (value != 0)
    fraction, last = np.frexp(np.where(is_plain, value, 0).astype(np.float64))
    odd = (fraction * 2.0 ** (row.mantissa + 1)).astype(np.int32)
    zeros = np.where(is_plain, np.log2(np.maximum(odd & -odd, 1)), 0).astype(np.int32)
    unit = np.where(is_plain, last - (row.mantissa + 1) + zeros, FAR)
    general = np.isnan(value) | (np.abs(exponent) > MODEST)
    columns = scaled.view(np.int32), exponent, np.where(value == 0, 0, -1), general, odd >> zeros, unit, *[codes] * 2
    return [column.astype(np.int32) for column in columns]


def prepare_groups_ir(scale: str) -> str:
    """The functions ``prepare_a`` and ``prepare_b`` for a type of scales.

    Codes [rows, k] and scales [rows, groups / repeats] are bytes, contiguous along the rows; each scale is that of ``repeats`` groups.
    """
    module = Module()
    for role in "ab":
        _Preparation(module, scale, role)
    return module.finish()


class _Preparation:
    def __init__(self, module: Module, scale: str, role: str) -> None:
        parameters = "ptr codes, ptr scales, i64 rows, i64 k, i64 groups, i64 repeats, i64 padded, ptr out, i32 flip"
        code = self.code = Function(module, f"prepare_{role}", "void", parameters)
        self.scale_table = code.constants("i32", np.stack(_scales(scale), axis=1).reshape(-1).tolist())
        self.role, self.padded, self.groups = role, code["padded"], code["groups"]
        self.words = code["k"] >> 2
        self.of_group = self.words.operation("sdiv", self.groups)
        self.kept = code["groups"].operation("sdiv", code["repeats"])
        self.flip = (code["flip"] << 3).convert("trunc", "i8")
        rows = code.const("i64", 1)
        sizes = {VALUES: self.words, SCALES: self.groups, EXPONENTS: self.groups, LIVE: self.groups, FLAGS: rows, HIGH: rows, LOW: rows}
        sizes |= {FACTORS: self.groups, STARTS: self.groups, UNITS: rows, BITS: rows, BLOCKS: rows}
        self.arrays, end = {}, code["out"].at(HEADER)
        for word, size in sizes.items():
            self.arrays[word] = end
            code["out"].store(end, word)
            end = end.at(size * self.padded, "i32")
        code["out"].set_word(LINE, self.padded if role == "a" else self.words)
        if role == "a":
            with code.loop(self.padded, LANES) as m:
                self._columns(m)
        else:
            with code.loop(code["rows"]) as n:
                self._line(n)
        with code.loop(code["rows"]) as row:
            self._summary(row)
        with code.loop(self.padded, start=code["rows"]) as row:
            self._empty(row)
        if role == "a":
            with code.loop(self.padded, BLOCK) as row:
                self._block(row)

    def _values(self, codes: Value) -> Value:
        """Values of bytes with an e2m1 code in the low bits, in units of a half."""
        magnitude = codes & 7
        once = (codes & 1) | 2
        twice = once + once
        large = magnitude.gt(5).select(twice + twice, magnitude.gt(3).select(twice, once))
        positive = magnitude.gt(1).select(large, magnitude)
        negative = ((codes ^ self.flip) & 8).ne(0)
        return negative.select(positive.constant(0) - positive, positive)

    def _columns(self, m: Value) -> None:
        """Values and bits of LANES rows of A."""
        code, word_type = self.code, vector("i32", LANES)
        panel = code.stack(f"[{LANES} x {word_type}]", 64)
        source = code["codes"].at(m * code["k"])
        whole = (m + LANES).le(code["rows"])
        with code.loop(self.groups) as group:
            self.arrays[LIVE].store(code.const(word_type, 0), group * self.padded + m, align=4)
        with code.loop(self.words, LANES) as first:
            count = (first + LANES).min(self.words) - first
            with code.when(whole & count.eq(LANES)) as otherwise:
                here = source.at(first, "i32")
                for number, column in enumerate(transposed([here.at(code["k"] * j).load(word_type, align=1) for j in range(LANES)])):
                    panel.at(number, word_type).store(column)
                otherwise()
                with code.loop(count) as j:
                    panel.at(j, word_type).store(code.const(word_type, 0))
                with code.loop((m + LANES).min(code["rows"]), start=m) as row:
                    here = code["codes"].at(row * code["k"]).at(first, "i32")
                    with code.loop(count) as j:
                        panel.store(here.load("i32", j, align=1), j * LANES + (row - m))
            with code.loop(count) as j:
                word = first + j
                codes = panel.at(j, word_type).load(word_type).cast(vector("i8", WORD * LANES))
                raised = self._values(codes) + RAISED
                self.arrays[VALUES].store(raised.cast(word_type), word * self.padded + m, align=4)
                ones = (codes & 7).ne(0).convert("zext", "i8").cast(word_type)
                # The four bits are side by side at the top of the lowest 28 of the product.
                bits = ((ones * _GATHERED) >> 24) & 15
                # A group has four words, or eight.
                group = word >> ((self.of_group >> 3) + 2)
                place = ((word - group * self.of_group) << 2).to("i32").splat(LANES)
                live = group * self.padded + m
                so_far = self.arrays[LIVE].load(word_type, live, align=4)
                self.arrays[LIVE].store(so_far | bits.operation("shl", place), live, align=4)

    def _line(self, n: Value) -> None:
        """Values and bits of a row of B, and where the sums of its groups begin."""
        code = self.code
        with code.loop(self.groups) as group:
            bits, totals = code.variable("i32", 0), code.variable(vector("i32", LANES // WORD), 0)
            with code.loop(self.of_group << 2, LANES) as index:
                first = n * code["k"] + group * (self.of_group << 2) + index
                codes = code["codes"].at(first).load(vector("i8", LANES), align=1)
                values = self._values(codes)
                self.arrays[VALUES].at(first).store(values, align=4)
                bits.set(bits.get() | (codes & 7).ne(0).cast("i16").convert("zext", "i32").operation("shl", index.to("i32")))
                of_words = values.cast(vector("i32", LANES // WORD))
                totals.set(totals.get().add_byte_dot(of_words.constant(0x01010101), of_words))
            place = n * self.groups + group
            self.arrays[LIVE].store(bits.get(), place)
            self.arrays[STARTS].store(totals.get().reduce("add") * -RAISED, place)

    def _place(self, row: Value, group: Value) -> Value:
        return group * self.padded + row if self.role == "a" else row * self.groups + group

    def _summary(self, row: Value) -> None:
        """Scales, their exponents, and what a row needs."""
        code, arrays = self.code, self.arrays
        flag, high, low = code.variable("i32", 0), code.variable("i32", -FAR), code.variable("i32", FAR)
        unit, largest = code.variable("i32", FAR), code.variable("i32", 0)

        def entry(group: Value) -> Value:
            # A scale is that of one group or of two.
            at = row * self.kept + (group >> (code["repeats"] >> 1))
            return self.scale_table.at(code["scales"].at(at).load("i8").convert("zext", "i64") << (_ENTRY.bit_length() - 1), "i32")

        with code.loop(self.groups) as group:
            here = entry(group)
            value, exponent, mask, general, last = (here.load("i32", column) for column in (0, 1, 2, 3, 5))
            place = self._place(row, group)
            arrays[SCALES].store(value, place)
            arrays[EXPONENTS].store(exponent, place)
            arrays[LIVE].store(arrays[LIVE].load("i32", place) & mask, place)
            flag.set(flag.get() | general)
            high.set(high.get().max(exponent))
            low.set(low.get().min(exponent))
            unit.set(unit.get().min(last))
        with code.loop(self.groups) as group:
            odd, last = (entry(group).load("i32", column) for column in (4, 5))
            factor = odd.operation("shl", (last - unit.get()).min(MOST_BITS))
            arrays[FACTORS].store(factor, self._place(row, group))
            largest.set(largest.get() | factor)
        needs_general = flag.get().ne(0)
        arrays[FLAGS].store(flag.get(), row)
        arrays[HIGH].store(needs_general.select(high.get().constant(FAR), high.get()), row)
        arrays[LOW].store(needs_general.select(low.get().constant(-FAR), low.get()), row)
        arrays[UNITS].store(unit.get().eq(FAR).select(low.get(), unit.get()) << 23, row)
        bits = low.get().constant(32) - largest.get().intrinsic("ctlz", immediate="i1 false")
        arrays[BITS].store(bits.gt(MOST_BITS).select(bits.constant(FAR), bits), row)

    def _block(self, row: Value) -> None:
        """The extremes of a block of rows."""
        high, low, bits = (self.arrays[word].load(vector("i32", BLOCK), row, align=4) for word in (HIGH, LOW, BITS))
        extremes = high.reduce("smax"), low.reduce("smin"), (high - low).reduce("smax"), bits.reduce("smax")
        block = self.arrays[BLOCKS].at((row >> (BLOCK.bit_length() - 1)) << 2, "i32")
        for word, extreme in zip((BLOCK_HIGH, BLOCK_LOW, RANGE, BLOCK_BITS), extremes, strict=True):
            block.store(extreme, word)

    def _empty(self, row: Value) -> None:
        """Zero in a row of the padding."""
        zero = self.code.const("i32", 0)
        with self.code.loop(self.groups) as group:
            for array in (SCALES, EXPONENTS, LIVE, FACTORS):
                self.arrays[array].store(zero, self._place(row, group))
        for array in (FLAGS, HIGH, LOW, UNITS, BITS):
            self.arrays[array].store(zero, row)


_GATHERED = sum(1 << (24 - 7 * byte) for byte in range(WORD))
"""What makes a multiplication move the lowest bits of four bytes to neighbouring places."""
