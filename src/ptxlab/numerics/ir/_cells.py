"""LLVM code for cells of the accumulator, and the sums of a step in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from ptxlab.native import host
from ptxlab.native.builder import Value, vector
from ptxlab.numerics.ir._general import F16_INFINITY, F32_INFINITY, c_f16, round_f16, without_products
from ptxlab.numerics.ir.prepare import BIASES, LEAST_FIELD, SIGN, dead_exponent

if TYPE_CHECKING:
    from ptxlab.numerics.ir._block import Block, Row

__all__ = ["LOWERED", "Cells", "DoubleSum", "ExponentCells", "FieldCells", "IntegerSum", "is_avx512", "largest_magnitude"]

LOWEST, HIGHEST = -74, 125
"""The largest exponents between which float32 products, scale and result are exact wherever the window reaches."""
LOWERED = 59
"""How much smaller the exponents of products of bytes are made before they are raised: the least of them stay normal, those of products
that are far below the window become zero with any raise that is not negative, and so does zero with the largest raise."""
LARGEST_RAISE = 126
MIDDLE = 1 << 22
"""The first bit of the fraction of a float32."""


class FieldCells:
    """A vector of neighbouring cells of one row of the accumulator; exponents are fields of float32, in their place.

    Attributes
    ----------
    top : the exponent field of the largest exponent; if sums are in float64, a float32 with this field, 1.5 times a power of two
    up, down : what makes a product a number of units of the window's last bit, and such a number a value
    first : C in these units
    """

    def __init__(self, block: Block, row: Row, exponent: Value, m: Value) -> None:
        step = self.step = block.step
        self.row, self.m = row, m
        c = self.c = row.acc.load(vector("i32", block.lanes), m)
        field = exponent.convert("zext", "i32")
        self.fraction = MIDDLE if block.in_float64 else 0
        products = field.intrinsic("fshl", field.constant(MIDDLE << 9), field.constant(23)) if block.in_float64 else field << 23
        self.top = products.max((c & F32_INFINITY) | self.fraction)
        self.up = (self._field(127 + LOWERED + step.window) - self.top).variable()

    def _field(self, exponent: int) -> Value:
        """An exponent field as `top` has it."""
        return self.c.constant((exponent << 23) + self.fraction)

    @staticmethod
    def lost(block: Block, cells: Sequence[Any], m: Value, without_products: Value | None) -> Value:
        """Whether there are cells that `general` has to do: infinite or NaN, or tiny beside no products.

        One unsigned maximum finds all that is rare: it is past what the least product has if there are no products, or if C is so large
        that no product reaches the window, which makes `up` negative. Sums in float64 do not need `up`: their caller knows whether there
        are cells without products, and the maximum of `top` shows infinite ones.
        """
        code = block.code
        found = code.variable("i1", 0)
        infinite = cells[0]._field(255)

        def most(numbers: Iterable[Value]) -> Value:
            return reduce(lambda one, other: one.intrinsic("umax", other), numbers)

        if without_products is None:
            beyond = (127 + LOWERED + block.step.window - LEAST_FIELD) << 23
            is_rare = most(cell.up.get() for cell in cells).uge(beyond).reduce("or")
        else:
            is_rare = without_products | most(cell.top for cell in cells).eq(infinite).reduce("or")
        with code.when(is_rare):
            alone = [cell.top.eq(cell._field(LEAST_FIELD)) & (cell.c & 0x7FFFFFFF).ne(0) for cell in cells]
            found.set(reduce(or_, (cell.top.eq(infinite) | tiny for cell, tiny in zip(cells, alone, strict=True))).reduce("or"))
            for cell in cells:
                cell.bound()
        with code.when(block.a_flagged):
            flags = [block.abad.load(vector("i32", block.lanes), m + g * block.lanes) for g in range(block.groups)]
            found.set(found.get() | reduce(or_, flags).ne(0).reduce("or"))
        return found.get()

    def bound(self) -> None:
        """Keep `up` from being negative, which it is only where C is so large that every product is below the window."""
        self.up.set(self.up.get().max(0))

    @property
    def first(self) -> Value:
        up = self._field(2 * 127 + self.step.window) - self.top
        return (self.c.bits("float") * up.bits("float")).convert("fptosi", "i32")

    @property
    def down(self) -> Value:
        return (self.top - ((self.step.window << 23) + self.fraction)).bits("float")

    def scaled(self, product: Value) -> Value:
        """A product with a lowered factor, in units of the window's last bit, or less than one such unit."""
        return (product.bits("i32") + self.up.get()).bits("float")

    def above_last_bit(self, units: Value) -> Value:
        """By how many bits exponents lie above the window's last bit."""
        return units + (127 + self.step.window) - (self.top >> 23)

    def store(self, result: Value) -> None:
        """Store sums, which are float32 numbers of units."""
        self.row.acc.store((result.bits("float") * self.down).bits("i32"), self.m)


