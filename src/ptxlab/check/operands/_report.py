"""The findings about operands of matrix instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._candidates import Candidate, best, step_of
from ptxlab.check.operands._image import SHIFT, Image, Mismatch, located
from ptxlab.check.operands._images import Located
from ptxlab.check.operands._rest import Rest
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles
from ptxlab.isa.tiles import CHUNK, CopiedTile, MatrixOperand, TileArray
from ptxlab.tables import SWIZZLES, TENSOR_MAP_SWIZZLES

if TYPE_CHECKING:
    from ptxlab.isa.context import AsyncOperation
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.memory.elements import ArrayPlace

__all__ = ["Reporter", "element_name", "fields_text", "fix_text", "is_turned"]

_FLOATS: dict[str, tuple[str, ...]] = {
    "f16": ("f16",),
    "bf16": ("bf16",),
    "f32": ("tf32",),
    "f64": ("f64",),
    "float16": ("f16",),
    "bfloat16": ("bf16",),
    "float32": ("tf32",),
    "float64": ("f64",),
    "float8_e4m3fn": ("e4m3",),
    "float8_e5m2": ("e5m2",),
    "float6_e2m3fn": ("e2m3",),
    "float6_e3m2fn": ("e3m2",),
    "float4_e2m1fn": ("e2m1",),
}
"""Floating-point type of a tensor map or an array -> element types of matrix instructions that it fits. Integer types fit all."""
_MAP_MODES = frozenset(mode.name for mode in TENSOR_MAP_SWIZZLES.values())
_SHOWN_LINES = 8
_FIX = "compare the descriptor with the tensor map: swizzling mode, strides and start address must be those with which the tile was copied"


Found = Located | None


class Reporter:
    """Reports each defect of an instruction once."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._reported: set[Any] = set()

    def has(self, *key: Any) -> bool:
        """Whether a defect has been reported."""
        return key in self._reported

    def first(self, *key: Any) -> bool:
        """Whether a defect has not been reported before; from now on it has."""
        if key in self._reported:
            return False
        self._reported.add(key)
        return True

    def add(self, code: str, message: str, operation: AsyncOperation, cta: Any, **fields: Any) -> None:
        """Report a finding."""
        severity = "error" if self._launch.model == "spec" else None
        self._launch.reports.add(code, message, op=operation.op, cta=cta, severity=severity, **fields)

    def array_at(self, address: int) -> ArrayPlace | None:
        """The array in which an address lies, if it is known."""
        found = self._launch.device.memory.find(address)
        if found is None:
            return None
        return next((each for each in found.arrays if len(each.indices(np.array([address])))), None)

    def line(self, op: Op) -> str:
        """The place and the text of an instruction."""
        return self._launch.reports.name(op)

    def mismatch(
        self, operation: AsyncOperation, operand: MatrixOperand, found: Mismatch, other: Image | None, shared: SharedTiles, cta: Any
    ) -> None:
        """An operand is not a consistent image of what was copied; ``other`` is the image of the other operand."""
        entries = shared.entries().take(operand.chunks)
        if (operation.op.index, operand.name) in self._reported or not shared.unchanged(entries):
            return
        self.first(operation.op.index, operand.name)
        number = int(entries[0, 0]) >> SHIFT
        tiles = shared.tiles()
        candidate = best(operand, shared, tiles[number].tile, other)
        details = [
            ("copied by", self.line(tiles[number].op)),
            ("descriptor", fields_text(operand)),
            *picture(operand, entries, tiles),
        ]
        self.add(
            "O101",
            f"{operand.title} is not an image of the tile that was copied: {found.what}; {first_element(operand, found, entries, tiles)}",
            operation,
            cta,
            fix=fix_text(candidate, operand, tiles[number].tile.array),
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
        if ((between < first) | (between >= end)).any() or not held[between].any() or not self.first(operation.op.index, operand.name):
            return
        line, slot = np.argwhere(entries == 0)[0].tolist()
        width = SWIZZLES[array.swizzle].width // CHUNK
        inner, outer, *others = width, array.counts[1] * array.counts[0] // width, *array.counts[2:]
        box = " x ".join(map(str, (*reversed(others), outer, inner * array.per_chunk)))
        self.add(
            "O101",
            f"{operand.title} is not an image of the tile that was copied: the rows of the box have {array.counts[0] * CHUNK} bytes, "
            f"and stand {width * CHUNK} bytes apart; {element_name(operand, line, slot)} is between two rows",
            operation,
            cta,
            fix=f"encode the tensor map with a box of {box} elements, or with a narrower swizzling mode",
            details=[("copied by", self.line(placed.op)), ("descriptor", fields_text(operand))],
        )

    def overlapping(self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, cta: Any) -> None:
        """Two elements of an operand lie in the same bytes."""
        entries = shared.entries()
        held = next((shared.tiles()[int(entry) >> SHIFT] for entry in entries.take(operand.chunks.reshape(-1)) if entry), None)
        array = None if held is None else held.tile.array
        self.same_bytes(operation, operand, lambda: None if held is None else best(operand, shared, held.tile, None), array, cta)

    def same_bytes(
        self,
        operation: AsyncOperation,
        operand: MatrixOperand,
        fitting: Callable[[], Candidate[Any] | None],
        array: TileArray | None,
        cta: Any,
    ) -> None:
        """Two elements of an operand lie in the same bytes; ``fitting`` looks for another descriptor."""
        if not self.first(operation.op.index, operand.name, "bytes"):
            return
        flat = operand.chunks.reshape(-1)
        order = np.argsort(flat, kind="stable")
        again = order[1:][np.diff(flat[order]) == 0].min()
        before = int(np.flatnonzero(flat == flat[again])[0])
        here, there = (element_name(operand, *divmod(int(i), operand.chunks.shape[1])) for i in (again, before))
        self.add(
            "O102",
            f"{here} and {there} of {operand.title} are the same bytes of shared memory",
            operation,
            cta,
            fix=fix_text(fitting(), operand, array),
            details=[("descriptor", fields_text(operand))],
        )

    def element_type(self, operation: AsyncOperation, operand: MatrixOperand, placed: PlacedTile, cta: Any) -> None:
        """The element type of the instruction is not that of the tensor map."""
        copied = [("copied by", self.line(placed.op))]
        array = self.array_at(placed.tile.array.address)
        if placed.tile.array.element not in _FLOATS and array is not None:
            # Maps of bytes serve for narrow types; an array of such a type says which one.
            self.other_type(operation, operand, array.dtype, f"the elements of {array.name}", f"make {array.name} an array of", copied, cta)
            return
        self.other_type(
            operation, operand, placed.tile.array.element, "the elements of the tensor map", "encode the tensor map for", copied, cta
        )

    def other_type(
        self,
        operation: AsyncOperation,
        operand: MatrixOperand,
        element: str,
        whose: str,
        otherwise: str,
        details: Sequence[tuple[str, str]],
        cta: Any,
    ) -> None:
        """The elements of what was copied are of the type ``element``; ``otherwise`` says how they could be of another one."""
        fitting = _FLOATS.get(element)
        if fitting is None or operand.element in fitting or not self.first(operation.op.index, operand.name, "type"):
            return
        self.add(
            "O103",
            f"{operand.title} is read as {operand.element}, but {whose} are {element}",
            operation,
            cta,
            fix=f"give {fitting[0]} as the element type of {operand.name}, or {otherwise} {operand.element}",
            details=details,
        )

    def pair(self, operation: AsyncOperation, images: list[Found], shared: SharedTiles, cta: Any) -> None:
        """A and B must have the same k for every product."""
        a, b = images
        if a is None or b is None or (operation.op.index, "pair") in self._reported:
            return
        if not all(shared.unchanged(shared.entries().take(operand.chunks)) for operand in (a.operand, b.operand)):
            return
        self.first(operation.op.index, "pair")
        candidate, name = _realigned(shared, a, b)
        same = a.image.steps == b.image.steps or not a.image.steps or not b.image.steps
        how = (
            f"A begins at k = {a.image.k} of its tile and B at k = {b.image.k}"
            if same
            else "inside the instruction k advances differently in the two"
        )
        self.add(
            "O104",
            f"A and B are multiplied with different k: {how}",
            operation,
            cta,
            fix=f"{candidate.text} in the descriptor of {name}" if candidate else "let both descriptors begin at the same k of their tiles",
            details=[(f"{each.operand.name} copied by", self.line(each.placed.op)) for each in (a, b)],
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
                    self.turned(operation, now.operand, [("copied by", self.line(now.placed.op))], cta)
                continue
            if before is None or now is None or moved is None or not (again or _wrong(moved, now.image, moves)):
                continue
            operand = now.operand
            if (operation.op.index, operand.name, "step") in self._reported or not shared.unchanged(shared.entries().take(operand.chunks)):
                continue
            self.first(operation.op.index, operand.name, "step")
            wanted = step_of(operand, before.operand.descriptor.start, shared, before.image)
            copied = [("copied by", self.line(now.placed.op))]
            self.wrong_step(operation, before.operand, operand, (*moved, now.image.reach), wanted, None, copied, cta)

    def turned(self, operation: AsyncOperation, operand: MatrixOperand, details: Sequence[tuple[str, str]], cta: Any) -> None:
        """Two instructions that add to the same D read the same bytes in different dimensions."""
        if self.first(operation.op.index, operand.name, "step"):
            one, other = ("MN", "K") if operand.major == "mn" else ("K", "MN")
            self.add(
                "O105",
                f"matrix {operand.name} is read {one}-major, and the instruction before, which adds to the same D, reads the same bytes "
                f"{other}-major",
                operation,
                cta,
                fix=f"clear the transpose bit of {operand.name} in the instruction that reads it MN-major, or set the transpose bit in "
                "both",
                details=details,
            )

    def wrong_step(
        self,
        operation: AsyncOperation,
        before: MatrixOperand,
        operand: MatrixOperand,
        moved: tuple[int, int, int],
        wanted: int | None,
        turned: Candidate[Any] | None,
        details: Sequence[tuple[str, str]],
        cta: Any,
    ) -> None:
        """An operand has moved by some rows and elements of k from one instruction to the next; the last number of ``moved`` is the k that
        an instruction takes. ``wanted`` are the bytes by which its start must advance; ``turned`` reads it in the other dimension.
        """
        rows, k, reach = moved
        actual = operand.descriptor.start - before.descriptor.start
        what = f"the rows of {operand.name} move by {rows}" if rows else f"k of {operand.name} moves by {k}"
        if turned is not None:
            fix = f"{turned.text}: then k of {operand.name} advances"
        elif wanted:
            fix = f"advance the start address of {operand.name} by {wanted} bytes from instruction to instruction"
        else:
            fix = f"advance {operand.name} by {reach} elements of k from instruction to instruction"
        self.add(
            "O105",
            f"between two instructions that add to the same D {what}, where an instruction takes {reach} elements of k; "
            f"the start address of {operand.name} changes by {actual} bytes",
            operation,
            cta,
            fix=fix,
            details=details,
        )

    def fewer_rows(self, operation: AsyncOperation, before: MatrixOperand, operand: MatrixOperand, ctas: int, cta: Any) -> None:
        """Two instructions that add to the same D multiply different numbers of rows, which begin in the same bytes."""
        size, one, other = "M" if operand.name == "A" else "N", before.placed.index.rows, operand.placed.index.rows
        if self.first(operation.op.index, operand.name, "rows"):
            self.add(
                "O107",
                f"matrix {operand.name} has {other} rows, and in the instruction before, which adds to the same D, {one} of the same rows",
                operation,
                cta,
                fix=f"set {size} to {max(one, other) * ctas} in both instruction descriptors",
                details=[("descriptor", fields_text(operand))],
            )

    def unused_rows(self, rest: Rest) -> None:
        """A tile has more rows than an operand, and D is read as if they were multiplied."""
        operand, size = rest.operand, "M" if rest.operand.name == "A" else "N"
        own = rest.rows * operand.chunks.size // (operand.chunks.size + rest.chunks.size)
        self.add(
            "O107",
            f"matrix {operand.name} has {own} rows, and the tile that was copied has {rest.rows}: no instruction multiplies the others, "
            f"but {rest.loaded}",
            rest.operation,
            rest.operation.cta,
            fix=f"set {size} to {rest.rows} in the instruction descriptor, or copy and load only {own} rows",
            details=[("descriptor", fields_text(operand))],
        )

    def read_as_f32(self, operation: AsyncOperation, transfer: Op, user: Op) -> None:
        """D has elements of f16, and registers of tcgen05.ld are used as f32."""
        self.add(
            "O106",
            f"D has elements of f16, each in the lower half of its column, but {user.opcode} at line {user.line} "
            f"takes what {transfer.opcode} at line {transfer.line} has loaded as f32",
            operation,
            operation.cta,
            fix="give f32 as the type of D in the instruction descriptor, or unpack the lower halves of the registers as f16",
            details=[("loaded by", self.line(transfer)), ("used by", self.line(user))],
        )

    def read_as_f16(self, operation: AsyncOperation, transfer: Op) -> None:
        """D has elements of f32, and tcgen05.ld takes the lower halves of its columns."""
        self.add(
            "O106",
            f"D has elements of f32, but {transfer.opcode} at line {transfer.line} takes the lower half of each column",
            operation,
            operation.cta,
            fix="give f16 as the type of D in the instruction descriptor, or load whole columns",
            details=[("loaded by", self.line(transfer))],
        )


def _realigned(shared: SharedTiles, a: Located, b: Located) -> tuple[Candidate[Image] | None, str]:
    """A descriptor of A or of B with which the two agree: the one with fewer changes, then the one that begins at the lower k."""
    tried = [
        (found, own.operand.name)
        for own, other in ((a, b), (b, a))
        if (found := best(own.operand, shared, own.placed.tile, other.image)) is not None
    ]
    return min(tried, key=lambda each: (len(each[0].changes), each[0].image.k), default=(None, ""))


def is_turned(before: MatrixOperand, now: MatrixOperand) -> bool:
    """Whether two operands have bytes in common, but not the dimension that is contiguous."""
    return before.major != now.major and bool(np.intersect1d(before.chunks, now.chunks).size)


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


def fix_text(candidate: Candidate[Any] | None, operand: MatrixOperand, array: TileArray | None = None) -> str:
    """What to do about an operand that is not an image of what was copied; ``array`` is that of a tile."""
    text = f"{candidate.text}: then {operand.title.removeprefix('matrix ')} is the tile that was copied" if candidate else _FIX
    mode = operand.descriptor.swizzle
    if array is not None and array.swizzle not in ("", mode) and mode in _MAP_MODES:
        text += f"; or encode the tensor map with swizzling mode {mode}"
    return text


def fields_text(operand: MatrixOperand) -> str:
    """The fields of the descriptor."""
    return ", ".join(f"{name} {value}" for name, value in operand.descriptor.fields())


def element_name(operand: MatrixOperand, line: int, slot: int) -> str:
    """The first element of a chunk of an operand."""
    row, k = (line, slot * operand.per_chunk) if operand.major == "k" else (slot * operand.per_chunk, line)
    return f"{operand.name}[{row}, {k}]"


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
