"""The compiled steps of one mma instruction, performed by one call of compiled code.

A program is a table of int64 rows, one for each step: gather and prepare an operand, multiply prepared operands, write accumulator cells.
A memory location is a base and an offset. Each call passes the host addresses of the bases; base 0 is 0, so that its offsets are host
addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.native import address_of

__all__ = ["AccumulatorRef", "MmaProgram", "OperandGather", "mma_program_function", "move", "multiply", "prepare"]

_WORDS = 12
_MOVE, _PREPARE, _MULTIPLY = range(3)


class OperandGather(NamedTuple):
    """The location of the codes of an operand: ``order`` lists units of ``unit`` bytes, counted from ``base`` plus ``offset``.

    After the units are gathered into consecutive memory, ``over_rows`` is the stride of rows and ``over_k`` the stride along K, in bytes.
    The operand begins at row ``first``.
    """

    base: int
    offset: int
    order: NDArray[np.int64]
    unit: int
    over_rows: int
    over_k: int
    first: int = 0


class AccumulatorRef(NamedTuple):
    """The location of the accumulator's uint32 cells [n, m], at ``base`` plus ``offset``.

    ``stride`` is the distance in bytes of lines of m cells. With an ``order``, the cells are in units of 16 that ``order`` lists.
    """

    base: int
    offset: int
    stride: int
    order: NDArray[np.int64] | None = None


class MmaProgram:
    """The rows of a program, and the objects that they point to, which must stay alive. `MmaKernel.program` makes it."""

    __slots__ = ("_address", "_count", "_keep", "_run")

    def __init__(self, rows: Iterable[tuple[int, ...]], *keep: object) -> None:
        found = [(*row, *[0] * (_WORDS - len(row))) for row in rows]
        table = np.array(found, np.int64)
        self._address, self._count, self._keep = address_of(table), len(found), (table, *keep)
        self._run = mma_program_function()

    def run(self, bases: int, accumulate: bool, scale_input_d: int) -> None:
        """Carry it out, given the host address of the int64 bases; accumulate and scale_input_d as for `mma`."""
        self._run(self._address, self._count, bases, -1 if accumulate else 0, scale_input_d)


def move(unit: int, source: tuple[int, int, NDArray[np.int64]], target: tuple[int, int, NDArray[np.int64]]) -> tuple[int, ...]:
    """The row that moves units of bytes; either side is a base, an offset and the order of the units there."""
    (base, offset, order), (to_base, to_offset, to_order) = source, target
    return _MOVE, native.move_address(unit), base, offset, to_base, to_offset, address_of(order), address_of(to_order), order.size


def prepare(function: int, codes: int, source: OperandGather, ready: Any, flip: int) -> tuple[int, ...]:
    """The row that prepares gathered codes, which stand at the host address ``codes``."""
    over_rows, over_k, rows, k = source.over_rows, source.over_k, ready.rows, ready.k
    lines = (over_k, over_rows, k, rows) if ready.role == "a" else (over_rows, over_k, rows, k)
    return _PREPARE, function, 0, codes + source.first * over_rows, 0, ready.address, *lines, ready.padded, flip


def multiply(function: int, base: int, offset: int, stride: int, a: Any, b: Any, option: int) -> tuple[int, ...]:
    """The row that multiplies prepared operands into cells, of which a line has those of all padded rows of A."""
    return _MULTIPLY, function, base, offset, 0, a.address, stride, a.padded, b.rows, a.k, b.address, option | a.groups << 32


@cache
def mma_program_function() -> Any:
    """The compiled function that carries out programs.

    It keeps the interpreter's lock to the end, so that no two calls share the buffers that programs work in.
    """
    library = native.compile_or_load(("mma program",), ("run",), _program_ir, opt=1)
    return library.function("run", None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)


def _program_ir() -> str:
    """``void run(rows, count, bases, keep, scale)``.

    The words of a row are the kind, the address of a function, base and offset of two places in memory, and what else the function takes.
    """
    module = native.Module()
    code = native.Function(module, "run", "void", "ptr rows, i64 count, ptr bases, i32 keep, i32 scale")
    with code.loop(code["count"]) as number:
        row = code["rows"].at(number * (8 * _WORDS))
        function = row.pointer(1)
        words = [row.word(index) for index in range(_WORDS)]
        first, second = ((code["bases"].load("i64", words[at]) + words[at + 1]).convert("inttoptr", "ptr") for at in (2, 4))
        option, groups = words[11].to("i32"), (words[11] >> 32).to("i32")
        arguments = {
            _MOVE: (first, row.pointer(6), second, row.pointer(7), words[8]),
            _PREPARE: (first, *words[6:11], second, option),
            _MULTIPLY: (first, *words[6:10], second, row.pointer(10), code["keep"], option, groups | code["scale"]),
        }
        labels, done = {kind: code.label() for kind in arguments}, code.label("done")
        code.switch(words[0], labels, done)
        for kind, label in labels.items():
            code.begin(label)
            code.call(function, "void", *arguments[kind])
            code.jump(done)
        code.begin(done)
    return module.text()
