"""Operands that threads have copied word by word: from which global addresses their words come.

Such an operand has no box that says what its rows are. It is an image of a matrix in memory if neighbouring rows are the same number of
bytes apart everywhere, and so are neighbours in k. Rows may be gathered, and k may go through several arrays: an operand without such an
image is wrong only if another descriptor has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct, have_common
from ptxlab.check.operands._candidates import Candidate, Fitting, most_rows, search
from ptxlab.engine.word_sources import HALVES_SHIFT, NO_SOURCE, address_in, are_bytes_apart, half_distance
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.layout import swizzle_bytes
from ptxlab.tables import SWIZZLES

__all__ = [
    "LINE",
    "WORD",
    "TakenWords",
    "WordImage",
    "descriptor_fields",
    "fitting_descriptor",
    "following_words",
    "form_of",
    "image_of_words",
    "in_chunk",
    "is_image_of_words",
    "is_image_without_swizzling",
    "is_rearranged",
    "judged",
    "rows_of_words",
    "sources_of",
    "stands_as_copied",
    "stands_in_blocks",
    "step_of_words",
    "words_in_chunks",
]

WORD = 4
"""Bytes."""
LINE = 128
"""Bytes of the widest row of a swizzling mode."""
_STRIDES = (1024, 512, 256, 128, 2048, 4096, 8192, 16384)
_FARTHEST = 4096
_LONGEST = 64
"""Starts of further elements of k that are looked for."""

_BYTE_BITS, _HALF_BITS = 8, 16

Sources = NDArray[np.int64]
"""Where each word of an operand comes from, ``[line, word]``: `NO_SOURCE` for zeros, 0 if it is not known.

Where padding follows the elements of a chunk, the words of the chunk are neighbours, and count as one: ``[line, chunk]``.

