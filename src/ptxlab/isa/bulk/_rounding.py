"""Compiled code that rounds f32 to tf32 while it moves elements."""

from __future__ import annotations

from functools import cache

from ptxlab import native
from ptxlab.native.builder import Module

__all__ = ["rounding_address"]


def _move_ir() -> str:
    """``void round(from, from_order, to, to_order, count)``: see `ptxlab.isa.bulk._staging.rounded`."""
    module = Module()
    c, (source, source_order, target, target_order, count) = module.define(
        "void round(ptr from, ptr from_order, ptr to, ptr to_order, i64 count)"
    )
    with c.loop(count) as i:
        word = source.load("i32", source_order.load("i64", i), align=1)
        nearest = (word + 0xFFF + ((word >> 13) & 1)) & 0xFFFFE000
        is_nan = (word & 0x7FFFFFFF).ugt(0x7F800000)
        target.store(is_nan.select(0x7FFFE000, nearest), target_order.load("i64", i), align=1)
    return module.finish()


@cache
def rounding_address() -> int:
    """The host address of a function like those of `ptxlab.native.mover`, for units of 4 bytes, which rounds each."""
    return native.compile_or_load(("round to tf32",), ("round",), _move_ir, opt=1, light=True).address("round")
