"""LLVM code that turns codes and scales of grouped steps into what their kernel reads.

A prepared operand is a header and its arrays. Values are halves of the elements' unit, as integers of 16 bits, two neighbours along K in a
word: a line of A holds one word of all rows, a line of B all words of one row. For each group there are its scale, the scale's exponent as
the significand is not normalised, and a bit for each element that is not zero if the scale is not; for each row, the largest and the
smallest exponent of its scales, and a flag if one of them needs the general path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS, decode
from ptxlab.native.builder import Function, Module, Value, vector

__all__ = ["EXPONENTS", "FLAGS", "HIGH", "LINE", "LIVE", "LOW", "SCALES", "UNIT", "VALUES", "extent", "prepare_groups_ir"]

VALUES, SCALES, EXPONENTS, LIVE, FLAGS, HIGH, LOW, LINE = range(8)
"""Words of the header: addresses of the arrays, and words from one line of values to the next."""
UNIT = 0.5
"""The value of an integer 1. It is a factor of the scales."""
MODEST = 50
"""Exponents of scales, up to which products of two scales stay inside float32's range."""
FAR = 1 << 12
"""Beyond every exponent: the smallest and the largest one of a row that needs the general path."""
LANES = 16
WORDS_OF_LANE = 4
"""Words whose codes 64 bits hold."""


