"""LLVM code for a block: the cells of some neighbouring vectors of two rows of the accumulator, to which terms are added together."""

from __future__ import annotations

from collections.abc import Sequence

from ptxlab.native import host
from ptxlab.native.builder import Function, Module, Value, Variable, vector
from ptxlab.numerics._steps import NARROW, Step
from ptxlab.numerics.ir._cells import Cells, DoubleSum, ExponentCells, FieldCells, IntegerSum, is_avx512
from ptxlab.numerics.ir._float64_sums import sums_in_float64
from ptxlab.numerics.ir._general import LANES
from ptxlab.numerics.ir.prepare import FLAGGED, FLAGS, PADDED, SCALES, VALUES

__all__ = ["SUMS_AT_ONCE", "UNROLLED", "Block", "Doubles", "Row", "adds_directly", "may_overflow", "reads_pairs", "rounds_toward_zero"]

TERMS = 16
"""Truncated products, each below 2^(window + 2), that an int32 can sum for a window of 25 bits."""
UNROLLED = 4
"""Elements, or pairs of them, of one turn of a loop."""
SUMS_AT_ONCE = 4
"""Vectors of cells to which terms are added in one loop."""
VECTORS = 2
"""Vectors of cells of a row that are done together: with those of a second row, registers hold all that their sums need."""
MORE_VECTORS = 4
"""The same for integer dot products, which are quickly done beside what stands around them, and for sums in float64: there are enough
independent sums to hide the latency of the multiply-adds."""


def reads_pairs(step: Step) -> bool:
    """Whether the function of a step reads the integers of its operands."""
    return step.a == NARROW and step.output == "f32"


def has_fields(step: Step, *, small: bool) -> bool:
    """Whether the exponents of a step's cells are fields of float32."""
    return small and not step.scales and step.output != "f16"


def rounds_toward_zero(step: Step, lanes: int, *, small: bool) -> bool:
    """Whether a function runs with the rounding mode toward zero, since no instruction of the processor chooses it for a conversion."""
    return has_fields(step, small=small) and host().has_mxcsr and not is_avx512(vector("i32", lanes))


def adds_directly(step: Step) -> bool:
    """Whether the terms of a step fit an i32, so that its sum with C either does or is close to the end of the range."""
    return step.k << (step.window + 2) <= 1 << 31


def may_overflow(step: Step) -> bool:
    """Whether C and the terms of a step may need more than an i32."""
    return (4 * step.k + 2) << step.window > 1 << 31


class Row:
    """A row of the accumulator, with the row of B that belongs to it.

    Attributes
    ----------
    factors : the values of B with the sign of the products; where exponents are bytes, times two to the power of minus LOWERED
    scale : the exponent of the row's scale, of steps with scales
    """

    def __init__(self, acc: Value, factors: Value, scale: Value) -> None:
        self.acc, self.factors, self.scale = acc, factors, scale


