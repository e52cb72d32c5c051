"""The compiled steps of one mma instruction, performed by one call of compiled code.

A program is a table of int64 rows, one for each step: gather and prepare an operand, multiply prepared operands, write accumulator cells.
A memory location is a base and an offset. Each call passes the host addresses of the bases; base 0 is 0, so that its offsets are host
addresses. An `MmaKernel` looks up and checks types and sizes once, and makes programs for them.

Compiled code of a kernel runs programs, too, without the interpreter's lock. All programs work in the same buffers: a lock in memory lets
one run at a time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.native import address_of
from ptxlab.numerics._prepared import Prepared, check_options
from ptxlab.numerics._steps import find_step, is_wide
from ptxlab.numerics.ir.kernels import multiplier_address, preparer_address
from ptxlab.numerics.ir.prepare import SIGN

__all__ = [
    "AccumulatorRef",
    "MmaKernel",
    "MmaProgram",
    "OperandGather",
    "mma_kernel",
    "mma_program_function",
    "move",
    "move_program",
    "multiply",
    "prepare",
]

_WORDS = 12
_MOVE, _PREPARE, _MULTIPLY = range(3)
_FUNCTIONS = ("multiply", "a", "b")
QUICK_RUNS = 512
"""Programs of a kernel run so often before its functions are optimised."""
_LOCK: NDArray[np.int64] = np.zeros(1, np.int64)
"""1 while a program runs."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _LOCK.fill(0))  # another thread of the parent process may hold it


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
    """The rows of a program, and the objects that they point to, which must stay alive. `MmaKernel.program` and `move_program` make it."""

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


def move(unit: int, source: tuple[int, int, NDArray[np.int64]], target: tuple[int, int, NDArray[np.int64]]) -> tuple[int, ...]:
    """The row that moves units of bytes; either side is a base, an offset and the order of the units there."""
    (base, offset, order), (to_base, to_offset, to_order) = source, target
    return _MOVE, native.move_address(unit), base, offset, to_base, to_offset, address_of(order), address_of(to_order), order.size


def move_program(unit: int, moves: Iterable[tuple[tuple[int, NDArray[np.int64]], tuple[int, NDArray[np.int64]]]]) -> MmaProgram:
    """A program that moves units of bytes: each move from a base and the order of the units there to another one."""
    moves = tuple(moves)
    rows = [move(unit, (base, 0, order), (to_base, 0, to_order)) for (base, order), (to_base, to_order) in moves]
    return MmaProgram(None, rows, moves)


def prepare(function: int, codes: int, source: OperandGather, ready: Any, flip: int) -> tuple[int, ...]:
    """The row that prepares gathered codes at the host address ``codes``; ``function``: where the address of the function is."""
    over_rows, over_k, rows, k = source.over_rows, source.over_k, ready.rows, ready.k
    lines = (over_k, over_rows, k, rows) if ready.role == "a" else (over_rows, over_k, rows, k)
    return _PREPARE, function, 0, codes + source.first * over_rows, 0, ready.address, *lines, ready.padded, flip


def multiply(function: int, base: int, offset: int, stride: int, a: Any, b: Any, option: int) -> tuple[int, ...]:
    """The row that multiplies prepared operands into cells, of which a line has those of all padded rows of A.

    ``function``: where the address of the function is.
    """
    return _MULTIPLY, function, base, offset, 0, a.address, stride, a.padded, b.rows, a.k, b.address, option | a.groups << 32


@cache
def mma_program_function() -> Any:
    """The compiled function that runs programs."""
    return _library().function("run", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)


@cache
def _library() -> native.Library:
    return native.compile_or_load(("mma program",), ("run", "repeat"), _program_ir, opt=0)


