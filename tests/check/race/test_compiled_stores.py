"""Stores of boxes by compiled code, and groups of bulk copies, under the race check: the same clocks and findings as by the handlers."""

from __future__ import annotations

from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.check.model import Component, Row, rule_table
from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.check.race.shadow.shadow_words import BULK_COMMIT, BULK_SOURCES, BULK_WAIT, HANDLED
from ptxlab.isa.bulk import _endpoints
from tests.isa.bulk import box_step_helpers as boxes
from tests.machine.test_outside import Outside

from .box_list_helpers import MOST, TABLE, WRITE_SOURCE, Lists, _at_once, handled, kernel_of_sources, run_sources
from .test_compiled_arrivals import both_ways
from .test_compiled_waits import calls_of

__all__ = ["_at_once", "handled"]

ALL = 0xFFFF_FFFF
STEPS = {
    **{name: boxes.STEPS[name] for name in ("load", "expect", "arrive", "wait")},
    "store": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {c0, c1}], [dst];",
    "commit": "cp.async.bulk.commit_group;",
    "wait for all": "cp.async.bulk.wait_group 0;",
    "wait for all but one": "cp.async.bulk.wait_group 1;",
    "wait for sources": "cp.async.bulk.wait_group.read 0;",
    "wait for sources but one": "cp.async.bulk.wait_group.read 1;",
    "write": "st.shared.u32 [dst], amount;",
    "fence": "fence.proxy.async;",
    "read tensor": "ld.param.u64 rd1, [p_source]; cvt.u64.u32 rd2, amount; add.u64 rd1, rd1, rd2; ld.global.u32 v, [rd1];",
    "write tensor": WRITE_SOURCE,
    "write map": "st.global.u64 [m], rd1;",
}
KINDS = {name: number for number, name in enumerate(STEPS)}
BOX, OF_MEMORY = boxes.BOX, boxes.GLOBAL


@cache
def kernel() -> ptxlab.Kernel:
    return kernel_of_sources(STEPS)


def step(kind: str, dst: int = 0, amount: int = 0, at: tuple[int, int] = (0, 0), lanes: int = 1, which: int = 0) -> boxes.Step:
    return KINDS[kind], dst, 0, amount, *(c & ALL for c in at), lanes, which


def run(lists: Lists, clusters: int = 1, check: str = "race", unwritten: int = 64, **options: Any) -> Any:
    return run_sources(kernel(), lists, clusters, check, unwritten, **options)


STORE, OTHER = (step("store", at=(0, row)) for row in (8, 16))
COMMIT, WAIT, WAIT_OTHER, WAIT_READ = (step(kind) for kind in ("commit", "wait for all", "wait for all but one", "wait for sources"))
READ, READ_OTHER = (step("read tensor", amount=512 * row) for row in (8, 16))
WRITE, FENCE = step("write"), step("fence")
BY_ALL = tuple(step(kind, at=(0, 8), lanes=ALL) for kind in ("store", "commit", "wait for all"))
FIRST = step("store"), COMMIT, WAIT
"""The handler executes this store."""
CASES: dict[str, tuple[tuple[boxes.Step, ...], set[str]]] = {
    "waited for": ((STORE, COMMIT, WAIT, READ), set()),
    "not waited for": ((STORE, COMMIT, READ, WAIT), {"X103"}),
    "not committed": ((STORE, WAIT, READ), {"X103", "X119"}),
    "the last one not waited for": ((STORE, COMMIT, OTHER, COMMIT, WAIT_OTHER, READ, READ_OTHER, WAIT), {"X103"}),
    "the last one waited for": ((STORE, COMMIT, OTHER, COMMIT, WAIT_OTHER, READ, WAIT, READ_OTHER), set()),
    "only read": ((STORE, COMMIT, WAIT_READ, WRITE, WAIT), set()),
    "read, but not written": ((STORE, COMMIT, WAIT_READ, READ, WAIT), {"X103"}),
    "not read yet": ((STORE, COMMIT, WRITE, WAIT), {"X104"}),
    "never waited for": ((STORE, COMMIT), {"X119"}),
    "written without a fence": ((WRITE, STORE, COMMIT, WAIT), {"X102"}),
    "written with a fence": ((WRITE, FENCE, STORE, COMMIT, WAIT), set()),
    "by all lanes": ((*BY_ALL * 3, READ), {"X123"}),
    "by all lanes, of which one waits": ((*BY_ALL * 2, *BY_ALL[:2], WAIT, READ, BY_ALL[2]), {"X103", "X123"}),
}


