"""The findings about operands that tensor copies have placed in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._candidates import Candidate, best, following, rows_of_tiles, step_of, turned
from ptxlab.check.operands._image import SHIFT, Image, Mismatch, located
from ptxlab.check.operands._images import Located
from ptxlab.check.operands._repetitions import Repetitions
from ptxlab.check.operands._report import FLOATS, Reporter, element_name, fields_text, fix_text, is_turned, map_text, rows_text
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles
from ptxlab.isa.operations.matrices import MatrixOperand, TensorCopy
from ptxlab.isa.operations.tiles import CHUNK, CopiedTile, TileArray
from ptxlab.tables import DECOMPRESSIONS, SWIZZLES

if TYPE_CHECKING:
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["TileReporter"]

_SHOWN_LINES = 8

Found = Located | None


class TileReporter:
    """Reports each defect of an instruction once, together with a `Reporter`."""

    def __init__(self, reporter: Reporter, repetitions: Repetitions) -> None:
        self._reporter = reporter
        self._repetitions = repetitions

    def mismatch(
        self, operation: AsyncOperation, operand: MatrixOperand, found: Mismatch, other: Image | None, shared: SharedTiles, cta: Any
    ) -> None:
        """An operand is not a consistent image of what was copied; ``other`` is the image of the other operand."""
        entries = shared.entries().take(operand.chunks)
        if self._reporter.has(operation.op.index, operand.name) or not shared.unchanged(entries):
            return
        self._reporter.first(operation.op.index, operand.name)
        number = int(entries[0, 0]) >> SHIFT
        tiles = shared.tiles()
        candidate = best(operand, shared, tiles[number].tile, other)
        rows = 0 if candidate or operand.major != "k" else rows_of_tiles(operand, shared)
        # Where the next row comes from another tile, M or N is larger than the tile.
        larger = rows > 0 and int(entries[rows, 0]) >> SHIFT != int(entries[rows - 1, 0]) >> SHIFT
        details = [
            ("copied by", self._reporter.line(tiles[number].op)),
            ("descriptor", fields_text(operand)),
            *picture(operand, entries, tiles),
        ]
        self._reporter.add(
            "O101",
            f"{operand.title} is not an image of the tile that was copied: {found.what}; {first_element(operand, found, entries, tiles)}",
            operation,
            cta,
            fix=rows_text(operand, rows) if larger else fix_text(candidate, operand, tiles[number].tile.array),
            details=details,
        )

    def gaps(
        self,
        operation: AsyncOperation,
        operand: MatrixOperand,
        entries: NDArray[np.int64],
        placed: PlacedTile,
        shared: SharedTiles,
        cta: Any,
    ) -> None:
        """An operand has bytes between the rows of a box; zeros there are padding."""
        between = operand.chunks[entries == 0]
        array, first, end = placed.tile.array, placed.tile.offset // CHUNK, placed.end // CHUNK
        held = shared.cta.shared[: len(shared.cta.shared) // CHUNK * CHUNK].reshape(-1, CHUNK)
        if (
            ((between < first) | (between >= end)).any()
            or not held[between].any()
            or not self._reporter.first(operation.op.index, operand.name)
        ):
            return
        line, slot = np.argwhere(entries == 0)[0].tolist()
        width = SWIZZLES[array.swizzle].width // CHUNK
        inner, outer, *others = width, array.counts[1] * array.counts[0] // width, *array.counts[2:]
        box = " x ".join(map(str, (*reversed(others), outer, inner * array.per_chunk)))
        self._reporter.add(
            "O101",
            f"{operand.title} is not an image of the tile that was copied: the rows of the box have {array.counts[0] * CHUNK} bytes, "
            f"and stand {width * CHUNK} bytes apart; {element_name(operand, line, slot)} is between two rows",
            operation,
            cta,
            fix=f"encode the tensor map with a box of {box} elements, or with a narrower swizzling mode",
            details=[("copied by", self._reporter.line(placed.op)), ("descriptor", fields_text(operand))],
        )

    def overlapping(self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, cta: Any) -> None:
        """Two elements of an operand lie in the same bytes; it is wrong if another descriptor has an image, or another tensor map."""
        key = operation.op.index, operand.name, "bytes"
        if self._reporter.has(*key) or not self._reporter.first(*key, operand.descriptor):
            return
        entries = shared.entries()
        held = next((shared.tiles()[int(entry) >> SHIFT] for entry in entries.take(operand.chunks.reshape(-1)) if entry), None)
        candidate = None if held is None else best(operand, shared, held.tile, None)
        if held is not None and (candidate is not None or self.unreadable(operand, held.tile.array)):
            self._reporter.first(*key)
            self._reporter.same_bytes(operation, operand, candidate, held.tile.array, cta)

    def unreadable(self, operand: MatrixOperand, array: TileArray) -> bool:
        """Whether rows of elements lie in shared memory where no descriptor can read them.

        The host may have arranged bytes for a descriptor, and an array whose rows are those of the box for one without swizzling.
        """
        if array.whole_rows and operand.descriptor.swizzle == "none" and not operand.overlaps:
            return False
        held = self._reporter.array_at(array.address)
        element = array.element if array.element in FLOATS or held is None else held.dtype
        return element in FLOATS and operand.chunks.shape[1] > 1 and bool(map_text(operand, array))

    def element_type(self, operation: AsyncOperation, operand: MatrixOperand, placed: PlacedTile, cta: Any) -> None:
        """The element type of the instruction is not that of the tensor map."""
        copied = [("copied by", self._reporter.line(placed.op))]
        array = self._reporter.array_at(placed.tile.array.address)
        if placed.tile.array.element not in FLOATS and array is not None:
            # Maps of bytes serve for narrow types; an array of such a type says which one.
            self._reporter.other_type(
                operation, operand, array.dtype, f"the elements of {array.name}", f"make {array.name} an array of", copied, cta
            )
            return
        self._reporter.other_type(
            operation, operand, placed.tile.array.element, "the elements of the tensor map", "encode the tensor map for", copied, cta
        )

    def expanded(self, operation: AsyncOperation, copy: TensorCopy, placed: PlacedTile, cta: Any) -> None:
        """Slots of narrow elements are copied to tensor memory: there each has a byte."""
        element = placed.tile.array.element
        if element not in DECOMPRESSIONS or element == copy.expanded or not self._reporter.first(operation.op.index, "expanded"):
            return
        how = f"expanded as .{copy.expanded}" if copy.expanded else "copied as they are, where tensor memory has each in a byte"
        self._reporter.add(
            "O103",
            f"the elements of the tensor map are {element}, and are {how}",
            operation,
            cta,
            fix=f"expand them with .b8x16.{element}",
            details=[("copied by", self._reporter.line(placed.op))],
        )

    def pair(self, operation: AsyncOperation, images: list[Found], shared: SharedTiles, cta: Any) -> None:
        """A and B must have the same k for every product."""
        a, b = images
        if a is None or b is None or self._reporter.has(operation.op.index, "pair") or self._reporter.kept(operation.op):
            return
        if not all(shared.unchanged(shared.entries().take(operand.chunks)) for operand in (a.operand, b.operand)):
            return
        self._reporter.first(operation.op.index, "pair")
        candidate, name = _realigned(shared, a, b)
        how = (
            f"A begins at k = {a.image.k} of its tile and B at k = {b.image.k}"
            if a.image.advances_as(b.image)
            else "inside the instruction k advances differently in the two"
        )
        self._reporter.add(
            "O104",
            f"A and B are multiplied with different k: {how}",
            operation,
            cta,
            fix=f"{candidate.text} in the descriptor of {name}" if candidate else "let both descriptors begin at the same k of their tiles",
            details=[(f"{each.operand.name} copied by", self._reporter.line(each.placed.op)) for each in (a, b)],
        )

    def step(self, operation: AsyncOperation, last: list[Found], images: list[Found], shared: SharedTiles, cta: Any) -> None:
        """An instruction that adds to the same D as the one before, from the same tiles, must take the next k of the same rows."""
        moves = [_move(before, now) for before, now in zip(last, images, strict=True)]
        again = len(images) > 1 and all(
            a is not None and b is not None and a.operand is b.operand for a, b in zip(last, images, strict=True)
        )
        for before, now, moved in zip(last, images, moves, strict=True):
            if before is not None and now is not None and is_turned(before.operand, now.operand):
                if shared.unchanged(shared.entries().take(now.operand.chunks)):
                    self._reporter.turned(operation, now.operand, [("copied by", self._reporter.line(now.placed.op))], cta)
                continue
            if before is None or now is None or moved is None or not (again or _wrong(moved, now.image, moves)):
                continue
            operand = now.operand
            if self._reporter.has(operation.op.index, operand.name, "step") or not shared.unchanged(shared.entries().take(operand.chunks)):
                continue
            self._reporter.first(operation.op.index, operand.name, "step")
            rows, k = moved
            # In the other dimension the rows by which it moves are the next k.
            other = turned(operand, shared) if abs(rows) == now.image.reach and not k else None
            wanted = None if other else step_of(operand, before.operand.descriptor.start, shared, before.image)
            copied = [("copied by", self._reporter.line(now.placed.op))]
            moved_k = rows, k, now.image.reach
            report = partial(self._reporter.wrong_step, operation, before.operand, operand, moved_k, wanted, other, copied, cta)
            if again:
                operands = tuple(each.operand for each in images if each is not None)
                self._repetitions.doubt(operands, operand, following(operand, shared, now.image), report)
            else:
                report()


def _realigned(shared: SharedTiles, a: Located, b: Located) -> tuple[Candidate[Image] | None, str]:
    """A descriptor of A or of B with which the two agree: the one with fewer changes, then the one that begins at the lower k."""
    tried = [
        (found, own.operand.name)
        for own, other in ((a, b), (b, a))
        if (found := best(own.operand, shared, own.placed.tile, other.image)) is not None
    ]
    return min(tried, key=lambda each: (len(each[0].changes), each[0].image.k), default=(None, ""))


def _move(before: Found, now: Found) -> tuple[int, int] | None:
    """By how many rows and elements of k an operand has moved in its tile; None if it is not known."""
    if before is None or now is None:
        return None
    return now.image.row - before.image.row, now.image.k - before.image.k


def _wrong(moved: tuple[int, int], image: Image, moves: list[tuple[int, int] | None]) -> bool:
    """Whether an operand moves as it cannot: to other rows of the same k, to part of the same k, or unlike the other operand.

    Of two operands that move differently, the one is wrong that does not go on to the next k.
    """
    rows, k = moved
    if rows:
        return k == 0 and image.regular
    if 0 < abs(k) < image.reach:
        return True
    differ = len({each[1] for each in moves if each is not None and not each[0]}) > 1
    return differ and k != image.reach


def place_in_box(entry: int, tiles: Mapping[int, PlacedTile]) -> tuple[CopiedTile, list[int]]:
    """The tile from which a chunk comes, and the chunk's indices in the box, innermost first."""
    tile = tiles[entry >> SHIFT].tile
    return tile, located(np.array(entry & (1 << SHIFT) - 1), tile.array).tolist()


