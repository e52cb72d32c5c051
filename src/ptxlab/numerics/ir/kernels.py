"""The compiled kernels, each compiled (or loaded from the cache) when it is first needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ptxlab import native
from ptxlab.formats import FORMATS, Packing
from ptxlab.native.builder import Function, Module, vector
from ptxlab.numerics._double import double_kernel
from ptxlab.numerics._sparse import chunk_of, legal_codes
from ptxlab.numerics._steps import STEPS, Step, is_wide
from ptxlab.numerics.ir._block import adds_directly, may_overflow, reads_pairs
from ptxlab.numerics.ir._fused import fused_ir
from ptxlab.numerics.ir.group import group_ir
from ptxlab.numerics.ir.prepare import prepare_ir, scale_rows_ir
from ptxlab.numerics.ir.prepare_groups import prepare_groups_ir
from ptxlab.numerics.ir.sparse import expand_ir, forget_ir
from ptxlab.numerics.ir.unpack import unpack_ir

__all__ = [
    "expander_address",
    "forgetter_address",
    "group_preparer",
    "group_preparer_address",
    "multiplier",
    "multiplier_address",
    "preparer",
    "preparer_address",
    "row_scaler_address",
    "unpacker_address",
    "warmup_parts",
]

_PACKINGS: tuple[Packing, ...] = ("padded", "bytes")
GROUPS = 4
"""Vectors that one step of the integer kernel sums at a time."""


def _compile(key: tuple[object, ...], write: Callable[[int], str], exports: tuple[str, ...], quick: bool = False) -> native.Library:
    """Compile the function that ``write`` emits, for vectors with the given number of 32-bit lanes.

    ``quick``: without optimisation, in less than half of the time, unless the cache has the optimised code.
    """
    lanes = native.host().vector_bits // 32
    parts = ("numerics", lanes, *key)
    if quick and native.OBJECTS.read(native.object_key(*parts)) is None:
        return native.compile_or_load((*parts, "quick"), exports, lambda: write(lanes), opt=0)
    return native.compile_or_load(parts, exports, lambda: write(lanes), opt=1, light=True)


@cache
def _preparers(fmt: str, wide: bool, quick: bool = False) -> native.Library:
    return _compile(("prepare", fmt, wide), lambda _: prepare_ir(FORMATS[fmt], wide), ("prepare_a", "prepare_b"), quick)


@cache
def preparer(fmt: str, wide: bool, role: str) -> Any:
    """The function that prepares operands of a format."""
    arguments = [ctypes.c_void_p, *[ctypes.c_int64] * 5, ctypes.c_void_p, ctypes.c_int32]
    return _preparers(fmt, wide).function(f"prepare_{role}", None, *arguments)


def preparer_address(fmt: str, wide: bool, role: str, quick: bool) -> int:
    """The host address of the function that `preparer` returns; ``quick``: it need not be optimised."""
    return _preparers(fmt, wide, quick).address(f"prepare_{role}")


@cache
def _group_preparers(scale: str, quick: bool = False) -> native.Library:
    return _compile(("prepare groups", scale), lambda _: prepare_groups_ir(scale), ("prepare_a", "prepare_b"), quick)


@cache
def group_preparer(scale: str, role: str) -> Any:
    """The function that prepares operands of steps on groups."""
    arguments = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 5, ctypes.c_void_p, ctypes.c_int32]
    return _group_preparers(scale).function(f"prepare_{role}", None, *arguments)


def group_preparer_address(scale: str, role: str, quick: bool) -> int:
    """The host address of the function that `group_preparer` returns; ``quick``: it need not be optimised."""
    return _group_preparers(scale, quick).address(f"prepare_{role}")


@cache
def unpacker_address(packing: Packing, bits: int, contained: bool = False) -> int:
    """The host address of the function that gives codes a byte each."""
    key = "unpack", packing, bits, contained
    return _compile(key, lambda _: unpack_ir(packing, bits, contained), ("unpack",)).address("unpack")


@cache
def expander_address(fmt: str, grouped: bool) -> int:
    """The host address of the function that expands a sparse A of a format."""
    chunk = chunk_of(fmt, grouped)
    return _compile(("expand", fmt, grouped), lambda _: expand_ir(FORMATS[fmt], *chunk, legal_codes(fmt)), ("expand",)).address("expand")


@cache
def forgetter_address(fmt: str, wide: bool) -> int:
    """The host address of the function that marks elements of a prepared A that are not stored."""
    chunk = chunk_of(fmt, False)
    return _compile(("forget", wide, *chunk), lambda _: forget_ir(wide, *chunk), ("forget",)).address("forget")


@cache
def row_scaler_address() -> int:
    """The host address of the function that gives rows of a prepared operand their scales."""
    return _compile(("scale rows",), lambda _: scale_rows_ir(), ("scale_rows",)).address("scale_rows")


def _key(step: Step, wide: bool) -> tuple[object, ...]:
    """What decides the code of the function for a step."""
    if step.group > 1:
        return "group", step.window, step.floor
    if step.output == "s32":
        return ("integer",)
    return "fused", step.window, step.floor, step.output, wide, bool(step.scales), reads_pairs(step), _sums(step)


def _sums(step: Step) -> str:
    """How a step's terms are summed, as far as nothing else decides it."""
    if step.output not in ("f32", "e8m13") or step.group > 1 or reads_pairs(step):
        return ""
    return ("" if may_overflow(step) else ", sums of 32 bits") if adds_directly(step) else ", sums in parts"