@pytest.mark.parametrize("name", CASES)
def test_one_warp(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    steps, codes = CASES[name]
    texts, *_ = both_ways(lambda: run({(0, 0): [*FIRST, *steps]}), monkeypatch, TABLE)
    found = {code for text in texts for code in (f"X1{number:02}" for number in range(30)) if code in text}
    assert found == codes
    lanes = sum(each[6].bit_count() for each in (*FIRST, *steps) if each[0] == KINDS["store"])
    assert len(handled) < 2 * lanes or codes == {"X102"}  # which Python finds out at the store


def test_stores_of_many_turns(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Python handles the first one of each warp of a cluster, and no group."""
    groups = [calls_of(monkeypatch, _endpoints, name) for name in ("commit_group", "wait_group")]
    for lanes in (1, ALL):
        turn = [step("store", BOX, at=(0, 8), lanes=lanes), step("commit", lanes=lanes), step("wait for all", lanes=lanes)]
        handled.clear()
        texts, *_ = run({(0, 0): turn * 20})
        assert [text for text in texts if "X123" not in text] == []
        assert len(handled) == lanes.bit_count()
    assert groups == [[], []]


@pytest.mark.parametrize("unwritten", [4, 12])
@pytest.mark.parametrize("name", ["waited for", "not waited for", "read, but not written", "by all lanes"])
def test_undefined_bits_of_device_memory(name: str, unwritten: int, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores write the rows from 0 and from 8 on, and these are read."""
    steps, _ = CASES[name]
    lists = {(0, 0): [*FIRST, *steps, READ_OTHER]}
    found = both_ways(lambda: run(lists, unwritten=unwritten, check="all"), monkeypatch, TABLE)
    undefined = [each.count(0xFF) for each in found if isinstance(each, bytes)][-1]
    assert 0 < undefined < boxes.TENSOR[unwritten:].nbytes, "the stores have defined some"
    run({(0, 0): [*FIRST, STORE, COMMIT, WAIT]}, unwritten=unwritten)
    handled.clear()
    run({(0, 0): [*FIRST, *(STORE, COMMIT, WAIT) * 8]}, unwritten=unwritten)
    assert len(handled) < 8


@pytest.mark.parametrize("name", ["waited for", "not waited for", "by all lanes"])
def test_the_accesses_that_are_told_outside(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    steps, _ = CASES[name]

    def both() -> Any:
        outside = Outside(lambda: False)
        return run({(0, 0): [*FIRST, *steps]}, outside=outside), outside.ranges

    _, ranges = both_ways(both, monkeypatch, TABLE)
    assert len(ranges) > 2
    handled.clear()
    run({(0, 0): [*FIRST, *(STORE, COMMIT, WAIT) * 8]}, outside=Outside(lambda: False))
    assert len(handled) < 8


def test_another_warp_stores_the_same(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing orders them: a note if the bits are the same, whoever has executed the stores, otherwise an error."""
    for other, code in (((STORE,), "X123"), ((step("write", BOX, 7), FENCE, step("store", BOX, at=(0, 8))), "X103")):
        lists = {(0, 0): [STORE, COMMIT, WAIT] * 4, (0, 1): [*FIRST, *other, COMMIT, WAIT] * 3}
        texts, *_ = both_ways(lambda lists=lists: run(lists), monkeypatch, TABLE)
        assert any(code in text for text in texts)


@pytest.mark.parametrize("which", [0, OF_MEMORY])
def test_the_handler_and_compiled_code_store_the_same(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of the two are equal, also those of copies with a tensor map in global memory."""
    stored = step("store", at=(0, 8), which=which), COMMIT, WAIT
    lists = {(0, 0): [*stored], (0, 1): [step("store", which=which), COMMIT, WAIT, *stored]}
    texts, *_ = both_ways(lambda: run(lists), monkeypatch, TABLE)
    assert len(texts) == 1
    assert "X123" in texts[0]


def test_clusters_with_different_numbers_of_slots() -> None:
    """Under spec: the first cluster has slots for all lanes when the second one begins, which has none."""
    texts, *_ = run({(0, 0): [*BY_ALL, READ]}, clusters=2, model="spec")
    assert [next(code for code in ("X103", "X112", "X123") if code in text) for text in texts] == ["X123", "X103", "X112"]


def random_steps(choice: Random, own: int, bold: float) -> list[boxes.Step]:
    """Steps of a warp, mostly in the order of a correct epilogue."""
    found: list[boxes.Step] = []
    while len(found) < MOST - 8:
        lanes = choice.choice((1, 1, ALL, 3, 1 << 31))
        which = choice.choice((0, 0, 1, OF_MEMORY, OF_MEMORY + 3))
        dst = own << 24 | BOX * choice.randrange(8)
        turn = [step("write", dst, choice.randrange(3)), step("fence")] if choice.random() < 0.5 else []
        turn += [step("store", dst, at=(16 * choice.randrange(4), 8 * choice.randrange(8)), lanes=lanes, which=which)] * choice.randrange(
            1, 3
        )
        turn += [step("commit", lanes=lanes), step(choice.choice(list(STEPS)[6:10]), lanes=lanes)]
        if choice.random() < 0.3:
            turn.append(step(choice.choice(("read tensor", "write tensor")), amount=512 * choice.randrange(64)))
        if choice.random() < bold:
            turn.append(step(choice.choice(list(STEPS)[4:]), dst, 512, (0, choice.choice((-8, 60, 8))), lanes, which))
        if choice.random() < bold:
            del turn[choice.randrange(len(turn))]
        found += turn
    return found[:MOST]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from((0.0, 0.1, 0.3)), st.sampled_from(("race", "race", "all")))
def test_any_lists(seed: int, bold: float, check: str) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta, bold) for cta in (0, 1) for warp in (0, 1) if choice.random() < 0.6 or cta == warp == 0}
    clusters, unwritten = choice.choice((1, 2)), choice.choice((64, 64, 4, 40))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: run(lists, clusters, check, unwritten), patch, TABLE)
        both_ways(lambda: run(lists, clusters, check, unwritten), patch)


