"""Compiled code repeats tcgen05.cp and block-scaled products, and finds of their scale factors what handlers find."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from ptxlab.check.operands._observer import OperandCheck
from ptxlab.check.operands.compiled.scale_tables import LONGEST, SourceTable
from ptxlab.check.operands.scales.check import ScaleCheck
from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.warp.warp import Warp
from ptxlab.numerics import MmaProgram
from tests.optimised_helpers import optimise_race_check

from .scaled_loop_kernels import (
    ANEW,
    BOX_OF_FACTORS,
    COPY,
    COPY_OF_B,
    FACTORS_OF_TURN,
    LOAD_FACTORS,
    MIXED,
    MMA,
    STORE_FACTORS,
    TO_A,
    TO_B,
    TURNS,
    launch,
    loop,
    mixed,
    of_pairs,
)

CTAS = 2
KERNELS = {"words": partial(loop, False), "boxes": partial(loop, True), "pairs": partial(of_pairs, True)}
KERNELS["pairs, words"] = partial(of_pairs, False)
KERNELS |= {way: partial(mixed, way) for way in MIXED} | {f"pairs, {way}": partial(mixed, way, pairs=True) for way in MIXED}


@pytest.fixture(autouse=True, scope="module")
def _optimised() -> None:
    """Functions of the race check are not exchanged during a launch, after which one more turn would be Python's."""
    optimise_race_check()


def executed(text: str, way: str, turns: int, **options: Any) -> tuple[list[Any], list[str], int]:
    """What a launch gives and what is known of tensor memory at the end of each CTA; the codes; how often Python has been called."""
    found: list[Any] = []
    called: list[AsyncOperation] = []
    ended, performing = ScaleCheck.ended, OperandCheck.performing

    def note(self: ScaleCheck, sources: Any, cta: Any) -> None:
        tables = [(key, table.count, table.rows) for key, table in sources.tables.known.items()]
        found.append((sources.codes.tobytes(), sources.values.tobytes(), sources.addresses.tobytes(), tables))
        ended(self, sources, cta)

    def count(self: OperandCheck, operation: AsyncOperation) -> None:
        if operation.product is not None or operation.tensor_copy is not None:
            called.append(operation)
        performing(self, operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScaleCheck, "ended", note)
        patch.setattr(OperandCheck, "performing", count)
        patch.setattr(MmaProgram, "optimised", True)
        result, computed = launch(text, way in ("boxes", "pairs"), turns, CTAS, **{"check": "operands"} | options)
    stats = result.stats.instructions, result.stats.services, result.completed
    return [result.diagnostics, stats, computed, found], [each.code for each in result.diagnostics], len(called)


def both_ways(text: str, way: str, turns: int = TURNS, **options: Any) -> tuple[list[str], int, int]:
    """The codes, which are the same with handlers alone as all else, and how often Python has been called, and would have been."""
    found, codes, called = executed(text, way, turns, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warp, "repeats", False)
        expected, _, handled = executed(text, way, turns, **options)
    assert found == expected
    return codes, called, handled


@pytest.mark.parametrize("check", ["operands", "all"])
@pytest.mark.parametrize("way", KERNELS)
def test_python_follows_the_first_turns(way: str, check: str) -> None:
    counts = []
    for turns in (TURNS, 2 * TURNS, 10 * TURNS):
        codes, called, handled = both_ways(KERNELS[way](turns), way, turns, check=check)
        assert codes == []
        assert handled == 6 * turns * CTAS // (1 + (way.startswith("pairs")))
        counts.append((called, handled))
    assert counts[0][0] == counts[1][0] == counts[2][0] < counts[0][1] // 2


def changed(way: str, changes: dict[str, str], turns: int = TURNS) -> str:
    text = KERNELS[way](turns)
    for each in changes.items():
        old, new = (part.replace("cta_group::1", "cta_group::2") if way.startswith("pairs") else part for part in each)
        assert old in text
        text = text.replace(old, new)
    return text


def of_turn(moved: int) -> dict[str, str]:
    """In one turn the scale factors are those of another one."""
    return {LOAD_FACTORS: f"@late add.u64 scales, scales, {1024 * moved}; {LOAD_FACTORS} @late sub.u64 scales, scales, {1024 * moved};"}


