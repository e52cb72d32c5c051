"""The state of mbarrier objects in memory: a row of numbers for each, which the machine and compiled code read and write.

The rows of a CTA stand behind its shared memory, one for each word of it: so all CTAs of a cluster find those of each other.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxlab.native.builder import Value

__all__ = ["ROW_BYTES", "ROW_CELLS", "Cell", "is_complete", "row_address"]

ROW_CELLS = 8
ROW_BYTES = 4 * ROW_CELLS


@unique
class Cell(IntEnum):
    """Index of a 32-bit number of a row."""

    PHASES = 0
    """the completed phases and one more; 0 where there is no object"""
    PENDING = 1
    """the arrivals that are pending in the current phase"""
    EXPECTED = 2
    """the arrivals that a phase expects"""
    TRANSACTIONS = 3
    """the transaction count"""
    AWAITED = 4
    """whether lanes may wait for the object that the scheduler has blocked, and which it must continue when a phase completes"""
    WAITERS = 6
    """with the next cell the address of the context of the first warp that compiled code has blocked for a phase, in the order in which
    it has (`Word.NEXT_WAITER`); 0 if there is none. Lanes that the scheduler has blocked have come before these."""


def is_complete(after: Value, phase: Value, parity: Value) -> Value:
    """Whether a phase is complete, by `Cell.PHASES` of the object as i64; ``parity``: it is named by its parity, not by a state."""
    return parity.select(((after ^ phase) & 1).eq(0), after.ugt((phase >> 20) + 1))


def row_address(shared: Value, size: Value, offset: Value) -> Value:
    """The address of the row of an mbarrier object at an offset of a CTA's shared memory, which has ``size`` bytes."""
    return shared.at(size + offset * (ROW_BYTES // 8))