class ExponentCells:
    """A vector of neighbouring cells of one row of the accumulator; exponents are integers without a bias. As `FieldCells`."""

    def __init__(self, block: Block, row: Row, exponent: Value, m: Value) -> None:
        step = self.step = block.step
        self.row, self.m, self.small = row, m, block.small
        lanes = block.lanes
        c = self.c = row.acc.load(vector("i32", lanes), m)
        if block.small:
            product = exponent.convert("zext", "i32") - sum(BIASES.values())
            self.empty = product.lt(LEAST_FIELD - sum(BIASES.values()) + 1)
        else:
            product = exponent.convert("sext", "i32")
            self.empty = product.lt(dead_exponent(True) // 2)
        shift = None
        if step.scales:
            shift = block.a_scale.load(vector("i32", lanes), m) + row.scale.splat(lanes)
            product = self.empty.select(product, product + shift)
        flagged = block.abad.load(vector("i32", lanes), m).ne(0)
        if step.output == "f16":
            value, c_exponent = c_f16(c)
            c_exponent = (c & 0x7FFF).eq(0).select(c.constant(step.floor), c_exponent)
            flagged = flagged | (c & F16_INFINITY).eq(F16_INFINITY)
            top = product.max(c_exponent).max(step.floor)
        else:
            value = c.bits("float")
            field = (c >> 23) & 255
            flagged = flagged | (c & F32_INFINITY).eq(F32_INFINITY)
            top = product.max(field.max(1) - 127)
        if not block.small or step.scales:
            outside = product.lt(LOWEST) | top.gt(HIGHEST)
            flagged = flagged | (outside & self.empty.eq(0))
        self.flagged = flagged
        self.scaled_top = top if shift is None else top - shift
        up = (top.constant(127 + step.window) - top) << 23
        self.down = ((top + (127 - step.window)) << 23).bits("float")
        self.up = up.bits("float")
        if block.small:
            # What this clamps is zero, or is truncated to zero.
            self.up = ((self.scaled_top.constant(LOWERED + step.window) - self.scaled_top).max(0).min(LARGEST_RAISE)) << 23
        self.first = (value * up.bits("float")).convert("fptosi", "i32")

    @staticmethod
    def lost(block: Block, cells: Sequence[Any], m: Value, without_products: Value | None) -> Value:
        """Whether there are cells that `general` has to do."""
        flagged: list[Value] = [cell.flagged for cell in cells]
        return reduce(or_, flagged).reduce("or")

    def bound(self) -> None:
        """Do nothing: `up` is in range."""

    def scaled(self, product: Value) -> Value:
        """A product, with a lowered factor where exponents are bytes, in units of the window's last bit, or less than one such unit."""
        return (product.bits("i32") + self.up).bits("float") if self.small else product * self.up

    def above_last_bit(self, units: Value) -> Value:
        """By how many bits exponents, of products without their scales, lie above the window's last bit."""
        return units + self.step.window - self.scaled_top

    def store(self, result: Value) -> None:
        """Store f16 results, or sums, which are float32 numbers of units; cells without products keep C."""
        if self.step.output == "f16":
            self.row.acc.store(result, self.m)
            return
        alone = self.c & ~0x3FF if self.step.output == "e8m13" else self.c
        self.row.acc.store(self.empty.select(without_products(alone), (result.bits("float") * self.down).bits("i32")), self.m)


Cells = FieldCells | ExponentCells


class IntegerSum:
    """C and the terms of a vector of cells, in units of the last bit of the window.

    Attributes
    ----------
    overflow : negative where the sum is wrong, if parts are added
    """

    def __init__(self, cell: Cells) -> None:
        self.cell = cell
        self.total = cell.first.variable()
        self.overflow = self.total.get().constant(0).variable()

    def add(self, part: Value) -> None:
        """Add a sum of up to TERMS terms."""
        before = self.total.get()
        after = before + part
        self.total.set(after)
        self.overflow.set(self.overflow.get() | has_overflowed(before, part, after))

    def add_shifted(self, number: Value, shift: Value) -> None:
        """Add integers times two to the power of ``shift``, which is at most MOST_SHIFTED."""
        shifted = number.operation("shl", shift)
        lost = shifted.operation("ashr", shift) ^ number
        self.add(shifted)
        self.overflow.set(self.overflow.get() | (number.constant(0) - lost) | lost)

    def converted(self, is_mode: bool) -> Value:
        """The bits of the float32 next to the sum toward zero; ``is_mode``: the processor rounds so."""
        return to_float_toward_zero(self.total.get(), is_mode)

    def store(self, converted: Value) -> None:
        """Store the sum, given what it was converted to."""
        self.cell.store(converted & ~0x3FF if self.cell.step.output == "e8m13" else converted)


class DoubleSum:
    """C and the terms of a vector of cells, in units of the last bit of the window."""

    def __init__(self, cell: Cells) -> None:
        self.cell = cell
        self.total = cell.first.convert("sitofp", "double").variable()

    def add(self, part: Value) -> None:
        """Add a sum of up to TERMS terms."""
        self.total.set(self.total.get() + part.convert("sitofp", "double"))

    def finish(self) -> None:
        """Convert and store the sum."""
        total, cell = self.total.get(), self.cell
        if cell.step.output == "f16":
            cell.store(round_f16(total * cell.down.convert("fpext", "double")))
            return
        dropped = 29 if cell.step.output == "f32" else 39
        cell.store((total.bits("i64") & -(1 << dropped)).bits("double").convert("fptrunc", "float").bits("i32"))


def is_avx512(type: str) -> bool:
    """Whether instructions of AVX-512 take vectors of 32-bit integers: this processor has them, and it is one of their vectors."""
    return type == "<16 x i32>" and host().vector_bits == 512


_DIFFERS_FROM_BOTH = 0b01000010
"""As a table of three bits, of which the last one is looked at: whether it is neither the first nor the second."""


def has_overflowed(before: Value, part: Value, after: Value) -> Value:
    """Negative where the sum of two i32 does not have the sign of both, which are equal."""
    if is_avx512(after.type):
        return before.target_intrinsic("x86.avx512.pternlog.d.512", before.type, f"i32 {_DIFFERS_FROM_BOTH}", part, after)
    return (before ^ after) & (part ^ after)


_TOWARD_ZERO = 11
"""The rounding of an AVX-512 instruction: toward zero, without exceptions."""


def to_float_toward_zero(number: Value, is_mode: bool) -> Value:
    """The bits of the float32 next to each i32 toward zero; those of zero are zero. ``is_mode``: the processor rounds so."""
    if is_mode:
        return number.convert("sitofp", "float").bits("i32")
    if is_avx512(number.type):
        return number.target_intrinsic("x86.avx512.sitofp.round.v16f32.v16i32", "<16 x float>", f"i32 {_TOWARD_ZERO}").bits("i32")
    below = number.min(number.constant(0) - number)
    nearest = below.convert("sitofp", "float")
    further = nearest.convert("fptosi", "i32").lt(below)
    return ((nearest.bits("i32") + further.sext("i32")) & 0x7FFFFFFF) | (number & SIGN)


_LARGER_MAGNITUDE = 0b1011
"""Of an AVX-512 instruction: the larger of two magnitudes."""


def largest_magnitude(numbers: Sequence[Value]) -> Value:
    """The largest magnitude of float32 numbers in each lane, of which the bits are given."""
    if not is_avx512(numbers[0].type):
        return reduce(Value.max, (number & 0x7FFFFFFF for number in numbers)).bits("float")
    code, name, some = numbers[0].function, "@llvm.x86.avx512.mask.range.ps.512", "<16 x float>"
    code.module.declare(name, f"declare {some} {name}({some}, {some}, i32, {some}, i16, i32)")
    options = f"i32 {_LARGER_MAGNITUDE}, {some} zeroinitializer, i16 -1, i32 4"

    def larger(one: Value, other: Value) -> Value:
        return code.emit(f"call {some} {name}({one}, {other}, {options})", some)

    return reduce(larger, (number.bits("float") for number in numbers))
