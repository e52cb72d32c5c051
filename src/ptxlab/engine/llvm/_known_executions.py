"""Functions of a region that search the table of executions (`ptxlab.engine.repetitions`)."""

from __future__ import annotations

from ptxlab.engine.arrivals import emit_progress
from ptxlab.engine.context import Word
from ptxlab.engine.repetitions import ASK, CALLS, ENTRY_WORDS, FACTOR, FUNCTION, KEY, REGISTERS, SLOTS, STATE_SHIFT, WORDS_GIVEN, emit_calls
from ptxlab.engine.turns.words import QueueWord
from ptxlab.native.builder import Function, Module

__all__ = ["known_name", "repeat_name"]


def _function_of_values(module: Module, name: str, result: str, parameters: str, count: int) -> Function:
    """A new outlined function, whose last parameters are so many values of registers."""
    module.outlined[name] = name, result
    return Function(module, name, result, parameters + "".join(f", i64 value{index}" for index in range(count)), internal=True)


def repeat_name(module: Module, count: int) -> str:
    """The function that repeats the execution of an instruction with so many values of registers; its result is 0 if it does not.

    Where operations are issued first and perform later, it issues one.
    """
    name = f"repeat.{count}"
    if name in module.outlined:
        return name
    code = _function_of_values(module, name, "i32", "ptr context, i64 op, i64 lane", count)
    context, op, lane, *values = code.parameters
    where = context.pointer(Word.REPEATED_IN)
    state = where.word(0)
    with code.when(state.eq(0)):
        code.ret(0)
    entry = code.call(known_name(module, count), "ptr", context, (state << STATE_SHIFT) | op, *values)
    with code.when(entry.eq(0)):
        code.ret(0)
    with code.when(context.word(Word.DEFERRED).ne(0)):
        issue = context.pointer(Word.QUEUE).pointer(QueueWord.ISSUE)
        code.ret(code.call(issue, "i32", context, entry, where.pointer(1), lane))
    ask, arguments = entry.pointer(ASK), (where.pointer(1), entry.at(8 * WORDS_GIVEN))
    with code.when(ask.ne(0)), code.when(code.call(ask, "i64", *arguments).ne(0)):
        code.ret(0)
    emit_calls(code, context, entry.pointer(CALLS), lane, 0)
    code.call(entry.pointer(FUNCTION), "void", *arguments)
    emit_progress(context, 1)
    code.ret(1)
    return name


def known_name(module: Module, count: int) -> str:
    """The function that returns the address of an execution with a key and so many values of registers, null if there is none."""
    name = f"known.{count}"
    if name in module.outlined:
        return name
    code = _function_of_values(module, name, "ptr", "ptr context, i64 key", count)
    context, *same = code.parameters
    table = context.pointer(Word.REPETITIONS)
    with code.when(table.eq(0)):
        code.ret(0)
    mixed, *values = same
    for value in values:
        mixed = (mixed ^ value) * FACTOR
        mixed = mixed ^ (mixed >> 32)
    place, search = mixed.variable(), code.label("search")
    code.jump(search)
    code.begin(search)
    entry = table.at((place.get() & (SLOTS - 1)) * (8 * ENTRY_WORDS))
    with code.when(entry.word(FUNCTION).eq(0)):
        code.ret(0)
    differ = code.const("i1", 0)
    for index, value in zip((KEY, *range(REGISTERS, REGISTERS + count)), same, strict=True):
        differ = differ | entry.word(index).ne(value)
    with code.when(differ):
        place.set(place.get() + 1)
        code.jump(search)
    code.ret(entry)
    return name