class Block:
    """What the code for the cells of some vectors of two rows refers to, in one function.

    Parameters
    ----------
    a : the header of A
    small : whether exponents are read as bytes

    Attributes
    ----------
    unrolled : elements of one turn of the loop that adds terms; one where it rarely runs, since more take longer to compile
    in_float64 : whether products are added in float64, where the sums fit 32 bits
    """

    def __init__(self, code: Function, a: Value, step: Step, lanes: int, *, small: bool) -> None:
        self.code, self.step, self.small, self.lanes = code, step, small, lanes
        self.cell = FieldCells if has_fields(step, small=small) else ExponentCells
        self.rounds_toward_zero = rounds_toward_zero(step, lanes, small=small)
        self.narrow = "i8" if small else "i16"
        self.has_pairs = reads_pairs(step)
        self.in_float64 = has_fields(step, small=small) and adds_directly(step) and sums_in_float64(step, lanes)
        self.groups = MORE_VECTORS if self.has_pairs or self.in_float64 else max(VECTORS, LANES // lanes)
        self.unrolled = 1 if self.has_pairs or self.in_float64 else UNROLLED
        self.a, self.abad, self.a_scale = (a.pointer(i) for i in (VALUES, FLAGS, SCALES))
        self.lda = a.word(PADDED)
        self.a_flagged = a.word(FLAGGED).ne(0)

    def cells(self, rows: Sequence[Row], m: Value, largest: Sequence[Value]) -> list[Cells]:
        """The vectors of cells from the m-th on, given where the largest exponents of each row are."""
        return [
            self.cell(self, row, exponents.load(vector(self.narrow, self.lanes), g * self.lanes), m + g * self.lanes)
            for g in range(self.groups)
            for row, exponents in zip(rows, largest, strict=True)
        ]

    def add_terms(self, m: Value, sums: Sequence[DoubleSum | IntegerSum]) -> None:
        """Add the truncated products to the sums of a block, whose rows of A begin at ``m``."""
        code = self.code
        for first in range(0, len(sums), SUMS_AT_ONCE):
            some = sums[first : first + SUMS_AT_ONCE]
            totals = [each.total for each in some if isinstance(each, IntegerSum)]
            if totals and adds_directly(self.step):
                self._add_some(m + first // 2 * self.lanes, some, totals, 0, code["count"])
                continue
            with code.loop(code["count"], TERMS, entered=True) as start:
                parts = [code.variable(vector("i32", self.lanes), 0) for _ in some]
                self._add_some(m + first // 2 * self.lanes, some, parts, start, (start + TERMS).min(code["count"]))
                for each, part in zip(some, parts, strict=True):
                    each.add(part.get())

    def _add_some(
        self, m: Value, sums: Sequence[DoubleSum | IntegerSum], parts: Sequence[Variable], start: Value | int, end: Value
    ) -> None:
        """Add the truncated products from ``start`` to ``end`` to parts of sums.

        What is done with one product is spread over several turns: instructions that use different parts of the processor stand together.
        """
        code, lanes = self.code, self.lanes
        with code.loop(end, self.unrolled, start, entered=True) as first:
            products: list[Value] = []
            scaled: list[Value] = []
            terms: list[Value] = []
            for turn in range(self.unrolled + 3):
                if turn < self.unrolled:
                    k = first + turn
                    line = self.a.at(k * self.lda + m, "float")
                    b = [each.cell.row.factors.load("float", k).splat(lanes) for each in sums[:2]]
                    a = [line.load(vector("float", lanes), i * lanes) for i in range(len(sums) // 2)]
                for i, (each, part) in enumerate(zip(sums, parts, strict=True)):
                    if turn >= 3:
                        part.set(part.get() + terms.pop(0))
                    if 2 <= turn < self.unrolled + 2:
                        terms.append(scaled.pop(0).convert("fptosi", "i32"))
                    if 1 <= turn < self.unrolled + 1:
                        scaled.append(each.cell.scaled(products.pop(0)))
                    if turn < self.unrolled:
                        products.append(a[i // 2] * b[i % 2])

    def finish(self, m: Value, sums: Sequence[DoubleSum]) -> None:
        """Add the products to sums, and store these."""
        self.add_terms(m, sums)
        for each in sums:
            each.finish()


class Doubles(Block):
    """A function for the cells of a block whose sums need more than 32 bits."""

    PARAMETERS = (
        "ptr a, i64 m, i64 count, ptr acc_0, ptr acc_1, ptr factors_0, ptr factors_1, "
        "i32 scale_0, i32 scale_1, ptr largest_0, ptr largest_1"
    )

    def __init__(self, module: Module, name: str, step: Step, lanes: int, *, small: bool) -> None:
        code = Function(module, name, "void", self.PARAMETERS, attributes="noinline", internal=True)
        super().__init__(code, code["a"], step, lanes, small=small)
        self.unrolled = 1
        rows = [Row(code[f"acc_{i}"], code[f"factors_{i}"], code[f"scale_{i}"]) for i in (0, 1)]
        cells = self.cells(rows, code["m"], [code[f"largest_{i}"] for i in (0, 1)])
        for cell in cells:
            cell.bound()
        self.finish(code["m"], [DoubleSum(cell) for cell in cells])
