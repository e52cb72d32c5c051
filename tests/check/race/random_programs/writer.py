"""The frame of a random program: its registers, how they are loaded and stored, guards and divergent branches."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["BYTES", "COUNTS", "CTAS", "Family", "Statement", "Writer"]

COUNTS = {64: 6, 32: 12, 16: 6, 1: 4}
"""Registers that a program computes with, by width: q0 ..., r0 ..., h0 ..., p0 ..."""
NAMES = {64: "q", 32: "r", 16: "h", 1: "p"}
BYTES = 128
"""Of a thread in both arrays."""
CTAS = 2
"""Of the cluster, in the families that have one."""

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result, .param .u64 given)CLUSTER
{
.reg .pred p<4>, up, lane_0, here, on, done;
.reg .b16 h<6>, uh<2>, small;
.reg .b32 r<12>, ur<4>, tid, lane, cta, peer, at, stack, base, count, bar, t, taddr, v<32>;
.reg .b64 q<6>, uq<2>, out, in, g, generic, desc;
.shared .align 1024 .b8 s[4096];
.shared .align 16 .b8 counters[64];
.shared .align 8 .b64 barrier[4];
.shared .b32 slot;
.local .align 16 .b8 l[64];
mov.u32 tid, %tid.x;
mov.u32 lane, %laneid;
mov.u32 cta, %ctaid.x;
xor.b32 peer, cta, 1;
setp.eq.u32 lane_0, lane, 0;
ld.param.u64 out, [result];
ld.param.u64 in, [given];
mad.lo.u32 t, cta, 32, tid;
mad.wide.u32 out, t, 128, out;
mad.wide.u32 in, t, 128, in;
mov.u32 base, s;
mad.lo.u32 at, lane, 64, base;
mov.u32 stack, l;
mov.u32 count, counters;
mov.u32 bar, barrier;
@lane_0 st.shared.v4.b32 [count], {1, 2, 3, 4};
@lane_0 st.shared.v4.b32 [count+16], {5, 6, 7, 8};
bar.warp.sync -1;
"""


@dataclass(frozen=True)
class Statement:
    """Instructions with semicolons between them.

    Attributes
    ----------
    pure : whether a guard that is undefined is no finding
    together : whether all lanes must execute them, so that neither a guard nor a divergent branch may stand before them
    """

    text: str
    pure: bool = False
    together: bool = False

    def guarded(self, guard: str) -> str:
        return " ".join(f"{guard} {each};" for each in self.text.strip("; ").split("; "))