# --------------------------------------------------------------------------------------------------------------- groups

PENDING = 3
"""No wait leaves more groups pending."""
OPS = [(HANDLED | BULK_COMMIT, 0, 0)]
OPS += [(HANDLED | BULK_WAIT | of, 0, pending) for of in (0, BULK_SOURCES) for pending in range(PENDING + 1)]


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_lanes(seed: int) -> None:
    """Compiled code compared with lists of all groups; rows may become wider."""
    choice, made = Random(seed), Shadow(np.array(OPS, np.uint64), rule_table("practice"))
    ctas = (SimpleNamespace(shared=np.zeros(64, np.uint8)),)
    clocks = Clocks(1, ctas, 2, "practice", ends=1 << (PENDING + 1).bit_length())
    groups: dict[tuple[int, str, int], list[int]] = {}
    reached: dict[tuple[int, str, int, Component], int] = {}
    for _ in range(3000):
        index, lane, kind = choice.randrange(2), choice.randrange(32), choice.choice(("reads", "group"))
        agent = clocks.agents[index]
        if choice.random() < 0.5:
            slot = (clocks.bulk_reads if kind == "reads" else clocks.bulk_group)(agent, lane, [None] * len(OPS))
            slot.clock += 1
            groups.setdefault((index, kind, lane), [])
            continue
        op, lanes = choice.randrange(len(OPS)), choice.choice((1 << lane, ALL, 0xFF, 0xF0F0))
        made.header[:] = agent.header
        made.step_of_lanes(op, lanes)
        for (whose, what, number), ends in groups.items():
            if whose != index or not lanes >> number & 1:
                continue
            if op == 0:
                ends.append(agent.slots[f"bulk {what}", number].clock)
                continue
            complete = len(ends) - (op - 1) % (PENDING + 1)
            if complete > 0:
                for component in [Component.EARLY] if op > PENDING + 1 else list(Component):
                    at = whose, what, number, component
                    reached[at] = max(reached.get(at, 0), ends[complete - 1])
        for row in (Row.EXECUTION, Row.TENSOR):
            for whose, what, number in groups:
                first = clocks.agents[whose].slots[f"bulk {what}", number].number
                for component in Component:
                    assert clocks.agents[whose].rows[row, first + component] == reached.get((whose, what, number, component), 0)
    assert len(groups) > 100
    assert len(reached) > 100


def test_digests_of_the_newest_copies() -> None:
    clocks = Clocks(1, (SimpleNamespace(shared=np.zeros(64, np.uint8)),), 1, "practice")
    slot = clocks.bulk_group(clocks.agents[0], 5, [])
    for number in range(1, 300):
        slot.clock += 1
        slot.keep(number * number)
    assert [slot.digest(clock) for clock in (299, 44, 43, 300)] == [299 * 299, 44 * 44, None, None]