def _program_ir() -> str:
    """``void run(program, bases, keep, scale)``, and ``void repeat(bases, words)``, which is given all but the bases as int64 words.

    The first row of a program has the address of the lock and the number of the other rows. The words of these are the kind, the address
    of a function, base and offset of two places in memory, and what else the function takes. Of functions that prepare and multiply, the
    row has the address of the word that holds their address.
    """
    module = native.Module()
    code = native.Function(module, "run", "void", "ptr program, ptr bases, i32 keep, i32 scale")
    program, keep, scale = code["program"], code["keep"].to("i64"), code["scale"].to("i64")
    lock = program.pointer(0)
    with code.loop_while(lambda: lock.exchange(code.const("i64", 1)).ne(0)):
        pass
    with code.loop(program.word(1)) as number:
        row = program.at((number + 1) * (8 * _WORDS))
        function = row.pointer(1)
        words = [row.word(index) for index in range(_WORDS)]
        first, second = ((code["bases"].load("i64", words[at]) + words[at + 1]).convert("inttoptr", "ptr") for at in (2, 4))
        arguments = {
            _MOVE: (first, row.pointer(6), second, row.pointer(7), words[8]),
            _PREPARE: (first, *words[6:11], second, words[11].to("i32")),
            _MULTIPLY: (first, *words[6:10], second, row.pointer(10), keep, words[11], (words[11] >> 32) | scale),
        }
        labels, done = {kind: code.label() for kind in arguments}, code.label("done")
        code.switch(words[0], labels, done)
        for kind, label in labels.items():
            code.begin(label)
            code.call(function if kind == _MOVE else function.load("ptr"), "void", *arguments[kind])
            code.jump(done)
        code.begin(done)
    lock.release()
    code, (bases, given) = module.define("void repeat(ptr bases, ptr words)")
    code.call("run", "void", given.pointer(0), bases, *(given.word(index).to("i32") for index in (1, 2)))
    return module.text()


_CELL_UNIT = 64
"""Bytes of a unit of 16 consecutive cells in an accumulator with an ``order``."""


