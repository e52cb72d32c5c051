"""What is said of instructions that only move halves of words is true of their results, for every scalar row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.engine.lowering.loaded._moved_halves import Chosen, Half, MovedHalf, moved_halves
from ptxlab.engine.program import Register
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.operands import Const, Group, Op, Reg
from tests.engine.engine_helpers import program_of
from tests.isa.form_helpers import Form, cases, forms, pure_rows, with_numpy

_COUNT = 64
_CONSTANTS = (0, 16, 32, 0x1032, 0x5410, 0xFFFF, 0xFFFF0000)
_SOME = {None: {"mov", "selp", "cvt"}, 0x1032: {"prmt"}, 0x5410: {"prmt"}, 16: {"shl", "shr", "shf"}, 0xFFFF: {"and"}}
"""Instructions that move halves with the constant."""
_FORMS = [
    form for row in pure_rows() for form in forms(row, 20) if "b128" not in (*form.sources, *form.results) and "any" not in form.sources
]


def moves(form: Form, constant: int | None) -> tuple[MovedHalf, ...]:
    """The halves of the first result; the sources are registers 1 and so on, of which a constant may replace the last one."""
    types = [form.results[0], *form.sources]
    registers = [Register(f"%r{i}", type, TYPE_BITS[type]) for i, type in enumerate(types)]
    sources: list[Any] = []
    for count in form.counts:
        first = 1 + sum(len(each.items) if isinstance(each, Group) else 1 for each in sources)
        sources.append(Reg(first) if count == 1 else Group(tuple(Reg(first + i) for i in range(count))))
    if constant is not None:
        sources[-1] = Const(constant)
    op = Op(0, form.opcode, form.row, form.q, (Reg(0), *sources), None, 1, 1)
    return moved_halves(SimpleNamespace(registers=registers), op).get(0, ())  # type: ignore[arg-type]


def value(half: MovedHalf, words: list[NDArray[Any]]) -> NDArray[Any]:
    """What a half holds."""
    if isinstance(half, Chosen):
        return np.where(words[half.predicate.index - 1] != 0, value(half.a, words), value(half.b, words))
    if isinstance(half, Half):
        return words[half.register - 1].astype(np.uint64) >> np.uint64(16 * half.number) & np.uint64(0xFFFF)
    assert half is not None
    return np.full(_COUNT, half, np.uint64)


@pytest.mark.parametrize("constant", [None, *_CONSTANTS])
def test_every_row(constant: int | None) -> None:
    moving = set()
    for form in _FORMS:
        if len(form.results) > 1 or not form.sources or (constant is not None and form.counts[-1] > 1):
            continue
        halves = moves(form, constant)
        words = [cases(type, _COUNT, seed) for seed, type in enumerate(form.sources)]
        if constant is not None:
            words[-1] = np.full(_COUNT, constant & (1 << TYPE_BITS[form.sources[-1]]) - 1, words[-1].dtype)
        for number, half in enumerate(halves):
            if half is None or half == Chosen(Reg(0), None, None) or (isinstance(half, Chosen) and None in (half.a, half.b)):
                continue
            moving.add(form.row.base)
            (result,) = with_numpy(form, words)
            found = result.astype(np.uint64) >> np.uint64(16 * number) & np.uint64(0xFFFF)
            assert np.array_equal(found, value(half, words)), (form.opcode, constant, number)
    assert moving >= _SOME.get(constant, set())


PACKED = [
    ("mov.b32 %r1, {%h2, %h3};", "%r1", [("%h2", 0), ("%h3", 0)]),
    ("mov.b64 %rd1, {%h2, %h3, %h4, %h2};", "%rd1", [("%h2", 0), ("%h3", 0), ("%h4", 0), ("%h2", 0)]),
    ("mov.b64 {%r1, %r2}, %rd3;", "%r2", [("%rd3", 2), ("%rd3", 3)]),
    ("mov.b64 {_, %r2}, %rd3;", "%r2", [("%rd3", 2), ("%rd3", 3)]),
    ("mov.b32 {%h1, %h2}, %r3;", "%h2", [("%r3", 1)]),
    ("prmt.b32 %r1, %r2, %r3, 0x7610;", "%r1", [("%r2", 0), ("%r3", 1)]),
    ("prmt.b32 %r1, %r2, %r3, 0x7611;", "%r1", [None, ("%r3", 1)]),
    ("shf.r.wrap.b32 %r1, %r2, %r3, 16;", "%r1", [("%r2", 1), ("%r3", 0)]),
    ("cvt.u32.u16 %r1, %h2;", "%r1", [("%h2", 0), 0]),
]


@pytest.mark.parametrize(("text", "target", "expected"), PACKED, ids=[text for text, *_ in PACKED])
def test_packed(text: str, target: str, expected: list[Any]) -> None:
    program = program_of(text)
    names = [register.name for register in program.registers]
    halves = moved_halves(program, program.ops[0])[names.index(target)]
    assert [(names[half.register], half.number) if isinstance(half, Half) else half for half in halves] == expected
