"""The compiled shadow against the plain one that forgets nothing, over random accesses and clocks."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from benchmarks.mutations.exact import ExactShadow
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.check.model import Component, Kind, Row, rule, rule_table, scoped
from ptxlab.check.race.shadow import shadow as shadow_module
from ptxlab.check.race.shadow.shadow import MEMORY_GRANULE, Shadow
from ptxlab.check.race.shadow.shadow_words import CONCURRENT, HOW_SHIFT, StateWord
from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.isa.operations import MemoryAccess

from .small_kernels import SCHEDULES, found, launch

SLOTS = 4
WIDTH = 2 * SLOTS
KINDS = [(kind, write) for kind in Kind for write in (False, True)]

access = st.tuples(
    st.integers(0, SLOTS - 1),  # slot
    st.sampled_from(KINDS),
    st.integers(0, 95),  # first byte
    st.sampled_from([1, 4, 16, 33]),
    st.integers(0, SLOTS - 1),  # a slot whose accesses the accessing agent learns to be complete before
    st.booleans(),
)
SIZES = (1, 4, 16)
row = st.tuples(
    st.integers(0, SLOTS - 1),
    st.sampled_from(KINDS[:6]),
    st.sampled_from(SIZES),  # bytes of a lane's access
    st.sampled_from(["block", "swizzled", "apart", "one", "some", "rows"]),
    st.integers(0, 63),  # where it begins
    st.integers(0, SLOTS - 1),
    st.booleans(),
    st.booleans(),  # whether the agent counts it as another access
)


def shadow(kind: type[Shadow], data: np.ndarray) -> tuple[Shadow, np.ndarray]:
    return made_of(kind, data, np.zeros((1, 2), np.uint64))


def made_of(kind: type[Shadow], data: np.ndarray, ops: np.ndarray) -> tuple[Shadow, np.ndarray]:
    made = kind(ops, rule_table("practice"))
    made.watch(data, MEMORY_GRANULE, 64, Row.ASYNC_SHARED, "memory")
    made.words[StateWord.WIDTH] = WIDTH
    return made, np.zeros((SLOTS, len(Row), WIDTH), np.uint32)


def advance(rows: np.ndarray, clocks: list[int], slot: int, learnt: int) -> np.ndarray:
    """The rows of an agent that learns what another knows and has done, and counts its own next access."""
    if learnt != slot:
        np.maximum(rows[slot], rows[learnt], out=rows[slot])
        rows[slot][:, 2 * learnt : 2 * learnt + 2] = clocks[learnt]
    clocks[slot] += 1
    rows[slot][:, 2 * slot : 2 * slot + 2] = clocks[slot]
    own: np.ndarray = rows[slot]
    return own


def concurrent(made: Shadow) -> set[tuple[int, ...]]:
    return {(whose, who, place) for whose, _, who, _, place, wrong in made.suspects().tolist() if wrong == CONCURRENT}


@settings(max_examples=300, deadline=None)
@given(st.lists(access, min_size=2, max_size=24))
def test_the_compiled_shadow_misses_nothing(accesses: list) -> None:
    """What the plain shadow finds first for a granule, the compiled one finds too; it never finds more."""
    data = np.zeros(160, np.uint8)
    (fast, rows), (plain, _) = shadow(Shadow, data), shadow(ExactShadow, data)
    clocks = [0] * SLOTS
    dead = set()
    for slot, (kind, write), first, size, learnt, learns in accesses:
        own = advance(rows, clocks, slot, learnt if learns else slot)
        touch = MemoryAccess(np.array([data.ctypes.data + first], np.uint64), np.array([size], np.uint32), write)
        found = []
        for made in (fast, plain):
            made.words[StateWord.ROWS] = own.ctypes.data
            made.access(touch, (2 * slot) << 32 | clocks[slot], (kind << 1 | write) << HOW_SHIFT)
            found.append(concurrent(made))
        assert found[0] <= found[1]
        # Behind a race, which is reported once, the order of what follows is anyone's guess: look at granules without one.
        assert {place for *_, place in found[1]} - dead <= {place for *_, place in found[0]}
        dead |= {place for *_, place in found[1]}


def hosts(how: str, size: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Offsets of the 32 lanes, and which of them execute."""
    lanes, mask = np.arange(32), 0xFFFFFFFF
    if how == "some":
        mask = int(rng.integers(1, 1 << 32))
    offsets = {
        "block": lanes,
        "swizzled": lanes ^ lanes >> 3 & 3,
        "apart": 3 * lanes,
        "one": 0 * lanes,
        "some": rng.permutation(32),
        "rows": lanes % 8 + lanes // 8 * 20,
    }[how]
    return size * offsets, mask


