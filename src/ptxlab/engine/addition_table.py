"""The table in which compiled atomics note floating-point additions, to tell which results depend on the order.

A row is (address, agent, additions, flags); an element's row is found by a hash of its address, and a later element takes it over. Behind
these stands a row for each op: the element with the most additions of those that it added to, once several agents had added there and a
sum was rounded.
"""

from __future__ import annotations

from ptxlab.native.builder import Function, Value

__all__ = ["HASH", "ROUNDED", "ROW_BYTES", "SEVERAL", "SLOTS", "SLOT_BITS", "note_addition"]

SLOT_BITS = 15
SLOTS = 1 << SLOT_BITS
ROW_BYTES = 32
HASH = 0x9E3779B97F4A7C15
ROUNDED, SEVERAL = 1, 2


def note_addition(c: Function, table: Value, op: Value, agent: Value, cell: Value, rounded: Value) -> None:
    """Note one addition to the element at ``cell``."""
    key = cell.convert("ptrtoint", "i64")
    row = table.at((((key >> 1) * HASH) >> (64 - SLOT_BITS)) * ROW_BYTES)
    agent_at, count_at, flags_at = (row.at(8 * i) for i in (1, 2, 3))
    same = row.load("i64").eq(key)
    other = (agent_at.load("i64").ne(agent) & same).to("i64") * SEVERAL
    count = same.select(count_at.load("i64"), 0) + 1
    flags = same.select(flags_at.load("i64"), 0) | other | rounded.to("i64")
    for value, place in ((key, row), (agent, agent_at), (count, count_at), (flags, flags_at)):
        place.store(value)
    with c.when(flags.eq(ROUNDED | SEVERAL)):
        found = table.at((op.to("i64") + SLOTS) * ROW_BYTES)
        most = found.load("i64", 2)
        with c.when(most.ult(count)):
            found.store(key)
            found.store(count, 2)