def extent(padded: int, k: int, groups: int) -> int:
    """Bytes of the arrays of so many rows."""
    return 4 * padded * (k // 2 + 3 * groups + 3)


def _scales(fmt: str) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Of every code: value times UNIT, exponent as the significand is not normalised, a mask of zero, whether it needs the general path."""
    row = FORMATS[fmt]
    codes = np.arange(256, dtype=np.uint8)
    value = decode(codes, fmt)
    field = (codes & row.magnitude_mask).astype(np.int32) >> row.mantissa
    exponent = (field - row.bias if row.mantissa == 0 else np.maximum(field, 1) - row.bias).astype(np.int32)
    with np.errstate(over="ignore"):
        scaled = (value * np.float32(UNIT)).astype(np.float32)
    return scaled, exponent, np.where(value == 0, 0, -1).astype(np.int32), (np.isnan(value) | (np.abs(exponent) > MODEST)).astype(np.int32)


def prepare_groups_ir(scale: str) -> str:
    """The functions ``prepare_a`` and ``prepare_b`` for a type of scales.

    Codes [rows, k] and scales [rows, groups / repeats] are bytes, contiguous along the rows; each scale is that of ``repeats`` groups.
    """
    module = Module()
    for role in "ab":
        _Preparation(module, scale, role)
    return module.text()


class _Preparation:
    def __init__(self, module: Module, scale: str, role: str) -> None:
        parameters = "ptr codes, ptr scales, i64 rows, i64 k, i64 groups, i64 repeats, i64 padded, ptr out, i32 flip"
        code = self.code = Function(module, f"prepare_{role}", "void", parameters)
        value, exponent, mask, general = _scales(scale)
        self.tables = [code.constants("i32", table.view(np.int32).tolist()) for table in (value, exponent, mask, general)]
        self.role, self.padded, self.groups = role, code["padded"], code["groups"]
        self.words = code["k"] >> 1
        self.of_group = self.words.operation("sdiv", self.groups)
        self.kept = code["groups"].operation("sdiv", code["repeats"])
        values = code["out"].at(64)
        sizes = [self.words, *[self.groups] * 3, code.const("i64", 1), code.const("i64", 1)]
        arrays = [values]
        for size in sizes:
            arrays.append(arrays[-1].at(size * self.padded, "i32"))
        self.values, self.scales, self.exponents, self.live, self.flags, self.high, self.low = arrays
        for index, array in enumerate(arrays):
            code["out"].store(array, index)
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

    def _integers(self, codes: Value) -> Value:
        """Values of e2m1 codes in the low bits, in units of a half."""
        magnitude = codes & 7
        large = ((codes & 1) | 2).operation("shl", (magnitude >> 1).max(1) - 1)
        positive = magnitude.lt(2).select(magnitude, large)
        sign = ((codes >> 3) & 1) ^ self.code["flip"]
        return (positive ^ (sign.constant(0) - sign)) + sign

    def _words(self, raw: Value) -> tuple[Value, Value]:
        """Two neighbouring codes in the low bytes of each lane: the values as a word, and two bits for those that are not zero."""
        first, second = raw & 0xF, (raw >> 8) & 0xF
        word = (self._integers(first) & 0xFFFF) | (self._integers(second) << 16)
        bits = (first & 7).ne(0).convert("zext", "i32") | (second & 7).ne(0).convert("zext", "i32") << 1
        return word, bits

    def _columns(self, m: Value) -> None:
        """Values and bits of LANES rows of A; a lane takes the codes of several words at a time."""
        code = self.code
        buffer = code.variable(vector("i64", LANES), 0)
        count = (m + LANES).min(code["rows"]) - m
        with code.loop(self.groups) as group:
            bits = code.variable(vector("i32", LANES), 0)
            with code.loop(self.of_group, WORDS_OF_LANE) as index:
                word = group * self.of_group + index
                with code.loop(count) as j:
                    source = code["codes"].at((m + j) * code["k"] + word + word)
                    buffer.address.store(source.load("i64", align=1), j)
                codes = buffer.get()
                for next_word in range(WORDS_OF_LANE):
                    raw = (codes >> (16 * next_word)).convert("trunc", "i32")
                    value, nonzero = self._words(raw)
                    self.values.store(value, (word + next_word) * self.padded + m, align=4)
                    place = (index + index + 2 * next_word).to("i32").splat(LANES)
                    bits.set(bits.get() | nonzero.operation("shl", place))
            self.live.store(bits.get(), group * self.padded + m, align=4)

    def _line(self, n: Value) -> None:
        """Values and bits of a row of B."""
        code = self.code
        with code.loop(self.groups) as group:
            bits = code.variable("i32", 0)
            with code.loop(self.of_group, 8) as index:
                word = group * self.of_group + index
                raw = code["codes"].at(n * code["k"] + word + word).load("<8 x i16>", align=1).convert("zext", "i32")
                value, nonzero = self._words(raw)
                self.values.store(value, n * self.words + word, align=4)
                shifts = code.lanes("i32", 8) << 1
                bits.set(bits.get() | nonzero.operation("shl", shifts).reduce("or") << (index + index).to("i32"))
            self.live.store(bits.get(), n * self.groups + group)

    def _place(self, row: Value, group: Value) -> Value:
        return group * self.padded + row if self.role == "a" else row * self.groups + group

    def _summary(self, row: Value) -> None:
        """Scales, their exponents, and what a row needs."""
        code = self.code
        flag, high, low = code.variable("i32", 0), code.variable("i32", -FAR), code.variable("i32", FAR)
        with code.loop(self.groups) as group:
            at = row * self.kept + group.operation("sdiv", code["repeats"])
            index = code["scales"].at(at).load("i8").convert("zext", "i64")
            value, exponent, mask, general = (table.load("i32", index) for table in self.tables)
            place = self._place(row, group)
            self.scales.store(value, place)
            self.exponents.store(exponent, place)
            self.live.store(self.live.load("i32", place) & mask, place)
            flag.set(flag.get() | general)
            high.set(high.get().max(exponent))
            low.set(low.get().min(exponent))
        needs_general = flag.get().ne(0)
        self.flags.store(flag.get(), row)
        self.high.store(needs_general.select(high.get().constant(FAR), high.get()), row)
        self.low.store(needs_general.select(low.get().constant(-FAR), low.get()), row)

    def _empty(self, row: Value) -> None:
        """Zero in a row of the padding."""
        zero = self.code.const("i32", 0)
        with self.code.loop(self.groups) as group:
            for array in (self.scales, self.exponents, self.live):
                array.store(zero, self._place(row, group))
        for array in (self.flags, self.high, self.low):
            array.store(zero, row)
