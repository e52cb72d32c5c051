"""Operands whose images are known up to their bases: one comparison tells whether an execution takes them again, moved in global memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.words.images import WORD, TakenWords, WordImage, form_of
from ptxlab.isa.tiles import CHUNK, MatrixOperand
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.operands.words.check import Words

__all__ = ["Differences", "Known", "Repeated"]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """An image without its base: the places of all words, and from where these have come once."""

    line: int
    word: int
    places: NDArray[np.intp]
    sources: NDArray[np.int64]

    def image(self, addresses: NDArray[np.int64]) -> WordImage | None:
        """The same image elsewhere, if that is what stands at the places."""
        found = addresses.take(self.places)
        base = found.item(0)
        found -= self.sources
        if form_of(base) != form_of(self.sources.item(0)) or (found != found[0]).any():
            return None
        return WordImage(base, self.line, self.word)


def _differs_ir(width: int) -> str:
    """``i64 differs(addresses, images)``: whether some addresses are not those of images; 0 if all are.

    ``images`` are the addresses of the arrays that `Differences` makes, and the number of operands. ``width`` words are compared together.
    """
    module = native.Module()
    code = native.Function(module, "differs", "i64", "ptr addresses, ptr images")
    addresses, images = code.parameters
    (places, more, ends, forms), operands = (images.pointer(i) for i in range(4)), images.word(4)
    group = native.vector("i64", width) if width > 1 else "i64"
    first, found, others = code.variable("i64", 0), code.variable("i64", 0), code.variable(group, 0)
    with code.loop(operands, entered=True) as operand:
        end, base = ends.load("i64", operand), addresses.load("i64", places.load("i64", first.get()))
        found.set(found.get() | (form_of(base) ^ forms.load("i64", operand)))
        bases = base.splat(width) if width > 1 else base
        with code.loop(end, start=first.get(), entered=True) as i:
            others.set(others.get() | ((addresses.load(group, places.load("i64", i)) - bases) ^ more.load(group, i * width)))
        first.set(end)
    code.ret(found.get() | (others.get().reduce("or") if width > 1 else others.get()))
    return module.text()


@cache
def _differs_function(width: int) -> Any:
    """The function that compares what operands take with their images, compiled or from the cache."""
    library = native.compile_ir(_differs_ir(width), ["differs"], opt=1, light=True)
    return library.function("differs", ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class Differences:
    """Tells whether words come from elsewhere than before, other than moved as a whole.

    Parameters
    ----------
    parts : of each operand the places of its words, and from where these have come
    width : words that stand one after the other, at each place that is a multiple of it: they are compared together
    """

    __slots__ = ("_differs", "_keep", "_where", "end", "starts")

    def __init__(self, parts: Sequence[tuple[NDArray[np.intp], NDArray[np.int64]]], width: int = 1) -> None:
        places = np.concatenate([own[::width] for own, _ in parts]).astype(np.int64)
        more = np.concatenate([found - found[0] for _, found in parts])
        ends = np.cumsum([len(own) // width for own, _ in parts])
        forms = np.array([form_of(found[0]) for _, found in parts])
        self.starts = tuple([own.item(0) for own, _ in parts])
        self.end = int(places.max()) + width
        where = np.array([*map(address_of, (places, more, ends, forms)), len(parts)], np.int64)
        self._keep = places, more, ends, forms, where
        self._where = address_of(where)
        self._differs = _differs_function(width)

    def found(self, host: int) -> bool:
        """Whether there are some among the sources at a host address."""
        return bool(self._differs(host, self._where))


class Repeated:
    """An instruction all of whose operands have an image that is known up to its base, and no zeros.

    One comparison tells whether an execution takes the same images, moved in global memory.
    """

    __slots__ = ("_differences", "images", "operands")

    def __init__(self, operands: tuple[MatrixOperand, ...], images: list[Known]) -> None:
        self.operands, self.images = operands, images
        width = CHUNK // WORD if all(operand.data == CHUNK for operand in operands) else 1
        self._differences = Differences([(image.places, image.sources) for image in images], width)

    def bases(self, words: Words) -> tuple[int, ...] | None:
        """The base of each image; None if the operands take something else."""
        addresses, differences = words.view, self._differences
        if differences.end > len(addresses) or differences.found(words.host) or any(map(words.are_brought, self.operands)):
            return None
        return tuple([addresses[start] for start in differences.starts])

    def taken(self, bases: tuple[int, ...]) -> dict[str, TakenWords]:
        """The operands by name, with their images."""
        found = zip(self.operands, self.images, bases, strict=True)
        return {operand.name: TakenWords(operand, WordImage(base, image.line, image.word)) for operand, image, base in found}
