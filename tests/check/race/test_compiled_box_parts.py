"""Boxes that are partly outside their tensor, by compiled code under checks: what is outside is neither read nor written."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from tests.isa.bulk import box_step_helpers as boxes
from tests.machine.test_outside import Outside

from . import test_compiled_copies as copies
from . import test_compiled_stores as stores
from .box_list_helpers import ACCESS_SOURCE, TABLE, TURNS, Lists, _at_once, element, handled, in_each_turn, kernel_of_sources, run_sources
from .test_compiled_arrivals import both_ways

__all__ = ["_at_once", "handled"]

STEPS = {
    **{name: boxes.STEPS[name] for name in ("load", "multicast", "multicast of a pair", "expect", "arrive", "wait")},
    "store": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {c0, c1}], [dst]; cp.async.bulk.commit_group;",
    "wait for stores": "cp.async.bulk.wait_group 0;",
    **ACCESS_SOURCE,
}
KINDS = {name: number for number, name in enumerate(STEPS)}
BOX = boxes.BOX
PART = boxes.GLOBAL + 5
"""The tensor map of columns 0 to 100 of rows 0 to 39, boxes of 64 x 8."""
PADDED = boxes.GLOBAL + 7
"""That of padded elements."""
EDGE, OUTSIDE, BESIDE = (64, 36), (64, 40), (128, 0)


@cache
def kernel() -> ptxlab.Kernel:
    return kernel_of_sources(STEPS)


def step(kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 0), lanes: int = 1) -> boxes.Step:
    return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, PART


def run(lists: Lists, **options: Any) -> Any:
    return run_sources(kernel(), lists, **options)


def loads(*places: tuple[int, int], kind: str = "load", amount: int = 0, expected: int = 1) -> list[boxes.Step]:
    """One box in each turn."""
    return in_each_turn(step, kind, places, amount, expected)


def received() -> list[boxes.Step]:
    """The other CTA waits for its boxes."""
    at = 1 << 24
    turns = ((step("expect", bar=at, amount=BOX), step("arrive", bar=at), step("wait", bar=at, amount=n & 1)) for n in range(TURNS))
    return [each for turn in turns for each in turn]


def stored(*places: tuple[int, int]) -> list[boxes.Step]:
    found = []
    for turn in range(TURNS):
        found += [step("write", amount=turn), step("store", at=places[turn % len(places)]), step("wait for stores")]
    return found


def by_another(kind: str, row: int, column: int) -> dict[tuple[int, int], list[boxes.Step]]:
    return {(0, 1): [step(kind, amount=element(row, column))]}


ACCESSES: dict[str, tuple[Lists, set[str]]] = {
    "read": ({(0, 0): loads(EDGE)}, set()),
    "the first element is written": ({(0, 0): loads(EDGE)} | by_another("write tensor", 36, 64), {"X104"}),
    "the last element is written": ({(0, 0): loads(EDGE)} | by_another("write tensor", 39, 100), {"X104"}),
    "behind the last row": ({(0, 0): loads(EDGE)} | by_another("write tensor", 40, 64), set()),
    "behind the last column": ({(0, 0): loads(EDGE)} | by_another("write tensor", 36, 102), set()),
    "before the first column": ({(0, 0): loads((-16, 4))} | by_another("write tensor", 3, 254), set()),
    "in the first column": ({(0, 0): loads((-16, 4))} | by_another("write tensor", 4, 0), {"X104"}),
    "wholly outside": ({(0, 0): loads(OUTSIDE, BESIDE, (-64, 0))} | by_another("write tensor", 40, 64), set()),
    "wholly outside, and at the edge": ({(0, 0): loads(OUTSIDE, EDGE)} | by_another("write tensor", 36, 64), {"X104"}),
    "filled memory is read": ({(0, 0): loads(OUTSIDE), (0, 1): [step("read", 512)]}, {"X103"}),
    "stored": ({(0, 0): stored(EDGE)}, set()),
    "what is stored is read": ({(0, 0): stored(EDGE)} | by_another("read tensor", 39, 100), {"X103"}),
    "the last 16 bytes are read": ({(0, 0): stored(EDGE)} | by_another("read tensor", 39, 102), {"X103"}),
    "behind the last 16 bytes": ({(0, 0): stored(EDGE)} | by_another("read tensor", 39, 104), set()),
    "behind the stored rows": ({(0, 0): stored(EDGE)} | by_another("read tensor", 40, 64), set()),
    "nothing is stored": ({(0, 0): stored(OUTSIDE, BESIDE)} | by_another("write tensor", 40, 64), set()),
    "stored by two": ({(0, 0): stored((64, 32), EDGE), (0, 1): [step("store", BOX, at=(64, 38)), step("wait for stores")]}, {"X103"}),
    "stored by two, apart": ({(0, 0): stored(EDGE), (0, 1): [step("store", BOX, at=(0, 36)), step("wait for stores")]}, set()),
    "to both CTAs": (
        {(0, 0): loads(EDGE, kind="multicast", amount=3), (1, 0): received()} | by_another("write tensor", 39, 100),
        {"X103", "X104"},  # nothing orders a copy after the wait of the other CTA
    ),
    "to a pair": ({(0, 0): loads(EDGE, OUTSIDE, kind="multicast of a pair", amount=3, expected=2)}, set()),
}


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize("name", ACCESSES)
def test_accesses(name: str, check: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, codes = ACCESSES[name]
    texts, *_ = both_ways(lambda: run(lists, check=check), monkeypatch, TABLE)
    assert {code for text in texts for code in ("X102", "X103", "X104", "M412") if code in text} == codes
    if not codes:
        issued = sum(
            each[0] in (KINDS["load"], KINDS["store"]) or "multicast" in list(STEPS)[each[0]] for steps in lists.values() for each in steps
        )
        assert len(handled) < 2 * issued


@pytest.mark.parametrize(
    ("unwritten", "at", "reads"), [(40, EDGE, False), (39, EDGE, True), (36, (0, 32), True), (36, OUTSIDE, False), (8, (64, 0), False)]
)
def test_undefined_bits_of_device_memory(
    unwritten: int, at: tuple[int, int], reads: bool, handled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that nothing has written are read only where the box is inside."""
    lists = {(0, 0): loads(at)}
    texts, *_ = both_ways(lambda: run(lists, unwritten=unwritten, check="all"), monkeypatch, TABLE)
    assert any("M412" in text for text in texts) is reads
    if not reads:
        assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("name", ["read", "before the first column", "wholly outside, and at the edge", "stored", "nothing is stored"])
