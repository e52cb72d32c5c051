"""LLVM code for one step at speed: float32 products, int32 sums, one vector lane per row of A.

The largest exponent is a running maximum of small integers. Every product, exact in float32, is scaled by a power of two and converted to
an integer, which truncates it toward zero at the window's last bit; sixteen such terms fit an int32. Cells that this cannot do (a row
with an infinity or a NaN, C infinite or NaN, products near the ends of float32's range, scale-input-d) go to `general`, vector by vector.
Scales of rows that are powers of two only shift the products' exponents.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from ptxlab.native.builder import Function, Module, Value, Variable, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._general import F16_INFINITY, F32_INFINITY, LANES, c_f16, general, round_f16, without_products
from ptxlab.numerics.ir.prepare import dead_exponent

__all__ = ["BLOCK", "fused_ir"]

BLOCK = 64
"""Cells of one row of the accumulator that are done together; its width must be a multiple."""
TERMS = 16
"""Truncated products, each below 2^(window + 2), that an int32 can sum for a window of 25 bits."""
LOWEST, HIGHEST = -74, 125
"""The largest exponents between which float32 products, scale and result are exact wherever the window reaches."""


def fused_ir(step: Step, wide: bool, lanes: int) -> str:
    """The function ``mma`` and the `general` one that it calls."""
    module = Module()
    _Fused(module, step, wide, lanes)
    general(module, step, wide)
    return module.text()


class _Fused:
    def __init__(self, module: Module, step: Step, wide: bool, lanes: int) -> None:
        self.step, self.wide, self.lanes = step, wide, lanes
        self.narrow = "i16" if wide else "i8"
        self.groups = 4
        self.width = lanes * self.groups
        parameters = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 sign, i32 scale"
        self.code = code = Function(module, "mma", "void", parameters)
        self.a, self.ae, self.abad = (code["a"].load("ptr", i) for i in range(3))
        self.b, self.be, self.bbad = (code["b"].load("ptr", i) for i in range(3))
        self.lda, self.ldb = code["a"].load("i64", 3), code["b"].load("i64", 3)
        self.a_scale, b_scales = (code[name].load("ptr", 4) for name in "ab")
        self.keep, self.sign = code["keep"].splat(lanes), code["sign"].splat(lanes)
        with code.loop(code["n"]) as n:
            line = n * self.ldb
            self.b_line, self.be_line = self.b.at(line, "float"), self.be.at(line, self.narrow)
            self.b_scale = b_scales.load("i32", n) if step.scales else code["scale"]
            acc = code["acc"].at(n * code["stride"])
            forced = self.bbad.load("i32", n) | code["scale"]
            with code.when(forced.eq(0)) as otherwise:
                with code.loop(code["m"], self.width) as m:
                    self._block(acc, m)
                otherwise()
                with code.loop(code["m"], LANES) as m:
                    self._general(acc, m)

    def _general(self, acc: Value, m: Value) -> None:
        b = self.code
        here = (acc.at(m, "i32"), self.a.at(m, "float"), self.ae.at(m, self.narrow), self.lda)
        scales = (self.a_scale.at(m, "i32") if self.step.scales else self.a_scale, self.b_scale)
        b.call("general", "void", *here, self.b_line, self.be_line, b["count"], b["keep"], b["sign"], b["scale"], *scales)

    def _block(self, acc: Value, m: Value) -> None:
        code, lanes = self.code, self.lanes
        exponents = self._largest_exponents(m)
        cells = [_AccumulatorVector(self, exponents.part(g * lanes, lanes), acc, m + g * lanes) for g in range(self.groups)]
        with code.loop(code["count"], TERMS) as start:
            sums = [code.variable(vector("i32", lanes), 0) for _ in cells]
            with code.loop((start + TERMS).min(code["count"]), start=start) as k:
                b = self.b_line.load("float", k).splat(lanes)
                line = self.a.at(k * self.lda + m, "float")
                for g, (cell, total) in enumerate(zip(cells, sums, strict=True)):
                    product = line.load(vector("float", lanes), g * lanes) * b * cell.up
                    total.set(total.get() + product.convert("fptosi", "i32"))
            for cell, total in zip(cells, sums, strict=True):
                cell.add(total)
        with code.when(reduce(or_, (cell.lost for cell in cells)).reduce("or")) as otherwise:
            for g in range(0, self.width, LANES):
                self._general(acc, m + g)
            otherwise()
            for cell in cells:
                cell.finish()

    def _largest_exponents(self, m: Value) -> Value:
        """The largest product exponent of each cell, or less than any if all products are zero."""
        code = self.code
        largest = code.variable(vector(self.narrow, self.width), 2 * dead_exponent(True) if self.wide else dead_exponent(False))
        with code.loop(code["count"]) as k:
            a = self.ae.load(vector(self.narrow, self.width), k * self.lda + m)
            b = self.be_line.load(self.narrow, k).splat(self.width)
            largest.set(largest.get().max(a + b if self.wide else a.intrinsic("sadd.sat", b)))
        return largest.get()


class _AccumulatorVector:
    """A vector of neighbouring cells of one row of the accumulator, and their sums."""

    def __init__(self, kernel: _Fused, exponent: Value, acc: Value, m: Value) -> None:
        step = self.step = kernel.step
        self.acc, self.m = acc, m
        lanes = kernel.lanes
        c = self.c = acc.load(vector("i32", lanes), m) & kernel.keep
        product = exponent.convert("sext", "i32")
        self.empty = product.lt(dead_exponent(kernel.wide) // 2)
        shift = None
        if step.scales:
            shift = kernel.a_scale.load(vector("i32", lanes), m) + kernel.b_scale.splat(lanes)
            product = self.empty.select(product, product + shift)
        lost = kernel.abad.load(vector("i32", lanes), m).ne(0)
        if step.output == "f16":
            value, c_exponent = c_f16(c)
            c_exponent = (c & 0x7FFF).eq(0).select(c.constant(step.floor), c_exponent)
            lost = lost | (c & F16_INFINITY).eq(F16_INFINITY)
            top = product.max(c_exponent).max(step.floor)
        else:
            value = c.bits("float")
            field = (c >> 23) & 255
            lost = lost | (c & F32_INFINITY).eq(F32_INFINITY)
            top = product.max(field.max(1) - 127)
        if kernel.wide or step.scales:
            outside = product.lt(LOWEST) | top.gt(HIGHEST)
            lost = lost | (outside & self.empty.eq(0))
        self.lost = lost
        up = (top.constant(127 + step.window) - top) << 23
        self.down = ((top + (127 - step.window)) << 23).bits("float")
        products_up = up
        if shift is not None:
            # What this clamps is zero, or is truncated to zero.
            products_up = ((shift - top) + (127 + step.window)).max(0).min(254) << 23
        self.up = (products_up ^ kernel.sign).bits("float")
        first = (value * up.bits("float")).convert("fptosi", "i32")
        self.single = step.output == "e8m13"
        self.total = (first if self.single else first.convert("sitofp", "double")).variable()

    def add(self, part: Variable) -> None:
        """Add a sum of up to TERMS terms."""
        value = part.get() if self.single else part.get().convert("sitofp", "double")
        self.total.set(self.total.get() + value)

    def finish(self) -> None:
        """Convert and store the sum."""
        total, step = self.total.get(), self.step
        if step.output == "f16":
            self.acc.store(round_f16(total * self.down.convert("fpext", "double")), self.m)
            return
        if self.single:
            cut = (total.convert("sitofp", "float").bits("i32") & ~0x3FF).bits("float")
            alone = self.c & ~0x3FF
        else:
            cut = (total.bits("i64") & -(1 << 29)).bits("double").convert("fptrunc", "float")
            alone = self.c
        self.acc.store(self.empty.select(without_products(alone), (cut * self.down).bits("i32")), self.m)
