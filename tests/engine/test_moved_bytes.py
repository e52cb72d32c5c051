"""What is said of instructions that only move bytes is true of their results, for every scalar row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.engine.lowering.loaded._moved_bytes import Byte, MovedByte, leaves, moved_bytes
from ptxlab.engine.program import Chosen, Joined, Register
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.operands import Const, Group, Op, Reg
from tests.engine.engine_helpers import program_of
from tests.isa.form_helpers import Form, cases, forms, pure_rows, with_numpy

_COUNT = 64
_CONSTANTS = (0, 8, 16, 20, 32, 256, 0x1032, 0x5410, 0x7531, 0x8240, 0xFFFF, 0xFF00FF00)
_SOME = {
    None: {"mov", "selp", "cvt", "or", "xor"},
    8: {"shl", "shr", "shf"},
    16: {"shl", "shr", "shf"},
    256: {"mul"},
    0x1032: {"prmt"},
    0x7531: {"prmt"},
    0x8240: {"prmt"},
    0xFFFF: {"and"},
    0xFF00FF00: {"and"},
}
"""Instructions that move bytes with the constant."""
_FORMS = [
    form for row in pure_rows() for form in forms(row, 20) if "b128" not in (*form.sources, *form.results) and "any" not in form.sources
]


def moves(form: Form, constant: int | None) -> tuple[MovedByte, ...]:
    """The bytes of the first result; the sources are registers 1 and so on, of which a constant may replace the last one."""
    types = [form.results[0], *form.sources]
    registers = [Register(f"%r{i}", type, TYPE_BITS[type]) for i, type in enumerate(types)]
    sources: list[Any] = []
    for count in form.counts:
        first = 1 + sum(len(each.items) if isinstance(each, Group) else 1 for each in sources)
        sources.append(Reg(first) if count == 1 else Group(tuple(Reg(first + i) for i in range(count))))
    if constant is not None:
        sources[-1] = Const(constant)
    op = Op(0, form.opcode, form.row, form.q, (Reg(0), *sources), None, 1, 1)
    return moved_bytes(SimpleNamespace(registers=registers), op).get(0, ())  # type: ignore[arg-type]


def value(byte: MovedByte, words: list[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What a byte holds, and where that is said: not where neither of two is zero that are joined."""
    if isinstance(byte, Chosen | Joined):
        (a, of_a), (b, of_b) = value(byte.a, words), value(byte.b, words)
        if isinstance(byte, Joined):
            return a | b, of_a & of_b & ((a == 0) | (b == 0))
        holds = words[byte.predicate.index - 1] != 0
        return np.where(holds, a, b), np.where(holds, of_a, of_b)
    everywhere = np.ones(_COUNT, np.bool_)
    if isinstance(byte, Byte):
        return words[byte.register - 1].astype(np.uint64) >> np.uint64(8 * byte.number) & np.uint64(0xFF), everywhere
    assert byte is not None
    return np.full(_COUNT, byte, np.uint64), everywhere


