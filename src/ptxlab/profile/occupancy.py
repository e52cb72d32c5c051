"""How many CTAs an SM holds at once, what limits them, and in how many waves a grid runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ptxlab.machine.launch.configuration import CTAS_PER_SM, REGISTERS_PER_SM, SHARED_PER_SM, THREADS_PER_SM
from ptxlab.tables import TENSOR_MEMORY_COLUMNS

__all__ = ["Assembled", "Occupancy", "occupancy"]

_WARP = 32
_REGISTER_UNIT = 256
"""Registers of a warp are allocated in such units."""
_SHARED_UNIT = 128
_PARTITIONS = 4
"""Of an SM; each has its part of the registers."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """What an assembler says that a thread of the kernel needs.

    Attributes
    ----------
    registers : of 32 bits
    spill_stores, spill_loads : bytes of spilled registers that instructions store and load, each instruction counted once
    stack : bytes of its stack frame
    """

    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How a grid fills a device.

    Attributes
    ----------
    ctas_per_sm : CTAs that an SM holds at once
    limits : how many it could hold if only one resource were limited, by resource; registers only if their number is known
    warps : warps of these CTAs, of the most that an SM holds (``most_warps``)
    sms, ctas : SMs of the device, and CTAs of the grid
    threads, shared_bytes, tensor_columns : of a CTA
    registers : of a thread, None if not known
    """

    ctas_per_sm: int
    limits: dict[str, int]
    warps: int
    most_warps: int
    sms: int
    ctas: int
    threads: int
    shared_bytes: int
    registers: int | None
    tensor_columns: int

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources of which no further CTA finds enough."""
        return tuple(name for name, limit in self.limits.items() if limit == self.ctas_per_sm)

    @property
    def waves(self) -> float:
        """How many times the grid fills the device; infinite if no CTA fits."""
        return self.ctas / (self.ctas_per_sm * self.sms) if self.ctas_per_sm else float("inf")

    @property
    def tail(self) -> int:
        """CTAs in the last wave if it is not full, else 0."""
        return self.ctas % (self.ctas_per_sm * self.sms) if self.ctas_per_sm else self.ctas

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        waves = None if not self.ctas_per_sm else self.waves
        return {**asdict(self), "limiters": list(self.limiters), "waves": waves, "tail": self.tail}


def occupancy(
    threads: int, shared_bytes: int, registers: int | None, sms: int, ctas: int, slots: int = CTAS_PER_SM, tensor_columns: int = 0
) -> Occupancy:
    """Calculate the occupancy.

    Parameters
    ----------
    threads : of a CTA
    shared_bytes : of a CTA, those that the system reserves counted
    registers : of a thread; None if it is not known
    sms : of the device
    ctas : of the grid
    slots : CTAs that an SM holds at most
    tensor_columns : columns of tensor memory that a CTA allocates; further CTAs would wait for them

    Examples
    --------
    >>> found = occupancy(threads=256, shared_bytes=1024 + 48 * 1024, registers=168, sms=132, ctas=300)
    >>> found.ctas_per_sm, found.limiters, found.limits
    (1, ('registers',), {'CTA slots': 32, 'threads': 8, 'shared memory': 4, 'registers': 1})
    >>> round(found.waves, 2), found.tail
    (2.27, 36)
    """
    warps = -(-threads // _WARP)
    shared = max(-(-shared_bytes // _SHARED_UNIT) * _SHARED_UNIT, 1)
    limits = {
        "CTA slots": slots,
        "threads": THREADS_PER_SM // _WARP // warps,
        "shared memory": SHARED_PER_SM // shared,
    }
    if registers:
        unit = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        limits["registers"] = REGISTERS_PER_SM // _PARTITIONS // unit * _PARTITIONS // warps
    if tensor_columns:
        limits["tensor memory"] = TENSOR_MEMORY_COLUMNS // tensor_columns
    fitting = min(limits.values())
    needs = threads, shared_bytes, registers, tensor_columns
    return Occupancy(fitting, limits, fitting * warps, THREADS_PER_SM // _WARP, sms, ctas, *needs)
