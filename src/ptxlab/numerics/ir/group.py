"""Steps on groups: operands, and LLVM code. Each group's sum is exact, is multiplied by its scales, and is then one term of the step.

The sum of a group is a float32 integer of quarters below 2^12, its product with the significands of two scales has at most 20 bits: exact
until it is truncated at the window's last bit. The sums of the truncated terms need float64. What the scales' exponents alone put outside
float32's range, NaN scales, and C infinite or NaN go to ``general``, in float64 throughout.
"""

from __future__ import annotations

from functools import cache, reduce
from itertools import pairwise
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS, decode
from ptxlab.native.builder import Function, Module, Value, Variable, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir._general import DEAD, F32_INFINITY, LANES, accumulator, cut_f32, power, with_specials, without_products

__all__ = ["ARRAYS", "fill_groups", "group_ir"]

ARRAYS = ("values", "scales", "exponents", "live", "flags")
"""Pointers in a header: codes' values; for each group its scale, the scale's exponent and a bit for each product that is not zero."""
MODEST = 50
"""Exponents of scales, up to which products of two scales stay inside float32's range."""


@cache
def _values() -> NDArray[np.float32]:
    return np.tile(decode(np.arange(16, dtype=np.uint8), "e2m1"), 16)


@cache
def _scales(fmt: str) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.bool_], NDArray[np.int32]]:
    """Of every code: value, exponent as the significand is not normalised, whether it is zero, whether it needs the general path."""
    row = FORMATS[fmt]
    codes = np.arange(256, dtype=np.uint8)
    value = decode(codes, fmt)
    field = (codes & row.magnitude_mask).astype(np.int32) >> row.mantissa
    exponent = (field - row.bias if row.mantissa == 0 else np.maximum(field, 1) - row.bias).astype(np.int32)
    return value, exponent, value == 0, (np.isnan(value) | (np.abs(exponent) > MODEST)).astype(np.int32)


def fill_groups(
    words: NDArray[np.uint8],
    address: int,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    *,
    scale: str,
    groups: int,
    padded: int,
    role: str,
    negate: bool,
) -> None:
    """Write header and arrays into ``words``, which begin at ``address``; ``codes`` [rows, k] and ``scales`` [rows, groups]."""
    rows, k = codes.shape
    value, exponent, zero, needs_general = _scales(scale)
    sizes = [padded * k, *[padded * groups] * 3, padded]
    offsets = 64 + 4 * np.cumsum([0, *sizes])
    header = np.zeros(8, np.int64)
    header[: len(ARRAYS)] = address + offsets[:-1]
    header[len(ARRAYS)] = padded if role == "a" else k
    words[:64] = header.view(np.uint8)
    lines = [words[start:stop].view(np.float32) for start, stop in pairwise(offsets.tolist())]

    def place(line: NDArray[np.float32], table: NDArray[Any], given: NDArray[Any]) -> None:
        # Every code has an entry; without a check of bounds `take` is twice as fast.
        out = line.view(table.dtype)
        if role == "b":
            np.take(table, given, out=out.reshape(rows, -1), mode="clip")
            return
        across = out.reshape(-1, padded)
        if rows == padded:
            np.take(table, given.T, out=across, mode="clip")
        else:
            across[:, :rows] = table[given.T]
            across[:, rows:] = 0

    place(lines[0], -_values() if negate else _values(), codes)
    nonzero = np.packbits((codes & 7) != 0, axis=1).reshape(rows, groups, -1)
    live = np.zeros((rows, groups, 4), np.uint8)
    live[:, :, : nonzero.shape[2]] = nonzero
    place(lines[1], value, scales)
    place(lines[2], exponent, scales)
    bits = np.where(zero[scales], 0, live.view(np.int32)[:, :, 0])
    if role == "b":
        lines[3].view(np.int32).reshape(rows, -1)[...] = bits
    else:
        across = lines[3].view(np.int32).reshape(-1, padded)
        across[:, :rows], across[:, rows:] = bits.T, 0
    flags = lines[4].view(np.int32)
    flags[:rows], flags[rows:] = needs_general[scales].max(axis=1), 0


LOWEST, HIGHEST = -74, 125
VECTORS = 4
STRIDES = len(ARRAYS)


def group_ir(step: Step, lanes: int) -> str:
    """The function ``mma`` and the ``general`` one that it calls."""
    module = Module()
    _Fast(module, step, lanes)
    _General(module, step)
    return module.text()


class _Operands:
    """Lanes of A against one row of B: sums, scales and exponents of groups."""

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
        a = self.a_scales.load(vector("float", self.lanes), group * self.lda + m)
        return a, self.b_scales.load("float", group).splat(self.lanes)

    def sums(self, group: Value, size: Value, at: list[Value]) -> list[Variable]:
        """Of a group's products, for some vectors of lanes."""
        sums = [self.code.variable(vector("float", self.lanes), 0.0) for _ in at]
        first = group * size
        with self.code.loop(first + size, 4, first) as k:
            for j in range(4):
                b = self.b_values.load("float", k + j).splat(self.lanes)
                line = self.a_values.at((k + j) * self.lda, "float")
                for m, total in zip(at, sums, strict=True):
                    total.set(line.load(vector("float", self.lanes), m).intrinsic("fmuladd", b, total.get()))
        return sums


