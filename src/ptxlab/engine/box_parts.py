"""The parts of boxes that are inside their tensor: compiled code finds them by coordinates (`ptxlab.isa.native_ops.BoxWord`)."""

from __future__ import annotations

from ptxlab.isa.native_ops import SPAN_SHIFT, BoxWord
from ptxlab.native.builder import Module

__all__ = ["emit_find_part"]

_MOST_DIMENSIONS = BoxWord.PITCH - BoxWord.LIMIT


def emit_find_part(module: Module) -> None:
    """``ptr find_part(words, coordinates, stores)``: the words of the part of a box that is copied; null if they are not known.

    It is that inside the tensor. ``stores``: 1 of a store or reduction, which clips as such and at no negative coordinate, else 0.
    """
    c, (words, coordinates, stores) = module.define("ptr find_part(ptr words, ptr coordinates, i64 stores)", internal=True)
    spans, rank, nothing = c.stack(f"[{_MOST_DIMENSIONS} x i64]"), words.word(BoxWord.RANK), c.variable("i1", 0)
    with c.loop(rank, entered=True) as i:
        at, step = coordinates.load("i64", i), words.load("i64", i + BoxWord.STEP)
        with c.when(at.lt(0) & stores.ne(0)):
            c.ret(0)
        size = (i.eq(0) & stores.ne(0)).select(words.word(BoxWord.WRITTEN), words.load("i64", i + BoxWord.DIM))
        low, high = ((distance + (step - 1)).max(0).operation("udiv", step) for distance in (at.constant(0) - at, size - at))
        high = high.min(words.load("i64", i + BoxWord.ACROSS))
        nothing.set(nothing.get() | low.ge(high))
        spans.store((high << SPAN_SHIFT) | low, i)
    kept = nothing.get().select(c.const("i64", 0), -1)
    place = words.variable()
    with c.loop_while(lambda: place.get().ne(0)):
        part, differs = place.get(), c.variable("i64", 0)
        with c.loop(rank, entered=True) as i:
            differs.set(differs.get() | ((spans.load("i64", i) & kept) ^ part.load("i64", i + BoxWord.SPAN)))
        with c.when(differs.get().eq(0)):
            c.ret(part)
        place.set(part.pointer(BoxWord.NEXT))
    c.ret(0)
