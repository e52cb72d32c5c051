"""mbarrier protocols: programs of one thread that show every answer; threads that exchange data; remote arrivals; copies that arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.hardware.suite._kernel import Kernel, at, entry, words

STEPS = 28
ROWS = 7
"""What a step shows: pending_count of the returned state, then answers to test_wait (parities 0 and 1; the last four states)."""
NOTHING = 0xFFFFFFFF


@dataclass
class _Count:
    """Enough of an mbarrier to write programs that the ISA allows."""

    expected: int
    pending: int = 0
    transactions: int = 0
    phase: int = 0
    states: list[tuple[int, int]] = field(default_factory=list)
    """Registers that hold a state, and the phase it belongs to."""

    def __post_init__(self) -> None:
        self.pending = self.expected

    def settle(self) -> None:
        if self.pending == 0 and self.transactions == 0:
            self.phase, self.pending = self.phase + 1, self.expected


class _Draw:
    """Random choices that no version of NumPy changes."""

    def __init__(self, seed: int) -> None:
        self.raw = iter(np.random.PCG64([50, seed]).random_raw(1000).tolist())

    def below(self, limit: int) -> int:
        return int(next(self.raw) >> 8) % limit


_ORDERS = ("", ".release.cta", ".release.cluster", ".relaxed.cta", ".relaxed.cluster")
_WAITS = ("", ".acquire.cta", ".acquire.cluster", ".relaxed.cta", ".relaxed.cluster")


def _step(m: _Count, draw: _Draw, register: str) -> tuple[str, bool]:
    """One instruction on [%s] that the state allows; whether it gives a state."""
    order = _ORDERS[draw.below(len(_ORDERS))]
    amount = 16 * (1 + draw.below(4))
    if m.pending == 0 or (m.transactions and draw.below(3) == 0):
        rest = abs(m.transactions) if m.pending == 0 or draw.below(2) else amount
        what, sign = ("complete_tx", -1) if m.transactions > 0 else ("expect_tx", 1)
        m.transactions += sign * rest
        return f"mbarrier.{what}.relaxed.cta.shared::cta.b64 [%s], {rest};", False
    kind = draw.below(8)
    if kind == 0:
        m.transactions += amount
        return f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%s], {amount};", False
    if kind == 1:
        m.transactions -= amount
        return f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%s], {amount};", False
    if kind == 2:
        m.transactions += amount
        m.pending -= 1
        return f"mbarrier.arrive.expect_tx{order}.shared::cta.b64 {register}, [%s], {amount};", True
    if kind == 3 and m.pending > 1:
        count = 1 + draw.below(m.pending - 1)
        m.pending -= count
        if m.expected > count and draw.below(2):
            m.expected -= count
            return f"mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64 {register}, [%s], {count};", True
        return f"mbarrier.arrive.noComplete.release.cta.shared::cta.b64 {register}, [%s], {count};", True
    if kind == 4 and m.expected > 2:
        count = 1 + draw.below(min(m.pending, m.expected - 1, 2))
        m.pending -= count
        m.expected -= count
        return f"mbarrier.arrive_drop{order}.shared::cta.b64 {register}, [%s], {count};", True
    if kind == 5 and m.expected > 2:
        m.transactions += amount
        m.pending -= 1
        m.expected -= 1
        return f"mbarrier.arrive_drop.expect_tx{order}.shared::cta.b64 {register}, [%s], {amount};", True
    if kind == 6:
        count = 1 + draw.below(m.pending)
        m.pending -= count
        return f"mbarrier.arrive{order}.shared::cta.b64 {register}, [%s], {count};", True
    m.pending -= 1
    return f"mbarrier.arrive{order}.shared::cta.b64 {register}, [%s];", True


def _shown(step: int, gives: bool, register: str, m: _Count) -> str:
    """Store what the mbarrier answers after a step."""
    lines = []
    if gives:
        lines += [f"mbarrier.pending_count.b64 %r1, {register};", f"st.global.b32 [%out+{4 * ROWS * step}], %r1;"]
    asked = ["test_wait.parity", "test_wait.parity", *["test_wait"] * 4]
    current = [r for r, phase in m.states[-4:] if phase >= m.phase - 1]
    operands = ["0", "1", *(f"%d{r}" for r in current)]
    for i, (question, operand) in enumerate(zip(asked, operands, strict=False), 1):
        lines += [
            f"mbarrier.{question}{_WAITS[(step + i) % len(_WAITS)]}.shared::cta.b64 %p1, [%s], {operand};",
            "selp.u32 %r1, 1, 0, %p1;",
            f"st.global.b32 [%out+{4 * (ROWS * step + i)}], %r1;",
        ]
    return "\n".join(lines)


def _program(seed: int) -> Kernel:
    draw = _Draw(seed)
    m = _Count(expected=(1, 2, 3, 5, 8, 100)[seed % 6])
    lines = [f"mbarrier.init.shared::cta.b64 [%s], {m.expected};"]
    for step in range(STEPS):
        register = f"%d{step % 30}"
        phase = m.phase
        text, gives = _step(m, draw, register)
        if gives:
            m.states.append((step % 30, phase))
        m.settle()
        lines += [text, _shown(step, gives, register, m)]
    lines.append("mbarrier.inval.shared::cta.b64 [%s];")
    name = f"program.{seed}"
    out = np.full((STEPS, ROWS), NOTHING, np.uint32)
    return Kernel(name, entry(name, "out", "\n".join(lines), shared=8), (out,), block=1)


def _wait(bar: str, operand: str, label: str, form: str = "try_wait.parity", hint: str = "") -> str:
    return f"""
{label}:
mbarrier.{form}.shared::cta.b64 %p7, [{bar}], {operand}{hint};
@!%p7 bra {label};
"""


def _exchange(name: str, arrive: str, wait: str, count: int, init: str = "") -> Kernel:
    """Six rounds: each thread writes a word, arrives, waits, and reads its neighbour's word; a CTA barrier before the next round."""
    body = f"""
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared::cta.b64 [%s], {count};
{init}
bar.sync 0;
mov.u32 %r9, 0;
mad.lo.u32 %r10, %t, 4, %s;
add.u32 %r11, %t, 37;
rem.u32 %r11, %r11, 96;
mad.lo.u32 %r11, %r11, 4, %s;
AGAIN:
and.b32 %r8, %r9, 1;
mad.lo.u32 %r1, %r9, 1000, %t;
st.shared.b32 [%r10+64], %r1;
{arrive}
{wait}
ld.shared.b32 %r2, [%r11+64];
mad.lo.u32 %r3, %r9, 96, %t;
{at("%d30", "%out", 4, "%r3")}
st.global.b32 [%d30], %r2;
bar.sync 0;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, 6;
@%p3 bra AGAIN;
"""
    return Kernel(name, entry(name, "out", body, shared=64 + 4 * 96), (np.zeros((6, 96), np.uint32),), block=96)