@cache
def _multiplier(step: Step, wide: bool, quick: bool = False) -> native.Library:
    write: Callable[[int], str]
    if step.group > 1:
        write = partial(group_ir, step)
    elif step.output == "s32":
        write = integer_ir
    else:
        write = partial(fused_ir, step, wide)
    return _compile(_key(step, wide), write, ("mma",), quick)


@cache
def multiplier(step: Step, wide: bool) -> Any:
    """The function that adds one step to an accumulator; ctypes converts integers faster if they are declared as addresses."""
    return _multiplier(step, wide).function("mma", None, *[ctypes.c_void_p] * 10)


def multiplier_address(step: Step, wide: bool, quick: bool) -> int:
    """The host address of the function that `multiplier` returns; ``quick``: it need not be optimised."""
    return _multiplier(step, wide, quick).address("mma")


def warmup_parts() -> list[tuple[str, Callable[[], None]]]:
    """What a first multiplication of any kind would compile: names, and calls that do it."""
    rows = {row for found in STEPS.values() for row in found}
    parts: list[tuple[str, Callable[[], None]]] = [
        (f"operands of type {fmt}", partial(_warm_operand, fmt)) for fmt in sorted({fmt for row in rows for fmt in row.a + row.b})
    ]
    kernels = {_key(row, is_wide(fmt)): (row, is_wide(fmt)) for row in rows for fmt in row.a}
    for row, wide in kernels.values():
        flags = [", wide exponents"] * wide + [", block-scaled"] * bool(row.scales) + [", integers"] * reads_pairs(row) + [_sums(row)]
        name = f"products to {row.output}, window {row.window}, floor {row.floor}{''.join(flags)}"
        parts.append(("products of s32" if row.output == "s32" else name, partial(multiplier, row, wide)))
    parts.sort(key=lambda part: part[0])
    return [*parts, ("products of f64", double_kernel), ("moves and mma programs", _warm_programs)]


def _warm_programs() -> None:
    from ptxlab.numerics._mma_program import mma_program_function

    for unit in (1, 4, 8, 16, 64):
        native.mover(unit)
    for bits in (4, 6):
        for packing in _PACKINGS:
            unpacker_address(packing, bits)
        unpacker_address("padded", bits, contained=True)
    unpacker_address("dense", 4)
    row_scaler_address()
    mma_program_function()


def _warm_operand(fmt: str) -> None:
    for role in "ab":
        preparer(fmt, is_wide(fmt), role)
        if fmt == "e2m1":
            for scale in ("ue8m0", "ue4m3"):
                group_preparer(scale, role)
    steps = [step for steps in STEPS.values() for step in steps if fmt in step.a and step.sparse and step.metadata == "mma_async"]
    for grouped in {step.group > 1 for step in steps}:
        expander_address(fmt, grouped)
        if not grouped and not FORMATS[fmt].is_integer:
            forgetter_address(fmt, is_wide(fmt))


def integer_ir(lanes: int) -> str:
    """The function ``mma``; ``saturate`` chooses between clamping and wrapping the sum with C."""
    module = Module()
    parameters = "ptr acc, i64 stride, i64 m, i64 n, i64 count, ptr a, ptr b, i64 keep, i64 saturate, i64 unused"
    code = Function(module, "mma", "void", parameters)
    a, b = (code[name].load("ptr") for name in "ab")
    lda, ldb = (code[name].load("i64", 3) for name in "ab")
    keep = code["keep"].to("i32").splat(lanes)
    saturate = code["saturate"].to("i32").splat(lanes).ne(0)
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
    return module.finish()
