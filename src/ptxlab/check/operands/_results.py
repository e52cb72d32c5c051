"""Results that threads store to global memory as tcgen05.ld has loaded them: whether they are stored with the shape of the load.

What each lane holds depends on the shape of the load. An element of D is known by its cell in tensor memory, and by the address at which
it is stored: in a matrix its lane and its column stand apart. If they do not, but would with another shape of as many registers, the
program stores what another shape would have loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._report import Reporter
from ptxlab.engine.context import NO_SOURCE
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.layout import Fragment, fragment
from ptxlab.tables import LOAD_REGISTERS

if TYPE_CHECKING:
    from ptxlab.isa.tiles import MatrixProduct
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["ResultCheck"]

_WORD = 4
"""Bytes."""
_NONE = NO_SOURCE + 16
"""Lanes that have not stored have no address: at most this with what is added for a register."""
_LANES = 32
_HALVES = "16x32bx2"
Numbers = NDArray[np.int64]


class _Executed(NamedTuple):
    """An instruction that has been executed."""

    op: Op


class ResultCheck:
    """One for each launch."""

    def __init__(self, launch: Launch, reporter: Reporter) -> None:
        self._program = launch.program
        self._reporter = reporter
        self._columns: dict[int, set[int]] = {}
        """Of each CTA the columns of tensor memory that hold elements of D."""
        self._stores: dict[int, list[int]] = {}
        """By the index of a load the stores of what it loads."""
        for store, words in self._program.loaded.results.items():
            self._stores.setdefault(words[0].load, []).append(store)
        rows = self._program.loaded.rows
        self._places = {
            load: np.concatenate([rows[store] // 8 + np.arange(_LANES) for store in stores]) for load, stores in self._stores.items()
        }
        self._seen: set[tuple[int, bytes]] = set()
        self.needed = bool(self._stores)
        """Whether there are such stores."""

    def multiplied(self, product: MatrixProduct) -> None:
        """D stands in some columns."""
        if product.columns:
            for cta in product.ctas:
                self._columns.setdefault(id(cta), set()).update(range(product.column, product.column + product.columns))

    def exited(self, warp: Warp) -> None:
        """Look at what a warp has stored last."""
        frame = warp.rows.reshape(-1).view(np.int64)
        for load, stores in self._stores.items():
            native = self._program.natives[load]
            noted = frame.take(self._places[load])
            # Other tiles are stored alike, at other addresses.
            key = load, (noted - noted[0]).tobytes()
            if key not in self._seen and isinstance(native, TensorAccess) and not self._reporter.has(load, "shape"):
                self._seen.add(key)
                self._compare(warp, self._program.ops[load], native, frame, stores)

    def _compare(self, warp: Warp, load: Op, native: TensorAccess, frame: Numbers, stores: list[int]) -> None:
        loaded = self._program.loaded
        address = self._row(frame, load.index).item(0)
        own = fragment(native.shape, native.repeat, False, _split(load, native))
        columns = self._columns.get(id(warp.cta), set())
        if not columns.issuperset(range(address & 0xFFFF, (address & 0xFFFF) + int(own.column.max()) + 1)):
            return
        registers = np.concatenate([[word.byte // _WORD for word in loaded.results[store]] for store in stores])
        addresses = np.concatenate([self._addresses(frame, store) for store in stores], axis=1)
        known = addresses > _NONE
        if not known.any():
            return
        array = self._reporter.array_at(int(addresses[known].min()))
        if array is None or array.itemsize != _WORD or not array.holds(int(addresses[known].max())):
            return
        places, held = array.locate(addresses.reshape(-1))
        known &= held.reshape(known.shape)
        where = places.reshape(*known.shape, -1)
        if _is_matrix(own, registers, where, known):
            return
        wanted = next((shape for shape, cells in _others(native) if _is_matrix(cells, registers, where, known)), None)
        if wanted is None or not self._reporter.first(load.index, "shape"):
            return
        lane, register = (int(i) for i in np.argwhere(known)[-1])
        cell = f"lane {own.lane[lane, registers[register]]}, column {own.column[lane, registers[register]]}"
        self._reporter.add(
            "O109",
            f"what is loaded as .{native.shape} is stored as if it had been loaded as {wanted}: "
            f"{array.element(where[lane, register].tolist())} is {cell}, counted from the address",
            _Executed(load),
            warp.cta,
            fix=f"load with {wanted}, or store each register where its lane and column of .{native.shape} belong",
            details=[("stored by", self._reporter.line(self._program.ops[stores[0]]))],
        )

    def _addresses(self, frame: Numbers, store: int) -> Numbers:
        """Where the lanes have stored each register, ``[lane, register]``."""
        return self._row(frame, store)[:, None] + _WORD * np.arange(len(self._program.loaded.results[store]))

    def _row(self, frame: Numbers, index: int) -> Numbers:
        first = self._program.loaded.rows[index] // 8
        return frame[first : first + _LANES]


def _split(op: Op, native: TensorAccess) -> int:
    """The columns from the first to the second half of the lanes."""
    operand = op.operands[native.split] if native.split >= 0 else None
    return operand.value if isinstance(operand, Const) else 0


def _others(native: TensorAccess) -> list[tuple[str, Fragment]]:
    """The other shapes with as many registers."""
    count = LOAD_REGISTERS.get((native.shape, native.repeat))
    return [
        (f".{shape}.x{repeat}", fragment(shape, repeat))
        for (shape, repeat), registers in LOAD_REGISTERS.items()
        if registers == count and shape not in (native.shape, _HALVES)
    ]


def _is_matrix(cells: Fragment, registers: Numbers, where: Numbers, known: NDArray[np.bool_]) -> bool:
    """Whether lanes and columns of tensor memory advance in different dimensions of an array, ``where`` they are stored."""
    lane, column = (each[:, registers][known] for each in (cells.lane, cells.column))
    found = where[known]
    along = [_advancing(found, same, other) for same, other in ((column, lane), (lane, column))]
    return along[0].isdisjoint(along[1])


def _advancing(found: Numbers, same: Numbers, other: Numbers) -> frozenset[int]:
    """The dimensions in which elements of equal ``same`` differ."""
    order = np.lexsort((other, same))
    moved = np.diff(found[order], axis=0)[np.diff(same[order]) == 0]
    return frozenset(np.flatnonzero((moved != 0).any(axis=0)).tolist())