def source_name(entry: int, tiles: Mapping[int, PlacedTile]) -> str:
    """The element of an array from which the first bytes of a chunk come, with indices outermost first."""
    tile, (chunk, *others) = place_in_box(entry, tiles)
    at = [chunk * tile.array.per_chunk, *others]
    if tile.array.regular:
        return f"element [{', '.join(str(c + i) for c, i in zip(reversed(tile.coordinates), reversed(at), strict=True))}] of the array"
    return f"element [{', '.join(map(str, reversed(at)))}] of the box"


def first_element(operand: MatrixOperand, found: Mismatch, entries: NDArray[np.int64], tiles: Mapping[int, PlacedTile]) -> str:
    """Where the first wrong element comes from, and where the one that it is compared with does."""
    line, slot = found.line, found.slot
    here = f"{element_name(operand, line, slot)} is {source_name(int(entries[line, slot]), tiles)}"
    if not line and not slot:
        return here
    line, slot = (0, slot) if line else (0, 0)
    return f"{here}, but {element_name(operand, line, slot)} is {source_name(int(entries[line, slot]), tiles)}"


def picture(operand: MatrixOperand, entries: NDArray[np.int64], tiles: Mapping[int, PlacedTile]) -> list[tuple[str, str]]:
    """For the first lines of an operand, the rows and chunks of the box from which its chunks come."""
    unit = "row" if operand.major == "k" else "k"
    shown = []
    for line in range(min(_SHOWN_LINES, len(entries))):
        places = []
        for entry in entries[line, :_SHOWN_LINES].tolist():
            _, (chunk, *others) = place_in_box(entry, tiles)
            places.append(f"{'/'.join(map(str, reversed(others)))}.{chunk}")
        shown.append((f"{unit} {line} is row.chunk", " ".join(places)))
    return shown
