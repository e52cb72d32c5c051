"""LLVM code for integer steps: products of eight-bit integers and sums of 32 of them are exact in float32."""

from __future__ import annotations

from ptxlab.numerics.ir.builder import Body, module

__all__ = ["integer_ir"]

GROUPS = 4


def integer_ir(lanes: int) -> str:
    """The function ``mma``; ``saturate`` chooses between clamping and wrapping the sum with C."""
    body = Body("mma", "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i32 keep, i32 saturate, i32 unused")
    a, b = (body[name].load("ptr") for name in "ab")
    lda, ldb = (body[name].load("i64", 0, 3) for name in "ab")
    keep = body["keep"].splat(lanes)
    saturate = body["saturate"].splat(lanes).compare("ne", "", 0)
    with body.loop(body["n"]) as n:
        line = b.at(n * ldb, "float")
        acc = body["acc"].at(n * body["stride"], "i8")
        with body.loop(body["m"], lanes * GROUPS) as m:
            sums = [body.variable(body.constant("float", lanes, 0.0)) for _ in range(GROUPS)]
            with body.loop(body["count"]) as k:
                row = a.at(k * lda + m, "float")
                factor = line.load("float", 0, k).splat(lanes)
                for g, total in enumerate(sums):
                    total.set(row.load("float", lanes, g * lanes).intrinsic("fmuladd", factor, total.get()))
            for g, total in enumerate(sums):
                c = acc.load("i32", lanes, m + g * lanes) & keep
                dot = total.get().convert("fptosi", "i32")
                acc.store(saturate.choose(c.intrinsic("sadd.sat", dot), c + dot), m + g * lanes)
    return module((body,))
