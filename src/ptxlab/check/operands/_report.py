"""The findings about operands of matrix instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._candidates import Candidate, agree, best, step_of
from ptxlab.check.operands._image import SHIFT, Image, Mismatch, located
from ptxlab.isa.tiles import CHUNK, CopiedTile, MatrixOperand, MatrixProduct

if TYPE_CHECKING:
    from ptxlab.check.operands._observer import SharedTiles
    from ptxlab.isa.context import AsyncOperation
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Reporter"]

_FLOATS = {"f16": ("f16",), "bf16": ("bf16",), "f32": ("tf32",), "f64": ("f64",)}
"""Floating-point element type of a tensor map -> element types of matrix instructions that it fits. Integer types fit all."""
_SHOWN_LINES = 8
_FIX = "compare the descriptor with the tensor map: swizzling mode, strides and start address must be those with which the tile was copied"


@dataclass(frozen=True, slots=True)
class Located:
    """An operand with its image, and the number of the tile in which it begins."""

    operand: MatrixOperand
    tile: int
    image: Image


Found = Located | None


class Reporter:
    """Reports each defect of an instruction once."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._reported: set[Any] = set()

    def _first(self, *key: Any) -> bool:
        if key in self._reported:
            return False
        self._reported.add(key)
        return True

    def _add(self, code: str, message: str, operation: AsyncOperation, cta: Any, **fields: Any) -> None:
        severity = {"severity": "error"} if self._launch.model == "spec" else {}
        self._launch.reports.add(code, message, op=operation.op, cta=cta, **fields, **severity)

    def _line(self, op: Op) -> str:
        return self._launch.reports.name(op)

    def mismatch(
        self, operation: AsyncOperation, operand: MatrixOperand, found: Mismatch, other: Image | None, shared: SharedTiles, cta: Any
    ) -> None:
        """An operand is not a consistent image of what was copied; ``other`` is the image of the other operand."""
        entries = shared.entries.take(operand.chunks)
        if (operation.op.index, operand.name) in self._reported or not unchanged(entries, shared, cta):
            return
        self._first(operation.op.index, operand.name)
        number = int(entries[0, 0]) >> SHIFT
        candidate = best(operand, shared.entries, shared.tiles, shared.tiles[number], other)
        details = [
            ("copied by", self._line(shared.copies[number])),
            ("descriptor", ", ".join(f"{name} {value}" for name, value in operand.descriptor.fields())),
            *picture(operand, entries, shared),
        ]
        self._add(
            "O101",
            f"matrix {operand.name} is not an image of the tile that was copied: {found.what}; "
            f"{first_element(operand, found, entries, shared)}",
            operation,
            cta,
            fix=f"{candidate.text}: then {operand.name} is the tile that was copied" if candidate else _FIX,
            details=details,
        )

    def overlapping(self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, cta: Any) -> None:
        """Two elements of an operand lie in the same bytes."""
        if not self._first(operation.op.index, operand.name, "bytes"):
            return
        flat = operand.chunks.reshape(-1)
        order = np.argsort(flat, kind="stable")
        again = order[1:][np.diff(flat[order]) == 0].min()
        before = int(np.flatnonzero(flat == flat[again])[0])
        tile = shared.tiles[int(shared.entries[flat[again]]) >> SHIFT]
        candidate = None if tile is None else best(operand, shared.entries, shared.tiles, tile, None)
        here, there = (element_name(operand, *divmod(int(i), operand.chunks.shape[1])) for i in (again, before))
        self._add(
            "O102",
            f"{here} and {there} of matrix {operand.name} are the same bytes of shared memory",
            operation,
            cta,
            fix=f"{candidate.text}: then {operand.name} is the tile that was copied" if candidate else _FIX,
            details=[("descriptor", ", ".join(f"{name} {value}" for name, value in operand.descriptor.fields()))],
        )

    def element_type(self, operation: AsyncOperation, operand: MatrixOperand, tile: CopiedTile, copy: Op, cta: Any) -> None:
        """The element type of the instruction is not that of the tensor map."""
        fitting = _FLOATS.get(tile.array.element)
        if fitting is None or operand.element in fitting or not self._first(operation.op.index, operand.name, "type"):
            return
        self._add(
            "O103",
            f"matrix {operand.name} is read as {operand.element}, but the tensor map says that its elements are {tile.array.element}",
            operation,
            cta,
            fix=f"give {fitting[0]} as the element type of {operand.name}, or encode the tensor map for {operand.element}",
            details=[("copied by", self._line(copy))],
        )

    def pair(self, operation: AsyncOperation, product: MatrixProduct, images: list[Found], shared: SharedTiles, cta: Any) -> None:
        """A and B must have the same k for every product."""
        a, b = images
        if a is None or b is None or agree(a.image, b.image) or (operation.op.index, "pair") in self._reported:
            return
        if not all(unchanged(shared.entries.take(operand.chunks), shared, cta) for operand in product.operands):
            return
        self._first(operation.op.index, "pair")
        candidate, name = _realigned(shared, a, b)
        same = a.image.steps == b.image.steps or not a.image.steps or not b.image.steps
        how = (
            f"A begins at k = {a.image.k} of its tile and B at k = {b.image.k}"
            if same
            else "inside the instruction k advances differently in the two"
        )
        self._add(
            "O104",
            f"A and B are multiplied with different k: {how}",
            operation,
            cta,
            fix=f"{candidate.text} in the descriptor of {name}" if candidate else "let both descriptors begin at the same k of their tiles",
            details=[(f"{each.operand.name} copied by", self._line(shared.copies[each.tile])) for each in (a, b)],
        )

    def step(
        self, operation: AsyncOperation, product: MatrixProduct, last: list[Found], images: list[Found], shared: SharedTiles, cta: Any
    ) -> None:
        """An instruction that adds to the same D as the one before, from the same tiles, must take the next k of the same rows."""
        moves = [_move(before, now) for before, now in zip(last, images, strict=True)]
        for before, now, moved in zip(last, images, moves, strict=True):
            if before is None or now is None or moved is None or not _wrong(moved, now.image, moves):
                continue
            operand = now.operand
            if (operation.op.index, operand.name, "step") in self._reported or not unchanged(
                shared.entries.take(operand.chunks), shared, cta
            ):
                continue
            self._first(operation.op.index, operand.name, "step")
            rows, k = moved
            reach = now.image.reach
            wanted = step_of(operand, before.operand.descriptor.start, shared.entries, shared.tiles, before.image)
            actual = operand.descriptor.start - before.operand.descriptor.start
            what = f"the rows of {operand.name} move by {rows}" if rows else f"k of {operand.name} moves by {k}"
            self._add(
                "O105",
                f"between two instructions that add to the same D {what}, where an instruction takes {reach} elements of k; "
                f"the start address of {operand.name} changes by {actual} bytes",
                operation,
                cta,
                fix=f"advance the start address of {operand.name} by {wanted} bytes from instruction to instruction"
                if wanted
                else f"advance {operand.name} by {reach} elements of k from instruction to instruction",
                details=[("copied by", self._line(shared.copies[now.tile]))],
            )