def exchanges() -> Iterator[Kernel]:
    by_parity = _wait("%s", "%r8", "WAIT")
    by_state = _wait("%s", "%d1", "WAIT", "try_wait")
    plain = "mbarrier.arrive.shared::cta.b64 %d1, [%s];"
    for order in _ORDERS:
        arrive = f"mbarrier.arrive{order}.shared::cta.b64 %d1, [%s];"
        yield _exchange(f"exchange{order}.state", arrive, by_state, 96)
    yield _exchange("exchange.parity", plain, by_parity, 96)
    yield _exchange("exchange.hint", plain, _wait("%s", "%r8", "WAIT", hint=", 5000"), 96)
    yield _exchange("exchange.test", plain, _wait("%s", "%r8", "WAIT", "test_wait.parity"), 96)
    acquire = _wait("%s", "%r8", "WAIT", "try_wait.parity.acquire.cluster")
    yield _exchange("exchange.acquire", plain, acquire, 96)
    several = "mbarrier.arrive.shared::cta.b64 %d1, [%s], 3;"
    yield _exchange("exchange.count", several, by_parity, 288)
    part = "mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%s], 2; bar.sync 1; mbarrier.arrive.shared::cta.b64 %d1, [%s];"
    yield _exchange("exchange.noComplete", part, by_state, 288)
    balance = "mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%s], 48; mbarrier.complete_tx.shared::cta.b64 [%s], 48;"
    yield _exchange("exchange.transactions", balance, by_state, 96)
    early = "mbarrier.complete_tx.shared::cta.b64 [%s], 48; mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%s], 48;"
    yield _exchange("exchange.early", early, by_state, 96)


def _leaving() -> Kernel:
    """In round i the threads with number 16 i and above leave by arrive_drop; the rest meet with ever fewer."""
    body = f"""
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared::cta.b64 [%s], 96;
bar.sync 0;
mov.u32 %r9, 0;
mov.u32 %r10, 80;
AGAIN:
setp.ge.u32 %p2, %t, %r10;
@%p2 bra LEAVE;
mbarrier.arrive.shared::cta.b64 %d1, [%s];
{_wait("%s", "%d1", "WAIT", "try_wait")}
mad.lo.u32 %r3, %r9, 96, %t;
{at("%d30", "%out", 4, "%r3")}
st.global.b32 [%d30], 1;
add.u32 %r9, %r9, 1;
sub.u32 %r10, %r10, 16;
setp.gt.u32 %p3, %r10, 0;
@%p3 bra AGAIN;
ret;
LEAVE:
mbarrier.arrive_drop.shared::cta.b64 %d1, [%s];
mad.lo.u32 %r3, %r9, 96, %t;
{at("%d30", "%out", 4, "%r3")}
st.global.b32 [%d30], 2;
"""
    return Kernel("leaving", entry("leaving", "out", body, shared=8), (np.zeros((6, 96), np.uint32),), block=96)


