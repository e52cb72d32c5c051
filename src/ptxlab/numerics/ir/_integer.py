"""LLVM code for integer steps: products of eight-bit integers and sums of 32 of them are exact in float32."""

from __future__ import annotations

from ptxlab.native.builder import Function, Module, vector

__all__ = ["integer_ir"]

GROUPS = 4


def integer_ir(lanes: int) -> str:
    """The function ``mma``; ``saturate`` chooses between clamping and wrapping the sum with C."""
    module = Module()
    parameters = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 saturate, i32 unused"
    code = Function(module, "mma", "void", parameters)
    a, b = (code[name].load("ptr") for name in "ab")
    lda, ldb = (code[name].load("i64", 3) for name in "ab")
    keep = code["keep"].splat(lanes)
    saturate = code["saturate"].splat(lanes).ne(0)
    with code.loop(code["n"]) as n:
        line = b.at(n * ldb, "float")
        acc = code["acc"].at(n * code["stride"])
        with code.loop(code["m"], lanes * GROUPS) as m:
            sums = [code.variable(vector("float", lanes), 0.0) for _ in range(GROUPS)]
            with code.loop(code["count"]) as k:
                row = a.at(k * lda + m, "float")
                factor = line.load("float", k).splat(lanes)
                for g, total in enumerate(sums):
                    total.set(row.load(vector("float", lanes), g * lanes).intrinsic("fmuladd", factor, total.get()))
            for g, total in enumerate(sums):
                c = acc.load(vector("i32", lanes), m + g * lanes) & keep
                dot = total.get().convert("fptosi", "i32")
                acc.store(saturate.select(c.intrinsic("sadd.sat", dot), c + dot), m + g * lanes)
    return module.text()
