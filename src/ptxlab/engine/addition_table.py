"""The table in which compiled atomics note floating-point additions, to tell which results depend on the order.

A row is (address, agent, additions, flags); an element's row is found by a hash of its address, and a later element takes it over. Behind
these stands a row for each op: the element with the most additions of those that it added to, once several agents had added there and a
sum was rounded.
"""

from __future__ import annotations

from ptxlab.engine.llvm.builder import Code, Value

__all__ = ["HASH", "ROUNDED", "ROW_BYTES", "SEVERAL", "SLOTS", "SLOT_BITS", "note_addition"]

SLOT_BITS = 15
SLOTS = 1 << SLOT_BITS
ROW_BYTES = 32
HASH = 0x9E3779B97F4A7C15
ROUNDED, SEVERAL = 1, 2


def note_addition(c: Code, table: Value, op: Value, agent: Value, cell: Value, rounded: Value) -> None:
    """Note one addition to the element at ``cell``."""
    key = c.convert("ptrtoint", cell, "i64")
    row = c.at(table, (((key >> 1) * HASH) >> (64 - SLOT_BITS)) * ROW_BYTES)
    agent_at, count_at, flags_at = (c.at(row, 8 * i) for i in (1, 2, 3))
    same = c.load("i64", row, 8).eq(key)
    other = (c.load("i64", agent_at, 8).ne(agent) & same).to("i64") * SEVERAL
    count = c.select(same, c.load("i64", count_at, 8), 0) + 1
    flags = c.select(same, c.load("i64", flags_at, 8), 0) | other | rounded.to("i64")
    for value, place in ((key, row), (agent, agent_at), (count, count_at), (flags, flags_at)):
        c.store(value, place, 8)
    with c.if_(flags.eq(ROUNDED | SEVERAL)):
        found = c.at(table, (op.to("i64") + SLOTS) * ROW_BYTES)
        most = c.load("i64", c.at(found, 16), 8)
        with c.if_(most.ult(count)):
            c.store(key, found, 8)
            c.store(count, c.at(found, 16), 8)
