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
from ptxlab.engine.program import SOURCE_ROW
from ptxlab.engine.word_sources import FIRST_CELL, HALVES_SHIFT, LOADED_BYTE_SHIFT, NO_SOURCE
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.layout import Fragment, fragment
from ptxlab.tables import LOAD_REGISTERS

if TYPE_CHECKING:
    from ptxlab.isa.context import Cta
    from ptxlab.isa.operations.matrices import MatrixProduct
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
        self._columns: dict[int, set[tuple[int, int]]] = {}
        """Of each CTA the columns of tensor memory that hold elements of D: the first column of a product, and how many."""
        self._stores: dict[int, list[int]] = {}
        """By the index of a load the stores of what it loads."""
        loaded = self._program.loaded
        loads = {store: words[0].load for store, words in loaded.results.items()}
        for store, load in (*loads.items(), *((store, result.load) for store, result in loaded.moved_results.items())):
            self._stores.setdefault(load, []).append(store)
        self._places = {load: self._rows([loaded.rows[store] for store in stores]) for load, stores in self._stores.items()}
        self._moved_places = {
            load: self._rows([row for store in stores for row in self._moved_rows(store)]) for load, stores in self._stores.items()
        }
        self._seen: set[tuple[int, bytes, bytes]] = set()
        self.needed = bool(self._stores)
        """Whether there are such stores."""

    def multiplied(self, product: MatrixProduct) -> None:
        """D stands in some columns."""
        if product.columns:
            for cta in product.ctas:
                self._columns.setdefault(id(cta), set()).add((product.column, product.columns))

    def ended(self, cta: Cta) -> None:
        """A CTA has exited."""
        self._columns.pop(id(cta), None)

    def exited(self, warp: Warp) -> None:
        """Look at what a warp has stored last."""
        frame = warp.rows.reshape(-1).view(np.int64)
        for load, stores in self._stores.items():
            native = self._program.natives[load]
            noted = frame.take(self._places[load])
            # Other tiles are stored alike, at other addresses.
            key = load, (noted - noted[0]).tobytes(), frame.take(self._moved_places[load]).tobytes()
            if key not in self._seen and isinstance(native, TensorAccess) and not self._reporter.has(load, "shape"):
                self._seen.add(key)
                self._compare(warp, self._program.ops[load], native, frame, stores)

    def _compare(self, warp: Warp, load: Op, native: TensorAccess, frame: Numbers, stores: list[int]) -> None:
        address = self._row(frame, load.index).item(0) - FIRST_CELL
        own = fragment(native.shape, native.repeat, False, _split(load, native))
        columns = {column for first, count in self._columns.get(id(warp.cta), ()) for column in range(first, first + count)}
        if not columns.issuperset(range(address & 0xFFFF, (address & 0xFFFF) + int(own.column.max()) + 1)):
            return
        found = [self._registers(frame, store, address) for store in stores]
        registers = np.concatenate([each for each, _ in found], axis=1)
        counts = [each.shape[1] for each, _ in found]
        addresses = np.concatenate([self._addresses(frame, *each) for each in zip(stores, counts, strict=True)], axis=1)
        known = (addresses > _NONE) & np.concatenate([held for _, held in found], axis=1)
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
        at = lane, registers[lane, register]
        cell = f"lane {own.lane[at]}, column {own.column[at]}"
        self._reporter.add(
            "O109",
            f"what is loaded as .{native.shape} is stored as if it had been loaded as {wanted}: "
            f"{array.element(where[lane, register].tolist())} is {cell}, counted from the address",
            _Executed(load),
            warp.cta,
            fix=f"load with {wanted}, or store each register where its lane and column of .{native.shape} belong",
            details=[("stored by", self._reporter.line(self._program.ops[stores[0]]))],
        )

    def _registers(self, frame: Numbers, store: int, address: int) -> tuple[Numbers, NDArray[np.bool_]]:
        """Which registers of the load a store has written, ``[lane, register]``, and whether that is known.

        ``address`` is that of the load when it has been executed last.
        """
        words = self._program.loaded.results.get(store)
        if words is not None:
            found = np.broadcast_to([word.byte // _WORD for word in words], (_LANES, len(words)))
            return found, np.ones(found.shape, np.bool_)
        noted = frame.take(self._rows(self._moved_rows(store))).reshape(-1, _LANES).T
        byte, of = noted >> LOADED_BYTE_SHIFT, noted & (1 << LOADED_BYTE_SHIFT) - 1
        known = (noted >> HALVES_SHIFT == 0) & (of == address + FIRST_CELL) & (byte % _WORD == 0)
        return np.where(known, byte // _WORD, 0), known

    def _moved_rows(self, store: int) -> list[int]:
        """The frame offsets of rows that say what a store has written."""
        result = self._program.loaded.moved_results.get(store)
        return [] if result is None else [result.row + SOURCE_ROW * number for number in range(result.registers)]

    @staticmethod
    def _rows(offsets: list[int]) -> NDArray[np.intp]:
        """The places of rows in a frame."""
        return (np.array(offsets, np.intp)[:, None] // 8 + np.arange(_LANES)).reshape(-1)

    def _addresses(self, frame: Numbers, store: int, registers: int) -> Numbers:
        """Where the lanes have stored so many registers, ``[lane, register]``."""
        return self._row(frame, store)[:, None] + _WORD * np.arange(registers)

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
    lane, column = (np.take_along_axis(each, registers, axis=1)[known] for each in (cells.lane, cells.column))
    found = where[known]
    along = [_advancing(found, same, other) for same, other in ((column, lane), (lane, column))]
    return along[0].isdisjoint(along[1])


def _advancing(found: Numbers, same: Numbers, other: Numbers) -> frozenset[int]:
    """The dimensions in which elements of equal ``same`` differ."""
    order = np.lexsort((other, same))
    moved = np.diff(found[order], axis=0)[np.diff(same[order]) == 0]
    return frozenset(np.flatnonzero((moved != 0).any(axis=0)).tolist())
