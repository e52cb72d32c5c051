"""Which order each memory and asynchronous instruction needs, written by hand from the PTX ISA."""

from __future__ import annotations

from tests.check.race.order_table import (
    async_proxy,
    barriers,
    copies,
    generic,
    tensor_copies,
    tensor_memory,
    tensor_products,
    warpgroup_products,
)
from tests.check.race.order_table.pair import FRAME, Pair

__all__ = ["FRAME", "NO_ACCESS", "TABLE", "Pair"]

TABLE: tuple[Pair, ...] = (
    *generic.TABLE,
    *barriers.TABLE,
    *copies.TABLE,
    *async_proxy.TABLE,
    *tensor_copies.TABLE,
    *tensor_memory.TABLE,
    *tensor_products.TABLE,
    *warpgroup_products.TABLE,
)

REGISTERS = "from registers to registers"
EXCHANGE = "exchanges registers in a warp; the PTX ISA gives it no effect on the order of memory"
NO_ACCESS = {
    "activemask": EXCHANGE,
    "brkpt": "a stop for a debugger",
    "clusterlaunchcontrol.query_cancel": REGISTERS,
    "elect": EXCHANGE,
    "isspacep": REGISTERS,
    "match": EXCHANGE,
    "mbarrier.pending_count": REGISTERS,
    "mma": REGISTERS,
    "movmatrix": EXCHANGE,
    "nanosleep": "time only",
    "pmevent": "an event for performance counters",
    "redux": EXCHANGE,
    "setmaxnreg": "the number of registers; no access to memory",
    "shfl": EXCHANGE,
    "tcgen05.relinquish_alloc_permit": "the right to allocate; no access to tensor memory",
    "vote": EXCHANGE,
}
"""Opcodes (their first words) of instructions that access no memory and order nothing, and why."""
