"""Instructions of warpgroups that compiled code repeats under the race check, and waits in which it blocks warps: as with handlers.

Findings, clocks, statistics and bits are compared. Faults that come late are found as those that come first.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.check.race._sanitizer import Sanitizer
from ptxlab.diagnostics import render_text
from ptxlab.engine.repetitions import Repetitions
from ptxlab.isa.wgmma._state import Warpgroup
from ptxlab.machine.launch import launch as launching
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise

from .test_repeated import COMMIT, FENCE, IN_REGISTERS, LOOPS, MISTAKES, WAIT, module, product

ONE = product("f32.f16.f16", 64, 16)


def _nothing(launch: Any) -> None:
    """Permit no arrivals."""


@pytest.fixture(autouse=True)
def optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use optimised functions from the start: what is compiled quickly at first repeats nothing."""
    optimise(monkeypatch)


def both_ways(text: str, threads: int = 256, **options: Any) -> tuple[str, list[list[int]]]:
    """The findings; and for each launch how often handlers have issued an operation, blocked a warp, and entered an execution.

    Two launches with compiled code, and one with handlers alone, are asserted to be equal.
    """
    kernel, found = ptxlab.loads(text).kernel(), []
    counts: list[list[int]] = []

    def counted(number: int, act: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            counts[-1][number] += 1
            return act(*given, **more)

        return call

    for repeats in (True, True, False):
        clocks: list[bytes] = []
        counts.append([0, 0, 0])
        with pytest.MonkeyPatch.context() as patch:
            ended = Sanitizer.ended
            patch.setattr(Sanitizer, "ended", lambda self, cta: (clocks.append(cta.state["race"].rows.tobytes()), ended(self, cta))[1])  # noqa: B023
            if not repeats:
                patch.setattr(launching, "turns_of", lambda launch, dispatch: None)
                patch.setattr(context_words, "_permit_arrivals", _nothing)
                patch.setattr(context_words, "_table_of_repetitions", lambda launch: 0)
            for number, (owner, name) in enumerate(((Warpgroup, "issue"), (Warpgroup, "wait_for"), (Repetitions, "add"))):
                patch.setattr(owner, name, counted(number, getattr(owner, name)))
            out = np.zeros((2 * threads, 256), np.uint32)
            result = kernel.launch(grid=(2,), block=(threads,), args=[out], **({"check": ("race",)} | options))
            stats = result.stats.instructions, result.stats.services
            found.append((out.tobytes(), stats, render_text(result.diagnostics), result.completed, clocks))
    assert found[0] == found[2]
    assert found[1] == found[2]
    return found[0][2], counts


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str, check: Any) -> None:
    texts, (_, again, handled) = both_ways(module(LOOPS[name], 40), check=check)
    assert texts == ""
    if name not in ("overlapping D", "no waits"):
        # Handlers execute some instructions, and those that a warp executes far ahead of the others.
        assert again[2]
        assert again[0] < handled[0] / 2
        assert again[1] < handled[1] / 2


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    texts, (first, *_) = both_ways(module(MISTAKES[name] + LOOPS["f16"]))
    assert texts
    assert first[2]


ONE_STOPS = "setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %w, 3, %r; @%r bra stop; bra.uni on; stop: bar.sync 3, 64; on:"
ONE_SPINS = ONE_STOPS.replace("bar.sync 3, 64;", "mov.u32 %j, 0; spin: add.u32 %j, %j, 1; bra.uni spin;")


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("name", ["f16", "in flight"])
@pytest.mark.parametrize("stops", [ONE_STOPS, ONE_SPINS], ids=["stops", "spins"])
def test_a_hang_is_explained_as_before(stops: str, name: str, check: Any) -> None:
    texts, _ = both_ways(module(stops + LOOPS[name]), check=check, max_instructions=900_000)
    assert "waits for operations of its warpgroup" in texts or stops == ONE_SPINS
    assert texts


