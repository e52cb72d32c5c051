"""Steps on groups: LLVM code. Each group's sum is exact, is multiplied by its scales, and is then one term of the step.

The sum of a group is an integer of quarters below 2^12, its product with the significands of two scales has at most 20 bits: exact
until it is truncated at the window's last bit. The sums of the terms need float64. Mostly the window truncates nothing: where the
exponents of the scales and of C show it, the terms are added as they are. What the scales' exponents alone put outside float32's range,
NaN scales, and C infinite or NaN go to ``general``, in float64 throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from operator import or_

from ptxlab.native.builder import Function, Module, Value, Variable, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._general import DEAD, F32_INFINITY, LANES, accumulator, cut_f32, power, with_specials, without_products
from ptxlab.numerics.ir.prepare_groups import EXPONENTS, FLAGS, HIGH, LINE, LIVE, LOW, SCALES, VALUES

__all__ = ["group_ir"]

LOWEST, HIGHEST = -74, 110
"""The largest exponents between which float32 products, scale and result are exact wherever the window reaches."""
FRACTION = 8
"""Fraction bits that a term has below the exponent of its scales: two of the elements, and three of each significand."""
VECTORS = 4
"""Vectors of cells of a row that are done together, with the registers of AVX-512; else half as many."""
WIDE_LANES = 16
ROWS = 2
"""Rows of the accumulator that are done together."""


def group_ir(step: Step, lanes: int) -> str:
    """The function ``mma`` and the ``general`` one that it calls."""
    module = Module()
    _Fast(module, step, lanes)
    _General(module, step)
    return module.text()


class _Operands:
    """Lanes of A against one row of B: scales and exponents of groups."""

    def __init__(self, code: Function, a: list[Value], b: list[Value], lanes: int) -> None:
        self.code, self.lanes = code, lanes
        self.a_values, self.a_scales, self.a_exponents, self.a_live, self.lda = a
        self.b_values, self.b_scales, self.b_exponents, self.b_live = b

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


def _sums(rows: Sequence[_Operands], group: Value, pairs: Value, at: Sequence[Value]) -> list[Variable]:
    """Of a group's products, as integers: for some vectors of lanes, and for each of some rows of B. ``pairs`` of elements are a group."""
    code, lanes, lda = rows[0].code, rows[0].lanes, rows[0].lda
    sums = [code.variable(vector("i32", lanes), 0) for _ in at for _ in rows]
    first = group * pairs
    with code.loop(first + pairs, UNROLLED, first) as pair:
        for j in range(UNROLLED):
            b = [row.b_values.load("i32", pair + j).splat(lanes) for row in rows]
            line = rows[0].a_values.at((pair + j) * lda, "i32")
            a = [line.load(vector("i32", lanes), m) for m in at]
            for total, (values, other) in zip(sums, product(a, b), strict=True):
                total.set(total.get() + values.pair_dot(other))
    return sums


UNROLLED = 8
"""Pairs of elements of one turn of the loop: those of a group, or half of them if A is sparse."""


class _Fast:
    """The function ``mma``. Rows of the accumulator are done two at a time, which reads A once for both."""

    def __init__(self, module: Module, step: Step, lanes: int) -> None:
        self.step, self.lanes = step, lanes
        parameters = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 sign, i32 groups"
        code = self.code = Function(module, "mma", "void", parameters)
        self.groups = code["groups"].convert("sext", "i64")
        self.pairs = code["count"].operation("sdiv", self.groups + self.groups)
        arrays = (VALUES, SCALES, EXPONENTS, LIVE)
        self.a, self.b = ([code[name].pointer(j) for j in arrays] for name in "ab")
        self.a_flags, b_flags = (code[name].pointer(FLAGS) for name in "ab")
        self.a_high, self.a_low = (code["a"].pointer(j) for j in (HIGH, LOW))
        self.b_high, self.b_low = (code["b"].pointer(j) for j in (HIGH, LOW))
        self.lda, self.ldb = (code[name].word(LINE) for name in "ab")
        self.keep, self.sign = code["keep"].splat(lanes), code["sign"].splat(lanes)
        self.vectors = VECTORS if lanes >= WIDE_LANES else VECTORS // 2
        self.width = lanes * self.vectors
        with code.loop(code["n"], ROWS) as n:
            several = (n + (ROWS - 1)).lt(code["n"])
            flagged = reduce(or_, (b_flags.load("i32", several.select(n + i, n)) for i in range(ROWS)))
            with code.when(several & flagged.eq(0)) as otherwise:
                rows = [_Row(self, n + i) for i in range(ROWS)]
                with code.loop(code["m"], self.width) as m:
                    self._block(rows, m)
                otherwise()
                with code.loop((n + ROWS).min(code["n"]), start=n) as one:
                    row = _Row(self, one)
                    with code.when(b_flags.load("i32", one).eq(0)) as special:
                        with code.loop(code["m"], self.width) as m:
                            self._block([row], m)
                        special()
                        with code.loop(code["m"], LANES) as m:
                            self._general(row, m)

    def _general(self, row: _Row, m: Value) -> None:
        b, o = self.code, row.operands
        a = (x.at(m, "i32") for x in (o.a_values, o.a_scales, o.a_exponents, o.a_live))
        line = (o.b_values, o.b_scales, o.b_exponents, o.b_live)
        b.call("general", "void", row.acc.at(m, "i32"), *a, o.lda, *line, self.groups, self.pairs, b["keep"], b["sign"], b.const("i32", 0))

    def _block(self, rows: list[_Row], m: Value) -> None:
        at = [m + self.lanes * j for j in range(self.vectors)]
        exact = [_ExactCells(self, row, lane) for lane in at for row in rows]
        with self.code.when(reduce(or_, (cells.truncated for cells in exact)).reduce("or")) as otherwise:
            for row in rows:
                self._truncating_block(row, m, at)
            otherwise()
            self._add_terms(rows, at, exact)

    def _truncating_block(self, row: _Row, m: Value, at: list[Value]) -> None:
        code, lanes = self.code, self.lanes
        tops = [code.variable(vector("i32", lanes), DEAD) for _ in at]
        with code.loop(self.groups) as group:
            for top, lane in zip(tops, at, strict=True):
                top.set(top.get().max(row.operands.exponent(group, lane)))
        cells = [_TruncatedCells(self, top.get(), row, lane) for top, lane in zip(tops, at, strict=True)]
        with code.when(reduce(or_, (cell.lost for cell in cells)).reduce("or")) as otherwise:
            with code.loop(m + self.width, LANES, m) as here:
                self._general(row, here)
            otherwise()
            self._add_terms([row], at, cells)

    def _add_terms(self, rows: Sequence[_Row], at: Sequence[Value], cells: Sequence[_ExactCells | _TruncatedCells]) -> None:
        with self.code.loop(self.groups) as group:
            sums = _sums([row.operands for row in rows], group, self.pairs, at)
            for cell, total in zip(cells, sums, strict=True):
                cell.add(total.get().convert("sitofp", "float"), cell.row.operands.scale(group, cell.m))
        for cell in cells:
            cell.finish()