class Writer:
    """Writes one program: 14 statements, of a family and, between them, moves of the registers' parts."""

    def __init__(self, family: Family, seed: int) -> None:
        self.family = family
        self.random = random.Random(seed)
        self.labels = 0
        self.phases = [0, 0]
        """Phase parities of the mbarriers."""

    def text(self) -> str:
        lines = [self.family.begin]
        for width, offset in self.places():
            for i in range(COUNTS[width]):
                lines.append(f"ld.global.b{width} {NAMES[width]}{i}, [in+{offset + i * width // 8}];")
        lines.append("ld.global.b32 t, [in+108];")
        lines += [f"and.b32 v0, t, {1 << i}; setp.ne.b32 p{i}, v0, 0;" for i in range(COUNTS[1])]
        for width in (64, 32, 16):
            mask = self.random.choice((0xFF, 0xF000, 1, 0x00F0))
            i = self.random.randrange(COUNTS[width])
            name, left = f"{NAMES[width]}{i}", ~mask & ((1 << width) - 1)
            scratch = {64: "g", 32: "t", 16: "small"}[width]
            lines.append(f"and.b{width} {scratch}, u{name[0]}0, {mask}; and.b{width} {name}, {name}, {left}; ")
            lines.append(f"or.b{width} {name}, {name}, {scratch};")
        for _ in range(14):
            lines += self.block()
        for width, offset in self.places():
            for i in range(COUNTS[width]):
                lines.append(f"st.global.b{width} [out+{offset + i * width // 8}], {NAMES[width]}{i};")
        lines.append("mov.b32 t, 0;")
        lines += [f"selp.b32 v0, {1 << i}, 0, p{i}; or.b32 t, t, v0;" for i in range(COUNTS[1])]
        lines.append("st.global.b32 [out+108], t;")
        cluster = f"\n.reqnctapercluster {CTAS}" if self.family.cluster else ""
        return HEAD.replace("CLUSTER", cluster) + "\n".join(lines) + "\n" + self.family.end + "ret;\n}\n"

    @staticmethod
    def places() -> tuple[tuple[int, int], ...]:
        """Widths of registers, and where the first of each stands among the bytes of a thread."""
        return (64, 0), (32, 48), (16, 96)

    def block(self) -> list[str]:
        """A statement with or without a guard, or some behind a divergent branch that defined values decide."""
        if self.random.random() < 0.15:
            statements = [s for s in (self.alone() for _ in range(3)) if s is not None]
            self.labels += 1
            label = f"L{self.labels}"
            head = f"setp.{self.random.choice(('lt', 'ge'))}.u32 here, lane, {self.random.randrange(1, 32)}; @here bra {label};"
            return [head, *(s.text for s in statements), f"{label}:", "bar.warp.sync -1;"]
        made = self.statement()
        if made.together or self.random.random() < 0.8:
            return [made.text]
        negated = self.random.choice(("", "!"))
        if made.pure:
            return [made.guarded(f"@{negated}{self.register(1)}")]
        return [f"setp.lt.u32 on, lane, {self.random.randrange(1, 32)};", made.guarded(f"@{negated}on")]

    def alone(self) -> Statement | None:
        """A statement that some lanes may execute alone, or none."""
        phases = list(self.phases)
        made = self.statement()
        if made.together:
            self.phases = phases
        return None if made.together else made

    def statement(self) -> Statement:
        return self.move() if self.random.random() < 0.25 else self.family.statement(self)

    def move(self) -> Statement:
        """Something that takes values apart, or exchanges them between lanes."""
        r, q, h, p = (lambda w=width: self.register(w) for width in (32, 64, 16, 1))
        amount = self.random.randrange(32)
        return self.random.choice(
            (
                Statement(f"mov.b64 {q()}, {{{r()}, {r()}}};", pure=True),
                Statement(f"mov.b32 {r()}, {{{h()}, {h()}}};", pure=True),
                Statement(f"shr.u64 {q()}, {q()}, {amount};", pure=True),
                Statement(f"xor.b32 {r()}, {r()}, {r()};", pure=True),
                Statement(f"and.b64 {q()}, {q()}, {self.random.getrandbits(64)};", pure=True),
                Statement(f"selp.b32 {r()}, {r()}, {r()}, {p()};", pure=True),
                Statement(f"shfl.sync.bfly.b32 {r()}, {r()}, {self.random.randrange(1, 5)}, 31, -1;", together=True),
            )
        )

    def register(self, width: int) -> str:
        """One of the registers of a width."""
        return f"{NAMES[width]}{self.random.randrange(COUNTS[width])}"

    def registers(self, width: int, count: int) -> str:
        """A vector of different registers."""
        return "{" + ", ".join(f"{NAMES[width]}{i}" for i in self.random.sample(range(COUNTS[width]), count)) + "}"

    def phase(self, barrier: int) -> int:
        """The parity of the phase that completes next."""
        self.phases[barrier] ^= 1
        return self.phases[barrier] ^ 1

    def wait(self, barrier: int) -> str:
        """All lanes wait for the next phase of an mbarrier."""
        self.labels += 1
        text = f"W{self.labels}: mbarrier.try_wait.parity.shared::cta.b64 done, [bar+{8 * barrier}], {self.phase(barrier)};"
        return text + f" @!done bra W{self.labels};"


@dataclass(frozen=True)
class Family:
    """Statements of one kind; what a program of them does first and last; whether its CTAs are a cluster."""

    statement: Callable[[Writer], Statement]
    begin: str = ""
    end: str = ""
    cluster: bool = False
