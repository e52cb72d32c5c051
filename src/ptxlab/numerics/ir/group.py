"""Steps on groups: LLVM code. Each group's sum is exact, is multiplied by its scales, and is then one term of the step.

The sum of a group is an integer of quarters below 2^12, its product with the significands of two scales has at most 20 bits: exact
until it is truncated at the window's last bit. Mostly the window truncates no term, which the exponents of the scales and of C show: then
the terms are added as integers in the unit of the smallest scales, and C, truncated if need be, in float64. Where terms are truncated, or
too far apart for 32 bits, each is added in float64. Where the processor can round toward zero, a sum of terms that float32 holds is added
to C in float32. What the scales' exponents alone put outside float32's range, NaN scales, and C
infinite or NaN go to ``general``, in float64 throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import reduce
from itertools import product
from operator import or_

from ptxlab.native import host
from ptxlab.native.builder import Function, Module, Value, Variable, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._floating_point_control import TOWARD_ZERO, floating_point_control
from ptxlab.numerics.ir._general import DEAD, F32_INFINITY, LANES, accumulator, cut_f32, power, with_specials, without_products
from ptxlab.numerics.ir._group_sums import Operands, sums_of
from ptxlab.numerics.ir.prepare_groups import (
    BITS,
    BLOCK,
    BLOCK_BITS,
    BLOCK_HIGH,
    BLOCK_LOW,
    BLOCKS,
    EXPONENTS,
    FACTORS,
    FLAGS,
    HIGH,
    LINE,
    LIVE,
    LOW,
    RANGE,
    SCALES,
    STARTS,
    UNIT,
    UNITS,
    VALUES,
    WORD,
)

__all__ = ["group_ir"]

LOWEST, HIGHEST = -74, 110
"""The largest exponents between which float32 products, scale and result are exact wherever the window reaches."""
FRACTION = 8
"""Fraction bits that a term has below the exponent of its scales: two of the elements, and three of each significand."""
FLOAT32_INTEGERS = 1 << 24
"""Float32 holds all integers up to this magnitude."""
MOST_BITS = 17
"""Of the largest integers of two rows of scales: so many and those of the sums of six groups are less than 32."""
VECTORS = 4
"""Vectors of cells of a row that are done together: at least LANES cells."""
WIDE_LANES = 16
PARAMETERS = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i64 keep, i64 sign, i64 groups"


def group_ir(step: Step, lanes: int) -> str:
    """The function ``mma`` and the ``general`` one that it calls."""
    module = Module()
    if host().has_mxcsr:
        code = Function(module, "mma", "void", PARAMETERS)
        with floating_point_control(code, TOWARD_ZERO):
            code.call("toward_zero", "void", *code.parameters)
        _Fast(module, "toward_zero", step, lanes)
    else:
        _Fast(module, "mma", step, lanes)
    _General(module, step)
    return module.finish()


class _Fast:
    """The function ``mma``, or the one that it calls with the rounding mode toward zero: all but the last sums are exact.

    Two rows of the accumulator are done together, which reads A once for both.
    """

    def __init__(self, module: Module, name: str, step: Step, lanes: int) -> None:
        self.step, self.lanes = step, lanes
        self.rounds_toward_zero = name == "toward_zero"
        code = self.code = Function(module, name, "void", PARAMETERS, internal=self.rounds_toward_zero)
        self.groups = code["groups"]
        self.words = code["count"].operation("sdiv", self.groups * WORD)
        arrays = (VALUES, SCALES, EXPONENTS, LIVE)
        self.a, self.b = ([code[name].pointer(j) for j in some] for name, some in (("a", arrays), ("b", (*arrays, STARTS))))
        self.a_flags, self.b_flags = (code[name].pointer(FLAGS) for name in "ab")
        self.of_b = {word: code["b"].pointer(word) for word in (HIGH, LOW, UNITS, BITS)}
        self.a_blocks, self.a_units = code["a"].pointer(BLOCKS), code["a"].pointer(UNITS)
        self.a_factors, self.b_factors = (code[name].pointer(FACTORS) for name in "ab")
        self.lda, self.ldb = (code[name].word(LINE) for name in "ab")
        self.options = [code[name].to("i32") for name in ("keep", "sign")]
        self.keep, self.sign = (option.splat(lanes) for option in self.options)
        self.width = lanes * VECTORS
        self.vectors_at_once = VECTORS if lanes >= WIDE_LANES else VECTORS // 2
        self.kept = [code.stack(f"[{self.width} x i32]", 64) for _ in range(2)]
        with code.loop(code["n"], 2) as n:
            several = (n + 1).lt(code["n"])
            together = several & (self.b_flags.load("i32", n) | self.b_flags.load("i32", several.select(n + 1, n))).eq(0)
            turns = (together | several.eq(0)).select(n + 1, n + 2)
            with code.loop(turns, start=n) as first:
                self._two_rows(first, together.select(n + 1, first))

    def _two_rows(self, first: Value, second: Value) -> None:
        """All cells of two rows, or of one that is given twice."""
        code = self.code
        rows = [_Row(self, n) for n in (first, second)]
        with code.when(self.b_flags.load("i32", first).eq(0)) as special:
            with code.loop(code["m"], self.width) as m:
                self._block(rows, m)
            special()
            with code.loop(code["m"], LANES) as m:
                self._general(rows[0], m)

    def _general(self, row: _Row, m: Value) -> None:
        b, o = self.code, row.operands
        a = (x.at(m, "i32") for x in (o.a_values, o.a_scales, o.a_exponents, o.a_live))
        line = (o.b_values, o.b_scales, o.b_exponents, o.b_live, o.b_starts)
        with floating_point_control(b, 0) if self.rounds_toward_zero else nullcontext():
            b.call("general", "void", row.acc.at(m, "i32"), *a, o.lda, *line, self.groups, self.words, *self.options, b.const("i32", 0))

    def _block(self, rows: list[_Row], m: Value) -> None:
        at = [m + self.lanes * j for j in range(VECTORS)]
        kept = [[memory.at(j * self.lanes, "i32") for j in range(VECTORS)] for memory in self.kept]
        cells = [_ExactCells(self, row, lane, kept[i][j]) for j, lane in enumerate(at) for i, row in enumerate(rows)]
        bounds = [_Bounds(self, row, m, cells[i :: len(rows)]) for i, row in enumerate(rows)]
        truncated = reduce(or_, (each.truncated for each in bounds)).variable()
        for row, bound, memory in zip(rows, bounds, self.kept, strict=True):
            with self.code.when(bound.has_short):
                self._truncate_accumulators(row, bound, m, memory, truncated)
        with self.code.when(truncated.get()) as otherwise:
            with self.code.loop(rows[1].n + 1, start=rows[0].n) as n:
                self._truncating_block(_Row(self, n), m, at)
            otherwise()
            self._add_integers(rows, at, cells)

    def _truncate_accumulators(self, row: _Row, bound: _Bounds, m: Value, memory: Value, truncated: Variable) -> None:
        """Truncate each C of a row of a block; where one is not zero and has no products, ``truncated`` is set."""
        code, type, window = self.code, vector("i32", self.lanes), self.step.window
        with code.loop(self.width, self.lanes) as j:
            c = memory.load(type, j)
            with code.when(((c & 0x7FFFFFFF) - 1).ult(bound.short).reduce("or")):
                (group_top,) = self._tops(row, [m + j])
                top = group_top.max(((c >> 23) & 255) - 127)
                up, down = (exponent << 23 for exponent in (top.constant(127 + window) - top, top + (127 - window)))
                cut = (c.bits("float") * up.bits("float")).intrinsic("trunc") * down.bits("float")
                memory.store(cut.bits("i32"), j)
                truncated.set(truncated.get() | (group_top.eq(DEAD) & (c << 1).ne(0)).reduce("or"))

    def _tops(self, row: _Row, at: Sequence[Value]) -> list[Value]:
        """The largest exponents of groups with products; DEAD where there are none."""
        code = self.code
        tops = [code.variable(vector("i32", self.lanes), DEAD) for _ in at]
        with code.loop(self.groups) as group:
            for top, lane in zip(tops, at, strict=True):
                top.set(top.get().max(row.operands.exponent(group, lane)))
        return [top.get() for top in tops]

    def _add_integers(self, rows: Sequence[_Row], at: Sequence[Value], cells: Sequence[_ExactCells]) -> None:
        """Add all terms, as integers, and store the cells."""
        code, lanes = self.code, self.lanes
        several = len(rows) * self.vectors_at_once
        for first in range(0, len(cells), several):
            some = cells[first : first + several]
            totals = [code.variable(vector("i32", lanes), 0) for _ in some]
            where = at[first // len(rows) : first // len(rows) + self.vectors_at_once]
            with code.loop(self.groups) as group:
                sums = sums_of([row.operands for row in rows], group, self.words, where)
                line = self.a_factors.at(group * self.lda, "i32")
                factors = product([line.load(vector("i32", lanes), m) for m in where], [row.factor(group).splat(lanes) for row in rows])
                for total, dot, (a, b) in zip(totals, sums, factors, strict=True):
                    total.set(total.get() + dot * (a * b))
            self._finish(some, [total.get() for total in totals])

    def _finish(self, cells: Sequence[_ExactCells], totals: Sequence[Value]) -> None:
        """Store the sums of cells with their terms."""
        if not self.rounds_toward_zero:
            for cell, total in zip(cells, totals, strict=True):
                cell.finish_in_float64(total)
            return
        with self.code.when(
            (reduce(or_, (total + FLOAT32_INTEGERS for total in totals)) & -2 * FLOAT32_INTEGERS).ne(0).reduce("or")
        ) as held:
            for cell, total in zip(cells, totals, strict=True):
                cell.finish_in_float64(total)
            held()
            for cell, total in zip(cells, totals, strict=True):
                cell.finish(total)

    def _truncating_block(self, row: _Row, m: Value, at: list[Value]) -> None:
        code = self.code
        cells = [_TruncatedCells(self, top, row, lane) for top, lane in zip(self._tops(row, at), at, strict=True)]
        with code.when(reduce(or_, (cell.lost for cell in cells)).reduce("or")) as otherwise:
            with code.loop(m + self.width, LANES, m) as here:
                self._general(row, here)
            otherwise()
            with code.loop(self.groups) as group:
                for cell, exact in zip(cells, sums_of([row.operands], group, self.words, at), strict=True):
                    cell.add(exact.convert("sitofp", "float"), row.operands.scale(group, cell.m))
            for cell in cells:
                cell.finish()


class _Row:
    """A row of the accumulator, with the row of B that belongs to it."""

    def __init__(self, kernel: _Fast, n: Value) -> None:
        self.n, self.sign = n, kernel.options[1].operation("ashr", 31)
        first = n * kernel.groups
        line = [kernel.b[0].at(n * kernel.ldb, "i32"), *(x.at(first, "i32") for x in kernel.b[1:])]
        self.operands = Operands(kernel.code, [*kernel.a, kernel.lda], line, kernel.lanes)
        self.factors = kernel.b_factors.at(first, "i32")
        self.about = {word: array.load("i32", n) for word, array in kernel.of_b.items()}
        self.acc = kernel.code["acc"].at(n * kernel.code["stride"])

    def factor(self, group: Value) -> Value:
        """The scale of a group as an integer, with the sign of the products."""
        return (self.factors.load("i32", group) ^ self.sign) - self.sign


class _Bounds:
    """What the scales of a block of rows of A and of a row of B, and their cells, allow.

    The largest exponent is at most that of the largest scales and of C. If the last bit of a term of the smallest scales is in the window
    below it, no term is truncated, and C only if its own last bit is not.

    Attributes
    ----------
    truncated : whether terms may be truncated, or may need more than 32 bits
    short, has_short : of which magnitude, less one, a C may be truncated, and whether there is one
    """

    def __init__(self, kernel: _Fast, row: _Row, m: Value, cells: Sequence[_ExactCells]) -> None:
        window = kernel.step.window
        block = kernel.a_blocks.at((m >> (BLOCK.bit_length() - 1)) << 2, "i32")
        high, low = block.load("i32", BLOCK_HIGH) + row.about[HIGH], block.load("i32", BLOCK_LOW) + row.about[LOW]
        spread = block.load("i32", RANGE) + (row.about[HIGH] - row.about[LOW])
        bits = block.load("i32", BLOCK_BITS) + row.about[BITS]
        most = window - FRACTION
        outside = spread.gt(most) | bits.gt(MOST_BITS) | low.lt(LOWEST) | high.gt(HIGHEST)
        magnitudes = [cell.c & 0x7FFFFFFF for cell in cells]
        largest = reduce(Value.max, magnitudes)
        # Zero is larger than all others less one.
        least = reduce(lambda one, other: one.intrinsic("umin", other), [x - 1 for x in magnitudes])
        beyond = ((low + most).min(HIGHEST) + 128).max(0) << 23
        self.short = (((high - (window - 23) + 127).max(0).min(255) << 23) - 1).max(0).splat(kernel.lanes)
        self.truncated = outside | largest.ge(beyond.splat(kernel.lanes)).reduce("or")
        self.has_short = least.ult(self.short).reduce("or")


class _ExactCells:
    """A vector of neighbouring cells of one row of the accumulator none of whose terms is truncated; C is kept in memory."""

    def __init__(self, kernel: _Fast, row: _Row, m: Value, kept: Value) -> None:
        self.row, self.m, self.units, self.type = row, m, kernel.a_units, vector("i32", kernel.lanes)
        self.c, self.kept = row.acc.load(self.type, m) & kernel.keep, kept
        kept.store(self.c)

    def finish(self, total: Value) -> None:
        """Store the sums of C and the terms, which the processor rounds toward zero; float32 holds the sum of the terms."""
        c, up = self._in_units()
        self._store((c + total.convert("sitofp", "float")) * up)

    def finish_in_float64(self, total: Value) -> None:
        """Store the sums of C and the terms, cut to float32."""
        c, up = self._in_units()
        exact = c.convert("fpext", "double") + total.convert("sitofp", "double")
        self._store((exact.bits("i64") & -(1 << 29)).bits("double").convert("fptrunc", "float") * up)

    def _in_units(self) -> tuple[Value, Value]:
        """C in the unit of the smallest scales, and this unit."""
        unit = self.units.load(self.type, self.m) + (self.row.about[UNITS] + ((2 * UNIT) << 23))
        down, up = (x.bits("float") for x in (unit.constant(127 << 23) - unit, unit + (127 << 23)))
        return self.kept.load(self.type).bits("float") * down, up

    def _store(self, result: Value) -> None:
        self.row.acc.store(result.bits("i32"), self.m)


class _TruncatedCells:
    """A vector of neighbouring cells of one row of the accumulator, and the sums of their truncated terms."""

    def __init__(self, kernel: _Fast, group_top: Value, row: _Row, m: Value) -> None:
        window = kernel.step.window
        self.row, self.m = row, m
        c = self.c = row.acc.load(vector("i32", kernel.lanes), m) & kernel.keep
        self.empty = group_top.eq(DEAD)
        top = group_top.max(((c >> 23) & 255).max(1) - 127)
        outside = (group_top.lt(LOWEST) | top.gt(HIGHEST)) & self.empty.eq(0)
        flagged = kernel.a_flags.load(vector("i32", kernel.lanes), m).ne(0)
        self.lost = outside | flagged | (c & F32_INFINITY).eq(F32_INFINITY)
        up = (top.constant(127 + window) - top) << 23
        self.down = ((top + (127 - window)) << 23).bits("float")
        self.up = (up ^ kernel.sign).bits("float")
        first = (c.bits("float") * up.bits("float")).intrinsic("trunc")
        self.total = first.convert("fpext", "double").variable()

    def add(self, exact: Value, scale: tuple[Value, Value]) -> None:
        """Add the sum of a group, times its scales, truncated."""
        # In this order nothing leaves float32's range that is not truncated to zero.
        term = (exact * (scale[0] * scale[1])) * self.up
        self.total.set(self.total.get() + term.intrinsic("trunc").convert("fpext", "double"))

    def finish(self) -> None:
        """Store the sums, cut to float32."""
        # Adding zero makes a sum of nothing but truncated negative terms positive.
        cut = ((self.total.get() + 0.0).bits("i64") & -(1 << 29)).bits("double").convert("fptrunc", "float")
        self.row.acc.store(self.empty.select(without_products(self.c), (cut * self.down).bits("i32")), self.m)


class _General:
    """LANES cells, any values."""

    def __init__(self, module: Module, step: Step) -> None:
        fields = ("values", "scales", "exponents", "live")
        names = [*(f"a{field}" for field in fields), *(f"b{field}" for field in (*fields, "starts"))]
        pointers = [f"ptr {name}" for name in names]
        parameters = ["ptr acc", *pointers[:4], "i64 lda", *pointers[4:], "i64 groups", "i64 words", "i32 keep", "i32 sign", "i32 scale"]
        code = self.code = Function(module, "general", "void", ", ".join(parameters), attributes="noinline", internal=True)
        a, b = ([code[name] for name in some] for some in (names[:4], names[4:]))
        zero = code.const("i64", 0)
        operands = Operands(code, [*a, code["lda"]], b, LANES)
        sign = code["sign"].splat(LANES)

        def term(group: Value) -> Value:
            exact = (sums_of([operands], group, code["words"], [zero])[0].convert("sitofp", "float").bits("i32") ^ sign).bits("float")
            one, other = (x.convert("fpext", "double") for x in operands.scale(group, zero))
            return exact.convert("fpext", "double") * one * other

        value, exponent = accumulator(code, step, code["acc"].load(vector("i32", LANES)) & code["keep"])
        largest, plain = exponent.max(step.floor).variable(), value.variable()
        with code.loop(code["groups"]) as group:
            plain.set(plain.get() + term(group))
            largest.set(largest.get().max(operands.exponent(group, zero)))
        top = largest.get()
        up = power(top.constant(step.window) - top)
        total = (value * up).intrinsic("trunc").variable()
        with code.loop(code["groups"]) as group:
            total.set(total.get() + (term(group) * up).intrinsic("trunc"))
        exact = cut_f32(total.get() * power(top - step.window), dropped=0)
        code["acc"].store(with_specials(step, plain.get(), exact))
