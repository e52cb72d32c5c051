"""Copies of boxes by compiled code under the race check and the operand check: the same clocks and findings as by the handler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.check.operands.compiled.copies import CompiledCopies
from ptxlab.check.race.clocks import clocks
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock
from tests.isa.bulk import box_step_helpers as boxes
from tests.machine.test_outside import Outside

from .box_list_helpers import TABLE, WRITE_SOURCE, Lists, _at_once, fenced, handled, kernel_of_sources, run_sources, table_of
from .test_compiled_arrivals import both_ways, outcome
from .test_compiled_waits import calls_of

__all__ = ["_at_once", "handled"]

# --------------------------------------------------------------------------------------------------------------- lists of steps

STEPS = {
    **{name: text for name, text in boxes.STEPS.items() if name not in ("rewrite", "store", "wait for stores")},
    "read": "ld.shared.u32 v, [dst];",
    "write": "st.shared.u32 [dst], amount;",
    "fence": "fence.proxy.async;",
}
SOURCES = {
    **{name: boxes.STEPS[name] for name in ("rewrite", "store", "wait for stores")},
    "write source": WRITE_SOURCE,
    "fence of all": "fence.proxy.async; fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [m], 128;",
}
"""Steps that change what copies read: the race check watches their sources."""
KINDS = {name: number for number, name in enumerate(STEPS | SOURCES)}
MAPS = "mov.b64 m, map0; mov.b64 rd2, map1; setp.eq.u32 q, which, 1; selp.b64 m, rd2, m, q; cvta.param.u64 m, m;"
BOX = boxes.BOX


MULTIPLY = "END: setp.ne.u32 q, lanes, 0xffff; @q bra OUT;\n    tcgen05.mma.cta_group::1.kind::f16 [v], rd1, rd2, r1, p;\nOUT:"
"""No list has these lanes at its end. Without a product in the kernel, the operand check does not follow copies."""


@cache
def kernel(check: str) -> ptxlab.Kernel:
    """Nothing writes what it copies, and where the operand check shall let compiled code copy, nothing stores what it has loaded."""
    steps, end = STEPS, "END:"
    if check != "race":
        steps, end = STEPS | {"write": "", "overwrite": ""}, MULTIPLY
    text = boxes.text_of(steps, MAPS).replace("END:", end).replace(".b32 tid,", ".b32 fill, tid,")
    text = text.replace("mov.u32 v, 0xEE", "mov.u32 fill, 0xEE").replace("st.shared.u32 [r1], v;", "st.shared.u32 [r1], fill;")
    return fenced(text)


def step(
    kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 0), lanes: int = 1, which: int = 0
) -> boxes.Step:
    return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, which


def run_lists(lists: Lists, arrivals: int = 1, clusters: int = 1, check: str = "race", **options: Any) -> Any:
    """What a launch gives of which each cluster executes lists of steps."""
    table = table_of(lists, clusters, boxes.MOST)
    maps = boxes.tensor_maps(boxes.TENSOR, boxes.BYTES)
    out: Any = np.zeros((2 * clusters, boxes.SIZE), np.uint8)
    args = [maps[0], maps[1], None, table, max(map(len, lists.values())), arrivals, out]
    result = kernel(check).launch(grid=2 * clusters, block=64, cluster=2, args=args, check=check, **options)
    return outcome(result, out.tobytes())


def filled(turns: int, kind: str = "load", first: int = 0, bar: int = 0, at: int = 0) -> list[boxes.Step]:
    """One warp brings two boxes to the same places in each turn, and waits for them."""
    found = []
    for turn in range(turns):
        found += [step("expect", bar=bar, amount=2 * BOX), step("arrive", bar=bar)]
        found += [step(kind, first + BOX * n, bar, at=(16 * n, at + turn)) for n in range(2)]
        found += [step("wait", bar=bar, amount=turn & 1)]
    return found


def test_the_handler_is_called_for_the_first_copy_on_an_mbarrier(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each warp of the first cluster; a launch begins anew."""
    lists = {(0, 0): filled(4), (0, 1): filled(3, first=2 * BOX, bar=8)}
    for clusters in (1, 1, 3):
        handled.clear()
        texts, *_ = run_lists(lists, clusters=clusters)
        assert texts == []
        assert len(handled) == 2
    assert both_ways(lambda: run_lists(lists, clusters=3), monkeypatch, TABLE)[0] == []


