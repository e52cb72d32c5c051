"""The compiled kernels, each compiled (or loaded from the cache) when it is first needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ptxlab.formats import FORMATS
from ptxlab.numerics._double import double_kernel
from ptxlab.numerics._steps import STEPS, Step, is_wide

__all__ = ["multiplier", "multiplier_address", "preparer", "preparer_address", "warmup_parts"]

# The calls are short, so they keep the interpreter's lock.
_PREPARE = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p, *[ctypes.c_int64] * 5, ctypes.c_void_p, ctypes.c_int32])
_MULTIPLY = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int32] * 3)
_loaded: list[object] = []


def _compile(key: tuple[object, ...], write: Callable[[int], str], exports: tuple[str, ...]) -> Any:
    from ptxlab import native

    lanes = native.host().vector_bits // 32
    digest = native.object_key("numerics", lanes, *key)
    library = native.load_cached(digest, exports) or native.compile_ir(write(lanes), exports, opt=1, key=digest)
    _loaded.append(library)
    return library


@cache
def preparer(fmt: str, wide: bool, role: str) -> Any:
    """The function that prepares operands of a format."""
    return _PREPARE(preparer_address(fmt, wide, role))


def preparer_address(fmt: str, wide: bool, role: str) -> int:
    """Its host address."""
    from ptxlab.numerics.ir.prepare import prepare_ir

    found: int = _preparers(fmt, wide, prepare_ir).address(f"prepare_{role}")
    return found


@cache
def _preparers(fmt: str, wide: bool, write: Callable[..., str]) -> Any:
    return _compile(("prepare", fmt, wide), lambda _: write(FORMATS[fmt], wide), ("prepare_a", "prepare_b"))


@cache
def multiplier(step: Step, wide: bool) -> Any:
    """The function that adds one step to an accumulator."""
    return _MULTIPLY(multiplier_address(step, wide))


@cache
def multiplier_address(step: Step, wide: bool) -> int:
    """Its host address."""
    from ptxlab.numerics.ir._fused import fused_ir
    from ptxlab.numerics.ir._integer import integer_ir

    if step.group > 1:
        from ptxlab.numerics.ir._group import group_ir

        return _mma(("group", step.window, step.floor), lambda lanes: group_ir(step, lanes))
    if step.output == "s32":
        return _mma(("integer",), integer_ir)
    key = ("fused", step.window, step.floor, step.output, wide, bool(step.scales))
    return _mma(key, lambda lanes: fused_ir(step, wide, lanes))


def _mma(key: tuple[object, ...], write: Callable[[int], str]) -> int:
    address: int = _compile(key, write, ("mma",)).address("mma")
    return address


def warmup_parts() -> list[tuple[str, Callable[[], None]]]:
    """What a first multiplication of any kind would compile: names, and calls that do it."""
    rows = {row for found in STEPS.values() for row in found}
    parts: list[tuple[str, Callable[[], None]]] = [
        (f"operands of type {fmt}", partial(_warm_operand, fmt)) for fmt in sorted({fmt for row in rows for fmt in row.a + row.b})
    ]
    kernels = {(row.output, row.window, row.floor, is_wide(fmt), bool(row.scales)): row for row in rows for fmt in row.a}
    for (output, window, floor, wide, scaled), row in sorted(kernels.items(), key=lambda item: item[0]):
        flags = [", wide exponents"] * wide + [", block-scaled"] * scaled
        name = "products of s32" if output == "s32" else f"products to {output}, window {window}, floor {floor}{''.join(flags)}"
        parts.append((name, partial(_warm_step, row, wide)))
    return [*parts, ("products of f64", double_kernel), ("moves and mma programs", _warm_programs)]


def _warm_programs() -> None:
    from ptxlab import native
    from ptxlab.numerics._mma_program import mma_program_function

    for unit in (4, 8, 16, 64):
        native.gatherer(unit)
    mma_program_function()


def _warm_operand(fmt: str) -> None:
    for role in "ab":
        preparer(fmt, is_wide(fmt), role)


def _warm_step(row: Step, wide: bool) -> None:
    multiplier(row, wide)
