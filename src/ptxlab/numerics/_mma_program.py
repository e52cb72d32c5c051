"""The compiled steps of one mma instruction, performed by one call of compiled code.

A program is a table of int64 rows, one for each step: gather, unpack, expand, prepare and scale an operand, multiply prepared operands,
write accumulator cells.
A memory location is a base and an offset. Each call passes the host addresses of the bases; base 0 is 0, so that its offsets are host
addresses. An `MmaKernel` makes programs for types and sizes.

Compiled code of a kernel runs programs, too, without the interpreter's lock. All programs work in the same buffers: a lock in memory lets
one run at a time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.formats import Packing
from ptxlab.native import address_of
from ptxlab.numerics._operand import Prepared
from ptxlab.numerics.ir.kernels import expander_address, forgetter_address, row_scaler_address, unpacker_address
from ptxlab.numerics.ir.unpack import SLOT

if TYPE_CHECKING:
    from ptxlab.numerics._mma_kernel import MmaKernel

__all__ = [
    "MmaProgram",
    "expand",
    "expand_program",
    "forget",
    "mma_program_function",
    "move",
    "move_program",
    "multiply",
    "prepare",
    "prepare_groups",
    "scale_rows",
    "unpack",
]

Place = tuple[int, NDArray[np.int64]]
"""A base, and the order of units there."""

_WORD = 4
_WORDS = 13
_MOVE, _UNPACK, _SCALE_ROWS, _EXPAND, _FORGET, _PREPARE, _PREPARE_GROUPS, _MULTIPLY = range(8)
_DIRECT = (_MOVE, _UNPACK, _SCALE_ROWS, _EXPAND, _FORGET)
"""The kinds of rows that have the address of a function; others have the address of a word that holds it."""
_LOCK: NDArray[np.int64] = np.zeros(1, np.int64)
"""1 while a program runs."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _LOCK.fill(0))  # another thread of the parent process may hold it


class MmaProgram:
    """The rows of a program, and the objects that they point to, which must stay alive.

    `MmaKernel.program`, `move_program` and `expand_program` make it.
    """

    __slots__ = ("_address", "_keep", "_kernel", "_run")

    def __init__(self, kernel: MmaKernel | None, rows: Iterable[tuple[int, ...]], *keep: object) -> None:
        self._kernel = kernel
        found = [(*row, *[0] * (_WORDS - len(row))) for row in rows]
        table = np.array([(address_of(_LOCK), len(found), *[0] * (_WORDS - 2)), *found], np.int64)
        self._address, self._keep = address_of(table), (table, *keep)
        self._run = mma_program_function()

    def run(self, bases: int, accumulate: bool, scale_input_d: int) -> None:
        """Run it, given the host address of the int64 bases; accumulate and scale_input_d as for `mma`."""
        kernel = self._kernel
        if kernel is not None and kernel.quick_runs:
            kernel.count_run()
        self._run(self._address, bases, -1 if accumulate else 0, scale_input_d)

    @property
    def optimised(self) -> bool:
        """Whether its functions are optimised: there is no need to count further runs."""
        return self._kernel is None or not self._kernel.quick_runs

    def repetition(self, accumulate: bool, scale_input_d: int) -> tuple[int, tuple[int, ...]]:
        """How compiled code runs it: the host address of ``void function(bases, words)``, and the int64 words."""
        return _library().address("repeat"), (self._address, -1 if accumulate else 0, scale_input_d)

    @property
    def question(self) -> tuple[int, int]:
        """How compiled code runs a program that finds something: the host address of ``i64 function(program, bases)``, and the program."""
        return _library().address("ask"), self._address


def move(unit: int, source: tuple[int, int, NDArray[np.int64]], target: tuple[int, int, NDArray[np.int64]]) -> tuple[int, ...]:
    """The row that moves units of bytes; either side is a base, an offset and the order of the units there."""
    (base, offset, order), (to_base, to_offset, to_order) = source, target
    return _MOVE, native.move_address(unit), base, offset, to_base, to_offset, address_of(order), address_of(to_order), order.size


def move_program(unit: int, moves: Iterable[tuple[Place, Place]]) -> MmaProgram:
    """A program that moves units of bytes: each move from a base and the order of the units there to another one."""
    moves = tuple(moves)
    rows = [move(unit, (base, 0, order), (to_base, 0, to_order)) for (base, order), (to_base, to_order) in moves]
    return MmaProgram(None, rows, moves)


