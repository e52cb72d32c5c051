"""Tensor memory, registers and grids: what an instruction takes from others, or leaves to them."""

from __future__ import annotations

from ptxlab._records import dataclass
from ptxlab.isa.effects._effect import Effect, Supply

__all__ = [
    "Alloc",
    "AllocPermitRelease",
    "Dealloc",
    "GridLaunch",
    "GridWait",
    "RegisterPool",
]


@dataclass(frozen=True, slots=True)
class Alloc(Effect):
    """Allocates columns of tensor memory, waits until they are free, and writes their address to shared memory."""

    pair: bool

    @property
    def supplies(self) -> Supply:
        return Supply.PAIR_ALLOCATION


@dataclass(frozen=True, slots=True)
class Dealloc(Effect):
    """Frees columns of tensor memory."""

    pair: bool

    @property
    def supplies(self) -> Supply:
        return Supply.COLUMNS


@dataclass(frozen=True, slots=True)
class AllocPermitRelease(Effect):
    """Gives up the right of the CTA to allocate columns."""


@dataclass(frozen=True, slots=True)
class GridWait(Effect):
    """griddepcontrol.wait: the grid before is complete, and visible."""


@dataclass(frozen=True, slots=True)
class GridLaunch(Effect):
    """griddepcontrol.launch_dependents: the dependent grid may start."""


@dataclass(frozen=True, slots=True)
class RegisterPool(Effect):
    """setmaxnreg: takes registers from the CTA's pool, or gives them back (``gives``)."""

    gives: bool

    def fault(self, wanted: int, held: int) -> tuple[str, str] | None:
        """What is wrong with a count of registers in a warp that has so many, and how it is fixed.

        >>> RegisterPool(gives=True).fault(40, 128)
        >>> RegisterPool(gives=False).fault(40, 128)
        ('setmaxnreg.inc to 40 registers, but the warp has 128', 'use setmaxnreg.dec')
        """
        if self.gives and wanted > held:
            return f"setmaxnreg.dec to {wanted} registers, but the warp has {held}", "use setmaxnreg.inc, or launch with more registers"
        if not self.gives and wanted < held:
            return f"setmaxnreg.inc to {wanted} registers, but the warp has {held}", "use setmaxnreg.dec"
        return None

    @property
    def supplies(self) -> Supply:
        return Supply.REGISTERS if self.gives else Supply.NOTHING
