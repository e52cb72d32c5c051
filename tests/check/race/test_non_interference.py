"""A bit that is called defined never depends on one that is not: random programs, run again and again with other random bits."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.check.race.undefined.observer import UndefinedBitsObserver
from ptxlab.check.race.undefined.raced import Raced
from ptxlab.engine import mirrored
from tests.sweep_helpers import one_in, part

REGISTERS, FLOATS, PREDICATES = 12, 4, 4
FILLINGS = 24
PROGRAMS = 60
BYTES = 4 * (REGISTERS + FLOATS)

HEAD = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
{
.reg .pred p<9>;
.reg .b16 h<4>;
.reg .b32 r<40>, u<8>, tid, lane, at, t;
.reg .b64 w<4>, out;
.shared .align 16 .b8 s[2048];
mov.u32 tid, %tid.x;
mov.u32 lane, %laneid;
ld.param.u64 out, [result];
mad.wide.u32 out, tid, BYTES, out;
mad.lo.u32 at, lane, 16, s;
st.shared.b16 [at], 1;
st.shared.b32 [at+4], tid;
""".replace("BYTES", str(BYTES))


class Writer:
    """A random program over registers r0 to r11, f32 values in r12 to r15, and predicates; some bits of all have no value.

    ``bitwise``: only instructions whose undefined bits are exact, if their operands are independent.
    """

    def __init__(self, seed: int, bitwise: bool = False) -> None:
        self.random = random.Random(seed)
        self.bitwise = bitwise
        self.lines: list[str] = []
        self.labels = 0

    def text(self) -> str:
        for i in range(REGISTERS + FLOATS):
            self.lines.append(f"mul.lo.u32 r{i}, tid, {self.random.getrandbits(32)}; xor.b32 r{i}, r{i}, {self.random.getrandbits(32)};")
        for i in range(REGISTERS, REGISTERS + FLOATS):
            self.lines.append(f"cvt.rn.f32.s32 r{i}, r{i};")
        for i in range(PREDICATES):
            self.lines.append(f"setp.lt.u32 p{i}, lane, {self.random.randrange(33)};")
        for i in self.random.sample(range(REGISTERS + FLOATS), 5):
            mask = self.random.choice((0xFF, 0xFFFF0000, 0x00F00000, 1, self.random.getrandbits(32) & self.random.getrandbits(32)))
            self.lines.append(f"and.b32 t, u{i % 8}, {mask}; and.b32 r{i}, r{i}, {~mask & 0xFFFFFFFF}; or.b32 r{i}, r{i}, t;")
        for _ in range(30):
            self.statement()
        stores = "".join(f"st.global.b32 [out+{4 * i}], r{i};\n" for i in range(REGISTERS + FLOATS))
        return HEAD + "\n".join(self.lines) + "\n" + stores + "ret;\n}\n"

    def r(self) -> str:
        return f"r{self.random.randrange(REGISTERS)}"

    def f(self) -> str:
        return f"r{self.random.randrange(REGISTERS, REGISTERS + FLOATS)}"

    def p(self) -> str:
        return f"p{self.random.randrange(PREDICATES)}"

    def source(self) -> str:
        return (
            self.r()
            if self.random.random() < 0.75
            else str(self.random.choice((0, 1, 7, 31, 0xFF, 0xFFFF0000, self.random.getrandbits(32))))
        )

    def statement(self) -> None:
        pick = self.random.choice
        r, f, p, s = self.r, self.f, self.p, self.source
        n = self.random.randrange(32)
        guard = "" if self.random.random() < 0.8 else f"@{pick(('', '!'))}{p()} "
        amount = str(n) if self.bitwise else pick((s(), str(n)))
        selector = pick(("0x4140", "0x7531")) if self.bitwise else pick((s(), "0x4140", "0x7531"))
        bitwise = (
            lambda: f"{guard}{pick(('and', 'or', 'xor'))}.b32 {r()}, {r()}, {s()};",
            lambda: f"{guard}{pick(('not', 'brev'))}.b32 {r()}, {r()};",
            lambda: f"{guard}{pick(('shl.b32', 'shr.u32', 'shr.s32'))} {r()}, {r()}, {amount};",
            lambda: f"{guard}prmt.b32 {r()}, {r()}, {r()}, {selector};",
            lambda: f"{guard}shf.{pick(('l', 'r'))}.{pick(('wrap', 'clamp'))}.b32 {r()}, {r()}, {r()}, {amount};",
            lambda: f"{guard}bfe.{pick(('u32', 's32'))} {r()}, {r()}, {n}, {self.random.randrange(20)};",
            lambda: f"{guard}bfi.b32 {r()}, {r()}, {r()}, {n}, {self.random.randrange(20)};",
            lambda: f"{guard}selp.b32 {r()}, {r()}, {s()}, {p()};",
            lambda: f"{guard}{pick(('and', 'or', 'xor'))}.pred {p()}, {p()}, {p()};",
            lambda: f"mov.b64 w0, {{{r()}, {r()}}}; shr.u64 w0, w0, {n}; mov.b64 {{{r()}, {r()}}}, w0;",
            lambda: f"cvt.{pick(('u16', 's16'))}.u32 h2, {r()}; cvt.{pick(('u32.u16', 's32.s16'))} {r()}, h2;",
            lambda: f"{guard}{pick(('neg', 'abs'))}.f32 {f()}, {f()};",
            lambda: f"shfl.sync.{pick(('bfly', 'down', 'up'))}.b32 {r()}, {r()}, {self.random.randrange(1, 5)}, {pick((0, 31))}, -1;",
            lambda: f"vote.sync.ballot.b32 {r()}, {p()}, -1;",
            lambda: f"st.shared.b32 [at+{pick((0, 4, 8))}], {r()};",
            lambda: f"st.shared.b8 [at+{self.random.randrange(16)}], {r()};",
            lambda: f"ld.shared.{pick(('b32', 'u8', 's8', 'u16'))} {r()}, [at+{pick((0, 4, 8, 12))}];",
            lambda: f"ld.shared.v2.b32 {{{r()}, {r()}}}, [at+{pick((0, 8))}];",
            lambda: f"setp.lt.u32 p8, lane, {n}; @p8 ld.shared.b32 {r()}, [at+4];",
            lambda: f"ldmatrix.sync.aligned.m8n8.x2{pick(('', '.trans'))}.shared.b16 {{{r()}, {r()}}}, [at];",
            lambda: f"movmatrix.sync.aligned.m8n8.trans.b16 {r()}, {r()};",
        )
        mixing = (
            lambda: f"{guard}{pick(('add', 'sub', 'min', 'max', 'mul.lo'))}.{pick(('s32', 'u32'))} {r()}, {r()}, {s()};",
            lambda: f"{guard}lop3.b32 {r()}, {r()}, {s()}, {r()}, {self.random.randrange(256)};",
            lambda: f"{guard}mad.lo.s32 {r()}, {r()}, {s()}, {r()};",
            lambda: f"{guard}{pick(('popc', 'clz'))}.b32 {r()}, {r()};",
            lambda: f"{guard}setp.{pick(('lt', 'ge', 'eq', 'ne'))}.{pick(('s32', 'u32'))} {p()}, {r()}, {s()};",
            lambda: f"mov.b32 {{h0, h1}}, {r()}; add.s16 h0, h0, h1; mov.b32 {r()}, {{h1, h0}};",
            lambda: f"{guard}{pick(('add', 'mul'))}.rn.f32 {f()}, {f()}, {f()};",
            lambda: f"{guard}fma.rn.f32 {f()}, {f()}, {f()}, {f()};",
            lambda: f"{guard}{pick(('min', 'max'))}.f32 {f()}, {f()}, {f()};",
            lambda: f"{guard}add.rn.f16x2 {r()}, {r()}, {r()};",
            lambda: f"{guard}cvt.rzi.s32.f32 {r()}, {f()};",
            lambda: f"shfl.sync.idx.b32 {r()}, {r()}, {r()}, 31, -1;",
            lambda: f"vote.sync.{pick(('any', 'all', 'uni'))}.pred {p()}, {p()}, -1;",
            lambda: f"{pick(('redux.sync.add.u32', 'redux.sync.xor.b32', 'redux.sync.max.s32'))} {r()}, {r()}, -1;",
            lambda: f"match.any.sync.b32 {r()}, {r()}, -1;",
            lambda: (
                f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{f()}, {f()}, {f()}, {f()}}}, {{{r()}, {r()}, {r()}, {r()}}}, "
                f"{{{r()}, {r()}}}, {{{f()}, {f()}, {f()}, {f()}}};"
            ),
            lambda: (
                f"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{{r()}, {r()}, {r()}, {r()}}}, {{{r()}, {r()}, {r()}, {r()}}}, "
                f"{{{r()}, {r()}}}, {{{r()}, {r()}, {r()}, {r()}}};"
            ),
        )
        self.lines.append(pick(bitwise if self.bitwise else (*bitwise, *mixing))())