class _Row:
    """A row of the accumulator, with the row of B that belongs to it."""

    def __init__(self, kernel: _Fast, n: Value) -> None:
        first = n * kernel.groups
        line = [kernel.b[0].at(n * kernel.ldb, "i32"), *(x.at(first, "i32") for x in kernel.b[1:])]
        self.operands = _Operands(kernel.code, [*kernel.a, kernel.lda], line, kernel.lanes)
        self.high, self.low = (x.load("i32", n).splat(kernel.lanes) for x in (kernel.b_high, kernel.b_low))
        self.acc = kernel.code["acc"].at(n * kernel.code["stride"])


class _ExactCells:
    """A vector of neighbouring cells of one row of the accumulator whose terms, and C, may end above the window's last bit.

    The largest exponent is at most that of the largest scales and of C; if the last bits of C and of a term of the smallest scales
    are in the window below it, nothing is truncated.

    Attributes
    ----------
    truncated : where that is not known
    """

    def __init__(self, kernel: _Fast, row: _Row, m: Value) -> None:
        self.row, self.m, self.sign = row, m, kernel.sign
        lanes, window = kernel.lanes, kernel.step.window
        c = self.c = row.acc.load(vector("i32", lanes), m) & kernel.keep
        high = kernel.a_high.load(vector("i32", lanes), m) + row.high
        low = kernel.a_low.load(vector("i32", lanes), m) + row.low
        c_exponent = ((c >> 23) & 255) - 127
        top = high.max(c_exponent)
        c_is_short = (top - c_exponent).gt(window - 23) & (c << 1).ne(0)
        self.truncated = (top - low).gt(window - FRACTION) | c_is_short | high.lt(LOWEST) | top.gt(HIGHEST)
        self.total = c.bits("float").convert("fpext", "double").variable()

    def add(self, exact: Value, scale: tuple[Value, Value]) -> None:
        """Add the sum of a group, times its scales."""
        term = ((exact * (scale[0] * scale[1])).bits("i32") ^ self.sign).bits("float")
        self.total.set(self.total.get() + term.convert("fpext", "double"))

    def finish(self) -> None:
        """Store the sums, cut to float32."""
        # Adding zero makes a negative zero positive.
        cut = ((self.total.get() + 0.0).bits("i64") & -(1 << 29)).bits("double").convert("fptrunc", "float")
        self.row.acc.store(cut.bits("i32"), self.m)


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
        names = [f"{side}{field}" for side in "ab" for field in ("values", "scales", "exponents", "live")]
        pointers = [f"ptr {name}" for name in names]
        parameters = ["ptr acc", *pointers[:4], "i64 lda", *pointers[4:], "i64 groups", "i64 pairs", "i32 keep", "i32 sign", "i32 scale"]
        code = self.code = Function(module, "general", "void", ", ".join(parameters), attributes="noinline", internal=True)
        a, b = ([code[name] for name in names[j : j + 4]] for j in (0, 4))
        zero = code.const("i64", 0)
        operands = _Operands(code, [*a, code["lda"]], b, LANES)
        sign = code["sign"].splat(LANES)

        def term(group: Value) -> Value:
            exact = (_sums([operands], group, code["pairs"], [zero])[0].get().convert("sitofp", "float").bits("i32") ^ sign).bits("float")
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
