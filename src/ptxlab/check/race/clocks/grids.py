"""Chained launches: what a dependent grid may touch before griddepcontrol.wait.

ptxlab runs one launch after the other. A GPU may start a grid whose kernel executes griddepcontrol.wait as soon as all CTAs of the one
before have executed griddepcontrol.launch_dependents, or exited; only the wait orders the other grid before what follows, and makes its
writes visible. So the accesses of a launch are kept, as those of slot 0 of cluster 0, for the next launch on the same device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.shadow.shadow import Object
from ptxlab.check.race.shadow.shadow_ir import BEFORE, CLUSTER_SHIFT
from ptxlab.isa.effects import GridLaunch
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["GridBefore"]

_WHO = (BEFORE << CLUSTER_SHIFT) << 32 | 1
"""Slot 0, clock 1."""


@dataclass(frozen=True, slots=True)
class GridBefore:
    """A grid that lets its dependents start before it is complete: its instructions, and what it did to memory that is still there."""

    kernel: str
    ops: list[Op]
    cells: dict[Any, NDArray[np.uint64]]

    @classmethod
    def of(cls, launch: Launch, memory: Iterable[Object]) -> GridBefore | None:
        """What a complete launch leaves behind, if dependents can start early."""
        if not any(isinstance(op.effects, GridLaunch) for op in launch.program.ops):
            return None
        return cls(launch.program.name, launch.program.ops, {made.owner: made.cells for made in memory})

    def seed(self, made: Object) -> None:
        """Start the cells of watched memory with the grid's accesses."""
        cells = self.cells.get(made.owner)
        if cells is not None:
            made.cells[...] = _alike(cells)


def _alike(cells: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The entries of the launch itself, in front, as those of one agent."""
    cells = cells.copy()
    cells[cells[..., 0] >> np.uint64(32 + CLUSTER_SHIFT) == BEFORE] = 0
    cells[..., 0] = np.where(cells[..., 1] != 0, _WHO, 0)
    order = np.argsort(cells[..., 1] == 0, axis=1, kind="stable")
    return np.take_along_axis(cells, order[..., None], axis=1)
