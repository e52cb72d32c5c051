"""Compiled reductions of boxes from shared memory to global memory, element by element."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.support._atomics import add_doubles, combine, is_float, was_rounded
from ptxlab.engine.support.event_rows import NEXT_AGENT, ROW_BYTES, note_addition
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import REDUCED_ELEMENTS, REDUCED_TYPES, BoxWord
from ptxlab.native.builder import Module, Value

__all__ = ["emit_note_additions", "emit_reduce"]

_NAN = 0x7FFF_FFFF_FFFF_FFFF
"""A NaN of f64 that no operand has brought."""


def emit_reduce(module: Module, operation: str) -> None:
    """``void reduce(context, op, words, from, from_order, to)``: reduce the chunks of a box (`BoxWord`) into memory."""
    c, (context, op, words, source, order, target) = module.define(
        "void reduce(ptr context, i32 op, ptr words, ptr from, ptr from_order, ptr to)", internal=True
    )
    table, agent = context.pointer(Word.ADDITIONS), c.variable("i64", 0)
    with c.when(table.ne(0)):
        agent.set(_next_agent(table))
    chunk, outside, element = words.word(BoxWord.CHUNK), words.pointer(BoxWord.OUTSIDE), words.word(BoxWord.ELEMENT)
    for number, type in enumerate(REDUCED_ELEMENTS, 1):
        if type not in REDUCED_TYPES[operation]:
            continue
        size = TYPE_BITS[type] // 8
        with c.when(element.eq(number)), c.loop(words.word(BoxWord.COUNT)) as i:
            read, written = source.at(order.load("i64", i) * chunk), target.at(outside.load("i64", i) * chunk)
            with c.loop(chunk.operation("udiv", size), entered=True) as k:
                cell = written.at(k * size)
                old, new = (each.load(f"i{8 * size}", align=1) for each in (cell, read.at(k * size)))
                made = _reduced(operation, type, old, new)
                cell.store(made, align=1)
                if operation == "add" and is_float(type):
                    with c.when(table.ne(0)):
                        note_addition(c, table, op, agent.get(), cell, was_rounded(type, old, new, made))
    c.ret()


def _reduced(operation: str, type: str, old: Value, new: Value) -> Value:
    return add_doubles(old, new, True, _NAN) if type == "f64" else combine(operation, type, old, new, new, False)


def _next_agent(table: Value) -> Value:
    """The agent of a reduction."""
    place = table.at(NEXT_AGENT * ROW_BYTES)
    agent = place.load("i64")
    place.store(agent + 1)
    return agent


def emit_note_additions(module: Module) -> None:
    """``void noteadditions(table, op, agent, cells, rounded, count)``: note additions to some cells, and whether each has been rounded."""
    c, (table, op, agent, cells, rounded, count) = module.define(
        "void noteadditions(ptr table, i32 op, i64 agent, ptr cells, ptr rounded, i64 count)"
    )
    with c.loop(count) as i:
        note_addition(c, table, op, agent, cells.load("ptr", i), rounded.load("i8", i).ne(0))
    c.ret()
