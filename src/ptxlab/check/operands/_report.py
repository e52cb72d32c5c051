"""The findings about operands of matrix instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import have_common
from ptxlab.check.operands._candidates import Candidate
from ptxlab.check.operands._image import GROUP
from ptxlab.check.operands._rest import Rest
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK, TileArray
from ptxlab.isa.tcgen05.constants import buffer_of
from ptxlab.machine.memory.global_memory import AccessError
from ptxlab.tables import SWIZZLES, TENSOR_MAP_SWIZZLES

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.memory.elements import ArrayPlace

__all__ = [
    "FLOATS",
    "Executed",
    "Reporter",
    "element_name",
    "fields_text",
    "fix_text",
    "is_turned",
    "kept_matrices",
    "map_text",
    "rows_text",
]

FLOATS: dict[str, tuple[str, ...]] = {
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
    "b4x16": ("e2m1",),
    "b4x16_p64": ("e2m1",),
    "b6x16_p32": ("e2m3", "e3m2"),
}
"""Type of a tensor map or an array -> element types of matrix instructions that it fits. Integer types fit all."""
_MAP_MODES = frozenset(mode.name for mode in TENSOR_MAP_SWIZZLES.values())
_FIX = "compare the descriptor with the tensor map: swizzling mode, strides and start address must be those with which the tile was copied"


class Executed(Protocol):
    """An operation, or the warp that executes an instruction."""

    @property
    def op(self) -> Op:
        """The instruction."""


class Matrix(Protocol):
    """Matrix A or B of an instruction."""

    @property
    def name(self) -> str:
        """``"A"`` or ``"B"``."""

    @property
    def title(self) -> str:
        """What findings call it."""

    @property
    def element(self) -> str:
        """The element type."""


class Reporter:
    """Reports each defect of an instruction once."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._reported: set[Any] = set()
        self._kept = launch.facts.of(kept_matrices)

    def has(self, *key: Any) -> bool:
        """Whether a defect has been reported."""
        return key in self._reported

    def first(self, *key: Any) -> bool:
        """Whether a defect has not been reported before; from now on it has."""
        if key in self._reported:
            return False
        self._reported.add(key)
        return True

    def add(self, code: str, message: str, operation: Executed, cta: Any, **fields: Any) -> None:
        """Report a finding."""
        severity = "error" if self._launch.model == "spec" else None
        self._launch.reports.add(code, message, op=operation.op, cta=cta, severity=severity, **fields)

    def array_at(self, address: int) -> ArrayPlace | None:
        """The array in which an address lies, if it is known."""
        found = self._launch.device.memory.find(address)
        if found is None:
            return None
        return next((each for each in found.arrays if each.holds(address)), None)

    def only_array_at(self, address: int) -> tuple[int, int] | None:
        """The address and the bytes of the array in which an address lies, if it has no gaps and is the only one of its allocation."""
        found = self._launch.device.memory.find(address)
        if found is None or len(found.arrays) != 1 or not found.arrays[0].holds(address):
            return None
        array = found.arrays[0]
        return (array.address, array.contiguous_bytes) if array.contiguous_bytes else None

    def holds(self, address: int, number: int, size: int = 4) -> bool:
        """Whether a number of so many bytes stands at an address in global memory."""
        found = self._launch.device.memory.find(address)
        return found is not None and self._launch.device.memory.view(address, size).tobytes() == number.to_bytes(size, "little")

    def all_hold(self, addresses: NDArray[np.int64], held: NDArray[np.uint8]) -> bool:
        """Whether elements that come from global addresses are equal to what stands there; ``held`` are their bytes, in the same order."""
        view = self._launch.device.memory.view
        try:
            return all(
                view(address, len(code)).tobytes() == code.tobytes()
                for address, code in zip(addresses.reshape(-1).tolist(), held.reshape(addresses.size, -1), strict=True)
                if address > NO_SOURCE
            )
        except AccessError:
            return False

    def kept(self, op: Op) -> str | None:
        """The name of the matrix that an instruction takes from a collector buffer."""
        return self._kept.get(op.index)

    def line(self, op: Op) -> str:
        """The place and the text of an instruction."""
        return self._launch.reports.name(op)

    def same_bytes(
        self,
        operation: AsyncOperation,
        operand: MatrixOperand,
        candidate: Candidate[Any] | None,
        array: TileArray | None,
        cta: Any,
    ) -> None:
        """Two elements of an operand lie in the same bytes; ``candidate`` is another descriptor."""
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
            fix=fix_text(candidate, operand, array),
            details=[("descriptor", fields_text(operand))],
        )

    def other_type(
        self,
        operation: Executed,
        operand: Matrix,
        element: str,
        whose: str,
        otherwise: str,
        details: Sequence[tuple[str, str]],
        cta: Any,
    ) -> None:
        """The elements of what was copied are of the type ``element``; ``otherwise`` says how they could be of another one."""
        fitting = FLOATS.get(element)
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
        operation: Executed,
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

    def wrong_tensor_step(self, operation: AsyncOperation, moved: int, columns: int, cta: Any) -> None:
        """A in tensor memory has moved by part of the columns that an instruction takes."""
        if self.first(operation.op.index, "A", "step"):
            self.add(
                "O105",
                f"between two instructions that add to the same D the address of A moves by {moved} columns, where an instruction takes "
                f"{columns}",
                operation,
                cta,
                fix=f"advance the address of A by {columns} columns from instruction to instruction",
            )

    def fewer_rows(self, operation: AsyncOperation, before: MatrixOperand, operand: MatrixOperand, wanted: int, cta: Any) -> None:
        """Two instructions that add to the same D multiply different numbers of rows, which begin in the same bytes; M or N that fits."""
        size, one, other = "M" if operand.name == "A" else "N", before.placed.index.rows, operand.placed.index.rows
        if self.first(operation.op.index, operand.name, "rows"):
            self.add(
                "O107",
                f"matrix {operand.name} has {other} rows, and in the instruction before, which adds to the same D, {one} of the same rows",
                operation,
                cta,
                fix=f"set {size} to {wanted} in both instruction descriptors",
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


def kept_matrices(program: Program) -> dict[int, str]:
    """By instruction the name of the matrix that it takes from a collector buffer."""
    buffers = {op.index: buffer_of(op) for op in program.ops}
    return {index: buffer.matrix[0].upper() for index, buffer in buffers.items() if buffer is not None and buffer.needs_matrix}


def is_turned(before: MatrixOperand, now: MatrixOperand) -> bool:
    """Whether two operands have bytes in common, but not the dimension that is contiguous."""
    return before.major != now.major and have_common(before.chunks, now.chunks)


def fix_text(candidate: Candidate[Any] | None, operand: MatrixOperand, array: TileArray | None = None) -> str:
    """What to do about an operand that is not an image of what was copied; ``array`` is that of a tile."""
    if candidate is None:
        return _FIX if array is None else map_text(operand, array) or _FIX
    text = f"{candidate.text}: then {operand.title.removeprefix('matrix ')} is the tile that was copied"
    mode = operand.descriptor.swizzle
    if array is not None and array.swizzle not in ("", mode) and mode in _MAP_MODES and (mode != "none" or array.counts[0] == 1):
        text += f"; or encode the tensor map with swizzling mode {mode}"
    return text


def map_text(operand: MatrixOperand, array: TileArray) -> str:
    """Which tensor map copies a tile so that a descriptor can read it, if none reads what an unswizzled copy has brought; else ""."""
    pitch = array.counts[0] * CHUNK
    if array.swizzle != "none" or pitch == CHUNK:
        return ""
    lines = "rows" if operand.major == "k" else "steps of k"
    mode = next((name for name in SWIZZLES if name in _MAP_MODES and name != "none" and SWIZZLES[name].width == pitch), None)
    narrow = f"a box of {array.per_chunk} elements in the innermost dimension"
    if mode is None:
        other = ""
    elif operand.major == "k":
        other = f"with swizzling mode {mode}, which the descriptor needs too, with a stride dimension byte offset of {GROUP * pitch}, or "
    else:
        other = f"with swizzling mode {mode}, which the descriptor needs too, or "
    return (
        f"no descriptor reads this tile: its {lines} lie {pitch} bytes apart in shared memory, and those of an unswizzled core matrix "
        f"{CHUNK} bytes; encode the tensor map {other}with {narrow}"
    )


def rows_text(operand: MatrixOperand, rows: int) -> str:
    """What to do about an operand of which only the first rows have been copied."""
    every = operand.placed.index.rows
    size = (operand.size or every) * rows // every
    return f"set {'M' if operand.name == 'A' else 'N'} to {size}: {rows} of the {every} rows of {operand.name} are what was copied"


def fields_text(operand: MatrixOperand) -> str:
    """The fields of the descriptor."""
    return ", ".join(f"{name} {value}" for name, value in operand.descriptor.fields())


def element_name(operand: MatrixOperand, line: int, slot: int) -> str:
    """The first element of a chunk of an operand."""
    row, k = (line, slot * operand.per_chunk) if operand.major == "k" else (slot * operand.per_chunk, line)
    return f"{operand.name}[{row}, {k}]"
