"""The roles of the warps of a CTA.

Warps have the same role if they execute the same loops, and the same instructions that start asynchronous operations. In a kernel whose
warps are specialised, one role copies, one multiplies, and one stores; in other kernels a warp that issues for all is a role of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.diagnostics import ranges
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Asynchronous, unit_of

__all__ = ["Role", "roles_of"]


@dataclass(frozen=True, slots=True)
class Role:
    """Warps that do the same work.

    Attributes
    ----------
    warps : their numbers in the CTA
    units : what performs the asynchronous operations that they start: ``TMA``, ``tcgen05``, ``wgmma`` and others
    """

    warps: tuple[int, ...]
    units: tuple[str, ...]

    @property
    def name(self) -> str:
        """``warps 0-3 (TMA)``."""
        which = f"warp{'s' * (len(self.warps) > 1)} {', '.join(ranges(self.warps))}"
        return which + (f" ({', '.join(self.units)})" if self.units else "")


def roles_of(program: Program, executed: NDArray[np.bool_], started: NDArray[np.bool_]) -> tuple[Role, ...]:
    """The roles of warps; a warp that executes nothing has none.

    Parameters
    ----------
    executed : whether a warp has executed an op, ``[warp, op]``
    started : whether it has accessed memory, or started an operation, with one
    """
    asynchronous = np.array([isinstance(op.effects, Asynchronous) for op in program.ops], bool)
    in_loop = np.zeros(len(program.ops), bool)
    for block in program.blocks:
        in_loop[block.start] = block.depth > 0
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for warp in np.flatnonzero(executed.any(axis=1)).tolist():
        found[((executed[warp] & in_loop) | (started[warp] & asynchronous)).tobytes()].append(warp)
    roles = []
    for warps in found.values():
        units = {unit_of(program.ops[index].effects).value: None for index in np.flatnonzero(started[warps[0]] & asynchronous).tolist()}
        roles.append(Role(tuple(warps), tuple(units)))
    return tuple(roles)