STORED = "fence.proxy.async.shared::cta;"
LOAD_CELL = """mul.wide.u32 w, tid, 4; sub.u64 w, scales, w; and.b32 x1, tid, 31; mul.wide.u32 from, x1, 16; add.u64 w, w, from;
ld.global.b32 x0, [w+-1024];"""
STORE_CELL = "tcgen05.st.sync.aligned.32x32b.x1.b32 [fa], {x0}; tcgen05.wait::st.sync.aligned; OFF:"
NO_COPY = {TO_A: f"@!late {TO_A}"}
FROM_A = {COPY_OF_B: COPY_OF_B.replace("[w]", "[from]")}
OF_B = {TO_A: f"@late add.u64 sa, sa, 32; {TO_A} @late sub.u64 sa, sa, 32;"}
ONE_OF_B = "setp.eq.and.u32 q, k, 1, late; @q sub.u32 fa, fa, -4; " + MMA + " @q sub.u32 fa, fa, 4;"
GROUPS_APART = "shr.b32 k, tid, 5; shl.b32 k, k, 7; @late add.u32 to, to, k; " + STORE_FACTORS.replace("; st", "; @!late st")
"""In one turn groups of 8 rows of A are 256 bytes apart, over those of B."""
SWIZZLED = "xor.b32 to, k, part;"
SAME_K = "setp.eq.and.u32 q, k, 1, late; @q sub.u64 ad, ad, 2; " + MMA + " @q add.u64 ad, ad, 2;"
OTHER_A = f"setp.eq.and.u32 q, cta, RANK, late; @q sub.u64 from, from, 128; {COPY} @q add.u64 from, from, 128;"
"""In one turn a CTA copies A from the k before."""
LONGER = 0x800000000
"""Added to the stride dimension byte offset."""
ALL_ANEW = {ANEW: "setp.ne.u32 acc, k, k;"}
ONE_ANEW = {ANEW: "setp.ne.u32 acc, k, 0;"}