def test_a_later_cluster_does_not_wait_for_the_initialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slots of its copies are known, but nothing orders the initialisation before the copies of its second warp."""
    barrier = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    before, after = boxes.text_of(STEPS, MAPS).split(barrier, 1)
    before = before.replace("CLEAR:", "setp.ge.u32 q, cta, 2; @q bra BEGIN;\nCLEAR:").replace("ld.param.u32 r1", "BEGIN:\nld.param.u32 r1")
    text = f"{before}setp.ge.u32 q, cta, 2; @q bra READY; {barrier}\nREADY:{after}"
    found = ptxlab.loads(text).kernel()
    monkeypatch.setitem(run_lists.__globals__, "kernel", lambda check: found)
    lists = {
        (0, 0): [step("expect", bar=8, amount=3 * BOX), step("arrive", bar=8)],
        (0, 1): [*(step("load", BOX * n, 8, at=(16 * n, 0)) for n in range(3)), step("wait", bar=8)],
    }
    texts, *_ = both_ways(lambda: run_lists(lists, clusters=3), monkeypatch, TABLE)
    assert any("X120" in text and "cp.async.bulk.tensor uses the mbarrier" in text for text in texts)


@pytest.mark.parametrize("options", [{"policy": "lazy"}, {"policy": "random"}, {"model": "spec"}], ids=str)
def test_the_handler_is_always_called(options: dict[str, Any], handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists = {(0, 0): filled(4)}
    both_ways(lambda: run_lists(lists, **options), monkeypatch, TABLE)
    assert len(handled) == 2 * 8


MULTICAST = {
    "both CTAs": ("multicast", 3, 1),
    "another CTA": ("multicast", 2, 0),
    "a pair": ("multicast of a pair", 3, 2),
    "one CTA of a pair": ("multicast of a pair", 1, 1),
    "the other CTA of a pair": ("multicast of a pair", 2, 1),
    "a pair, and fewer bytes expected": ("multicast of a pair", 3, 1),
}
"""Kinds of steps, the CTA masks, and how many boxes the CTA expects that copies."""


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize("name", MULTICAST)
def test_a_multicast(name: str, check: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both CTAs of a pair signal one mbarrier; without .cta_group::2 each has its own, for which the other one waits."""
    kind, ctas, boxes_expected = MULTICAST[name]
    own, other = [], []
    for turn in range(4):
        wait = [step("wait", amount=turn & 1)] if boxes_expected else []
        own += [step("expect", amount=boxes_expected * BOX), step("arrive"), step(kind, amount=ctas, at=(0, turn)), *wait]
        if kind == "multicast":
            at = 1 << 24
            other += [step("expect", bar=at, amount=BOX), step("arrive", bar=at), step("wait", bar=at, amount=turn & 1)]
    texts, *_ = both_ways(lambda: run_lists({(0, 0): own, (1, 0): other}, clusters=2, check=check), monkeypatch, TABLE)
    if "pair" in name and "fewer" not in name:
        assert not texts
        assert len(handled) == 2 * 4 + 1


