"""LLVM code for one step at speed: float32 products, int32 sums, one vector lane per row of A.

The largest exponent is a running maximum of small integers. Every product, exact in float32, is scaled by a power of two and converted to
an integer, which truncates it toward zero at the window's last bit; sixteen such terms fit an int32. Where exponents are bytes, it is
scaled by an addition to its exponent field, which takes an integer unit of the processor and leaves the multipliers to the products.
On processors that execute integer and floating-point instructions on the same ports, products are instead truncated and added in float64
(`_float64_sums`).
Cells that neither can do (a row with an infinity or a NaN, C infinite or NaN, products near the ends of float32's range, scale-input-d) go
to `general`, vector by vector.
Scales of rows that are powers of two only shift the products' exponents.

Formats with a wide range have two such functions: one for operands whose exponents are all moderate, so that a byte holds them, and one
for the others.

Subnormal results are slow, and `immoderate` has none that matter, so that they become zero: a term that is subnormal in units of the
window's last bit is truncated to zero, and its sums are of products that are large enough to be normal, or are left to `general`. Of
`moderate` only the conversion of sums depends on the rounding mode (`rounds_toward_zero`): all other results are exact. No sum overflows,
which would be infinite or not depending on the mode: products that a C close to the end of the range does not outweigh are far from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import reduce
from itertools import chain, cycle
from operator import or_

from ptxlab.native.builder import Function, Module, Value, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._block import SUMS_AT_ONCE, UNROLLED, Block, Doubles, Row, adds_directly, may_overflow, rounds_toward_zero
from ptxlab.numerics.ir._cells import LOWERED, Cells, DoubleSum, IntegerSum, largest_magnitude
from ptxlab.numerics.ir._float64_sums import STRETCH, Float64Sums
from ptxlab.numerics.ir._floating_point_control import FLUSH_TO_ZERO, TOWARD_ZERO, floating_point_control
from ptxlab.numerics.ir._general import LANES, MOST_PRODUCTS, general
from ptxlab.numerics.ir.prepare import (
    CHUNK,
    EXPONENTS,
    FLAGS,
    LEAST_FIELD,
    MODERATE,
    PADDED,
    PAIRS,
    SCALES,
    SMALL_EXPONENTS,
    VALUES,
    dead_exponent,
)

__all__ = ["BLOCK", "fused_ir"]

BLOCK = 64
"""Cells of one row of the accumulator that are done together; its width must be a multiple."""
MOST_PRODUCT_BITS = 25
"""Bits of two integers, so that an int32 holds the sum of 64 of their products."""
MOST_SHIFTED = 31
"""Bits by which an i32 can be shifted; by more where its products are not taken as integers."""
ROWS = 16
"""Rows of B that are prepared together."""
PARAMETERS = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i64 keep, i64 sign, i64 scale"


def fused_ir(step: Step, wide: bool, lanes: int) -> str:
    """The function ``mma`` and those that it calls."""
    module, rounding = Module(), TOWARD_ZERO if rounds_toward_zero(step, lanes, small=True) else 0
    if not wide and not rounding:
        Fused(module, "mma", step, wide, lanes, small=True)
    else:
        code = Function(module, "mma", "void", PARAMETERS)
        both = code["a"].word(MODERATE) & code["b"].word(MODERATE) if wide else code.const("i64", 1)
        with code.when(both.ne(0)) as otherwise:
            with floating_point_control(code, rounding) if rounding else nullcontext():
                code.call("moderate", "void", *code.parameters)
            if wide:
                otherwise()
                with floating_point_control(code, FLUSH_TO_ZERO):
                    code.call("immoderate", "void", *code.parameters)
        Fused(module, "moderate", step, wide, lanes, small=True)
        if wide:
            Fused(module, "immoderate", step, wide, lanes, small=False)
    general(module, step, wide)
    return module.finish()


class Fused(Block):
    """A function for one step.

    Two rows of the accumulator are done together, which reads A once for both.

    Parameters
    ----------
    wide : whether the operands have exponents of 16 bits
    small : whether it reads those that are bytes
    """

    def __init__(self, module: Module, name: str, step: Step, wide: bool, lanes: int, *, small: bool) -> None:
        code = Function(module, name, "void", PARAMETERS, attributes="" if name == "mma" else "noinline", internal=name != "mma")
        super().__init__(code, code["a"], step, lanes, small=small)
        self.doubles = f"{name}_doubles"
        if step.output != "f16" and (may_overflow(step) or not adds_directly(step)):
            Doubles(module, self.doubles, step, lanes, small=small)
        self.is_controlled = not small or self.rounds_toward_zero
        self.general_exponent = "i16" if wide else "i8"
        self.width = 4 * lanes
        exponents = SMALL_EXPONENTS if small and wide else EXPONENTS
        self.ae = code["a"].pointer(EXPONENTS)
        self.b, self.be, self.bbad = (code["b"].pointer(i) for i in (VALUES, EXPONENTS, FLAGS))
        self.a_exponents, self.b_exponents = (code[x].pointer(exponents) for x in "ab")
        self.ldb = code["b"].word(PADDED)
        self.b_scales = code["b"].pointer(SCALES)
        if self.has_pairs:
            self.a_pairs, self.b_pairs = (code[x].pointer(PAIRS) for x in "ab")
            self.a_units = self.a_pairs.at(self.lda * (code["count"] >> 1), "i32")
            self.a_bits = self.a_units.at(self.lda, "i32")
            self.b_units = self.b_pairs.at(self.ldb * code["n"], "i16")
            self.b_bits = self.b_units.at(code["n"], "i32")
        self.options = {name: code[name].to("i32") for name in ("keep", "sign", "scale")}
        self.sign = self.options["sign"].splat(lanes)
        assert 2 * step.k <= MOST_PRODUCTS
        self.largest = code.stack(f"[{ROWS * STRETCH} x {self.narrow}]", 64)
        self.without_products = code.variable("i1", 0) if self.in_float64 else None
        self.factors = code.stack(f"[{ROWS * MOST_PRODUCTS} x float]", 64)
        self.repeated = code.stack(f"[{ROWS * MOST_PRODUCTS} x i32]", 64)
        self.float64 = Float64Sums(code, step, ROWS) if self.in_float64 else None
        with code.loop(code["m"], STRETCH) as first:
            self._rows(first, (first + STRETCH).min(code["m"]))

    def _rows(self, start: Value, end: Value) -> None:
        """All cells of some rows of A."""
        code = self.code
        if self.float64:
            self.float64.read(self.a, self.lda, start, end)
        with code.loop(code["n"], ROWS) as first:
            last = (first + ROWS).min(code["n"])
            with code.loop(last, start=first, entered=True) as n:
                self._read_row(n, n - first)
            if self.without_products:
                self.without_products.set(0)
            with code.loop(last, 2, first, entered=True) as n:
                self._find_exponents([PreparedRow(self, each, each - first) for each in (n, (n + 1).min(last - 1))], start, end)
            with code.loop(last, 2, first, entered=True) as n:
                several = (n + 1).lt(last)
                flagged = self.bbad.load("i32", n) | self.bbad.load("i32", several.select(n + 1, n)) | self.options["scale"]
                together = several & flagged.eq(0)
                turns = (together | several.eq(0)).select(n + 1, n + 2)
                with code.loop(turns, start=n) as one:
                    self._two_rows([PreparedRow(self, each, each - first) for each in (one, together.select(n + 1, one))], start, end)

    def _read_row(self, n: Value, place: Value) -> None:
        """Prepare a row of B for the loops that follow, which find it at ``place`` of ROWS."""
        code, at = self.code, place * MOST_PRODUCTS
        if self.float64:
            self.float64.read_row(self.b.at(n * self.ldb, "float"), self.options["sign"], place)
        else:
            self._lower(n, self.factors.at(at, "float"))
        if self.small:
            exponents = self.b_exponents.at(n * self.ldb, self.narrow)
            with code.loop(code["count"], CHUNK, entered=True) as k:
                words = exponents.load(vector("i8", CHUNK), k).chosen([i // 4 for i in range(4 * CHUNK)])
                self.repeated.store(words.cast(vector("i32", CHUNK)), at + k)

    def _lower(self, n: Value, factors: Value) -> None:
        """Write `Row.factors`."""
        code = self.code
        with code.loop(code["count"], CHUNK, entered=True) as k:
            some = self.b.at(n * self.ldb, "float").load(vector("float", CHUNK), k)
            lowered = some * 2.0**-LOWERED if self.small else some
            factors.store((lowered.bits("i32") ^ self.options["sign"]).bits("float"), k)

    def _two_rows(self, rows: list[PreparedRow], start: Value, end: Value) -> None:
        """Cells of two rows, or of one that is given twice."""
        code = self.code
        self.is_one = rows[0].n.eq(rows[1].n)
        if self.float64:
            self.float64.begin([row.place for row in rows])
        with code.when(code["keep"].eq(0)), code.loop(end, self.lanes, start) as m:
            for row in rows:
                row.acc.store(code.const(vector("i32", self.lanes), 0), m)
        with code.when((self.bbad.load("i32", rows[0].n) | self.options["scale"]).eq(0)) as special:
            self._blocks(rows, start, end)
            special()
            with code.loop(end, LANES, start) as m:
                self._general(rows[0], m)

    def _general(self, row: PreparedRow, m: Value) -> None:
        code = self.code
        here = (row.acc.at(m, "i32"), self.a.at(m, "float"), self.ae.at(m, self.general_exponent), self.lda)
        scales = (self.a_scale.at(m, "i32") if self.step.scales else self.a_scale, row.scale)
        with floating_point_control(code, 0) if self.is_controlled else nullcontext():
            code.call("general", "void", *here, row.values, row.general_exponents, code["count"], *self.options.values(), *scales)

    def _find_exponents(self, rows: list[PreparedRow], start: Value, end: Value) -> None:
        """Find the largest exponents of the cells of two rows, and write them to `PreparedRow.largest`.

        LLVM does not know that an opaque number is a counter: it would keep one for each array, more than there are registers.
        """
        code = self.code
        with code.loop(end, 2 * self.width, start, entered=True) as m:
            here = code.opaque(m)
            places = here, (here + self.width).lt(end).select(here + self.width, here)
            exponents = self._largest_exponents(rows, places)
            for row, largest in zip(rows, exponents, strict=True):
                for place, some in zip(places, largest, strict=True):
                    row.largest.store(some, place - start)
            if self.without_products:
                least = reduce(lambda one, other: one.intrinsic("umin", other), chain(*exponents))
                self.without_products.set(self.without_products.get() | least.eq(LEAST_FIELD).reduce("or"))

    def _blocks(self, rows: list[PreparedRow], start: Value, end: Value) -> None:
        """Cells of two rows."""
        code = self.code
        with code.loop(end, self.groups * self.lanes, start, entered=True) as m:
            here = code.opaque(m)
            self._block(rows, here, here - start)

    def _block(self, rows: list[PreparedRow], m: Value, place: Value) -> None:
        """The cells from the m-th on; ``place`` is counted from the first one of this STRETCH."""
        code = self.code
        largest = [row.largest.at(place, self.narrow) for row in rows]
        without_products = self.without_products.get() if self.without_products else None
        cells = self.cells(rows, m, largest)
        with code.when(self.cell.lost(self, cells, m, without_products)) as otherwise:
            with code.loop(m + self.groups * self.lanes, LANES, m) as here:
                self._general(rows[0], here)
                with code.when(self.is_one.eq(0)):
                    self._general(rows[1], here)
            otherwise()
            if self.step.output == "f16":
                self.finish(m, [DoubleSum(cell) for cell in cells])
                return
            sums = [IntegerSum(cell) for cell in cells]
            if self.has_pairs:
                shifts = self._shifts(rows, cells)
                with code.when(reduce(or_, (shift.ugt(MOST_SHIFTED) for shift in shifts)).reduce("or")) as exact:
                    self.add_terms(m, sums)
                    exact()
                    self._add_dots(rows, m, sums, shifts)
            elif self.float64:
                self.float64.add([row.place for row in rows], place, sums)
            else:
                self.add_terms(m, sums)
            converted = [each.converted(self.rounds_toward_zero) for each in sums]
            overflow = self._overflow(sums, converted)
            if overflow is None:
                self._store(sums, converted)
                return
            with code.when(overflow) as otherwise:
                parts = [[getattr(row, part) for row in rows] for part in ("acc", "factors", "scale")]
                if self.in_float64:
                    for row in rows:
                        self._lower(row.n, row.factors)
                code.call(self.doubles, "void", code["a"], m, code["count"], *chain(*parts), *largest)
                otherwise()
                self._store(sums, converted)

    def _overflow(self, sums: Sequence[IntegerSum], converted: Sequence[Value]) -> Value | None:
        """Whether a sum may be wrong; None if it cannot."""
        if not adds_directly(self.step):
            return reduce(or_, (each.overflow.get() for each in sums)).lt(0).reduce("or")
        if not may_overflow(self.step):
            return None
        # C is less than two units of the largest exponent: by so much a sum can be past the end.
        return largest_magnitude(converted).ge(float((1 << 31) - (2 << self.step.window))).reduce("or")

    def _store(self, sums: Sequence[IntegerSum], converted: Sequence[Value]) -> None:
        for each, bits in zip(sums, converted, strict=True):
            each.store(bits)

    def _shifts(self, rows: list[PreparedRow], cells: Sequence[Cells]) -> list[Value]:
        """For each vector of cells, the bits by which the unit of its integer products lies above the window's last bit.

        It is more than MOST_SHIFTED where the unit lies below, where the sums could overflow, or where a row has no integers.
        """
        found = []
        for cell, row in zip(cells, cycle(rows), strict=False):
            units = self.a_units.load(vector("i32", self.lanes), cell.m) + row.unit.splat(self.lanes)
            bits = self.a_bits.load(vector("i32", self.lanes), cell.m) + row.bits.splat(self.lanes)
            # Where this clamps, all products are zero.
            shift = cell.above_last_bit(units).min(MOST_SHIFTED)
            found.append(bits.gt(MOST_PRODUCT_BITS).select(shift.constant(-1), shift))
        return found

    def _add_dots(self, rows: list[PreparedRow], m: Value, sums: Sequence[IntegerSum], shifts: Sequence[Value]) -> None:
        """Add the sums of all products as integers: no product is truncated."""
        code, lanes = self.code, self.lanes
        for first in range(0, len(sums), SUMS_AT_ONCE):
            some = sums[first : first + SUMS_AT_ONCE]
            parts = [code.variable(vector("i32", lanes), 0) for _ in some]
            with code.loop(code["count"] >> 1, UNROLLED, entered=True) as start:
                for j in range(UNROLLED):
                    pair = start + j
                    line = self.a_pairs.at(pair * self.lda + m, "i32")
                    b = [row.pairs.load("i32", pair).splat(lanes) for row in rows]
                    a = [line.load(vector("i32", lanes), (first + i) // 2 * lanes) for i in range(0, len(some), 2)]
                    for i, part in enumerate(parts):
                        part.set(part.get() + a[i // 2].pair_dot(b[i % 2]))
            for each, part, shift in zip(some, parts, shifts[first:], strict=False):
                dot = (part.get() ^ self.sign.operation("ashr", 31)) - self.sign.operation("ashr", 31)
                each.add_shifted(dot, shift)

    def _largest_exponents(self, rows: list[PreparedRow], places: Sequence[Value]) -> list[list[Value]]:
        """For each row, the largest product exponents of its cells at each place.

        They are less than any, and LEAST_FIELD if bytes, if all products are zero.
        """
        code = self.code
        least = LEAST_FIELD if self.small else 2 * dead_exponent(True)
        some = vector(self.narrow, self.width)
        largest = [[code.variable(some, least) for _ in places] for _ in rows]

        def larger(one: Value, other: Value) -> Value:
            return one.intrinsic("umax" if self.small else "smax", other)

        with code.loop(code["count"], UNROLLED, entered=True) as first:
            steps = [first + j for j in range(UNROLLED)]
            a = [[self.a_exponents.load(some, k * self.lda + m) for k in steps] for m in places]
            for row, found in zip(rows, largest, strict=True):
                b = [row.exponent(k) for k in steps]
                for exponents, each in zip(a, found, strict=True):
                    sums = [x + y for x, y in zip(exponents, b, strict=True)]
                    # Pairs first: a chain of maxima would wait for each of them.
                    each.set(larger(each.get(), reduce(larger, map(larger, sums[::2], sums[1::2]))))
        return [[each.get() for each in found] for found in largest]


class PreparedRow(Row):
    """A row of the accumulator with its row of B, which is at ``place`` of the ROWS that are prepared together.

    Attributes
    ----------
    largest : the largest exponents of its cells, once they are found
    """

    def __init__(self, kernel: Fused, n: Value, place: Value) -> None:
        code = kernel.code
        scale = kernel.b_scales.load("i32", n) if kernel.step.scales else kernel.options["scale"]
        super().__init__(code["acc"].at(n * code["stride"]), kernel.factors.at(place * MOST_PRODUCTS, "float"), scale)
        self.n, self.place, self.kernel = n, place, kernel
        self.largest = kernel.largest.at(place * STRETCH, kernel.narrow)
        line = n * kernel.ldb
        self.values = kernel.b.at(line, "float")
        self.exponents = kernel.repeated.at(place * MOST_PRODUCTS, "i32") if kernel.small else kernel.b_exponents.at(line, "i16")
        self.general_exponents = kernel.be.at(line, kernel.general_exponent)
        if kernel.has_pairs:
            self.pairs = kernel.b_pairs.at(line, "i16")
            self.unit, self.bits = (array.load("i32", n) for array in (kernel.b_units, kernel.b_bits))

    def exponent(self, k: Value) -> Value:
        """The exponent of an element in as many lanes as there are cells in four vectors.

        Bytes have been repeated four times: a load can broadcast a word without a further instruction, but not a byte.
        """
        kernel = self.kernel
        if not kernel.small:
            return self.exponents.load("i16", k).splat(kernel.width)
        return self.exponents.load("i32", k).splat(kernel.lanes).cast(vector("i8", kernel.width))
