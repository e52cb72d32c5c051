"""LLVM code for one step at speed: float32 products, int32 sums, one vector lane per row of A.

The largest exponent is a running maximum of small integers. Every product, exact in float32, is scaled by a power of two and converted to
an integer, which truncates it toward zero at the window's last bit; sixteen such terms fit an int32. Where exponents are bytes, it is
scaled by an addition to its exponent field, which takes an integer unit of the processor and leaves the multipliers to the products.
Cells that this cannot do (a row with an infinity or a NaN, C infinite or NaN, products near the ends of float32's range, scale-input-d) go
to `general`, vector by vector.
Scales of rows that are powers of two only shift the products' exponents.

Formats with a wide range have two such functions: one for operands whose exponents are all moderate, so that a byte holds them, and one
for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from ptxlab.native.builder import Function, Module, Value, vector
from ptxlab.numerics._steps import NARROW, Step
from ptxlab.numerics.ir._cells import LEAST_FIELD, LOWERED, Cells, DoubleSum, ExponentCells, FieldCells, IntegerSum
from ptxlab.numerics.ir._general import LANES, general
from ptxlab.numerics.ir.prepare import (
    CHUNK,
    EXPONENTS,
    FLAGGED,
    FLAGS,
    MODERATE,
    PADDED,
    PAIRS,
    SCALES,
    SMALL_EXPONENTS,
    VALUES,
    dead_exponent,
)

__all__ = ["BLOCK", "fused_ir", "reads_pairs"]

BLOCK = 64
"""Cells of one row of the accumulator that are done together; its width must be a multiple."""
TERMS = 16
"""Truncated products, each below 2^(window + 2), that an int32 can sum for a window of 25 bits."""
MOST_PRODUCT_BITS = 25
"""Bits of two integers, so that an int32 holds the sum of 64 of their products."""
MOST_SHIFTED = 31
"""Bits by which an i32 can be shifted; by more where its products are not taken as integers."""
MOST_PRODUCTS = 64
"""Of one step, with those of elements that a sparse A does not store."""
STRETCH = 256
"""Cells of a row whose largest exponents are found before their sums."""
UNROLLED = 4
"""Elements, or pairs of them, of one turn of a loop."""
SUMS_AT_ONCE = 4
"""Vectors of cells to which terms are added in one loop."""
PARAMETERS = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 sign, i32 scale"


def reads_pairs(step: Step) -> bool:
    """Whether the function of a step reads the integers of its operands."""
    return step.a == NARROW and step.output == "f32"


def fused_ir(step: Step, wide: bool, lanes: int) -> str:
    """The function ``mma`` and those that it calls."""
    module = Module()
    if not wide:
        Fused(module, "mma", step, wide, lanes, small=True)
    else:
        code = Function(module, "mma", "void", PARAMETERS)
        both = code["a"].word(MODERATE) & code["b"].word(MODERATE)
        with code.when(both.ne(0)) as otherwise:
            code.call("moderate", "void", *code.parameters)
            otherwise()
            code.call("immoderate", "void", *code.parameters)
        Fused(module, "moderate", step, wide, lanes, small=True)
        Fused(module, "immoderate", step, wide, lanes, small=False)
    general(module, step, wide)
    return module.text()


class Fused:
    """A function for one step.

    Two rows of the accumulator are done together, which reads A once for both.

    Parameters
    ----------
    wide : whether the operands have exponents of 16 bits
    small : whether it reads those that are bytes
    """

    def __init__(self, module: Module, name: str, step: Step, wide: bool, lanes: int, *, small: bool) -> None:
        self.step, self.small, self.lanes = step, small, lanes
        self.cell = FieldCells if small and not step.scales and step.output != "f16" else ExponentCells
        self.narrow = "i8" if small else "i16"
        self.general_exponent = "i16" if wide else "i8"
        self.groups = 4
        self.width = lanes * self.groups
        self.code = code = Function(module, name, "void", PARAMETERS, internal=name != "mma")
        exponents = SMALL_EXPONENTS if small and wide else EXPONENTS
        self.a, self.ae, self.abad = (code["a"].pointer(i) for i in (VALUES, EXPONENTS, FLAGS))
        self.b, self.be, self.bbad = (code["b"].pointer(i) for i in (VALUES, EXPONENTS, FLAGS))
        self.a_exponents, self.b_exponents = (code[x].pointer(exponents) for x in "ab")
        self.lda, self.ldb = code["a"].word(PADDED), code["b"].word(PADDED)
        self.a_flagged = code["a"].word(FLAGGED).ne(0)
        self.a_scale, self.b_scales = (code[name].pointer(SCALES) for name in "ab")
        self.has_pairs = reads_pairs(step)
        if self.has_pairs:
            self.a_pairs, self.b_pairs = (code[x].pointer(PAIRS) for x in "ab")
            self.a_units = self.a_pairs.at(self.lda * (code["count"] >> 1), "i32")
            self.a_bits = self.a_units.at(self.lda, "i32")
            self.b_units = self.b_pairs.at(self.ldb * code["n"], "i16")
            self.b_bits = self.b_units.at(code["n"], "i32")
        self.keep, self.sign = code["keep"].splat(lanes), code["sign"].splat(lanes)
        assert 2 * step.k <= MOST_PRODUCTS
        self.largest = [code.stack(f"[{STRETCH} x {self.narrow}]", 64) for _ in range(2)]
        self.factors = [code.stack(f"[{MOST_PRODUCTS} x float]", 64) for _ in range(2)]
        with code.loop(code["n"], 2) as n:
            several = (n + 1).lt(code["n"])
            flagged = self.bbad.load("i32", n) | self.bbad.load("i32", several.select(n + 1, n)) | code["scale"]
            together = several & flagged.eq(0)
            turns = (together | several.eq(0)).select(n + 1, n + 2)
            with code.loop(turns, start=n) as first:
                self._two_rows(first, together.select(n + 1, first))

    def _two_rows(self, first: Value, second: Value) -> None:
        """All cells of two rows, or of one that is given twice."""
        code = self.code
        rows = [Row(self, n, factors) for n, factors in zip((first, second), self.factors, strict=True)]
        self.is_one = first.eq(second)
        with code.when((self.bbad.load("i32", first) | code["scale"]).eq(0)) as special:
            self._blocks(rows)
            special()
            with code.loop(code["m"], LANES) as m:
                self._general(rows[0], m)

    def _general(self, row: Row, m: Value) -> None:
        code = self.code
        here = (row.acc.at(m, "i32"), self.a.at(m, "float"), self.ae.at(m, self.general_exponent), self.lda)
        scales = (self.a_scale.at(m, "i32") if self.step.scales else self.a_scale, row.scale)
        code.call(
            "general", "void", *here, row.values, row.general_exponents, *(code[x] for x in ("count", "keep", "sign", "scale")), *scales
        )

    def _blocks(self, rows: list[Row]) -> None:
        """All cells of some rows."""
        code = self.code
        with code.loop(code["m"], STRETCH) as first:
            end = (first + STRETCH).min(code["m"])
            with code.loop(end, self.width, first) as m:
                for found, largest in zip(self.largest, self._largest_exponents(rows, m), strict=True):
                    found.store(largest, m - first)
            with code.loop(end, self.width, first) as m:
                self._block(rows, m, m - first)

    def _block(self, rows: list[Row], m: Value, place: Value) -> None:
        code, lanes = self.code, self.lanes
        cells = [
            self.cell(self, row, largest.load(vector(self.narrow, lanes), place + g * lanes), m + g * lanes)
            for g in range(self.groups)
            for row, largest in zip(rows, self.largest, strict=True)
        ]
        with code.when(self.cell.lost(self, cells, m)) as otherwise:
            with code.loop(m + self.width, LANES, m) as here:
                self._general(rows[0], here)
                with code.when(self.is_one.eq(0)):
                    self._general(rows[1], here)
            otherwise()
            if self.step.output == "f16":
                self._finish(m, [DoubleSum(cell) for cell in cells])
                return
            sums = [IntegerSum(cell) for cell in cells]
            if self.has_pairs:
                shifts = self._shifts(cells, m)
                with code.when(reduce(or_, (shift.ugt(MOST_SHIFTED) for shift in shifts)).reduce("or")) as exact:
                    self._add_terms(m, sums)
                    exact()
                    self._add_dots(m, sums, shifts)
            else:
                self._add_terms(m, sums)
            with code.when(reduce(or_, (each.overflow.get() for each in sums)).lt(0).reduce("or")) as otherwise:
                self._finish(m, [DoubleSum(cell) for cell in cells])
                otherwise()
                for each in sums:
                    each.finish()

    def _shifts(self, cells: Sequence[Cells], m: Value) -> list[Value]:
        """For each vector of cells, the bits by which the unit of its integer products lies above the window's last bit.

        It is more than MOST_SHIFTED where the unit lies below, where the sums could overflow, or where a row has no integers.
        """
        found = []
        for cell in cells:
            units = self.a_units.load(vector("i32", self.lanes), cell.m) + cell.row.unit.splat(self.lanes)
            bits = self.a_bits.load(vector("i32", self.lanes), cell.m) + cell.row.bits.splat(self.lanes)
            # Where this clamps, all products are zero.
            shift = cell.above_last_bit(units).min(MOST_SHIFTED)
            found.append(bits.gt(MOST_PRODUCT_BITS).select(shift.constant(-1), shift))
        return found

    def _add_dots(self, m: Value, sums: Sequence[IntegerSum], shifts: Sequence[Value]) -> None:
        """Add the sums of all products as integers: no product is truncated."""
        code, lanes = self.code, self.lanes
        rows = len(sums) // self.groups
        for first in range(0, len(sums), SUMS_AT_ONCE):
            some = sums[first : first + SUMS_AT_ONCE]
            parts = [code.variable(vector("i32", lanes), 0) for _ in some]
            with code.loop(code["count"] >> 1, UNROLLED) as start:
                for j in range(UNROLLED):
                    pair = start + j
                    line = self.a_pairs.at(pair * self.lda + m, "i32")
                    b = [each.cell.row.pairs.load("i32", pair).splat(lanes) for each in sums[:rows]]
                    a = [line.load(vector("i32", lanes), (first + i) // rows * lanes) for i in range(0, len(some), rows)]
                    for i, part in enumerate(parts):
                        part.set(part.get() + a[i // rows].pair_dot(b[i % rows]))
            for each, part, shift in zip(some, parts, shifts[first:], strict=False):
                dot = (part.get() ^ self.sign.operation("ashr", 31)) - self.sign.operation("ashr", 31)
                each.add_shifted(dot, shift)

    def _finish(self, m: Value, sums: Sequence[DoubleSum]) -> None:
        self._add_terms(m, sums)
        for each in sums:
            each.finish()

    def _add_terms(self, m: Value, sums: Sequence[DoubleSum | IntegerSum]) -> None:
        """Add the truncated products to the sums of a block, whose rows of A begin at ``m``."""
        code, lanes = self.code, self.lanes
        rows = len(sums) // self.groups
        for first in range(0, len(sums), SUMS_AT_ONCE):
            some = sums[first : first + SUMS_AT_ONCE]
            with code.loop(code["count"], TERMS) as start:
                parts = [code.variable(vector("i32", lanes), 0) for _ in some]
                with code.loop((start + TERMS).min(code["count"]), start=start) as k:
                    line = self.a.at(k * self.lda + m, "float")
                    b = [each.cell.row.factors.load("float", k).splat(lanes) for each in sums[:rows]]
                    a = [line.load(vector("float", lanes), (first + i) // rows * lanes) for i in range(0, len(some), rows)]
                    for i, (each, part) in enumerate(zip(some, parts, strict=True)):
                        term = each.cell.scaled(a[i // rows] * b[i % rows])
                        part.set(part.get() + term.convert("fptosi", "i32"))
                for each, part in zip(some, parts, strict=True):
                    each.add(part.get())

    def _largest_exponents(self, rows: list[Row], m: Value) -> list[Value]:
        """For each row, the largest product exponents of its cells; less than any, and LEAST_FIELD if bytes, if all products are zero."""
        code = self.code
        least = LEAST_FIELD if self.small else 2 * dead_exponent(True)
        largest = [code.variable(vector(self.narrow, self.width), least) for _ in rows]
        with code.loop(code["count"], UNROLLED) as first:
            for k in (first + j for j in range(UNROLLED)):
                a = self.a_exponents.load(vector(self.narrow, self.width), k * self.lda + m)
                for row, found in zip(rows, largest, strict=True):
                    both = a + row.exponents.load(self.narrow, k).splat(self.width)
                    found.set(found.get().intrinsic("umax" if self.small else "smax", both))
        return [found.get() for found in largest]


class Row:
    """A row of the accumulator, with the row of B that belongs to it.

    Attributes
    ----------
    factors : the values of B with the sign of the products; where exponents are bytes, times two to the power of minus LOWERED
    """

    def __init__(self, kernel: Fused, n: Value, factors: Value) -> None:
        line = n * kernel.ldb
        self.values, self.factors = kernel.b.at(line, "float"), factors
        with kernel.code.loop(kernel.code["count"], CHUNK) as k:
            some = self.values.load(vector("float", CHUNK), k)
            lowered = some * 2.0**-LOWERED if kernel.small else some
            factors.store((lowered.bits("i32") ^ kernel.code["sign"]).bits("float"), k)
        self.exponents = kernel.b_exponents.at(line, kernel.narrow)
        self.general_exponents = kernel.be.at(line, kernel.general_exponent)
        self.scale = kernel.b_scales.load("i32", n) if kernel.step.scales else kernel.code["scale"]
        self.acc = kernel.code["acc"].at(n * kernel.code["stride"])
        if kernel.has_pairs:
            self.pairs = kernel.b_pairs.at(line, "i16")
            self.unit, self.bits = (array.load("i32", n) for array in (kernel.b_units, kernel.b_bits))