Else it is a global address, with the distances of the other bytes of the word (`ptxlab.engine.word_sources.HALVES_SHIFT`). Neighbours of
words whose bytes are at the same distances are as far apart as their addresses.
"""


class WordImage(NamedTuple):
    """An image of a matrix in global memory.

    Attributes
    ----------
    base : address of the first element
    line, word : bytes from line to line of the operand, and from word to word or, if chunks end with padding, from chunk to chunk; lines
        are rows if it is K-major, else steps of k
    """

    base: int
    line: int
    word: int


class TakenWords(NamedTuple):
    """An operand with its image."""

    operand: MatrixOperand
    image: WordImage

    @property
    def reach(self) -> int:
        """Bytes in global memory from the first k of the operand to the k after its last one."""
        lines, words = len(self.operand.chunks), self.operand.chunks.shape[1] * in_chunk(self.operand.data)
        return self.image.word * words if self.operand.major == "k" else self.image.line * lines

    @property
    def reach_of_k(self) -> int:
        """Elements of k."""
        # Elements that share a byte are placed as bytes.
        return self.operand.placed.index.k * max(8 // self.operand.container, 1) * self.operand.stored

    def moved(self, before: TakenWords) -> tuple[int, int] | None:
        """By how many rows and elements of k it begins after another one; None if the two are not of one matrix."""
        if (self.image.line, self.image.word, self.operand.major) != (before.image.line, before.image.word, before.operand.major):
            return None
        # In bits: elements may be smaller than a byte.
        line, element = 8 * self.image.line, 8 * self.image.word * in_chunk(self.operand.data) // self.operand.per_chunk
        steps = (line, element) if self.operand.major == "k" else (element, line)
        if 0 in steps:
            return None
        if form_of(self.image.base) != form_of(before.image.base):
            return None
        distance = 8 * (self.image.base - before.image.base)
        large = 0 if abs(steps[0]) > abs(steps[1]) else 1
        count = int(distance / steps[large])
        rest = (distance - count * steps[large]) // steps[1 - large]
        rows, k = (count, rest) if large == 0 else (rest, count)
        return rows, k * self.operand.stored

    def is_near(self, before: TakenWords) -> bool:
        """Whether both are parts of one tile as far as can be told: in one row of a swizzling mode, or with bytes that both have."""
        one, other = (each.operand.descriptor.start // LINE for each in (self, before))
        if self.operand.major == "k" and one == other:
            return True
        bounds = self.operand.placed.bounds, before.operand.placed.bounds
        apart = bounds[0][1] <= bounds[1][0] or bounds[1][1] <= bounds[0][0]
        return not apart and have_common(self.operand.chunks, before.operand.chunks)


def form_of(source: Any) -> Any:
    """At which distances the bytes of a word are; of numbers, arrays, and values of compiled code."""
    return source - address_in(source)


def judged(operand: MatrixOperand, found: Sources) -> bool:
    """Whether words say where the elements of an operand come from: the halves or bytes of words that are apart are elements."""
    apart = found[found >> HALVES_SHIFT != 0]
    if not apart.size:
        return True
    bits = _BYTE_BITS if are_bytes_apart(apart).any() else _HALF_BITS
    return operand.container == bits and operand.data == CHUNK and bool((are_bytes_apart(apart) == (bits == _BYTE_BITS)).all())


def words_in_chunks(words: NDArray[np.int64], chunks: NDArray[np.intp]) -> NDArray[np.int64]:
    """What is noted of each word of some chunks of shared memory, ``[..., word]``."""
    count = CHUNK // WORD
    found: NDArray[np.int64] = words[: len(words) // count * count].reshape(-1, count).take(chunks, axis=0)
    return found


def in_chunk(data: int) -> int:
    """How many sources a chunk has with so many bytes of data."""
    return CHUNK // WORD if data == CHUNK else 1


def sources_of(sources: NDArray[np.uint64], chunks: NDArray[np.intp], data: int) -> Sources:
    """Where the words of some chunks come from, which have so many bytes of data; 0 for one whose bytes come from any places."""
    found = words_in_chunks(sources.view(np.int64), chunks.reshape(-1))
    if data < CHUNK:
        found = _before_padding(found[:, : data // WORD])
    found = found.reshape(len(chunks), -1)
    return np.maximum(found, 0, out=found)


def _before_padding(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """From where the first of the words ``[chunk, word]`` comes, if the others are its neighbours or zeros; else 0."""
    first = words[:, :1]
    fits = (words == first + np.arange(0, WORD * words.shape[1], WORD)) & (first > NO_SOURCE) | (words == NO_SOURCE)
    return np.where(fits.all(axis=1), first[:, 0], 0)


def stands_as_copied(found: Sources, chunks: NDArray[np.intp], data: int) -> bool:
    """Whether words stand as in global memory, all at one distance: the program may have brought them into the layout of the descriptor."""
    here = chunks[..., None] * CHUNK + np.arange(0, CHUNK, CHUNK // in_chunk(data))
    distance = found - here.reshape(found.shape)
    return bool((distance == distance.flat[0]).all())


def image_of_words(found: Sources) -> WordImage | None:
    """The image that the words have; None if they have none."""
    known = found > NO_SOURCE
    if not known.any():
        return None
    line, word = (_distance(found, known, axis) for axis in (0, 1))
    row, slot = np.argwhere(known)[0].tolist()
    base = int(found[row, slot]) - row * line - slot * word
    expected = base + np.arange(found.shape[0])[:, None] * line + np.arange(found.shape[1]) * word
    if form_of(base) and word != 2 * half_distance(base):
        return None
    return WordImage(base, line, word) if bool((found == expected)[known].all()) else None


def is_rearranged(found: Sources, origin: int, pitch: int) -> bool:
    """Whether rows and k stand apart from each other, though not in equal steps: rows that are gathered, or that go on at the other end.

    Each line of the operand then lies in one row of the array, which begins at ``origin`` and whose rows are ``pitch`` bytes apart, and all
    lines at the same offsets in their rows; or so do its columns. Without a ``pitch`` the address of an element is a sum of what its row
    and what its k adds.
    """
    known = found > NO_SOURCE
    if not pitch:
        row, slot = int(known.sum(axis=1).argmax()), int(known.sum(axis=0).argmax())
        together = known & known[row] & known[:, slot : slot + 1]
        return not (found - found[row] != found[:, slot : slot + 1] - found[row, slot])[together].any()
    rows, offsets = np.divmod(found - origin, pitch)
    return any(_equal(rows, known, axis) and _equal(offsets, known, 1 - axis) for axis in (0, 1))


def stands_in_blocks(found: Sources, data: int) -> bool:
    """Whether the words of an MN-major operand stand in blocks of columns: in each, the lines of a row follow each other without a gap.

    The program, or its host, has arranged the matrix so; blocks have the width of the swizzling mode, and each line of a block ends where
    the next one begins.
    """
    return any(_in_blocks(found, size, CHUNK // in_chunk(data)) for size in _sizes(data))


def _sizes(data: int) -> tuple[int, ...]:
    """How far neighbours of a row may be apart in global memory, where chunks may have padding too."""
    return (WORD,) if data == CHUNK else (data, CHUNK)


def _in_blocks(found: Sources, size: int, width_here: int) -> bool:
    """The same if words, or chunks, are so far apart in global memory, and ``width_here`` in shared memory."""
    apart = np.flatnonzero((np.diff(found, axis=1) != size).any(axis=0)) + 1
    if not len(apart) or (found <= NO_SOURCE).any():
        return False
    width = int(apart[0])
    if found.shape[1] % width or (apart % width).any() or width * width_here < CHUNK:
        return False
    blocks = found.reshape(len(found), -1, width)
    expected = blocks[:1, :, :1] + np.arange(0, len(found) * width * size, width * size)[:, None, None] + np.arange(0, width * size, size)
    return bool((blocks == expected).all())


def _equal(values: NDArray[np.int64], known: NDArray[np.bool_], axis: int) -> bool:
    """Whether the known values along an axis are equal."""
    lowest = np.where(known, values, np.iinfo(np.int64).max).min(axis=axis, keepdims=True)
    return bool((values == lowest)[known].all())


def _distance(found: Sources, known: NDArray[np.bool_], axis: int) -> int:
    """Bytes between the first neighbours that are both known; 0 if there are none."""
    both = np.argwhere(np.logical_and(*_neighbours(known, axis)))
    if not len(both):
        return 0
    at = tuple(both[0])
    first, second = _neighbours(found, axis)
    return int(second[at] - first[at])


def _neighbours(values: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    return (values[:-1], values[1:]) if axis == 0 else (values[:, :-1], values[:, 1:])


def fitting_descriptor(
    operand: MatrixOperand, sources: NDArray[np.uint64], wanted: int | None, only: tuple[str, ...] = ()
) -> Candidate[WordImage] | None:
    """A descriptor with which the operand is an image.

    ``wanted`` is the address at which one with another start must begin, if known; ``only`` are the fields that may change, if not all.
    A descriptor that finds more zeros is none: everything is an image of zeros.
    """
    within = operand.chunks.max() < len(sources) * WORD // CHUNK
    fitting = _fitting(sources, int((sources_of(sources, operand.chunks, operand.data) > NO_SOURCE).sum()) if within else 1)

    def at_start(tried: MatrixOperand, chunks: NDArray[np.intp]) -> WordImage | None:
        image = fitting(tried, chunks)
        return image if image is not None and wanted == image.base else None

    fields = descriptor_fields()
    if only:
        fields["start"] = _starts(operand)
        return search(operand, {name: values if name in only else () for name, values in fields.items()}, fitting)
    if operand.major == "mn" and operand.descriptor.start % LINE and (turned := fitting_descriptor(operand, sources, None, ("major",))):
        return turned
    moved = {name: _starts(operand) if name == "start" else () for name in fields}
    return search(operand, moved, at_start) or search(operand, fields, fitting) or search(operand, moved, fitting)


def is_image_without_swizzling(operand: MatrixOperand, sources: NDArray[np.uint64]) -> bool:
    """Whether an operand would be an image of what was copied if its swizzling mode did not exchange chunks."""
    descriptor, chunks = operand.descriptor, operand.chunks
    if descriptor.swizzle == "none" or descriptor.base_offset:
        return False
    known = int((sources_of(sources, chunks, operand.data) > NO_SOURCE).sum())
    # Swizzling exchanges chunks: it places each in the stead of the other.
    return _fitting(sources, known)(operand, swizzle_bytes(chunks * CHUNK, descriptor.swizzle) // CHUNK) is not None


def descriptor_fields() -> dict[str, Sequence[Any]]:
    """The values of the fields of a descriptor that are tried, all but those of the start address."""
    return {
        "swizzle": list(SWIZZLES),
        "stride": _STRIDES,
        "leading": (CHUNK, *_STRIDES),
        "major": ["k", "mn"],
        "base_offset": range(8),
        "start": (),
    }


def rows_of_words(operand: MatrixOperand, sources: NDArray[np.uint64]) -> int:
    """How many of the first rows of an operand are an image of what was copied; 0 for none."""
    return most_rows(operand, _fitting(sources, 1))


def is_image_of_words(operand: MatrixOperand, sources: NDArray[np.uint64]) -> bool:
    """Whether an operand is an image of what was copied."""
    return _fitting(sources, 1)(operand, operand.chunks) is not None


def _fitting(sources: NDArray[np.uint64], least: int) -> Fitting[WordImage]:
    """The image that an operand has, if at least so many of its words are not zeros."""
    limit = len(sources) * WORD // CHUNK

    def fitting(tried: MatrixOperand, chunks: NDArray[np.intp]) -> WordImage | None:
        if chunks.min() < 0 or chunks.max() >= limit or len(distinct(chunks)) < chunks.size:
            return None
        found = sources_of(sources, chunks, tried.data)
        image = image_of_words(found) if found.all() and (found > NO_SOURCE).sum() >= least else None
        return image if image is not None and _apart(image, found.shape, tried.data) else None

    return fitting


def step_of_words(taken: TakenWords, before: TakenWords, sources: NDArray[np.uint64]) -> int | None:
    """By how many bytes the start address must advance from ``before`` so that the next elements of k follow."""
    wanted = before.image.base + before.reach
    descriptor = before.operand.descriptor
    for step in range(CHUNK, _FARTHEST + CHUNK, CHUNK):
        chunks = taken.operand.chunks_of(replace(descriptor, start=descriptor.start + step), taken.operand.major)
        if (chunks.max() + 1) * CHUNK <= len(sources) * WORD:
            image = image_of_words(sources_of(sources, chunks, taken.operand.data))
            if image == WordImage(wanted, before.image.line, before.image.word):
                return step
    return None


def following_words(taken: TakenWords, sources: NDArray[np.uint64]) -> list[int]:
    """The start addresses at which the next elements of k of the same rows stand, one after the other."""
    found: list[int] = []
    while len(found) < _LONGEST and (step := step_of_words(taken, taken, sources)) is not None:
        operand = taken.operand
        start = operand.descriptor.start + step
        found.append(start)
        taken = TakenWords(
            replace(operand, descriptor=replace(operand.descriptor, start=start)),
            taken.image._replace(base=taken.image.base + taken.reach),
        )
    return found


def _starts(operand: MatrixOperand) -> list[int]:
    """Other start addresses: first those at the same place in a row of 128 bytes, the nearest first."""
    first = operand.descriptor.start
    near = [start for step in range(CHUNK, _FARTHEST, CHUNK) for start in (first - step, first + step) if start >= 0]
    return sorted(near, key=lambda start: (start - first) % LINE != 0)


def _apart(image: WordImage, shape: tuple[int, ...], data: int) -> bool:
    """Whether it is a matrix whose rows or columns are contiguous, and whose elements do not overlap."""
    if form_of(image.base):
        size = 1 if are_bytes_apart(image.base) else WORD // 2
        return abs(image.line) == size and image.word >= WORD * shape[0]
    small, count = (abs(image.word), shape[1]) if abs(image.word) <= abs(image.line) else (abs(image.line), shape[0])
    large = max(abs(image.word), abs(image.line))
    return small in _sizes(data) and large >= small * count