def test_the_accesses_that_are_told_outside(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> Any:
        outside = Outside(lambda: False)
        return run(ACCESSES[name][0], outside=outside), outside.ranges

    _, ranges = both_ways(outcome, monkeypatch, TABLE)
    assert ranges
    assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("name", ["read", "the last element is written", "stored", "the last 16 bytes are read"])
def test_two_workers(name: str) -> None:
    lists, _ = ACCESSES[name]
    assert run(lists, clusters=4, workers=2) == run(lists, clusters=4)


def at_edges(steps: list[boxes.Step], kinds: set[int], choice: Random) -> list[boxes.Step]:
    """The same steps, of which many copy boxes that are partly outside."""
    found = []
    for each in steps:
        if each[0] in kinds and choice.random() < 0.6:
            columns, rows = choice.choice((0, 64, 96, 112, 128, 240, 480)), choice.choice((0, 3, 36, 40, 60, 64))
            if choice.random() < 0.3:
                columns, rows = choice.choice(((-16, rows), (columns, -1), (-16, -1)))
            which = choice.choice((each[7], PART, PADDED))
            if which == PADDED:
                columns = 128 * choice.randrange(-1 if columns < 0 else 0, 9)
            each = (*each[:4], columns & 0xFFFFFFFF, rows & 0xFFFFFFFF, each[6], which)
        found.append(each)
    return found


def kinds_of(names: dict[str, int]) -> set[int]:
    return {number for name, number in names.items() if name.startswith(("load", "multicast", "store"))}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from(("race", "all")))
def test_any_lists_of_copies(seed: int, check: str) -> None:
    choice, kinds = Random(seed), kinds_of(copies.KINDS)
    every = [(cta, warp) for cta in (0, 1) for warp in (0, 1)]
    lists = {each: at_edges(copies.random_steps(choice, each[0], 0, tuple(copies.SOURCES)), kinds, choice) for each in every}
    unwritten = choice.choice((64, 40, 15))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: copies.run_watched(lists, unwritten=unwritten, check=check), patch, TABLE)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from(("race", "all")))
def test_any_lists_of_stores(seed: int, check: str) -> None:
    choice, kinds = Random(seed), kinds_of(stores.KINDS)
    every = [(cta, warp) for cta in (0, 1) for warp in (0, 1)]
    lists = {each: at_edges(stores.random_steps(choice, each[0], 0), kinds, choice) for each in every}
    unwritten = choice.choice((64, 40, 4))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: stores.run(lists, 1, check, unwritten), patch, TABLE)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30))
def test_any_lists_with_products(seed: int) -> None:
    """The operand check notes the boxes."""
    choice, kinds = Random(seed), kinds_of(copies.KINDS)
    every = [(cta, warp) for cta in (0, 1) for warp in (0, 1)]
    lists = {each: at_edges(copies.random_steps(choice, each[0], 0), kinds, choice) for each in every}
    lists = {each: [(*step[:7], step[7] % 2) for step in steps] for each, steps in lists.items()}
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: copies.run_lists(lists, check="all"), patch, TABLE)


@pytest.mark.parametrize("check", ["operands", "all"])
def test_boxes_that_are_no_tiles(check: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that are rounded, and halves of chunks that are exchanged: the operand check has no source of words, or no tile."""

    def tensor_maps(tensor: Any, some_bytes: Any) -> list[ptxlab.TensorMap]:
        return [
            ptxlab.TensorMap(some_bytes, box=(16, 16), swizzle="64B", dims=(128, 64), strides=(512,), dtype="tf32"),
            ptxlab.TensorMap(tensor, box=(64, 8), swizzle="128B_32B_flip_8B"),
        ]

    monkeypatch.setattr(boxes, "tensor_maps", tensor_maps)
    own: list[boxes.Step] = []
    for turn in range(4):
        begin = [copies.step("expect", amount=2 * BOX), copies.step("arrive")]
        loads = [copies.step("load", BOX * n, at=(120 * (turn % 2) // (1 + n) & ~7, 14 * turn), which=n) for n in range(2)]
        own += [*begin, *loads, copies.step("wait", amount=turn & 1)]
    both_ways(lambda: copies.run_lists({(0, 0): own}, check=check), monkeypatch, TABLE)
    assert len(handled) < 2 * 8