def test_boxes_of_two_arrays_in_one_place(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler copies the first box of each."""
    own: list[boxes.Step] = []
    for turn in range(6):
        own += [step("expect", amount=BOX), step("arrive"), step("load", at=(0, turn), which=turn % 2), step("wait", amount=turn & 1)]
    both_ways(lambda: run_lists({(0, 0): own}, check="operands"), monkeypatch, TABLE)
    assert len(handled) == 6 + 2


def test_the_handler_asks_for_no_tiles_of_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies to places of which compiled code knows whether there are tiles: to one where there is one, and to a new one."""
    lists = {(0, 0): filled(4), (0, 1): [*filled(1, first=2 * BOX, bar=8), *filled(1, first=3 * BOX, bar=8, at=3)[:-1]]}
    made = calls_of(monkeypatch, CompiledCopies, "tile")
    run_lists(lists, check="operands")
    assert made == []
    both_ways(lambda: run_lists(lists, check="operands"), monkeypatch, TABLE)


def test_more_places_than_compiled_code_knows(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile at such a place, over which compiled code could copy another one to a place that it knows."""
    own = 1 << 24
    first, second, third = ([at + 1024 * n for n in range(count)] for at, count in ((0, 15), (128, 15), (256, 4)))
    lists = {
        (0, 0): [step("expect", amount=15 * BOX), step("arrive"), *(step("load", dst) for dst in first), step("wait")],
        (0, 1): [step("expect", bar=8, amount=19 * BOX), step("arrive", bar=8), *(step("load", dst, 8) for dst in second + third)],
        (1, 0): [
            *(step("expect", bar=own, amount=2 * BOX), step("arrive", bar=own)),
            *(step("load", own | dst, own) for dst in (third[-1], first[3])),
        ],
    }
    both_ways(lambda: run_lists(lists, check="operands"), monkeypatch, TABLE)


MISTAKES: dict[str, tuple[Lists, set[str]]] = {
    "another warp reads": ({(0, 0): filled(4), (0, 1): [step("read")]}, {"X103"}),
    "read before the phase is awaited": ({(0, 0): [*filled(2), *filled(1)[:-1], step("read")]}, {"X103"}),
    "overwritten, and nobody has waited": ({(0, 0): [*filled(2)[:-1], step("expect", amount=BOX), step("load", at=(0, 9))]}, {"X103"}),
    "two copies to places that overlap": ({(0, 0): [*filled(1), *filled(1, first=128)]}, {"X103"}),
    "written without a fence": ({(0, 0): [*filled(3), step("write"), *filled(1)]}, {"X102"}),
    "written with a fence": ({(0, 0): [*filled(3), step("write"), step("fence"), *filled(1)]}, set()),
    "more bytes than expected": ({(0, 0): [*filled(2), *filled(1)[:-1], step("load", dst=2 * BOX), step("wait")]}, set()),
    "fewer bytes than expected": ({(0, 0): [step("expect", amount=BOX), *filled(2)]}, set()),
    "another mbarrier": ({(0, 0): [*filled(2), *filled(1, bar=8)], (0, 1): filled(2, first=3 * BOX, bar=8)}, set()),
    "an mbarrier that is no more": ({(0, 0): [*filled(2), step("invalidate"), step("load")]}, {"B514"}),
    "no initialisation seen": ({(0, 0): filled(2), (1, 0): filled(2, "load anywhere")}, set()),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, codes = MISTAKES[name]
    texts, *_ = both_ways(lambda: run_lists(lists, clusters=2), monkeypatch, TABLE)
    assert {code for text in texts for code in codes if code in text} == codes


# --------------------------------------------------------------------------------------------------- sources that are watched


@cache
def kernel_that_writes() -> ptxlab.Kernel:
    """What it copies, and tensor maps in memory."""
    return kernel_of_sources(STEPS | SOURCES)


def run_watched(lists: Lists, **options: Any) -> Any:
    """The same as `run_lists` for that kernel."""
    return run_sources(kernel_that_writes(), lists, **options)


OF_MEMORY = boxes.GLOBAL
TURNS = 12


def turns(count: int, *before: boxes.Step, late: int = 10, which: int = OF_MEMORY) -> list[boxes.Step]:
    """One box in each turn, of a tensor map in memory; in a late one something is done ``before``."""
    found: list[boxes.Step] = []
    for turn in range(count):
        found += before if turn == late else ()
        found += [step("expect", amount=BOX), step("arrive"), step("load", at=(0, turn), which=which), step("wait", amount=turn & 1)]
    return found


SAME, OTHER = step("rewrite", amount=0, which=OF_MEMORY), step("rewrite", amount=1, which=OF_MEMORY)
FENCE = step("fence of all", which=OF_MEMORY)
WRITTEN = step("write source", amount=512 * 10)
CHANGES: dict[str, tuple[Lists, set[str]]] = {
    "nothing": ({(0, 0): turns(TURNS)}, set()),
    "nothing, and a parameter": ({(0, 0): turns(TURNS, which=0)}, set()),
    "the same map without a fence": ({(0, 0): turns(TURNS, SAME)}, {"X102"}),
    "the same map with a fence": ({(0, 0): turns(TURNS, SAME, FENCE)}, set()),
    "another map without a fence": ({(0, 0): turns(TURNS, OTHER)}, {"X102"}),
    "another map with a fence": ({(0, 0): turns(TURNS, OTHER, FENCE)}, set()),
    "a map that another warp writes": ({(0, 0): turns(TURNS), (0, 1): [step("rewrite", amount=0, which=OF_MEMORY)]}, {"X104"}),
    "the tensor without a fence": ({(0, 0): turns(TURNS, WRITTEN)}, {"X102"}),
    "the tensor with a fence": ({(0, 0): turns(TURNS, WRITTEN, FENCE)}, set()),
    "the tensor by another warp": ({(0, 0): turns(TURNS), (0, 1): [WRITTEN]}, {"X104"}),
    "the tensor by a copy": ({(0, 0): turns(TURNS, step("store", at=(0, 10)))}, {"X103", "X104"}),
    "a row that no box has": ({(0, 0): turns(TURNS, step("write source", amount=512 * 50))}, set()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_sources(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, codes = CHANGES[name]
    texts, *_ = both_ways(lambda: run_watched(lists), monkeypatch, TABLE)
    assert {code for text in texts for code in ("X102", "X103", "X104") if code in text} == codes
    if name.startswith("nothing"):
        assert len(handled) == TURNS + 1


def test_rows_that_become_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further lanes copy, each of which has a slot; Python handles no more arrivals than if the rows are wide at first."""

    def turn(number: int, bar: int = 0, lane: int = 0) -> list[boxes.Step]:
        begin = [step("expect", bar=bar, amount=BOX), step("arrive", bar=bar)]
        return [*begin, step("load", bar=bar, at=(0, number), lanes=1 << lane), step("wait", bar=bar, amount=number & 1)]

    before, after = turn(0, 8), [each for number in range(1, 4) for each in turn(number, 8)]
    lists = {(0, 0): [*before, *(each for lane in range(1, 9) for each in turn(lane - 1, lane=lane)), *after]}
    arrivals, counts = calls_of(monkeypatch, MbarrierClock, "take"), []
    for slots in (16, 0):
        monkeypatch.setattr(clocks, "_OTHER_SLOTS", slots)
        monkeypatch.setattr(clocks, "_SMALLEST_WIDTH", 32)
        arrivals.clear()
        texts, *_ = run_watched(lists)
        assert texts == []
        counts.append(len(arrivals))
        both_ways(lambda: run_watched(lists), monkeypatch, TABLE)
    assert counts[0] == counts[1]


UNWRITTEN = (60, 15)
"""The first rows that nothing has written: copies of these lists do not read them, or do."""


@pytest.mark.parametrize("unwritten", UNWRITTEN)
@pytest.mark.parametrize("name", ["nothing", "the same map with a fence", "the tensor with a fence", "the tensor by a copy"])
def test_undefined_bits_of_device_memory(name: str, unwritten: int, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, _ = CHANGES[name]
    texts, *_ = both_ways(lambda: run_watched(lists, unwritten=unwritten, check="all"), monkeypatch, TABLE)
    assert any("M412" in text for text in texts) is (unwritten == 15)
    if name == "nothing" and unwritten == 60:
        assert len(handled) == TURNS + 1


@pytest.mark.parametrize("name", ["nothing", "nothing, and a parameter", "another map with a fence", "the tensor by a copy"])
def test_the_accesses_that_are_told_outside(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        outside = Outside(lambda: False)
        return run_watched(CHANGES[name][0], outside=outside), outside.ranges

    _, ranges = both_ways(run, monkeypatch, TABLE)
    assert len(ranges) > TURNS
    if name.startswith("nothing"):
        assert len(handled) == TURNS + 1


@pytest.mark.parametrize("name", ["nothing", "the same map without a fence", "the tensor by another warp"])
def test_changed_sources_with_two_workers(name: str) -> None:
    lists, _ = CHANGES[name]
    assert run_watched(lists, clusters=4, workers=2) == run_watched(lists, clusters=4)


def random_steps(choice: Random, own: int, bold: float, more: Sequence[str] = ()) -> list[boxes.Step]:
    """Steps of a warp, mostly legal ones; ``more`` kinds of steps than those that write no sources."""
    found = []
    for _ in range(choice.randrange(4, boxes.MOST)):
        kind = choice.choice(
            [*list(STEPS)[:3] * 6, *list(STEPS)[3:5], "expect", "arrive", "expect", "wait", "wait", "read", "write", "fence", *more]
        )
        rank = own if choice.random() < 0.7 else own ^ 1
        bar = (own if kind in ("load", "wait") else rank) << 24 | 8 * choice.randrange(boxes.BARRIERS)
        dst = (bar & ~0xFF) + choice.choice((0, 1024, 2048, 3072, 1152))
        if kind == "load of a pair" and choice.random() < 0.5:
            dst ^= 1 << 24
        amount = choice.choice((1, 2, 3)) if "multicast" in kind else choice.choice((BOX, 2 * BOX, 4 * BOX))
        at = choice.choice((0, 16, 32, 64)), choice.randrange(0, 32)
        if choice.random() < bold:
            at = choice.choice((-16, 500, 0)), choice.choice((-1, 60, 64))
            kind = choice.choice((kind, "invalidate", "overwrite", "exit"))
        lanes = choice.choice((1, 1, 1, 1 << 31, 1 << 7, 3))
        which = choice.choice((0, 1))
        if more:
            which = choice.choice((0, 1, OF_MEMORY, OF_MEMORY + 1, OF_MEMORY + 3))
            amount = choice.choice((512, 520, 5120)) if kind == "write source" else choice.randrange(4) if kind == "rewrite" else amount
        found.append(step(kind, dst, bar, amount, at, lanes, which))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 1 << 30),
    st.sampled_from((0.0, 0.0, 0.05)),
    st.sampled_from((1, 2, 4, 30)),
    st.sampled_from(("race", "race", "all")),
)
def test_any_lists(seed: int, bold: float, arrivals: int, check: str) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta, bold) for cta in (0, 1) for warp in (0, 1)}
    clusters = choice.choice((1, 2))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: run_lists(lists, arrivals, clusters, check=check), patch, TABLE)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from((0.0, 0.0, 0.05)), st.sampled_from(("race", "all")))
def test_any_lists_that_change_sources(seed: int, bold: float, check: str) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta, bold, tuple(SOURCES)) for cta in (0, 1) for warp in (0, 1)}
    unwritten = choice.choice((64, *UNWRITTEN))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: run_watched(lists, unwritten=unwritten, check=check), patch, TABLE)