@pytest.mark.parametrize("constant", [None, *_CONSTANTS])
def test_every_row(constant: int | None) -> None:
    moving, joining = set(), set()
    sparse = np.array([0xFFFF, 0xFF00FF0000FF00FF], np.uint64).repeat(_COUNT // 2)
    for form in _FORMS:
        if len(form.results) > 1 or not form.sources or (constant is not None and form.counts[-1] > 1):
            continue
        found = moves(form, constant)
        words = [cases(type, _COUNT, seed) for seed, type in enumerate(form.sources)]
        # Every second source has zeros where the others have none.
        words = [
            word & (sparse if i % 2 else ~sparse).astype(word.dtype) if word.dtype.kind == "u" and any(isinstance(b, Joined) for b in found)
            else word
            for i, word in enumerate(words)
        ]  # fmt: skip
        if constant is not None:
            words[-1] = np.full(_COUNT, constant & (1 << TYPE_BITS[form.sources[-1]]) - 1, words[-1].dtype)
        for number, byte in enumerate(found):
            if None in leaves(byte):
                continue
            moving.add(form.row.base)
            (result,) = with_numpy(form, words)
            is_there = result.astype(np.uint64) >> np.uint64(8 * number) & np.uint64(0xFF)
            expected, said = value(byte, words)
            assert np.array_equal(is_there[said], expected[said]), (form.opcode, constant, number)
            if isinstance(byte, Joined):
                joining |= {form.row.base} if (expected[said] != 0).any() else set()
    assert moving >= _SOME.get(constant, set())
    assert joining >= ({"or", "xor"} if constant is None else set())


PACKED = [
    ("mov.b32 %r1, {%h2, %h3};", "%r1", ["h2.0", "h2.1", "h3.0", "h3.1"]),
    ("mov.b64 %rd1, {%h2, %h3, %h4, %h2};", "%rd1", ["h2.0", "h2.1", "h3.0", "h3.1", "h4.0", "h4.1", "h2.0", "h2.1"]),
    ("mov.b64 {%r1, %r2}, %rd3;", "%r2", ["rd3.4", "rd3.5", "rd3.6", "rd3.7"]),
    ("mov.b64 {_, %r2}, %rd3;", "%r2", ["rd3.4", "rd3.5", "rd3.6", "rd3.7"]),
    ("mov.b32 {%h1, %h2}, %r3;", "%h2", ["r3.2", "r3.3"]),
    ("prmt.b32 %r1, %r2, %r3, 0x7610;", "%r1", ["r2.0", "r2.1", "r3.2", "r3.3"]),
    ("prmt.b32 %r1, %r2, %r3, 0x7611;", "%r1", ["r2.1", "r2.1", "r3.2", "r3.3"]),
    ("prmt.b32 %r1, %r2, %r3, 0xF240;", "%r1", ["r2.0", "r3.0", "r2.2", None]),
    ("shf.r.wrap.b32 %r1, %r2, %r3, 16;", "%r1", ["r2.2", "r2.3", "r3.0", "r3.1"]),
    ("shl.b32 %r1, %r2, 20;", "%r1", [None] * 4),
    ("cvt.u32.u16 %r1, %h2;", "%r1", ["h2.0", "h2.1", 0, 0]),
    ("cvt.u32.u8 %r1, %h2;", "%r1", ["h2.0", 0, 0, 0]),
    ("bfi.b32 %r1, %r2, %r3, 16, 16;", "%r1", ["r3.0", "r3.1", "r2.0", "r2.1"]),
    ("bfi.b32 %r1, %r2, %r3, 8, 8;", "%r1", ["r3.0", "r2.0", "r3.2", "r3.3"]),
    ("bfi.b32 %r1, %r2, %r3, 4, 12;", "%r1", [None, None, "r3.2", "r3.3"]),
    ("bfe.u32 %r1, %r2, 8, 16;", "%r1", ["r2.1", "r2.2", 0, 0]),
    ("mul.wide.u16 %r1, %h2, 256;", "%r1", [0, "h2.0", "h2.1", 0]),
    ("or.b32 %r1, %r2, %r3;", "%r1", ["r2.0+r3.0", "r2.1+r3.1", "r2.2+r3.2", "r2.3+r3.3"]),
    ("lop3.b32 %r1, %r2, %r3, 0xFFFF, 0xF8;", "%r1", ["r2.0+r3.0", "r2.1+r3.1", "r2.2", "r2.3"]),
    ("lop3.b32 %r1, %r2, %r3, %r4, 0xFE;", "%r1", [f"r2.{i}+r3.{i}+r4.{i}" for i in range(4)]),
    ("lop3.b32 %r1, 0xFFFF, %r2, %r3, 0xCA;", "%r1", ["r2.0", "r2.1", "r3.2", "r3.3"]),
    ("lop3.b32 %r1, %r2, %r3, 0xFF0000FF, 0xE4;", "%r1", ["r2.0", "r3.1", "r3.2", "r2.3"]),
    ("lop3.b32 %r1, %r2, %r3, %r4, 0x96;", "%r1", [f"r2.{i}+r3.{i}+r4.{i}" for i in range(4)]),
    ("xor.b32 %r1, %r2, 0;", "%r1", ["r2.0", "r2.1", "r2.2", "r2.3"]),
    ("add.u32 %r1, %r2, %r3;", "%r1", []),
]


@pytest.mark.parametrize(("text", "target", "expected"), PACKED, ids=[text for text, *_ in PACKED])
def test_packed(text: str, target: str, expected: list[Any]) -> None:
    program = program_of(text)
    names = [register.name for register in program.registers]

    def shown(byte: MovedByte) -> Any:
        if isinstance(byte, Joined):
            return f"{shown(byte.a)}+{shown(byte.b)}"
        return f"{names[byte.register][1:]}.{byte.number}" if isinstance(byte, Byte) else byte

    assert [shown(byte) for byte in moved_bytes(program, program.ops[0]).get(names.index(target), ())] == expected