STORE = "mad.lo.u32 %j, %t, 4, mem; @%r st.shared.b32 [%j], %x;"
LATE = "setp.eq.u32 %r, %i, {number};"
PROXY = "fence.proxy.async.shared::cta; bar.sync 0;"
FAULTS = {
    "operands are overwritten in flight": (FENCE + ONE + COMMIT + STORE + f"{WAIT} 0;" + PROXY, "X110"),
    "operands are overwritten after a wait for older groups": (
        FENCE + ONE + COMMIT + FENCE + product("f32.f16.f16", 64, 16, p="1") + COMMIT + f"{WAIT} 1;" + STORE + f"{WAIT} 0;" + PROXY,
        "X110",
    ),
    "operands are not committed": (FENCE + ONE + f"{WAIT} 0;" + STORE + COMMIT + f"{WAIT} 0;" + PROXY, "X110"),
    "a wait is passed over": (FENCE + ONE + COMMIT + f"@%r bra on; {WAIT} 0; on:" + STORE + f"{WAIT} 0;" + PROXY, "X110"),
    "no proxy fence": (STORE + "bar.sync 0;" + FENCE + ONE + COMMIT + f"{WAIT} 0; bar.sync 0;" + PROXY, "X102"),
    "no barrier": (STORE + "fence.proxy.async.shared::cta;" + FENCE + ONE + COMMIT + f"{WAIT} 0;" + PROXY, "X110"),
    "other warps may still read": (FENCE + ONE + COMMIT + f"{WAIT} 0; xor.b32 %x, %w, 4;" + STORE + PROXY, "X110"),
    "an exit in flight": (FENCE + ONE + COMMIT + f"@%r exit; {WAIT} 0;", "X1"),
    "A in registers": (
        FENCE + product("f32.f16.f16", 64, 16, IN_REGISTERS) + COMMIT + STORE.replace("mem", "mem+0x2000") + f"{WAIT} 0;",
        "X110",
    ),
}


OF_SEVERAL_WARPGROUPS = "no barrier", "other warps may still read"
"""Faults if another warpgroup writes: the four warps of one wait together, and the operation follows all of them."""


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_come_late(name: str, threads: int) -> None:
    loop, code = FAULTS[name]
    texts = []
    for number in (0, 12, 100):
        found, (counts, *_) = both_ways(module(LATE.format(number=number) + loop, 16), threads)
        texts.append(found)
        assert counts[2]
    first, late, none = texts
    if threads == 128 and name in OF_SEVERAL_WARPGROUPS:
        code = ""
    assert code in first
    assert code in late
    assert bool(first) == bool(late) == bool(code)
    assert none == ""


STEPS = {
    FENCE: 3,
    ONE: 6,
    product("f32.f16.f16", 64, 16, p="1", d="e"): 3,
    product("f32.f16.f16", 64, 16, IN_REGISTERS): 1,
    product("f32.f16.f16", 32, 16, p="1"): 1,
    COMMIT: 5,
    f"{WAIT} 0;": 2,
    f"{WAIT} 1;": 2,
    f"{WAIT} 3;": 1,
    "bar.sync 0;": 1,
    PROXY: 1,
    "setp.eq.u32 %r, %i, 7;" + STORE: 1,
    "mov.u32 %j, 0; spin{n}: add.u32 %j, %j, 1; setp.lt.u32 %r, %j, %t; @%r bra spin{n};": 1,
}


@pytest.mark.parametrize("seed", range(10))
def test_random_loops(seed: int) -> None:
    """Whatever is wrong with them."""
    choice = Random(seed)
    drawn = choice.choices(list(STEPS), list(STEPS.values()), k=choice.randrange(4, 14))
    loop = "".join(text.replace("{n}", str(number)) for number, text in enumerate(drawn))
    both_ways(module(loop, 16), choice.choice((128, 256)), check=choice.choice((("race",), ("race",), "all", "none")))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["operands are overwritten in flight", "two D"])
def test_random_schedules_and_workers(name: str, seed: int) -> None:
    text = module(LATE.format(number=12) + (FAULTS[name][0] if name in FAULTS else LOOPS[name]), 16)
    kernel, found = ptxlab.loads(text).kernel(), []
    for options in ({"policy": "random", "seed": seed}, {"policy": "eager"}):
        for workers in (1, 2):
            out = np.zeros((256, 256), np.uint32)
            result = kernel.launch(grid=(2,), block=(128,), args=[out], check="all", workers=workers, **options)
            stats = result.stats.instructions, result.stats.services
            found.append((out.tobytes(), render_text(result.diagnostics), stats))
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert ("X110" in found[0][1]) == ("X110" in found[2][1]) == (name in FAULTS)