def _realigned(shared: SharedTiles, a: Located, b: Located) -> tuple[Candidate | None, str]:
    """A descriptor of A or of B with which the two agree: the one with fewer changes, then the one that begins at the lower k."""
    tried = [
        (found, own.operand.name)
        for own, other in ((a, b), (b, a))
        if (found := best(own.operand, shared.entries, shared.tiles, shared.tiles[own.tile], other.image)) is not None
    ]
    return min(tried, key=lambda each: (len(each[0].changes), each[0].image.k), default=(None, ""))


def follows(last: list[Found], images: list[Found]) -> bool:
    """Whether all operands that are known are in the tiles of the instruction before."""
    if len(last) != len(images):
        return False
    return all(before is not None and now is not None and before.tile == now.tile for before, now in zip(last, images, strict=True))


def _move(before: Found, now: Found) -> tuple[int, int] | None:
    """By how many rows and elements of k an operand has moved in its tile; None if it is not known."""
    if before is None or now is None:
        return None
    return now.image.row - before.image.row, now.image.k - before.image.k


def _wrong(moved: tuple[int, int], image: Image, moves: list[tuple[int, int] | None]) -> bool:
    """Whether an operand moves as it cannot: to other rows of the same k, to part of the same k, or otherwise than the other operand.

    Of two operands that move differently, the one is wrong that does not go on to the next k.
    """
    rows, k = moved
    if rows:
        return k == 0 and all(array.regular for _, array in image.arrays)
    if 0 < abs(k) < image.reach:
        return True
    differ = len({each[1] for each in moves if each is not None and not each[0]}) > 1
    return differ and k != image.reach