def undefined_of(loaded: ptxlab.Kernel, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The undefined bits of what a launch stores, by the second run of the race check."""
    replay = loaded.launch(block=32, args=[out], check="none", keep_inputs=True).replay
    assert replay is not None
    result, observer = replay.observe(lambda launch: UndefinedBitsObserver(launch, Raced()), mirrored(loaded.program, frozenset()))
    assert result.completed
    return observer.mirror_of("result")


def filled(loaded: ptxlab.Kernel, seed: int) -> NDArray[np.uint8]:
    out = np.zeros(32 * BYTES, np.uint8)
    assert loaded.launch(block=32, args=[out], check="none", undefined="random", seed=seed).completed
    return out


@pytest.mark.parametrize("seed", part(one_in(8, range(PROGRAMS)), lambda seed: seed % 2 == 0))
def test_a_defined_bit_never_differs(seed: int) -> None:
    loaded = ptxlab.loads(Writer(seed).text()).kernel()
    undefined = undefined_of(loaded, np.zeros(32 * BYTES, np.uint8))
    first = filled(loaded, 0)
    differ = np.zeros_like(first)
    for filling in range(1, FILLINGS):
        differ |= filled(loaded, filling) ^ first
    wrong = np.flatnonzero(differ & ~undefined)
    assert not wrong.size, [(f"lane {at // BYTES}", f"r{at % BYTES // 4}", hex(undefined[at]), hex(differ[at])) for at in wrong[:4]]


@pytest.mark.sweep
def test_few_bits_are_called_undefined_without_reason() -> None:
    """Of the bits that are called undefined behind instructions that keep bits apart, at most 5 % are the same in 64 fillings."""
    called, changed = 0, 0
    for seed in range(20):
        loaded = ptxlab.loads(Writer(seed, bitwise=True).text()).kernel()
        undefined = undefined_of(loaded, np.zeros(32 * BYTES, np.uint8))
        first = filled(loaded, 0)
        differ = np.zeros_like(first)
        for filling in range(1, 64):
            differ |= filled(loaded, filling) ^ first
        assert not (differ & ~undefined).any()
        called += int(np.bitwise_count(undefined).sum())
        changed += int(np.bitwise_count(differ).sum())
    assert called > 1000
    assert changed / called > 0.95, changed / called
