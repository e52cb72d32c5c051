"""Whether tcgen05.mma that write the same cells have the same accumulator and shape, as a pipeline of the letter must."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Shadow
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, CONCURRENT, HOW_SHIFT
from ptxlab.isa.context import MemoryAccess
from ptxlab.isa.operands import Op

__all__ = ["Accumulators"]

_UNIT = 64
"""Bytes of the 16 lanes of a column that accumulators consist of."""
_ROWS_AND_COLUMNS = 0x1F7E_0000
"""M and N in an instruction descriptor of any kind."""
_SLOT = (1 << CLUSTER_SHIFT) - 1
_WRITE = (Kind.MMA << 1 | 1) << HOW_SHIFT


class Accumulators:
    """The accumulator that each cell belongs to, and who wrote it last."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._names: dict[tuple[Any, ...], int] = {}
        self._held: dict[int, NDArray[np.uint64]] = {}

    def name(self, warp: Any, op: Op, variant: str, lane: int) -> int:
        """A number for the accumulator, the shape and the variant of an instruction that the warp executes."""
        at = {name: i for i, (name, _) in enumerate(op.row.operands)}
        address = warp.lane_value(op.operands[at["d-tmem"]], 32, lane)
        shape = warp.lane_value(op.operands[at["idesc"]], 32, lane) & _ROWS_AND_COLUMNS
        return self._names.setdefault((address, shape, variant), len(self._names) + 1)

    def write(self, access: MemoryAccess, name: int, who: int, op: Op, rows: NDArray[np.uint32]) -> NDArray[np.uint64] | None:
        """Note that ``who`` writes cells; an incomplete write of another accumulator there, as a row of suspects."""
        suspect, places = None, _places(access)
        while len(places):
            found = self._shadow.find(int(places[0]))
            assert found is not None
            inside = (places >= found.start) & (places < found.start + found.data.nbytes)
            units = (places[inside] - found.start) // _UNIT
            places = places[~inside]
            held = self._held.setdefault(id(found), np.zeros((found.data.nbytes // _UNIT, 3), np.uint64))
            for unit in units[(held[units, 0] != 0) & (held[units, 0] != name)].tolist():
                _, whose, what = held[unit].tolist()
                slot, clock = whose >> 32, whose & 0xFFFFFFFF
                if slot >> CLUSTER_SHIFT == who >> 32 >> CLUSTER_SHIFT and rows[Row.TENSOR, (slot & _SLOT) + Component.DONE] < clock:
                    mask = 0xFFFF << unit % 2 * 16 << 24
                    place = found.start + (unit // 2 << TENSOR_GRANULE[0])
                    suspect = np.array([[whose, what | mask | _WRITE, who, op.index | mask | _WRITE, place, CONCURRENT]], np.uint64)
                    break
            held[units] = name, who, op.index
        return suspect


def _places(access: MemoryAccess) -> NDArray[np.int64]:
    """The host address of each unit."""
    counts = -(-np.broadcast_to(access.sizes, access.starts.shape).astype(np.int64) // _UNIT)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places: NDArray[np.int64] = np.repeat(access.starts.astype(np.int64), counts) + _UNIT * within
    return places
