"""Tensor copies: tiles and im2col, swizzling, interleave, what lies outside the tensor, reductions, multicast, gathered rows.

Dimensions are innermost first; types and modes are the driver's numbers. What an H200 ends with an error is left out: an innermost
coordinate that is not a multiple of 16 bytes, and a negative coordinate of a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ptxlab.silicon._case import Array, Case, TensorMap, head, random_words
from ptxlab.silicon.parts._copy_frame import IMAGE, WORDS, load_kernel, store_kernel
from ptxlab.tables import ELEMENT_TYPES, TENSOR_MAP_SWIZZLES, TENSOR_MEMORY_TARGETS, ElementType

__all__ = ["REDUCTIONS", "tma", "wrong_copies"]

_CTAS = 6
_BEGIN = 1024
"""Where a copy begins in shared memory at most, in steps of 128 bytes."""
_MOST_BYTES = IMAGE - _BEGIN
"""Bytes of shared memory that a copy takes at most."""
_PADDED_ROW = 128
REDUCTIONS = {
    "add": (2, 3, 4, 6, 7, 8, 9, 10),
    "min": (2, 3, 4, 5, 6, 9),
    "max": (2, 3, 4, 5, 6, 9),
    "and": (2, 3, 4),
    "or": (2, 3, 4),
    "xor": (2, 3, 4),
    "inc": (2,),
    "dec": (2,),
}
"""By the operation of a reduction the driver's numbers of the types that have it."""
_LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group"
_REDUCE = "cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.{}.bulk_group"


class _Draw:
    """Random numbers, the same for the same seed."""

    def __init__(self, *seed: int) -> None:
        self.words = iter(random_words(512, *seed).tolist())

    def __call__(self, low: int, end: int) -> int:
        """From ``low`` up to ``end``, without it."""
        return low + int(next(self.words) >> 20) % max(end - low, 1)

    def now_and_then(self, percent: int) -> bool:
        return self(0, 100) < percent


@dataclass
class _Copy:
    """A tensor map, and the words of each CTA."""

    call: dict[str, Any]
    words: list[list[int]]
    span: int
    """Bytes of the tensor."""
    note: str = ""
    """What else is special."""

    @property
    def rank(self) -> int:
        return int(self.call["rank"])

    @property
    def what(self) -> str:
        """What is special, for the name of a case."""
        call = self.call
        found = [ELEMENT_TYPES[call["data_type"]].name, f"swizzle {TENSOR_MAP_SWIZZLES[call['swizzle']].name}"]
        found += [f"interleave {16 * call['interleave']}B"] if call["interleave"] else []
        found += ["NaN outside"] if call["oob_fill"] else []
        found += [self.note] if self.note else []
        return ", ".join(found)


def _map_call(element: ElementType, rank: int, swizzle: int, interleave: int, fill: int) -> dict[str, Any]:
    modes = {"interleave": interleave, "swizzle": swizzle, "l2_promotion": rank % 4, "oob_fill": fill}
    return {"data_type": element.driver, "rank": rank, **modes}


