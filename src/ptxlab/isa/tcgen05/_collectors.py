"""Collector buffers, which may hold the matrix that an instruction reuses: what they hold, for Python and for compiled code.

Section "TensorCore 5th Generation Matrix Multiply and accumulate Operations". Reuse is opportunistic: the result never depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from functools import cache, lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.isa import context
from ptxlab.isa.effects import Asynchronous
from ptxlab.native import address_of

__all__ = ["COLLECTORS_BASE", "Collectors", "HeldMatrix", "collect", "repeated_use", "reuses", "usage_of"]

COLLECTORS_BASE = 5
"""The index of the address of the collector buffers among the bases of a CTA group (`CtaGroup`)."""
_BUFFERS = ("a", "b0", "b1", "b2", "b3")
_REUSES = ("use", "lastuse")
_FUNCTIONS = ("ask", "perform")
_MOST_GIVEN = 4
"""Words that the functions of products are given; the next one is the address of those of the use."""


class HeldMatrix(NamedTuple):
    """A matrix in a buffer: its address or descriptor, and what numbers how its elements are read (`HeldMatrix.at`)."""

    place: int
    shape: int

    @classmethod
    def at(cls, place: int, *shape: Hashable) -> HeldMatrix:
        """The matrix at a place, with all that says how its elements are read."""
        return cls(place, _SHAPES.setdefault(shape, next(_NUMBERS)))


_SHAPES: dict[Hashable, int] = {}
_NUMBERS = count(1)
_NO_MATRIX = HeldMatrix(0, 0)


class _HeldWord(IntEnum):
    """The words of a buffer: its matrix (`HeldMatrix`), zeros if its contents are not valid.

    ``USER`` is 1 more than the index of the last instruction that has used it, 0 if none has.
    """

    PLACE = 0
    SHAPE = 1
    USER = 2
    END = 3


class _UseWord(IntEnum):
    """The words of a use: the addresses of the functions that repeat the product, of which ``ASK`` may be 0, and the place of the buffer.

    ``REUSES`` is 1 if the buffer must hold the matrix, ``LEFT_PLACE`` and ``LEFT_SHAPE`` is what it holds afterwards.
    """

    FUNCTION = 0
    ASK = 1
    BUFFER = 2
    REUSES = 3
    PLACE = 4
    SHAPE = 5
    LEFT_PLACE = 6
    LEFT_SHAPE = 7
    USER = 8
    END = 9


class Collectors:
    """The buffers of a CTA, or of a pair.

    Attributes
    ----------
    address : the host address of their words
    """

    __slots__ = ("_words", "address")

    def __init__(self) -> None:
        words: NDArray[np.uint64] = np.zeros(len(_BUFFERS) * _HeldWord.END, np.uint64)
        self._words, self.address = words, address_of(words)

    def held(self, buffer: str) -> tuple[HeldMatrix, int]:
        """What a buffer holds, and 1 more than the index of the instruction that has used it last."""
        place, shape, user = self._of(buffer).tolist()
        return HeldMatrix(place, shape), user

    def leave(self, buffer: str, matrix: HeldMatrix, op: int) -> None:
        """An instruction has used a buffer."""
        self._of(buffer)[:] = *matrix, op + 1

    def _of(self, buffer: str) -> NDArray[np.uint64]:
        first = _first_word(buffer)
        return self._words[first : first + _HeldWord.END]


def _first_word(buffer: str) -> int:
    return _BUFFERS.index(buffer) * _HeldWord.END


def collect(warp: context.WarpContext, collectors: Collectors, matrix: HeldMatrix, ws: bool) -> None:
    """Update the buffers for one instruction; a finding if it uses a matrix that its buffer does not hold. The default is ::discard.

    Nothing is done in programs none of whose instructions uses what a buffer holds.
    """
    if not warp.machine.of_program(_any_reuses):
        return
    usage, buffer, use = usage_of(warp.q.collector, ws)
    held, user = collectors.held(buffer)
    if use in _REUSES and held != matrix:
        _report(warp, usage, "B" if ws else "A", buffer, held, user)
    collectors.leave(buffer, _left(use, matrix), warp.op.index)


def _left(use: str, matrix: HeldMatrix) -> HeldMatrix:
    """What a buffer holds after its use."""
    return _NO_MATRIX if use in ("lastuse", "discard") else matrix


@cache
def usage_of(qualifier: str | None, ws: bool) -> tuple[str, str, str]:
    """The qualifier, its buffer and its operation."""
    usage = qualifier or f"collector::{'b0' if ws else 'a'}::discard"
    _, buffer, use = usage.split("::")
    return usage, buffer, use


def reuses(qualifier: str | None) -> bool:
    """Whether an instruction with a collector qualifier uses what the buffer holds."""
    return usage_of(qualifier, False)[2] in _REUSES


def _report(warp: context.WarpContext, usage: str, name: str, buffer: str, held: HeldMatrix, user: int) -> None:
    last = warp.machine.program.ops[user - 1] if user else None
    if last is not None and held != _NO_MATRIX:
        warp.report(
            "T632",
            f".{usage}: collector buffer {buffer} was filled with another matrix {name}, at line {last.line}",
            fix=f"give the descriptors of the instruction that fills the buffer, or .collector::{buffer}::fill",
            details=(("filled by", f"{last.opcode} at line {last.line}"),),
        )
        return
    why = "nothing has filled it" if last is None else f"the instruction at line {last.line} discarded its contents"
    warp.report(
        "T631",
        f".{usage}: collector buffer {buffer} holds no matrix {name}: {why}",
        fix=f"use .collector::{buffer}::fill in the first instruction of the sequence and ::use up to the last, which has ::lastuse",
        details=() if last is None else (("discarded by", f"{last.opcode} at line {last.line}"),),
    )


# ---------------------------------------------------------------------------------------------------------------- compiled code


def repeated_use(
    warp: context.WarpContext, repetition: tuple[int, tuple[int, ...], int], matrix: HeldMatrix, ws: bool
) -> tuple[int, tuple[int, ...], int, object]:
    """How compiled code repeats a product that it may repeat, and updates its buffer, in a program that reuses what buffers hold.

    The function, what it is given, what is asked before (`WarpContext.repeat`), and what must stay alive.
    """
    function, given, ask = repetition
    if not warp.machine.of_program(_any_reuses):
        return *repetition, None
    words = _words_of_use(function, ask, warp.op.index, warp.q.collector, matrix, ws)
    kept_ask, perform = map(_library().address, _FUNCTIONS)
    return perform, (*given, *[0] * (_MOST_GIVEN - len(given)), address_of(words)), kept_ask, words


def _any_reuses(program: Any) -> bool:
    """Whether some instruction uses what a buffer holds."""
    return any(isinstance(op.effects, Asynchronous) and op.effects.reuses for op in program.ops)


@lru_cache(maxsize=8192)
def _words_of_use(function: int, ask: int, op: int, qualifier: str | None, matrix: HeldMatrix, ws: bool) -> NDArray[np.uint64]:
    _, buffer, use = usage_of(qualifier, ws)
    return np.array([function, ask, _first_word(buffer), use in _REUSES, *matrix, *_left(use, matrix), op + 1], np.uint64)


@cache
def _library() -> native.Library:
    """The functions of `_ir`, compiled or from the cache."""
    return native.compile_ir(_ir(), _FUNCTIONS, opt=1, light=True)


def _ir() -> str:
    """``i64 ask(bases, words)``: 0 if the buffer holds the matrix, or need not, and nothing else speaks against it.

    ``void perform(bases, words)``: perform the product, and update the buffer.
    """
    module = native.Module()
    code, (bases, words) = module.define("i64 ask(ptr bases, ptr words)")
    uses = words.pointer(_MOST_GIVEN)
    held = _buffer(bases, uses)
    differ = (held.word(_HeldWord.PLACE) ^ uses.word(_UseWord.PLACE)) | (held.word(_HeldWord.SHAPE) ^ uses.word(_UseWord.SHAPE))
    with code.when(uses.word(_UseWord.REUSES).ne(0) & differ.ne(0)):
        code.ret(1)
    ask = uses.pointer(_UseWord.ASK)
    with code.when(ask.ne(0)):
        code.ret(code.call(ask, "i64", bases, words))
    code.ret(0)
    code, (bases, words) = module.define("void perform(ptr bases, ptr words)")
    uses = words.pointer(_MOST_GIVEN)
    left = zip((_HeldWord.PLACE, _HeldWord.SHAPE, _HeldWord.USER), (_UseWord.LEFT_PLACE, _UseWord.LEFT_SHAPE, _UseWord.USER), strict=True)
    _buffer(bases, uses).set_words({word: uses.word(value) for word, value in left})
    code.call(uses.pointer(_UseWord.FUNCTION), "void", bases, words)
    code.ret()
    return module.finish()


def _buffer(bases: native.Value, uses: native.Value) -> native.Value:
    """The words of the buffer of a use."""
    return bases.pointer(COLLECTORS_BASE).at(uses.word(_UseWord.BUFFER) << 3)