def _timeout() -> Kernel:
    """A wait for what never comes gives false."""
    body = """
mbarrier.init.shared::cta.b64 [%s], 2;
mbarrier.arrive.shared::cta.b64 %d1, [%s];
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%s], 0;
selp.u32 %r1, 1, 0, %p1;
st.global.b32 [%out], %r1;
mbarrier.try_wait.shared::cta.b64 %p1, [%s], %d1, 1000;
selp.u32 %r1, 1, 0, %p1;
st.global.b32 [%out+4], %r1;
mbarrier.inval.shared::cta.b64 [%s];
mbarrier.init.shared::cta.b64 [%s], 1;
mbarrier.arrive.shared::cta.b64 %d1, [%s];
mbarrier.pending_count.b64 %r1, %d1;
st.global.b32 [%out+8], %r1;
mbarrier.test_wait.shared::cta.b64 %p1, [%s], %d1;
selp.u32 %r1, 1, 0, %p1;
st.global.b32 [%out+12], %r1;
"""
    return Kernel("timeout", entry("timeout", "out", body, shared=8), (np.zeros(4, np.uint32),), block=1)


def _remote(name: str, ctas: int, arrive: str, count: int) -> Kernel:
    """Each thread stores a word in the next CTA and arrives there on %r20; each waits on its own mbarrier; six rounds."""
    body = f"""
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared::cta.b64 [%s], {count};
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed;
barrier.cluster.wait.acquire;
mov.u32 %r9, 0;
add.u32 %r1, %rank, 1;
rem.u32 %r1, %r1, {ctas};
mapa.shared::cluster.u32 %r20, %s, %r1;
mad.lo.u32 %r21, %t, 4, %r20;
mad.lo.u32 %r22, %t, 4, %s;
AGAIN:
and.b32 %r8, %r9, 1;
mad.lo.u32 %r2, %r9, 1000, %g;
st.shared::cluster.b32 [%r21+64], %r2;
{arrive}
{_wait("%s", "%r8", "WAIT", "try_wait.parity.acquire.cluster")}
ld.shared.b32 %r3, [%r22+64];
mad.lo.u32 %r4, %r9, {64 * ctas}, %g;
{at("%d30", "%out", 4, "%r4")}
st.global.b32 [%d30], %r3;
barrier.cluster.arrive;
barrier.cluster.wait;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, 6;
@%p3 bra AGAIN;
"""
    text = entry(name, "out", body, cluster=(ctas,), shared=64 + 4 * 64)
    return Kernel(name, text, (np.zeros((6, ctas, 64), np.uint32),), grid=ctas, block=64)


def remotes() -> Iterator[Kernel]:
    for ctas in (2, 4, 8):
        plain = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];"
        yield _remote(f"remote.{ctas}.arrive", ctas, plain, 64)
        yield _remote(f"remote.{ctas}.count", ctas, plain.replace("];", "], 5;"), 320)
        expect = """mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r20], 32;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r20], 32;"""
        yield _remote(f"remote.{ctas}.expect", ctas, expect, 64)
        apart = """mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r20], 16;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r20], 16;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];"""
        yield _remote(f"remote.{ctas}.apart", ctas, apart, 64)
        for form, drop in (("drop", "_, [%r20]"), ("drop_expect", "_, [%r20], 16")):
            opcode = f"mbarrier.arrive_drop{'.expect_tx' if form == 'drop_expect' else ''}.release.cluster.shared::cluster.b64"
            first = f"""setp.eq.u32 %p5, %r9, 0;
@%p5 {opcode} {drop};
{"@%p5 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r20], 16;" if form == "drop_expect" else ""}
{plain}"""
            yield _remote(f"remote.{ctas}.{form}", ctas, first, 128)


def _copied(name: str, arrive: str, count: int, bytes_: int, opcode: str) -> Kernel:
    """cp.async brings each thread's bytes, and its arrival tells of them."""
    body = f"""
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared::cta.b64 [%s], {count};
bar.sync 0;
mad.lo.u32 %r1, %t, {bytes_}, %s;
{at("%d30", "%given", bytes_)}
{opcode} [%r1+64], [%d30], {bytes_};
{arrive}
{_wait("%s", "0", "WAIT")}
xor.b32 %r2, %t, 63;
mad.lo.u32 %r3, %r2, {bytes_}, %s;
{at("%d31", "%out", bytes_)}
""" + "\n".join(f"ld.shared.b32 %r4, [%r3+{64 + i}]; st.global.b32 [%d31+{i}], %r4;" for i in range(0, bytes_, 4))
    given = words(60, 16 * bytes_)
    return Kernel(name, entry(name, "given out", body, shared=64 + 64 * bytes_), (given, np.zeros_like(given)), block=64)


def copies() -> Iterator[Kernel]:
    for opcode, sizes in (("cp.async.ca.shared.global", (4, 8, 16)), ("cp.async.cg.shared.global", (16,))):
        for size in sizes:
            noinc = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%s];"
            counted = "cp.async.mbarrier.arrive.shared::cta.b64 [%s]; mbarrier.arrive.shared::cta.b64 _, [%s];"
            yield _copied(f"{opcode}.{size}.noinc", noinc, 64, size, opcode)
            yield _copied(f"{opcode}.{size}.inc", counted, 64, size, opcode)


def kernels() -> list[Kernel]:
    return [*(_program(seed) for seed in range(32)), *exchanges(), _leaving(), _timeout(), *remotes(), *copies()]
