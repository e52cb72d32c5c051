"""LLVM code for one step at speed: float32 products, int32 sums, one vector lane per row of A.

The largest exponent is a running maximum of small integers. Every product, exact in float32, is scaled by a power of two and converted to
an integer, which truncates it toward zero at the window's last bit; sixteen such terms fit an int32. Cells that this cannot do (a row
with an infinity or a NaN, C infinite or NaN, products near the ends of float32's range, scale-input-d) go to `general`, vector by vector.
Scales of rows that are powers of two only shift the products' exponents.
"""

from __future__ import annotations

from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._general import F16_INFINITY, F32_INFINITY, LANES, c_f16, general, round_f16
from ptxlab.numerics.ir.builder import Body, Value, Variable, module
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
    return module((_Fused(step, wide, lanes).body, general(step, wide)))


class _Fused:
    def __init__(self, step: Step, wide: bool, lanes: int) -> None:
        self.step, self.wide, self.lanes = step, wide, lanes
        self.narrow = "i16" if wide else "i8"
        self.groups = 4
        self.width = lanes * self.groups
        self.body = body = Body("mma", "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 sign, i32 scale")
        self.a, self.ae, self.abad = (body["a"].load("ptr", 0, i) for i in range(3))
        self.b, self.be, self.bbad = (body["b"].load("ptr", 0, i) for i in range(3))
        self.lda, self.ldb = body["a"].load("i64", 0, 3), body["b"].load("i64", 0, 3)
        self.a_scale, b_scales = (body[name].load("ptr", 0, 4) for name in "ab")
        self.keep, self.sign = body["keep"].splat(lanes), body["sign"].splat(lanes)
        with body.loop(body["n"]) as n:
            line = n * self.ldb
            self.b_line, self.be_line = self.b.at(line, "float"), self.be.at(line, self.narrow)
            self.b_scale = b_scales.load("i32", 0, n) if step.scales else body["scale"]
            acc = body["acc"].at(n * body["stride"], "i8")
            forced = self.bbad.load("i32", 0, n) | body["scale"]
            with body.when(forced.equals(0)) as otherwise:
                with body.loop(body["m"], self.width) as m:
                    self._block(acc, m)
                otherwise()
                with body.loop(body["m"], LANES) as m:
                    self._general(acc, m)

    def _general(self, acc: Value, m: Value) -> None:
        b = self.body
        here = (acc.at(m, "i32"), self.a.at(m, "float"), self.ae.at(m, self.narrow), self.lda)
        scales = (self.a_scale.at(m, "i32") if self.step.scales else self.a_scale, self.b_scale)
        b.call("general", *here, self.b_line, self.be_line, b["count"], b["keep"], b["sign"], b["scale"], *scales)

    def _block(self, acc: Value, m: Value) -> None:
        body, lanes = self.body, self.lanes
        exponents = self._largest_exponents(m)
        cells = [_Cells(self, exponents.part(g * lanes, lanes), acc, m + g * lanes) for g in range(self.groups)]
        with body.loop(body["count"], TERMS) as start:
            sums = [body.variable(body.constant("i32", lanes, 0)) for _ in cells]
            with body.loop((start + TERMS).min(body["count"]), start=start) as k:
                b = self.b_line.load("float", 0, k).splat(lanes)
                line = self.a.at(k * self.lda + m, "float")
                for g, (cell, total) in enumerate(zip(cells, sums, strict=True)):
                    product = line.load("float", lanes, g * lanes) * b * cell.up
                    total.set(total.get() + product.convert("fptosi", "i32"))
            for cell, total in zip(cells, sums, strict=True):
                cell.add(total)
        lost = cells[0].lost
        for cell in cells[1:]:
            lost = lost | cell.lost
        with body.when(lost.any()) as otherwise:
            for g in range(0, self.width, LANES):
                self._general(acc, m + g)
            otherwise()
            for cell in cells:
                cell.finish()

    def _largest_exponents(self, m: Value) -> Value:
        """The largest product exponent of each cell, or less than any if all products are zero."""
        body = self.body
        largest = body.variable(body.constant(self.narrow, self.width, 2 * dead_exponent(True) if self.wide else dead_exponent(False)))
        with body.loop(body["count"]) as k:
            a = self.ae.load(self.narrow, self.width, k * self.lda + m)
            b = self.be_line.load(self.narrow, 0, k).splat(self.width)
            largest.set(largest.get().max(a + b if self.wide else a.intrinsic("sadd.sat", b)))
        return largest.get()


class _Cells:
    """A vector of cells of one row of the accumulator."""

    def __init__(self, kernel: _Fused, exponent: Value, acc: Value, m: Value) -> None:
        step = self.step = kernel.step
        self.acc, self.m = acc, m
        body, lanes = kernel.body, kernel.lanes
        c = self.c = acc.load("i32", lanes, m) & kernel.keep
        product = exponent.convert("sext", "i32")
        self.empty = product.below(dead_exponent(kernel.wide) // 2)
        shift = None
        if step.scales:
            shift = kernel.a_scale.load("i32", lanes, m) + kernel.b_scale.splat(lanes)
            product = self.empty.choose(product, product + shift)
        lost = kernel.abad.load("i32", lanes, m).compare("ne", "", 0)
        if step.output == "f16":
            value, c_exponent = c_f16(c)
            c_exponent = (c & 0x7FFF).equals(0).choose(c.number(step.floor), c_exponent)
            lost = lost | (c & F16_INFINITY).equals(F16_INFINITY)
            top = product.max(c_exponent).max(step.floor)
        else:
            value = c.bits("float")
            field = (c >> 23) & 255
            lost = lost | (c & F32_INFINITY).equals(F32_INFINITY)
            top = product.max(field.max(1) - 127)
        if kernel.wide or step.scales:
            outside = product.below(LOWEST) | top.above(HIGHEST)
            lost = lost | (outside & self.empty.equals(0))
        self.lost = lost
        up = (top.number(127 + step.window) - top) << 23
        self.down = ((top + (127 - step.window)) << 23).bits("float")
        products_up = up
        if shift is not None:
            # What this clamps is zero, or is truncated to zero.
            products_up = ((shift - top) + (127 + step.window)).max(0).min(254) << 23
        self.up = (products_up ^ kernel.sign).bits("float")
        first = (value * up.bits("float")).convert("fptosi", "i32")
        self.single = step.output == "e8m13"
        self.total = body.variable(first if self.single else first.convert("sitofp", "double"))

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
        # C passes a step without products as it is, except that zero is positive.
        alone = (alone << 1).equals(0).choose(alone.number(0), alone)
        self.acc.store(self.empty.choose(alone, (cut * self.down).bits("i32")), self.m)