def expand_program(bits: int, moves: Iterable[tuple[Place, Place]]) -> MmaProgram:
    """A program that gives each of the codes of 4 or 6 bits in slots with padding a byte, where byte containers have it.

    Each move takes slots of 16 bytes to as many words of 4 bytes, or to several copies of them, one after the other.
    """
    moves, rows = tuple(moves), []
    kept: list[NDArray[Any]] = []
    for (base, order), (to_base, to_order) in moves:
        slots, expanded = (np.zeros(order.size * SLOT, np.uint8) for _ in range(2))
        counted = np.resize(np.arange(order.size * SLOT // _WORD), to_order.size)
        rows.append(move(SLOT, (base, 0, order), (0, address_of(slots), counted)))
        rows.append(unpack("padded", bits, address_of(slots), address_of(expanded), order.size, contained=True))
        rows.append(move(_WORD, (0, address_of(expanded), counted), (to_base, 0, to_order)))
        kept += slots, expanded, counted
    return MmaProgram(None, rows, moves, kept)


def unpack(packing: Packing, bits: int, codes: int, unpacked: int, slots: int, contained: bool = False) -> tuple[int, ...]:
    """The row that gives each of the codes in slots of 16 bytes a byte, from one host address to another (`numerics.ir.unpack`)."""
    return _UNPACK, unpacker_address(packing, bits, contained), 0, codes, 0, unpacked, slots


def expand(
    fmt: str, grouped: bool, codes: int, strides: tuple[int, int], metadata: int, shifts: int, expanded: int, rows: int, chunks: int
) -> tuple[int, ...]:
    """The row that expands codes of a sparse A, all at host addresses (`numerics.ir.sparse`); it finds codes of metadata not legal."""
    return _EXPAND, expander_address(fmt, grouped), 0, codes, 0, metadata, expanded, shifts, rows, chunks, *strides


def forget(metadata: int, chunks: int, ready: Prepared) -> tuple[int, ...]:
    """The row that marks the elements of a prepared A that are not stored."""
    return _FORGET, forgetter_address(ready.fmt, ready.wide), 0, metadata, 0, ready.address, ready.rows, chunks, ready.padded


def prepare(function: int, codes: int, over_rows: int, over_k: int, ready: Prepared, flip: int) -> tuple[int, ...]:
    """The row that prepares codes at a host address, with these strides; ``function``: where the address of the function is."""
    rows, k = ready.rows, ready.k
    lines = (over_k, over_rows, k, rows) if ready.role == "a" else (over_rows, over_k, rows, k)
    return _PREPARE, function, 0, codes, 0, ready.address, *lines, ready.padded, flip


def prepare_groups(function: int, codes: int, scales: int, count: int, ready: Prepared, negate: bool) -> tuple[int, ...]:
    """The row that prepares codes and scales of groups, contiguous at host addresses; ``count``: scales of a row."""
    sizes = ready.rows, ready.k, ready.groups, ready.groups // count, ready.padded
    return _PREPARE_GROUPS, function, 0, codes, 0, scales, *sizes, ready.address, int(negate)


def scale_rows(scales: int, ready: Prepared) -> tuple[int, ...]:
    """The row that gives each row of a prepared operand one of the scales at a host address."""
    return _SCALE_ROWS, row_scaler_address(), 0, scales, 0, ready.address, ready.rows, ready.padded if ready.role == "a" else ready.rows


def multiply(function: int, base: int, offset: int, stride: int, a: Prepared, b: Prepared, option: int) -> tuple[int, ...]:
    """The row that multiplies prepared operands into cells, of which a line has those of all padded rows of A.

    ``function``: where the address of the function is.
    """
    return _MULTIPLY, function, base, offset, 0, a.address, stride, a.padded, b.rows, a.k, b.address, option | a.groups << 32


@cache
def mma_program_function() -> Any:
    """The compiled function that runs programs."""
    return _library().function("run", ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)


@cache
def _library() -> native.Library:
    return native.compile_or_load(("mma program",), ("run", "repeat", "ask"), _program_ir, opt=0)


def _program_ir() -> str:
    """``i64 run(program, bases, keep, scale)``: 0 if no row has found anything.

    ``void repeat(bases, words)`` is given all but the bases as int64 words. ``i64 ask(program, bases)`` runs a program without products.

    The first row of a program has the address of the lock and the number of the other rows. The words of these are the kind, the address
    of a function, base and offset of two places in memory, and what else the function takes. Of functions that are optimised later, the
    row has the address of the word that holds their address.
    """
    module = native.Module()
    code = native.Function(module, "run", "i64", "ptr program, ptr bases, i32 keep, i32 scale")
    program, keep, scale = code["program"], code["keep"].to("i64"), code["scale"].to("i64")
    lock = program.pointer(0)
    with code.loop_while(lambda: lock.exchange(code.const("i64", 1)).ne(0)):
        pass
    result = code.variable("i64", 0)
    with code.loop(program.word(1)) as number:
        row = program.at((number + 1) * (8 * _WORDS))
        function = row.pointer(1)
        words = [row.word(index) for index in range(_WORDS)]
        first, second = ((code["bases"].load("i64", words[at]) + words[at + 1]).convert("inttoptr", "ptr") for at in (2, 4))
        arguments = {
            _MOVE: (first, row.pointer(6), second, row.pointer(7), words[8]),
            _UNPACK: (first, second, words[6]),
            _EXPAND: (first, second, row.pointer(6), row.pointer(7), *words[8:12]),
            _FORGET: (first, second, *words[6:9]),
            _PREPARE: (first, *words[6:11], second, words[11].to("i32")),
            _PREPARE_GROUPS: (first, second, *words[6:11], row.pointer(11), words[12].to("i32")),
            _SCALE_ROWS: (first, second, *words[6:8]),
            _MULTIPLY: (first, *words[6:10], second, row.pointer(10), keep, words[11], (words[11] >> 32) | scale),
        }
        labels, done = {kind: code.label() for kind in arguments}, code.label("done")
        code.switch(words[0], labels, done)
        for kind, label in labels.items():
            code.begin(label)
            if kind == _EXPAND:
                result.set(result.get() | code.call(function, "i64", *arguments[kind]))
            else:
                code.call(function if kind in _DIRECT else function.load("ptr"), "void", *arguments[kind])
            code.jump(done)
        code.begin(done)
    lock.release()
    code.ret(result.get())
    code, (bases, given) = module.define("void repeat(ptr bases, ptr words)")
    code.call("run", "i64", given.pointer(0), bases, *(given.word(index).to("i32") for index in (1, 2)))
    code, (program, bases) = module.define("i64 ask(ptr program, ptr bases)")
    zero = code.const("i32", 0)
    code.ret(code.call("run", "i64", program, bases, zero, zero))
    return module.finish()