class _Fast:
    def __init__(self, module: Module, step: Step, lanes: int) -> None:
        self.step, self.lanes = step, lanes
        parameters = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 sign, i32 groups"
        code = self.code = Function(module, "mma", "void", parameters)
        self.groups = code["groups"].convert("sext", "i64")
        self.size = code["count"].operation("sdiv", self.groups)
        a = [code["a"].load("ptr", j) for j in range(4)]
        b = [code["b"].load("ptr", j) for j in range(4)]
        self.a_flags, b_flags = (code[name].load("ptr", 4) for name in "ab")
        lda, ldb = (code[name].load("i64", STRIDES) for name in "ab")
        self.keep, self.sign = code["keep"].splat(lanes), code["sign"].splat(lanes)
        with code.loop(code["n"]) as n:
            first = n * self.groups
            line = [b[0].at(n * ldb, "float"), *(x.at(first, "i32") for x in b[1:])]
            self.operands = _Operands(code, [*a, lda], line, lanes)
            acc = code["acc"].at(n * code["stride"])
            with code.when(b_flags.load("i32", n).eq(0)) as otherwise:
                with code.loop(code["m"], lanes * VECTORS) as m:
                    self._block(acc, m, [m + lanes * j for j in range(VECTORS)])
                otherwise()
                with code.loop(code["m"], LANES) as m:
                    self._general(acc, m)

    def _general(self, acc: Value, m: Value) -> None:
        b, o = self.code, self.operands
        a = (x.at(m, "i32") for x in (o.a_values, o.a_scales, o.a_exponents, o.a_live))
        row = (o.b_values, o.b_scales, o.b_exponents, o.b_live)
        b.call("general", "void", acc.at(m, "i32"), *a, o.lda, *row, self.groups, self.size, b["keep"], b["sign"], b.const("i32", 0))

    def _block(self, acc: Value, m: Value, at: list[Value]) -> None:
        code, lanes, operands = self.code, self.lanes, self.operands
        tops = [code.variable(vector("i32", lanes), DEAD) for _ in at]
        with code.loop(self.groups) as group:
            for top, lane in zip(tops, at, strict=True):
                top.set(top.get().max(operands.exponent(group, lane)))
        cells = [_AccumulatorVector(self, top.get(), acc, lane) for top, lane in zip(tops, at, strict=True)]
        with code.when(reduce(or_, (cell.lost for cell in cells)).reduce("or")) as otherwise:
            with code.loop(m + lanes * VECTORS, LANES, m) as here:
                self._general(acc, here)
            otherwise()
            with code.loop(self.groups) as group:
                sums = operands.sums(group, self.size, at)
                for cell, total in zip(cells, sums, strict=True):
                    cell.add(total.get(), operands.scale(group, cell.m))
            for cell in cells:
                cell.finish()


class _AccumulatorVector:
    """A vector of neighbouring cells of one row of the accumulator, and their sums."""

    def __init__(self, kernel: _Fast, group_top: Value, acc: Value, m: Value) -> None:
        window = kernel.step.window
        self.acc, self.m = acc, m
        c = self.c = acc.load(vector("i32", kernel.lanes), m) & kernel.keep
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
        # In this order nothing leaves float32's range that is not truncated to zero.
        term = (exact * (scale[0] * scale[1])) * self.up
        self.total.set(self.total.get() + term.intrinsic("trunc").convert("fpext", "double"))

    def finish(self) -> None:
        # Adding zero makes a sum of nothing but truncated negative terms positive.
        cut = ((self.total.get() + 0.0).bits("i64") & -(1 << 29)).bits("double").convert("fptrunc", "float")
        self.acc.store(self.empty.select(without_products(self.c), (cut * self.down).bits("i32")), self.m)


class _General:
    """LANES cells, any values."""

    def __init__(self, module: Module, step: Step) -> None:
        names = [f"{side}{field}" for side in "ab" for field in ("values", "scales", "exponents", "live")]
        pointers = [f"ptr {name}" for name in names]
        parameters = ["ptr acc", *pointers[:4], "i64 lda", *pointers[4:], "i64 groups", "i64 size", "i32 keep", "i32 sign", "i32 scale"]
        code = self.code = Function(module, "general", "void", ", ".join(parameters), attributes="noinline", internal=True)
        a, b = ([code[name] for name in names[j : j + 4]] for j in (0, 4))
        zero = code.const("i64", 0)
        operands = _Operands(code, [*a, code["lda"]], b, LANES)
        sign = code["sign"].splat(LANES)

        def term(group: Value) -> Value:
            exact = (operands.sums(group, code["size"], [zero])[0].get().bits("i32") ^ sign).bits("float")
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