@settings(max_examples=300, deadline=None)
@given(st.lists(row, min_size=2, max_size=12), st.integers(0, 99))
def test_rows_of_lanes(rows_of: list, seed: int) -> None:
    """What 32 lanes reach, block or not, drained row by row: the compiled shadow finds a race in the granules where the plain one does."""
    rng = np.random.default_rng(seed)
    data = np.zeros(16 * 32 * 4, np.uint8)
    ops = np.array([(kind << 1 | write, size, 0) for kind, write in KINDS for size in SIZES], np.uint64)
    (fast, rows), (plain, _) = (made_of(kind, data, ops) for kind in (Shadow, ExactShadow))
    clocks = [0] * SLOTS
    dead: set[int] = set()
    for slot, how, size, pattern, first, learnt, learns, counts in rows_of:
        own = advance(rows, clocks, slot, learnt if learns else slot) if counts or not clocks[slot] else rows[slot]
        offsets, mask = hosts(pattern, size, rng)
        op = len(SIZES) * KINDS.index(how) + SIZES.index(size)
        recorded = np.zeros((1, ROW_WORDS), np.uint64)
        recorded[0, 0] = op | mask << 32
        recorded[0, 2:] = data.ctypes.data + size * first % 256 + offsets
        found = []
        for made in (fast, plain):
            made.words[StateWord.ROWS] = own.ctypes.data
            made.words[StateWord.SLOT] = 2 * slot
            assert made.drain(recorded.ctypes.data, 0, 1) == 1
            found.append({place for *_, place in concurrent(made)})
        assert found[0] - dead == found[1] - dead
        dead |= found[1]


EXCHANGES = """
shr.u32 %r4, %r1, 5;
shl.b32 %r4, %r4, 2;
add.u32 %r3, %r2, %r4;
st.shared.b32 [%r3], %r4;
st.shared.b32 [%r3+16], %r4;
bar.sync 0;
ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r2];
ld.shared.v4.b32 {{%r14, %r15, %r16, %r17}}, [%r2+16];
bar.sync 0;
st.shared.b32 [%r3], %r11;
bar.sync 0;
ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r2];
st.shared.b32 [%r3+16], %r14;
{meet}
ld.shared.v4.b32 {{%r14, %r15, %r16, %r17}}, [%r2+16];
"""
"""Four warps exchange two words each, then one, then the other: no later access replaces an earlier one as a whole."""


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_many_small_accesses_to_one_granule(schedule: dict) -> None:
    assert found(launch(EXCHANGES.format(meet="bar.sync 0;"), block=128, **schedule)) == []
    codes = {code for code, _ in found(launch(EXCHANGES.format(meet=""), block=128, **schedule))}
    assert codes == {"X101"}


@pytest.mark.parametrize("model", ["practice", "spec"])
def test_the_table_is_the_rule(model: str) -> None:
    table = rule_table(model)
    for earlier, wrote in KINDS:
        for later, writes in KINDS:
            found = rule(earlier, wrote, later, writes, model)
            word = int(table[(earlier << 1 | wrote) << 5 | later << 1 | writes])
            kinds = itertools.product(Kind, (False, True))
            covers = all(rule(later, writes, *k, model).conflict for k in kinds if rule(earlier, wrote, *k, model).conflict)
            assert bool(word & 64) is (covers and not scoped(earlier, later))
            assert (bool(word & 128), Component(word & 1), Row(word >> 1 & 3), bool(word & 8), bool(word & 16)) == found


PIPELINES = [
    (Kind.MMA, Kind.MMA),
    (Kind.CP, Kind.MMA),
    (Kind.CP_4X256B, Kind.MMA),
    (Kind.SHIFT, Kind.MMA),
    (Kind.SHIFT, Kind.CP_4X256B),
    (Kind.MMA, Kind.SHIFT),
]
"""Section "Pipelined tcgen05 Instructions"."""
RELIED_ON = [(a, b) for a in (Kind.MMA, Kind.CP, Kind.CP_4X256B) for b in (Kind.CP, Kind.CP_4X256B)]
"""What kernels rely on besides."""


@pytest.mark.parametrize("model", ["practice", "spec"])
def test_pipelines(model: str) -> None:
    """All pairs of asynchronous operations on tensor memory, and which of them are ordered by their issue alone."""
    ordered = set(PIPELINES) | set(RELIED_ON if model == "practice" else ())
    kinds = (Kind.MMA, Kind.CP, Kind.CP_4X256B, Kind.SHIFT)
    for pair in itertools.product(kinds, kinds):
        wanted = Component.EARLY if pair in ordered else Component.DONE
        assert rule(pair[0], True, pair[1], True, model).component is wanted, pair