class MmaKernel:
    """Makes programs for given types and sizes. They share scratch buffers, because only one runs at a time. `mma_kernel` makes it.

    Its functions are compiled without optimisation at first, and optimised when its programs have run often.

    Attributes
    ----------
    quick_runs : how often programs may still run before the functions are optimised; 0 if they are
    """

    __slots__ = ("_flips", "_formats", "_functions", "_option", "_prepared", "_scratch", "_step", "k", "m", "n", "quick_runs", "wide")

    def __init__(
        self, kind: str | None, types: tuple[str, str, str], m: int, n: int, k: int, negate: tuple[bool, bool], saturate: bool, sparse: bool
    ) -> None:
        d, a, b = types
        step = find_step("wgmma" if kind is None else "tcgen05", kind, a, b, d, k // 2 if sparse else k)
        check_options(step, saturate, any(negate), 0)
        self.m, self.n, self.k, self.wide = m, n, k, is_wide(a, b)
        self._formats = {"a": a, "b": b}
        self._step = step
        self._functions = np.zeros(len(_FUNCTIONS), np.int64)
        self.quick_runs = QUICK_RUNS
        self._flips = {role: SIGN if flip else 0 for role, flip in zip("ab", negate, strict=True)}
        self._option = int(saturate)
        self._prepared: dict[tuple[str, int], Prepared] = {}
        self._scratch: dict[int, NDArray[np.uint8]] = {}

    def count_run(self) -> None:
        """Count a run of a program, and optimise the functions of all programs if there were many."""
        self.quick_runs = max(self.quick_runs - 1, 0)
        if not self.quick_runs:
            for index in np.flatnonzero(self._functions):
                self._functions[index] = self._function(_FUNCTIONS[index])

    def _function(self, name: str) -> int:
        """The host address of a function."""
        quick = self.quick_runs > 0
        if name == "multiply":
            return multiplier_address(self._step, self.wide, quick)
        return preparer_address(self._formats[name], self.wide, name, quick)

    def _place(self, name: str) -> int:
        """The address of the word that holds the address of a function."""
        index = _FUNCTIONS.index(name)
        if not self._functions[index]:
            self._functions[index] = self._function(name)
        return address_of(self._functions) + 8 * index

    def _scratch_of(self, size: int) -> NDArray[np.uint8]:
        """The scratch buffer of ``size`` bytes."""
        found = self._scratch.get(size)
        if found is None:
            found = self._scratch[size] = np.zeros(size, np.uint8)
        return found

    def _buffer(self, role: str, number: int) -> Prepared:
        """The scratch buffer of a program's prepared operand."""
        found = self._prepared.get((role, number))
        if found is None:
            found = Prepared(self._formats[role], role, self.m if role == "a" else self.n, self.k, self.wide)
            self._prepared[role, number] = found
        return found

    def program(self, units: Iterable[tuple[OperandGather | Prepared, OperandGather | Prepared, AccumulatorRef]]) -> MmaProgram:
        """Make a program: each unit adds the product of an operand A [m, k] and an operand B [n, k] to its cells.

        Operands that are given by where their codes are, in the dtypes of their types, are gathered and prepared whenever the program
        runs, those in several units once. The cells are those of `mma_prepared`.
        """
        units = tuple(units)
        rows: list[tuple[int, ...]] = []
        ready: dict[int, Prepared] = {}
        orders: list[NDArray[np.int64]] = []
        for role, operands in (("a", [a for a, _, _ in units]), ("b", [b for _, b, _ in units])):
            gathered: tuple[int, int, int] | None = None
            distinct = {id(operand): operand for operand in operands}
            for number, (key, operand) in enumerate(distinct.items()):
                if isinstance(operand, Prepared):
                    ready[key] = operand
                    continue
                scratch = self._scratch_of(operand.order.size * operand.unit)
                matrix = operand.base, operand.offset, id(operand.order)
                if matrix != gathered:
                    orders += operand.order, _counted(operand.order.size)
                    source, target = (operand.base, operand.offset, operand.order), (0, address_of(scratch), orders[-1])
                    rows.append(move(operand.unit, source, target))
                    gathered = matrix
                ready[key] = self._buffer(role, number)
                rows.append(prepare(self._place(role), address_of(scratch), operand, ready[key], self._flips[role]))
        for a, b, cells in units:
            left, right = ready[id(a)], ready[id(b)]
            if cells.order is None:
                rows.append(multiply(self._place("multiply"), cells.base, cells.offset, cells.stride, left, right, self._option))
                continue
            scratch = self._scratch_of(4 * left.padded * self.n)
            orders.append(_lines(self.n, self.m // 16, left.padded // 16))
            apart, together = (cells.base, cells.offset, cells.order), (0, address_of(scratch), orders[-1])
            rows.append(move(_CELL_UNIT, apart, together))
            rows.append(multiply(self._place("multiply"), 0, address_of(scratch), 4 * left.padded, left, right, self._option))
            rows.append(move(_CELL_UNIT, together, apart))
        return MmaProgram(self, rows, units, orders)


@lru_cache(maxsize=256)
def _counted(size: int) -> NDArray[np.int64]:
    return np.arange(size)


@lru_cache(maxsize=256)
def _lines(count: int, length: int, stride: int) -> NDArray[np.int64]:
    """The first ``length`` units of lines of ``stride`` units."""
    return (np.arange(count)[:, None] * stride + np.arange(length)).reshape(-1)


@lru_cache(maxsize=256)
def mma_kernel(
    kind: str | None,
    types: tuple[str, str, str],
    m: int,
    n: int,
    k: int,
    negate: tuple[bool, bool] = (False, False),
    saturate: bool = False,
    sparse: bool = False,
) -> MmaKernel:
    """A step of tcgen05.mma or of wgmma.mma_async.

    Parameters
    ----------
    kind : the kind of tcgen05.mma; None for wgmma
    saturate : as for `mma`
    types : of D, A and B
    m, n, k : A is [m, k], B is [n, k]; m is a multiple of 16
    negate : whether the signs of A and of B are flipped
    sparse : whether A stores half of its elements, and comes prepared

    Examples
    --------
    >>> import numpy as np
    >>> from ptxlab.native import address_of
    >>> kernel = mma_kernel("f16", ("f32", "f16", "f16"), 64, 8, 16)
    >>> a, b, d = np.full((64, 16), 0x3C00, np.uint16), np.full((8, 16), 0x4000, np.uint16), np.zeros((8, 64), np.uint32)
    >>> left, right = (OperandGather(base, 0, np.arange(2 * len(x)), 16, 32, 2) for base, x in ((1, a), (2, b)))
    >>> bases = np.array([0, *map(address_of, (a, b, d))])
    >>> kernel.program([(left, right, AccumulatorRef(3, 0, 256))]).run(address_of(bases), True, 0)
    >>> float(d.view(np.float32)[0, 0])
    32.0
    """
    return MmaKernel(kind, types, m, n, k, negate, saturate, sparse)
