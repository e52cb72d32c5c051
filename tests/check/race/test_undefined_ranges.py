"""Numbers between a smallest and a largest one: comparisons that these decide, though the undefined bits alone do not."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.sweep_helpers import one_in, part

from .test_non_interference import BYTES, FLOATS, HEAD, REGISTERS, Writer, filled, undefined_of

FILLINGS = 24
PROGRAMS = 96
COUNT = REGISTERS + FLOATS
STARTS = (0, 1, 7, 14, 30, 100, 1000, -1, -2, -9, 0x7FFFFFFC, -0x7FFFFFFE, 0x12345678)


class NumberWriter(Writer):
    """Sums, differences, shifts and comparisons of numbers whose low bits are undefined, in runs that stores and branches end."""

    def text(self) -> str:
        pick = self.random.choice
        for i in range(COUNT):
            self.lines.append(f"and.b32 t, u{i % 8}, {pick((0, 1, 3, 3, 6, 7))}; mul.lo.u32 r{i}, lane, {pick((0, 1, 4))};")
            self.lines.append(f"add.s32 r{i}, r{i}, {pick(STARTS)}; add.s32 r{i}, r{i}, t;")
        for i in range(4):
            self.lines.append(f"setp.lt.u32 p{i}, lane, {self.random.randrange(33)}; cvt.s64.s32 w{i}, r{i};")
        for _ in range(40):
            self.lines.append(self.number_statement())
        self.lines += [f"selp.b32 r{i}, 1, 0, p{i};" for i in range(4)]
        stores = "".join(f"st.global.b32 [out+{4 * i}], r{i};\n" for i in range(COUNT))
        return HEAD + "\n".join(self.lines) + "\n" + stores + "ret;\n}\n"

    def number_statement(self) -> str:
        pick, p = self.random.choice, self.p
        constant = str(pick((*STARTS, 3, 5, 31, 32)))

        def r() -> str:
            return f"r{self.random.randrange(COUNT)}"

        def s() -> str:
            return pick((r(), r(), constant))

        def w() -> str:
            return f"w{self.random.randrange(4)}"

        guard = "" if self.random.random() < 0.7 else f"@{pick(('', '!'))}{p()} "
        kind = self.random.randrange(17)
        if kind == 0:
            self.labels += 1
            return (
                f"setp.lt.u32 p8, lane, {self.random.randrange(33)}; @p8 bra L{self.labels}; add.s32 {r()}, {r()}, {s()}; L{self.labels}:"
            )
        if kind == 1:
            return pick((f"st.shared.b32 [at+8], {r()};", f"ld.shared.b32 {r()}, [at+8];", "bar.warp.sync -1;"))
        return (
            f"{guard}add.s32 {r()}, {r()}, {s()};",
            f"{guard}add.s32 {r()}, {r()}, {s()};",
            f"{guard}sub.s32 {r()}, {r()}, {s()};",
            f"{guard}sub.s32 {r()}, {s()}, {r()};",
            f"{guard}{pick(('min', 'max'))}.{pick(('s32', 'u32'))} {r()}, {r()}, {s()};",
            f"{guard}{pick(('shr.u32', 'shr.s32'))} {r()}, {r()}, {pick((1, 2, 5))};",
            f"{guard}and.b32 {r()}, {r()}, {pick((1, 3, 7, 31, 255))};",
            f"{guard}setp.{pick(('lt', 'le', 'gt', 'ge', 'eq', 'ne'))}.{pick(('s32', 'u32'))} {p()}, {r()}, {s()};",
            f"{guard}selp.b32 {r()}, {r()}, {s()}, {p()};",
            f"{guard}mov.b32 {r()}, {r()}; {guard}neg.s32 {r()}, {r()};",
            f"{guard}{pick(('clz', 'popc'))}.b32 {r()}, {r()};",
            f"cvt.{pick(('s64.s32', 'u64.u32'))} {w()}, {r()}; add.s64 {w()}, {w()}, {w()};",
            f"cvt.u32.u64 {r()}, {w()};",
            f"{guard}mad.lo.s32 {r()}, {r()}, {pick((r(), constant))}, {s()};",
            f"setp.{pick(('lt', 'eq'))}.{pick(('s64', 'u64'))} {p()}, {w()}, {w()}; selp.b32 {r()}, 1, 0, {p()};",
        )[kind - 2]


@pytest.mark.parametrize("seed", part(one_in(8, range(PROGRAMS)), lambda seed: seed % 2 == 0))
def test_a_defined_bit_never_differs(seed: int) -> None:
    loaded = ptxlab.loads(NumberWriter(seed).text()).kernel()
    undefined = undefined_of(loaded, np.zeros(32 * BYTES, np.uint8))
    first = filled(loaded, 0)
    differ = np.zeros_like(first)
    for filling in range(1, FILLINGS):
        differ |= filled(loaded, filling) ^ first
    wrong = np.flatnonzero(differ & ~undefined)
    assert not wrong.size, [(f"lane {at // BYTES}", f"r{at % BYTES // 4}", hex(undefined[at]), hex(differ[at])) for at in wrong[:4]]


SUM = "and.b32 t, u0, 3; add.s32 r0, t, 7;"
"""r0 is 7, 8, 9 or 10; its mask says that it is at most 15."""
ROW = """and.b32 r1, u0, 3; add.s32 r1, r1, 5; and.b32 r2, u1, 3; add.s32 r2, r2, 20; add.s32 r3, r1, lane; st.shared.b32 [at+4], lane;
    add.s32 r4, r3, 32; max.s32 r4, r2, r4; not.b32 r5, lane; add.s32 r4, r4, r5; sub.s32 r4, r4, r1;
    shr.u32 r4, r4, 5; add.s32 r4, r4, 1; and.b32 r4, r4, 3;"""
"""How often the loop over a row of a sparse matrix is entered before its unrolled part: r1 and r2 are where the row begins and ends."""
STORE = "st.shared.b32 [at+4], lane;"
"""Ends a run of pure instructions."""
CHAIN = "mad.lo.s32 r0, r0, 1, 2; mad.lo.s32 r0, 1, r0, -1;" * 600
"""Adds 600."""
DECIDED = {
    "a sum below a number": f"{SUM} setp.lt.s32 p0, r0, 12;",
    "after the end of a run": f"{SUM} {STORE} setp.lt.s32 p0, r0, 12;",
    "a sum without sign": f"{SUM} setp.gt.u32 p0, r0, 11;",
    "a sum unequal to a number": f"{SUM} {STORE} setp.eq.s32 p0, r0, 12;",
    "a difference that may be negative": f"{SUM} sub.s32 r0, r0, 9; {STORE} setp.lt.s32 p0, r0, 2;",
    "wider": f"{SUM} cvt.s64.s32 w0, r0; {STORE} setp.lt.s64 p0, w0, 12;",
    "wider, without sign": f"{SUM} cvt.u64.u32 w0, r0; add.s64 w0, w0, 1; {STORE} setp.lt.u64 p0, w0, 13;",
    "narrower": f"{SUM} cvt.s64.s32 w0, r0; add.s64 w0, w0, 1; cvt.u32.u64 r0, w0; setp.lt.u32 p0, r0, 13;",
    "shifted": f"{SUM} add.s32 r0, r0, 9; shr.u32 r0, r0, 2; setp.ne.u32 p0, r0, 5;",
    "the larger one": f"{SUM} max.s32 r0, r0, 4; add.s32 r0, r0, 1; setp.lt.s32 p0, r0, 12;",
    "a product": f"{SUM} add.s32 r0, r0, 1; mul.lo.s32 r0, r0, 3; {STORE} setp.lt.s32 p0, r0, 34;",
    "low bits": f"{SUM} and.b32 r0, r0, 31; setp.lt.s32 p0, r0, 12;",
    "under a guard": f"{SUM} setp.lt.u32 p1, lane, 9; @p1 add.s32 r0, r0, 1; {STORE} setp.lt.s32 p0, r0, 12;",
    "the first lane with the same value": """and.b32 t, u0, 1; shr.u32 r0, lane, 1; shl.b32 r0, r0, 1; or.b32 r0, r0, t;
        match.any.sync.b32 r0, r0, -1; brev.b32 r0, r0; clz.b32 r0, r0; add.s32 r1, lane, 1; setp.eq.s32 p0, r0, r1;""",
    "a register less itself": "sub.s32 r0, u0, u0; setp.eq.s32 p0, r0, 0;",
    "a register and itself": "xor.b32 r0, u0, u0; setp.eq.s32 p0, r0, 0;",
    "the sign of a square": "mul.rn.f32 r0, u0, u0; setp.lt.s32 p0, r0, 0;",
    "the sign of a sum of squares": "mul.rn.f32 r0, u0, u0; fma.rn.f32 r0, u1, u1, r0; setp.lt.s32 p0, r0, 0;",
    "at most a number": "min.u32 r0, u0, 11; setp.lt.u32 p0, r0, 12;",
    "the rows of a sparse matrix": f"{ROW} setp.eq.s32 p0, r4, 0;",
    "a chain of many sums": f"and.b32 r0, u0, 7; {CHAIN} setp.lt.s32 p0, r0, 608;",
}
UNDECIDED = {
    "one of two numbers": (f"{SUM} {STORE} setp.lt.s32 p0, r0, 10;", 1),
    "a sum that wraps": ("and.b32 t, u0, 3; add.s32 r0, t, 0x7ffffffe; setp.lt.s32 p0, r0, 0;", 1),
    "a difference that wraps": (f"{SUM} sub.s32 r0, r0, 8; {STORE} setp.lt.u32 p0, r0, 4;", 1),
    "a product that is too wide": (f"{SUM} mul.lo.s32 r0, r0, 0x10000000; setp.lt.s32 p0, r0, 0;", 1),
    "the sign of a product": ("mul.rn.f32 r0, u0, u1; setp.lt.s32 p0, r0, 0;", 1),
    "at most a number, with a sign": ("min.s32 r0, u0, 11; setp.lt.u32 p0, r0, 12;", 1),
    "written or not": (f"{SUM} and.b32 t, u1, 1; setp.eq.s32 p1, t, 0; @p1 add.s32 r0, r0, 9; {STORE} setp.lt.s32 p0, r0, 12;", 1),
    "a chain of many sums": (f"and.b32 r0, u0, 7; {CHAIN} setp.lt.s32 p0, r0, 607;", 1),
    "read from memory": (f"{SUM} st.shared.b32 [at+8], r0; ld.shared.b32 r0, [at+8]; setp.lt.s32 p0, r0, 12;", 1),
}


def mask_of(body: str) -> int:
    """Whether a body leaves the predicate p0 undefined, in any lane."""
    text = HEAD.replace("BYTES", str(BYTES)) + body + "selp.b32 r0, 1, 0, p0; st.global.b32 [out], r0; ret; }"
    return int(np.bitwise_or.reduce(undefined_of(ptxlab.loads(text).kernel(), np.zeros(32 * BYTES, np.uint8))))


@pytest.mark.parametrize("name", DECIDED)
def test_a_range_decides(name: str) -> None:
    assert mask_of(DECIDED[name]) == 0


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_range_does_not_decide(name: str) -> None:
    body, wanted = UNDECIDED[name]
    assert mask_of(body) == wanted
