"""The compiled code that notes suspects: accesses with which something may be wrong."""

from __future__ import annotations

from functools import reduce
from operator import and_

from ptxlab.check.race.shadow.shadow_words import PAIR, REPORTED_WORDS, SUSPECT_WORDS, StateWord
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_suspect", "emit_suspects", "suspects_found"]


def emit_suspects(module: Module) -> None:
    """``void suspect(state, whose, held, who, what, place, outcome)``: two accesses; those of a pair that is reported are left out."""
    c = Function(module, "suspect", "void", "ptr state, i64 whose, i64 held, i64 who, i64 what, i64 place, i64 outcome", internal=True)
    state, whose, held, who, what, place, outcome = c.parameters
    pair = held & PAIR, what & PAIR, outcome
    with c.loop(state.word(StateWord.REPORTED_COUNT)) as i:
        row = state.pointer(StateWord.REPORTED).at(i * (8 * REPORTED_WORDS))
        with c.when(reduce(and_, (row.word(n).eq(word) for n, word in enumerate(pair)))):
            state.set_word(StateWord.LEFT_OUT, state.word(StateWord.LEFT_OUT) + 1)
            c.ret()
    emit_suspect(c, state, (whose, held, who, what, place, outcome))
    c.ret()


def emit_suspect(c: Function, state: Value, words: tuple[Value | int, ...]) -> None:
    """Add a row of `SUSPECT_WORDS` words."""
    count = state.word(StateWord.SUSPECT_COUNT)
    with c.when(count.ult(state.word(StateWord.SUSPECT_CAPACITY))):
        row = state.pointer(StateWord.SUSPECTS).at(count * (8 * SUSPECT_WORDS))
        for i, word in enumerate(words):
            row.set_word(i, word)
        state.set_word(StateWord.SUSPECT_COUNT, count + 1)


def suspects_found(state: Value) -> Value:
    """What differs before and after an access that finds suspects, whether they are left out or not."""
    return state.word(StateWord.SUSPECT_COUNT) + state.word(StateWord.LEFT_OUT)