def unchanged(entries: NDArray[np.int64], shared: SharedTiles, cta: Any) -> bool:
    """Whether the chunks still hold what was copied; threads may have overwritten them since."""
    memory = cta.shared[: len(cta.shared) // CHUNK * CHUNK].reshape(-1, CHUNK)
    for number in np.unique(entries >> SHIFT).tolist():
        tile: CopiedTile | None = shared.tiles[number]
        if tile is None:
            return False
        positions = np.unique(entries[entries >> SHIFT == number] & (1 << SHIFT) - 1)
        contents = np.asarray(tile.contents()).reshape(-1, CHUNK)
        if not np.array_equal(memory[tile.offset // CHUNK + tile.chunks[positions]], contents[positions]):
            return False
    return True


def element_name(operand: MatrixOperand, line: int, slot: int) -> str:
    """The first element of a chunk of an operand."""
    row, k = (line, slot * operand.per_chunk) if operand.major == "k" else (slot * operand.per_chunk, line)
    return f"{operand.name}[{row}, {k}]"


def source_name(entry: int, shared: SharedTiles) -> str:
    """The element of an array from which the first bytes of a chunk come, with indices outermost first."""
    tile: CopiedTile = shared.tiles[entry >> SHIFT]
    at = located(np.array(entry & (1 << SHIFT) - 1), tile.array).tolist()
    at[0] *= tile.array.per_chunk
    if tile.array.regular:
        return f"element [{', '.join(str(c + i) for c, i in zip(reversed(tile.coordinates), reversed(at), strict=True))}] of the array"
    return f"element [{', '.join(map(str, reversed(at)))}] of the box"


def first_element(operand: MatrixOperand, found: Mismatch, entries: NDArray[np.int64], shared: SharedTiles) -> str:
    """Where the first wrong element comes from, and where the one that it is compared with does."""
    line, slot = found.line, found.slot
    here = f"{element_name(operand, line, slot)} is {source_name(int(entries[line, slot]), shared)}"
    if not line and not slot:
        return here
    line, slot = (0, slot) if line else (0, 0)
    return f"{here}, but {element_name(operand, line, slot)} is {source_name(int(entries[line, slot]), shared)}"


def picture(operand: MatrixOperand, entries: NDArray[np.int64], shared: SharedTiles) -> list[tuple[str, str]]:
    """For the first lines of an operand, the rows and chunks of the box from which its chunks come."""
    unit = "row" if operand.major == "k" else "k"
    shown = []
    for line in range(min(_SHOWN_LINES, len(entries))):
        places = []
        for entry in entries[line, :_SHOWN_LINES].tolist():
            tile: CopiedTile = shared.tiles[entry >> SHIFT]
            chunk, *others = located(np.array(entry & (1 << SHIFT) - 1), tile.array).tolist()
            places.append(f"{'/'.join(map(str, reversed(others)))}.{chunk}")
        shown.append((f"{unit} {line} is row.chunk", " ".join(places)))
    return shown
