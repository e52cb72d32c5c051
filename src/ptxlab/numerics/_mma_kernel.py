"""The multiplication of tcgen05.mma for given types and sizes, looked up and checked once and then used many times."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.native import address_of
from ptxlab.numerics._mma_program import AccumulatorRef, MmaProgram, OperandGather, move, multiply, prepare
from ptxlab.numerics._prepared import Prepared, check_options
from ptxlab.numerics._steps import find_step, is_wide
from ptxlab.numerics.ir.kernels import multiplier_address, preparer_address
from ptxlab.numerics.ir.prepare import SIGN

__all__ = ["MmaKernel", "mma_kernel"]

_CELL_UNIT = 64
"""Bytes of a unit of 16 consecutive cells in an accumulator with an ``order``."""


class MmaKernel:
    """Makes programs for given types and sizes. They share scratch buffers, because only one runs at a time. `mma_kernel` makes it."""

    __slots__ = ("_flips", "_formats", "_multiply", "_option", "_prepared", "_scratch", "k", "m", "n", "wide")

    def __init__(
        self, kind: str, types: tuple[str, str, str], m: int, n: int, k: int, negate: tuple[bool, bool], saturate: bool, sparse: bool
    ) -> None:
        d, a, b = types
        step = find_step("tcgen05", kind, a, b, d, k // 2 if sparse else k)
        check_options(step, saturate, any(negate), 0)
        self.m, self.n, self.k, self.wide = m, n, k, is_wide(a, b)
        self._formats = {"a": a, "b": b}
        self._multiply = multiplier_address(step, self.wide)
        self._flips = {role: SIGN if flip else 0 for role, flip in zip("ab", negate, strict=True)}
        self._option = int(saturate)
        self._prepared: dict[tuple[str, int], Prepared] = {}
        self._scratch: dict[int, NDArray[np.uint8]] = {}

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
                function = preparer_address(self._formats[role], self.wide, role)
                rows.append(prepare(function, address_of(scratch), operand, ready[key], self._flips[role]))
        for a, b, cells in units:
            left, right = ready[id(a)], ready[id(b)]
            if cells.order is None:
                rows.append(multiply(self._multiply, cells.base, cells.offset, cells.stride, left, right, self._option))
                continue
            scratch = self._scratch_of(4 * left.padded * self.n)
            orders.append(_lines(self.n, self.m // 16, left.padded // 16))
            apart, together = (cells.base, cells.offset, cells.order), (0, address_of(scratch), orders[-1])
            rows.append(move(_CELL_UNIT, apart, together))
            rows.append(multiply(self._multiply, 0, address_of(scratch), 4 * left.padded, left, right, self._option))
            rows.append(move(_CELL_UNIT, together, apart))
        return MmaProgram(rows, self, units, orders)


@lru_cache(maxsize=256)
def _counted(size: int) -> NDArray[np.int64]:
    return np.arange(size)


@lru_cache(maxsize=256)
def _lines(count: int, length: int, stride: int) -> NDArray[np.int64]:
    """The first ``length`` units of lines of ``stride`` units."""
    return (np.arange(count)[:, None] * stride + np.arange(length)).reshape(-1)


@lru_cache(maxsize=256)
def mma_kernel(
    kind: str,
    types: tuple[str, str, str],
    m: int,
    n: int,
    k: int,
    negate: tuple[bool, bool] = (False, False),
    saturate: bool = False,
    sparse: bool = False,
) -> MmaKernel:
    """A step of tcgen05.mma.

    Parameters
    ----------
    kind, saturate : as for `mma`
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
