"""Copies of pixels of a tensor in im2col mode by compiled code: the pixels are rows (`ptxlab.engine.copies.rows`)."""

from __future__ import annotations

from typing import ClassVar

from ptxlab._records import dataclass
from ptxlab.engine.arrivals import unless
from ptxlab.engine.copies.rows import Rows
from ptxlab.engine.repetitions import CopyWord
from ptxlab.isa.effects import BoxForm
from ptxlab.isa.native_ops import MOST_PIXELS, BoxWord, WalkWord
from ptxlab.native.builder import Value

__all__ = ["Pixels"]

_MOST = WalkWord.PITCH - WalkWord.SIZE
"""Dimensions of an image, and that of the images."""


@dataclass(slots=True, eq=False)
class Pixels(Rows):
    """One copy of pixels while its function is written."""

    form: ClassVar[BoxForm] = BoxForm.PIXELS

    def outside(self, copy: Value) -> None:
        """Find the pixels in global memory; return from the function where the words of their channels are not known."""
        c, words, numbers = self.code, self.words, copy.at(8 * CopyWord.COORDINATES)
        walk, channel = words.pointer(BoxWord.WALK), numbers.word(0)
        count, steps, dimensions = (walk.word(word) for word in (WalkWord.PIXELS, WalkWord.STEPS, WalkWord.DIMENSIONS))
        self._begin(channel, count, MOST_PIXELS)
        place, offsets = self._begin_walk(walk, dimensions, numbers)
        distances, inside = c.stack(f"[{MOST_PIXELS} x i64]"), c.stack(f"[{MOST_PIXELS} x i64]")
        lowest, highest = c.variable("i64", (1 << 63) - 1), c.variable("i64", -1 << 63)
        with c.loop(steps, entered=True) as i:
            is_inside, distance = c.variable("i1", self.has_columns), c.variable("i64", 0)
            with c.loop(dimensions + 1, entered=True) as d:
                at = place.load("i64", d) + offsets.load("i64", d)
                is_inside.set(is_inside.get() & at.ult(walk.load("i64", d + WalkWord.SIZE)))
                distance.set(distance.get() + at * walk.load("i64", d + WalkWord.PITCH))
            distances.store(distance.get(), i)
            inside.store(is_inside.get().to("i64"), i)
            with c.when(is_inside.get()):
                lowest.set(lowest.get().min(distance.get()))
                highest.set(highest.get().max(distance.get()))
            self._advance(walk, dimensions, place)
        # All bytes from the first one of a pixel to the last one are in one allocation.
        exist = lowest.get().le(highest.get())
        first = self.columns.word(BoxWord.ADDRESS) + (channel * words.word(BoxWord.PITCH)).operation("ashr", 3)
        size = highest.get() - lowest.get() + self.columns.word(BoxWord.ROW_BYTES)
        row = self.row_of(first + lowest.get(), size, exist)
        with c.loop(count, entered=True) as i:
            step = walk.pointer(WalkWord.POSITIONS).load("i64", i)
            self._row(i, row, first - row.word(0) + distances.load("i64", step), inside.load("i64", step).ne(0))
        self._end()

    def _begin_walk(self, walk: Value, dimensions: Value, numbers: Value) -> tuple[Value, Value]:
        """Where the walk begins, and the offsets of each pixel; return from the function unless it may begin there."""
        c = self.code
        place, offsets = c.stack(f"[{_MOST} x i64]"), c.stack(f"[{_MOST} x i64]")
        with c.loop(dimensions, entered=True) as d:
            at = numbers.load("i64", d + 1)
            unless(c, at.ge(walk.load("i64", d + WalkWord.FIRST)) & at.le(walk.load("i64", d + WalkWord.LAST)))
            place.store(at, d)
            offset = numbers.load("i64", d + dimensions + 2)
            unless(c, offset.ult(walk.word(WalkWord.OFFSETS)))
            offsets.store(offset, d)
        halo = walk.word(WalkWord.HALO)
        with c.when(halo.ge(0)):
            unless(c, numbers.load("i64", dimensions + dimensions + 2).eq(halo))
        image = numbers.load("i64", dimensions + 1)
        place.store(image, dimensions)
        offsets.store(c.const("i64", 0), dimensions)
        if self.store:
            with c.loop(dimensions + 1, entered=True) as d:
                unless(c, place.load("i64", d).ge(0))
        return place, offsets

    def _advance(self, walk: Value, dimensions: Value, place: Value) -> None:
        """Go to the next pixel of the bounding box, and from the last one to the next image."""
        c = self.code
        moves = c.variable("i1", 1)
        with c.loop(walk.word(WalkWord.WALKED), entered=True) as d:
            at = place.load("i64", d) + moves.get().select(walk.load("i64", d + WalkWord.STEP), 0)
            moves.set(moves.get() & at.gt(walk.load("i64", d + WalkWord.LAST)))
            place.store(moves.get().select(walk.load("i64", d + WalkWord.LOW), at), d)
        place.store(place.load("i64", dimensions) + moves.get().to("i64"), dimensions)