def test_another_accumulator() -> None:
    """What one tcgen05.mma writes and another one reads as its matrix A, or the reverse: two accumulators."""
    for wrote, writes in ((True, False), (False, True)):
        assert rule(Kind.MMA, wrote, Kind.MMA, writes, "spec").component is Component.DONE
        assert rule(Kind.MMA, wrote, Kind.MMA, writes, "practice").component is Component.EARLY


def test_the_rules_of_the_specification() -> None:
    """What needs more than the order of issue, and proxies."""
    for earlier, later in ((Kind.MMA, Kind.LD), (Kind.ST, Kind.LD), (Kind.LD, Kind.ST), (Kind.LD, Kind.MMA)):
        assert rule(earlier, True, later, True, "spec").component is Component.DONE
    assert rule(Kind.GENERIC, True, Kind.BULK, False).row is Row.ASYNC_SHARED
    assert rule(Kind.GENERIC, False, Kind.BULK, True).row is Row.EXECUTION
    assert rule(Kind.BULK, True, Kind.GENERIC, False).row is Row.EXECUTION
    assert not rule(Kind.STRONG, True, Kind.STRONG, True).conflict
    assert rule(Kind.STRONG, True, Kind.NARROW, False).conflict
    assert rule(Kind.NARROW, True, Kind.BULK, False).row is Row.ASYNC_SHARED
    assert scoped(Kind.NARROW, Kind.REDUCE)
    assert not scoped(Kind.STRONG, Kind.REDUCE)
    assert not scoped(Kind.NARROW, Kind.GENERIC)
    assert not rule(Kind.GENERIC, False, Kind.BULK, False).conflict


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(access, st.integers(1, 40)), min_size=2, max_size=12))
def test_neighbours_are_judged_like_granules_alone(accesses: list) -> None:
    """What is done again for a granule because its neighbour was in the same state is what a visit of its own would do."""
    data = np.zeros(2048, np.uint8)
    (whole, rows), (single, _) = shadow(Shadow, data), shadow(Shadow, data)
    clocks = [0] * SLOTS
    for (slot, (kind, write), first, size, learnt, learns), count in accesses:
        own = advance(rows, clocks, slot, learnt if learns else slot)
        begin = data.ctypes.data + first
        starts = begin + np.arange(count, dtype=np.uint64) * 48
        what = (kind << 1 | write) << HOW_SHIFT, (2 * slot) << 32 | clocks[slot]
        parts = [(at, min(size, at // 32 * 32 + 32 - at)) for at in starts.tolist()]
        parts += [(at + part, size - part) for at, part in parts if part < size <= part + 32]
        for made in (whole, single):
            made.words[StateWord.ROWS] = own.ctypes.data
        whole.access(
            MemoryAccess(
                *(np.array(column, dtype) for column, dtype in zip(zip(*parts, strict=True), (np.uint64, np.uint32), strict=True)), write
            ),
            what[1],
            what[0],
        )
        for at, part in parts:
            single.access(MemoryAccess(np.array([at], np.uint64), np.array([part], np.uint32), write), what[1], what[0])
        assert np.array_equal(whole.suspects(), single.suspects())
    held = [made._objects[0].cells for made in (whole, single)]
    live = [np.where(cells[..., 1:] != 0, cells, 0) for cells in held]
    assert np.array_equal(*live)


RACES = """
mad.lo.u32 %r3, %r1, 4, %r2;
mov.u32 %r4, 0;
AGAIN:
st.shared.u32 [%r3], %r1;
ld.shared.u32 %r5, [%r3+64];
add.u32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, 20;
@%p2 bra AGAIN;
"""


def test_optimised_functions_take_over_after_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a launch that finds races, and with the same findings as either functions alone."""

    def findings(functions: shadow_module._Functions) -> list[str]:
        monkeypatch.setattr(shadow_module, "_functions", lambda: functions)
        return [str(d) for d in launch(RACES, check="race").diagnostics]

    monkeypatch.setenv("PTXLAB_CACHE", "off")
    optimised = shadow_module._Functions()
    optimised.optimise()
    expected = findings(optimised)
    assert expected
    for rows in (sys.maxsize, 40, 0):
        functions = shadow_module._Functions()
        assert functions.compiled is not optimised.compiled
        functions.quick_rows = rows
        assert findings(functions) == expected
        assert (functions.compiled is optimised.compiled) == (rows < sys.maxsize), rows