Case = tuple[str, dict[str, str], set[str]]
CASES: dict[str, Case] = {
    #                             the kernel, what is replaced, and the codes of the findings
    "another turn":              ("words", of_turn(-1), {"O108"}),
    "two turns before":          ("words", of_turn(-2), {"O108"}),
    "those of B":                ("words", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"}, {"O108"}),
    "those of B, one array":     ("words", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"} | FROM_A, set()),
    "other rows":                ("words", {STORE_FACTORS: GROUPS_APART}, {"O101"}),
    "another row":               ("words", {STORE_FACTORS: f"setp.eq.and.u32 q, tid, 9, late; @q sub.u32 to, to, 4; {STORE_FACTORS}"},
                                  set()),
    "computed":                  ("words", {STORE_FACTORS: f"@late add.u32 x0, x0, 0; {STORE_FACTORS}"}, set()),
    "stored":                    ("words", NO_COPY | {STORED: f"@!late bra OFF; {LOAD_CELL} {STORE_CELL} {STORED}"}, set()),
    "computed and stored":       ("words", NO_COPY | {STORED: f"@!late bra OFF; {LOAD_CELL} add.u32 x0, x0, 0; {STORE_CELL} {STORED}"},
                                  set()),
    "those of B before":         ("words", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+-512];"}, {"O108"}),
    "those of B, all D anew":    ("words", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"} | ALL_ANEW, {"O108"}),
    "all D anew":                ("words", ALL_ANEW, set()),
    "no copy":                   ("words", NO_COPY, {"O108"}),
    "no copy of B":              ("words", {TO_B: f"@!late {TO_B}"}, {"O108"}),
    "a copy of those of B":      ("words", OF_B, {"O108"}),
    "one product":               ("words", {MMA: ONE_OF_B}, {"O108"}),
    "one product, D anew":       ("words", {MMA: ONE_OF_B} | ONE_ANEW, {"O108"}),
    "D anew":                    ("words", ONE_ANEW, set()),
    "D anew, another turn":      ("words", of_turn(-1) | ONE_ANEW, set()),
    "boxes: no copy":            ("boxes", NO_COPY, {"O108"}),
    "boxes: no copy of B":       ("boxes", {TO_B: f"@!late {TO_B}"}, {"O108"}),
    "boxes: those of B":         ("boxes", OF_B, {"O108"}),
    "boxes: one product":        ("boxes", {MMA: ONE_OF_B}, {"O108"}),
    "boxes: one, D anew":        ("boxes", {MMA: ONE_OF_B} | ONE_ANEW, {"O108"}),
    "boxes: D anew":             ("boxes", ONE_ANEW, set()),
    "boxes: another turn":       ("boxes", {FACTORS_OF_TURN: f"{FACTORS_OF_TURN} @late sub.u32 x1, x1, 1;"}, set()),
    "boxes: the other buffer":   ("boxes", {TO_A: f"@late add.u64 sa, sa, 64; {TO_A} @late sub.u64 sa, sa, 64;"}, {"O108"}),
    "pairs: no copy":            ("pairs", NO_COPY, {"O108"}),
    "pairs: those of B":         ("pairs", OF_B, {"O108"}),
    "pairs: one, D anew":        ("pairs", {MMA: ONE_OF_B} | ONE_ANEW, {"O108"}),
    "pairs: D anew":             ("pairs", ONE_ANEW, set()),
    "pairs: groups apart":       ("pairs", {TO_A: f"@late add.u64 sa, sa, {LONGER}; {TO_A} @late sub.u64 sa, sa, {LONGER};"}, {"O101"}),
    "pairs: half a box further": ("pairs", {BOX_OF_FACTORS: "and.pred q, late, leader; @q sub.u32 to, to, 512; " + BOX_OF_FACTORS}, set()),
    "pairs, words: another":     ("pairs, words", of_turn(-1), {"O108"}),
    "pairs, words: two before":  ("pairs, words", of_turn(-2), {"O108"}),
    "pairs, words: those of B":  ("pairs, words", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"}, {"O108"}),
    "pairs, words: one array":   ("pairs, words",
                                  {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"} | FROM_A, set()),
    "pairs, words: groups":      ("pairs, words", {STORE_FACTORS: GROUPS_APART}, {"O101"}),
    "pairs, words: computed":    ("pairs, words", {STORE_FACTORS: f"@late add.u32 x0, x0, 0; {STORE_FACTORS}"}, set()),
    "pairs, words: no copy":     ("pairs, words", NO_COPY, {"O108"}),
    "pairs, words: one product": ("pairs, words", {MMA: ONE_OF_B}, {"O108"}),
    "pairs, words: D anew":      ("pairs, words", ONE_ANEW, set()),
    "pairs, words: exchanged":   ("pairs, words", {SWIZZLED: f"{SWIZZLED} @late xor.b32 to, to, 4;"}, set()),
    "pairs, words: other A":     ("pairs, words", {COPY: OTHER_A.replace("RANK", "0")}, {"O105"}),
    "pairs, words: other A of 1": ("pairs, words", {COPY: OTHER_A.replace("RANK", "1")}, {"O105"}),
    "pairs, words: the same k":  ("pairs, words", {MMA: SAME_K}, {"O105"}),
    "bulk A and B: another":     ("bulk A and B", of_turn(-1), {"O108"}),
    "bulk A and B: one product": ("bulk A and B", {MMA: ONE_OF_B}, {"O108"}),
    "bulk A and B: no copy":     ("bulk A and B", NO_COPY, {"O108"}),
    "bulk A: another":           ("bulk A", of_turn(-2), {"O108"}),
    "bulk A: those of B":        ("bulk A", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"}, {"O108"}),
    "computed B: those of B":    ("computed B", {LOAD_FACTORS: f"{LOAD_FACTORS} @late ld.global.b32 x0, [scales+512];"}, set()),
    "computed B: another":       ("computed B", of_turn(-1), {"O108"}),
    "bulk A, computed B: one":   ("bulk A, computed B", {MMA: ONE_OF_B}, {"O108"}),
    "boxes: half a box further": ("boxes", {BOX_OF_FACTORS: f"@late sub.u32 to, to, 512; {BOX_OF_FACTORS}"}, set()),
    "boxes: groups apart":       ("boxes", {TO_A: f"@late add.u64 sa, sa, {LONGER}; {TO_A} @late sub.u64 sa, sa, {LONGER};"}, {"O101"}),
}  # fmt: skip


@pytest.mark.parametrize("check", ["operands", "all"])
@pytest.mark.parametrize("name", CASES)
def test_findings(name: str, check: str) -> None:
    way, changes, codes = CASES[name]
    found, called, handled = both_ways(changed(way, changes), way, check=check)
    assert {code for code in found if check == "operands" or code[0] == "O"} == codes
    assert called < handled


@pytest.mark.parametrize("name", ["another turn", "no copy", "those of B", "boxes: no copy", "boxes: those of B", "boxes: D anew"])
def test_long_loops(name: str) -> None:
    """Compiled code compares after so many instructions."""
    turns = (LONGEST + 12) // 4
    way, changes, codes = CASES[name]
    found, called, handled = both_ways(changed(way, changes, turns), way, turns)
    assert set(found) == codes
    assert called < handled // 8


@pytest.mark.parametrize("way", KERNELS)
def test_scale_factors_that_are_stored(way: str) -> None:
    """Nothing is known of them, and nothing is copied to tensor memory."""
    store = "mov.u32 x0, 0x7f7f7f7f; " + " ".join(
        f"add.u32 to, fa, {column}; tcgen05.st.sync.aligned.32x32b.x1.b32 [to], {{x0}};" for column in range(8)
    )
    begin = "mov.u32 i, 0; mov.u32 n, 0;"
    counts = []
    for turns in (TURNS, 2 * TURNS):
        text = changed(way, {TO_A: "", TO_B: "", begin: f"{store} tcgen05.wait::st.sync.aligned; bar.sync 0; {begin}"}, turns)
        codes, called, handled = both_ways(text, way, turns)
        assert codes == []
        assert handled == 4 * turns * CTAS // (1 + (way.startswith("pairs")))
        counts.append(called)
    assert counts[0] == counts[1]


def is_regular(sources: list[tuple[int, int]]) -> bool:
    """Whether all sources are taken equally often in a row, at the end perhaps less often; once, or all in turn again and again."""
    runs = [(source, len(list(group))) for source, group in groupby(sources)]
    lengths = [length for _, length in runs]
    if any(length != lengths[0] for length in lengths[:-1]) or lengths[-1] > lengths[0]:
        return False
    taken = [source for source, _ in runs]
    period = len(set(taken))
    return len(taken) % period == 0 and taken == taken[:period] * (len(taken) // period)


def is_again_in_a_row(uses: list[tuple[tuple[int, int], int]]) -> bool:
    """Whether scale factors that others have followed are taken again, for another k in the same rows of 128 bytes."""
    before: dict[tuple[tuple[int, int], int], int] = {}
    for _, run in groupby(uses, key=lambda use: use[0]):
        taken = list(run)
        if any(before.get((source, start // 128), start) != start for source, start in taken if start >= 0):
            return True
        before.update({(source, start // 128): start for source, start in taken})
    return False


def test_turns() -> None:
    random = np.random.default_rng(3)
    seen = set()
    for _ in range(4000):
        period, length, count = random.integers(1, 5), random.integers(1, 4), random.integers(1, 20)
        uses = [((1 + i // length % period, i // length % period % 2), -1) for i in range(count)]
        starts = random.choice([-1, 0, 32, 96, 128, 192], (period, length))
        uses = [(source, int(starts[i // length % period, i % length])) for i, (source, _) in enumerate(uses)]
        if random.integers(3) == 0:
            uses[random.integers(count)] = uses[random.integers(count)]
        if random.integers(3) == 0:
            source, start = uses[random.integers(count)]
            uses[random.integers(count)] = source, 32 if start < 0 else start ^ 32
        table = SourceTable(LONGEST)
        for number, (source, start) in enumerate(uses):
            table.add(number, source, start)
        expected = not is_regular([source for source, _ in uses]), is_again_in_a_row(uses)
        assert table.out_of_turn == any(expected), uses
        seen.add(expected)
    assert len(seen) == 4
    table.clear()
    assert not table.out_of_turn
    table.forget()
    assert not table.out_of_turn