def _strides(dims: Sequence[int], row: int, unit: int, draw: _Draw) -> tuple[list[int], int]:
    """Strides of dimensions 1 and up with some padding, and the bytes of the whole."""
    strides, span = [], -(-row // unit) * unit
    for size in dims:
        strides.append(span + unit * draw(0, 2))
        span = strides[-1] * size
    return strides, span


def _tiled(
    element: ElementType, swizzle: int, fill: int, *seed: int, load: bool = True, rank: int = 0, part_of_a_piece: bool = False
) -> _Copy:
    """With ``part_of_a_piece`` rows of the tensor end within 16 bytes, which the box covers."""
    draw = _Draw(*seed, element.driver, swizzle, fill, load)
    padded = bool(element.padded)
    rank = rank or draw(1, 6)
    inner = _PADDED_ROW if padded else 16 * draw(1, (TENSOR_MAP_SWIZZLES[swizzle].width or 128) // 16 + 1)
    elements = _PADDED_ROW if padded else inner * 8 // element.bits
    whole = _PADDED_ROW if padded else 8 if element.bits < 8 else 1
    box, steps, dims = [elements], [1], [whole * max(1, draw(elements // (1 + load), 3 * elements + 2) // whole)]
    left = _MOST_BYTES // max(inner, 128)
    for _ in range(rank - 1):
        box.append(draw(1, max(2, min(left, 12) + 1)))
        left //= box[-1]
        steps.append(draw(1, 3) if draw.now_and_then(30) else 1)
        dims.append(draw(2, 10 if rank < 4 else 5))
    piece = 128 // element.bits
    if part_of_a_piece:
        dims[0] = piece * draw(0, 2 * elements // piece) + draw(1, piece)
    strides, span = _strides(dims[1:], dims[0] * element.bits // 8, 32 if padded else 16, draw)
    expect = elements * element.bits // 8 * prod(-(-size // step) for size, step in zip(box[1:], steps[1:], strict=True))
    least, words, chunk = -3 if load else 0, [], _PADDED_ROW if padded else 128 // element.bits
    for _ in range(_CTAS if load else 1):
        first = 0 if draw.now_and_then(40) else chunk * draw(least, max(dims[0] // chunk, 1))
        others = [0 if draw.now_and_then(40) else draw(least, size + load) for size in dims[1:]]
        if part_of_a_piece:
            first = piece * (dims[0] // piece - draw(0, min(elements, dims[0]) // piece))
        words.append(_words([first, *others], [], expect, draw))
    call = _map_call(element, rank, swizzle, 0, fill) | {"dims": dims, "strides": strides, "box": box, "element_strides": steps}
    return _Copy(call, words, span, "rows that end within 16 bytes" if part_of_a_piece else "")


def _interleaved(element: ElementType, swizzle: int, interleave: int, load: bool = True) -> _Copy:
    """Channels are in slices of 16 or 32 bytes, which no dimension counts: the dimensions are pixels, slices and images."""
    draw = _Draw(62, element.driver, swizzle, interleave, load)
    rank, inner = draw(3, 6), 16 * interleave
    dims = [*(draw(1, 12 if rank < 5 else 5) for _ in range(rank - 2)), draw(1, 4), draw(1, 4)]
    strides, span = _strides(dims[1:], dims[0] * inner, inner, draw)
    left, expect, box, steps = _MOST_BYTES // inner, inner, [], []
    for d in range(rank):
        # The driver wants whole 16 bytes of elements along dimension 0, though it counts pixels.
        box.append(128 // element.bits * draw(1, 3) if d == 0 else draw(1, max(2, min(left, 8) + 1)))
        steps.append(draw(1, 3) if draw.now_and_then(40) else 1)
        if d != rank - 2:
            expect *= -(-box[d] // steps[d])
            left //= -(-box[d] // steps[d])
    words = []
    for _ in range(_CTAS if load else 1):
        words.append(_words([draw(-2 if load else 0, size + load) if draw.now_and_then(60) else 0 for size in dims], [], expect, draw))
    call = _map_call(element, rank, swizzle, interleave, 0) | {"dims": dims, "strides": strides, "box": box, "element_strides": steps}
    return _Copy(call, words, span)


def _im2col(element: ElementType, swizzle: int, interleave: int, fill: int, rank: int, load: bool = True) -> _Copy:
    draw = _Draw(63, element.driver, swizzle, interleave, fill, rank, load)
    unit = 16 * max(interleave, 1)
    width = TENSOR_MAP_SWIZZLES[swizzle].width
    inner = unit if interleave else 16 * draw(1, (width or 128) // 16 + 1)
    elements, first = inner * 8 // element.bits, 0 if interleave else 1
    most = {3: 24, 4: 9, 5: 6}[rank]
    image, batches = [draw(2, most) for _ in range(rank - 2)], draw(1, 4)
    if interleave:
        dims, row = [*image, draw(1, 4), batches], image[0] * unit
    else:
        dims = [max(1, draw(elements // 2, 2 * elements + 2)), *image, batches]
        row = dims[0] * element.bits // 8
    strides, span = _strides(dims[1:], row, unit, draw)
    steps, lower, upper = [1] * rank, [], []
    for d in range(rank - 2):
        size = dims[first + d]
        lower.append(min(draw(-2 if load else 0, 3), size - 1))
        upper.append(draw(max(-2, lower[d] - size + 1), 3 if load else 1))
        steps[first + d] = draw(1, 4) if draw.now_and_then(40) else 1
    pixels = draw(1, min((_MOST_BYTES // 2) // max(inner, width if not interleave else 0), 60) + 1)
    words = []
    for _ in range(_CTAS if load else 1):
        at = [draw(lower[d], dims[first + d] + upper[d]) for d in range(rank - 2)]
        offsets = [draw(0, 4) if load and draw.now_and_then(60) else 0 for _ in range(rank - 2)]
        batch = draw(-1 if load else 0, batches + load)
        channel = 128 // element.bits * draw(-2 if load else 0, 4) if draw.now_and_then(40) else 0
        slices = draw(-1 if load else 0, dims[rank - 2] + load)
        words.append(_words([*at, slices, batch] if interleave else [channel, *at, batch], offsets, inner * pixels, draw))
    call = _map_call(element, rank, swizzle, interleave, fill) | {"dims": dims, "strides": strides, "box": [], "element_strides": steps}
    corners = {"im2col": True, "lower": lower, "upper": upper, "channels": elements, "pixels": pixels}
    return _Copy(call | corners, words, span)


def _words(coordinates: Sequence[int], offsets: Sequence[int], expect: int, draw: _Draw) -> list[int]:
    coordinates, offsets = [*coordinates, 0, 0, 0, 0][:5], [*offsets, 0, 0, 0][:3]
    return [*coordinates, *offsets, expect, 128 * draw(0, _BEGIN // 128)]


def _inputs(name: str, copy: _Copy) -> tuple[Array, Array]:
    count = max(copy.span // 4 + 16, 128)
    tensor = (random_words(count, 5, count) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    words = np.array(copy.words, np.int64).astype(np.uint32)
    return Array(name, tensor, ("word",)), Array(", ".join(WORDS), words, ("CTA", "operand"))


def _load(target: str, copy: _Copy, mode: str, *, multicast: bool = False, coordinates: int = 0) -> Case:
    opcode = _LOAD.format(copy.rank, mode) + (".multicast::cluster" if multicast else "")
    offsets = copy.rank - 2 if mode == "im2col" else 0
    text = load_kernel(head(target), opcode, coordinates or copy.rank, offsets, multicast)
    ctas = len(copy.words)
    outputs = (
        Array.zeros("shared memory", (ctas, IMAGE // 4), ("CTA", "word")),
        Array.zeros("whether the expected bytes came", (ctas,), ("CTA",)),
    )
    inputs = _inputs("tensor", copy)
    return Case(f"{opcode}, {copy.what}", text, ctas, 128, inputs, outputs, (opcode,), maps=(TensorMap(0, copy.call),))


def _store(target: str, copy: _Copy, opcode: str, coordinates: int = 0) -> Case:
    before, words = _inputs("tensor before", copy)
    text = store_kernel(head(target), opcode, coordinates or copy.rank, before.data.nbytes)
    image = Array("shared memory", (random_words(IMAGE // 4, 6) & np.uint64(0xFFFFFFFF)).astype(np.uint32), ("word",))
    after = Array.zeros("tensor after", before.data.shape, ("word",))
    inputs = (before, words, image)
    return Case(f"{opcode}, {copy.what}", text, 1, 128, inputs, (after,), (opcode,), maps=(TensorMap(3, copy.call),))


def _rows(element: ElementType, swizzle: int, load: bool, part_of_a_piece: bool = False) -> _Copy:
    """Four rows by their numbers, of which some are outside."""
    copy = _tiled(element, swizzle, 0, 7, load=load, rank=2, part_of_a_piece=part_of_a_piece)
    draw = _Draw(8, element.driver, swizzle, load)
    rows = copy.call["dims"][1] = 9
    copy.call["box"][1], copy.call["element_strides"][1] = 1, 1
    copy.span = copy.call["strides"][0] * rows
    inner = copy.call["box"][0] * element.bits // 8
    for words in copy.words:
        numbers = [draw(-2, rows + 2) for _ in range(4)] if load else [5, 0, 7, 2]
        words[:5], words[8] = [words[0], *numbers], 4 * inner
    return copy


def _blackwell(target: str, types: dict[int, ElementType]) -> Iterator[Case]:
    """What sm_100 and later have: elements of 4 and 6 bits, larger swizzle atoms, gathered and scattered rows."""
    for element in types.values():
        if element.sm_100:
            for swizzle in (0, 3):
                yield _load(target, _tiled(element, swizzle, 0, rank=3), "tile")
    for swizzle in (4, 5, 6):
        for number in (0, 6):
            yield _load(target, _tiled(types[number], swizzle, 0, rank=2), "tile")
            yield _store(target, _tiled(types[number], swizzle, 0, load=False, rank=2), _STORE.format(2, "tile"))
    if target in TENSOR_MEMORY_TARGETS:
        for number, swizzle in ((0, 3), (6, 0), (7, 1)):
            yield _load(target, _rows(types[number], swizzle, True), "tile::gather4", coordinates=5)
            for part_of_a_piece in (False, True):
                copy = _rows(types[number], swizzle, False, part_of_a_piece)
                yield _store(target, copy, _STORE.format(2, "tile::scatter4"), coordinates=5)


def _loads(target: str, types: dict[int, ElementType]) -> Iterator[Case]:
    plain = [element for element in types.values() if not element.sm_100]
    for element in plain:
        for swizzle in range(4):
            yield _load(target, _tiled(element, swizzle, 0), "tile")
        rank = 3 + element.driver % 3
        yield _load(target, _im2col(element, element.driver % 4, 0, 0, rank), "im2col")
        if element.nan is not None:
            yield _load(target, _tiled(element, element.driver % 4, 1), "tile")
            yield _load(target, _im2col(element, (element.driver + 1) % 4, 0, 1, rank), "im2col")
    for interleave in (1, 2):
        for number, swizzle in ((0, 0), (1, 1), (6, 0), (7, 1)):
            yield _load(target, _interleaved(types[number], swizzle, interleave), "tile")
            yield _load(target, _im2col(types[number], swizzle, interleave, 0, 3 + number % 3), "im2col")


def _stores(target: str, types: dict[int, ElementType]) -> Iterator[Case]:
    for element in types.values():
        if not element.sm_100:
            copy = _tiled(element, element.driver % 4, 0, load=False)
            yield _store(target, copy, _STORE.format(copy.rank, "tile"))
    for number, interleave in ((0, 0), (6, 0), (7, 0), (1, 1), (2, 2)):
        copy = _im2col(types[number], 1, interleave, 0, 3 + number % 3, load=False)
        yield _store(target, copy, _STORE.format(copy.rank, "im2col_no_offs"))
    for number, interleave in ((0, 1), (6, 2)):
        copy = _interleaved(types[number], interleave - 1, interleave, load=False)
        yield _store(target, copy, _STORE.format(copy.rank, "tile"))
    for operation, numbers in REDUCTIONS.items():
        for number in numbers:
            copy = _tiled(types[number], number % 4, 0, 9, len(operation), load=False, rank=2 + number % 2)
            yield _store(target, copy, _REDUCE.format(copy.rank, operation, "tile"))


def _stores_of_parts(target: str, types: dict[int, ElementType]) -> Iterator[Case]:
    """A store writes whole 16-byte pieces of a row: here the last one has elements of the tensor and others."""
    for element in types.values():
        if not element.sm_100:
            copy = _tiled(element, (element.driver + 1) % 4, 0, 13, load=False, part_of_a_piece=True)
            yield _store(target, copy, _STORE.format(copy.rank, "tile"))
    for operation, numbers in REDUCTIONS.items():
        for number in numbers if operation == "add" else sorted({numbers[0], numbers[-1]}):
            copy = _tiled(types[number], (number + 1) % 4, 0, 14, len(operation), load=False, rank=2 + number % 2, part_of_a_piece=True)
            yield _store(target, copy, _REDUCE.format(copy.rank, operation, "tile"))


def wrong_copies(target: str) -> Iterator[Case]:
    """Copies that end with an error, or may."""
    types = ELEMENT_TYPES
    flat, cube = (_tiled(types[6], 0, 0, 11, rank=rank) for rank in (2, 3))

    def fault(what: str, case: Case) -> Case:
        return replace(case, name=f"{case.opcodes[0]}, {what}", kind="fault")

    def at(copy: _Copy, x: int, y: int, offset: int = 0) -> _Copy:
        return replace(copy, words=[[x, y, *copy.words[0][2:9], offset]])

    yield fault("aligned", _load(target, at(flat, 0, 1), "tile"))
    yield fault("the innermost coordinate is not a multiple of 16 bytes", _load(target, at(flat, 3, 1), "tile"))
    yield fault("shared memory is not aligned to 128 bytes", _load(target, at(flat, 0, 1, 64), "tile"))
    yield fault("the map has another rank", replace(_load(target, cube, "tile"), maps=(TensorMap(0, flat.call),)))
    yield fault("the map is for tiles", replace(_load(target, cube, "im2col"), maps=(TensorMap(0, cube.call),)))
    for what, number, operation, y in (("a negative coordinate", 6, "add", -1), ("a type without this operation", 7, "and", 0)):
        copy = at(_tiled(types[number], 0, 0, 11, load=False, rank=2), 0, y)
        yield fault(what, _store(target, copy, _REDUCE.format(2, operation, "tile")))


def tma(target: str) -> Iterator[Case]:
    """Loads, stores and reductions of every element type; the driver's bytes of each tensor map."""
    types = dict(ELEMENT_TYPES)
    yield from _loads(target, types)
    yield from _stores(target, types)
    yield from _stores_of_parts(target, types)
    # A cluster of two CTAs: one loads into both.
    if target == "sm_90a" or target in TENSOR_MEMORY_TARGETS:
        for number, swizzle in ((0, 0), (6, 3)):
            copy = _tiled(types[number], swizzle, 0, 4, rank=3)
            copy.words = [[*copy.words[0][:5], 3, 0, 0, *copy.words[0][8:]]] * 2
            yield _load(target, copy, "tile", multicast=True)
    if target != "sm_90a":
        yield from _blackwell(target, types)
