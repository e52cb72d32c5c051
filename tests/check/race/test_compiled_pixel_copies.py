"""im2col mode by compiled code under checks: the same clocks, tiles and findings as by the handlers."""

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

from .box_list_helpers import ACCESS_SOURCE, MOST, TABLE, TURNS, Lists, _at_once, element, fenced, handled, in_each_turn, run_sources
from .test_compiled_arrivals import both_ways
from .test_compiled_copies import MULTIPLY

__all__ = ["_at_once", "handled"]

PIXELS = "and.b32 r1, c1, 15; shr.s32 r2, c1, 4; and.b32 v, c1, 1; cvt.u16.u32 o, v;\n"
"""A row of the tensor is a pixel of one of four images of 16. The copy begins at that of row c1; the offset is 1 where c1 is odd."""


def _columns(name: str) -> str:
    text = boxes.STEPS[name].replace("tensor.2d", "tensor.3d").replace(".global.mbarrier", ".global.im2col.mbarrier")
    return PIXELS + text.replace("{c0, c1}", "{c0, r1, r2}").replace("[bar]", "[bar], {o}")


STEPS = {
    "load": _columns("load"),
    "load anywhere": _columns("load anywhere"),
    "load of a pair": _columns("load of a pair"),
    "multicast": _columns("multicast"),
    "multicast of a pair": _columns("multicast of a pair"),
    "load a box": boxes.STEPS["load"],
    **{name: boxes.STEPS[name] for name in ("expect", "arrive", "wait")},
    "store": PIXELS + "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [m, {c0, r1, r2}], [dst];",
    "commit": "cp.async.bulk.commit_group;",
    "wait for all": "cp.async.bulk.wait_group 0;",
    **ACCESS_SOURCE,
    "write map": "st.global.u64 [m], rd1;",
}
KINDS = {name: number for number, name in enumerate(STEPS)}
BOX = boxes.BOX
OF_PIXELS = boxes.GLOBAL + 8
"""The tensor map of columns 0 to 200 of all rows, 64 x 8."""
ACROSS = (0, 12)
"""Rows 12 to 15, two pixels that are outside the images, and rows 16 and 17."""
EDGE = (128, 60)
"""Column 128, of which 73 are inside, rows 60 to 63, and pixels behind the last image."""


@cache
def kernel(multiplies: bool = False) -> ptxlab.Kernel:
    """``multiplies``: with a product in the kernel, so that the operand check follows copies."""
    steps = STEPS | dict.fromkeys(("read tensor", "write tensor", "read"), "") if multiplies else STEPS
    text = boxes.text_of(steps, boxes.MAPS).replace(f"r1, {boxes.MOST * 32};", f"r1, {MOST * 32};").replace(".b16 ctas;", ".b16 ctas, o;")
    return fenced(
        text.replace(".param .u64 p_out)", ".param .u64 p_out, .param .u64 p_source)").replace("END:", MULTIPLY if multiplies else "END:")
    )


def step(
    kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 8), lanes: int = 1, which: int = OF_PIXELS
) -> boxes.Step:
    return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, which


def run(lists: Lists, multiplies: bool = False, **options: Any) -> Any:
    return run_sources(kernel(multiplies), lists, **options)


def loaded(*places: tuple[int, int], kind: str = "load", amount: int = 0, expected: int = 1) -> list[boxes.Step]:
    return in_each_turn(step, kind, places, amount, expected)


def stored(*places: tuple[int, int], lanes: int = 1) -> list[boxes.Step]:
    found = []
    for turn in range(TURNS):
        found += [step("write", amount=turn), step("store", at=places[turn % len(places)], lanes=lanes)]
        found += [step("commit", lanes=lanes), step("wait for all", lanes=lanes)]
    return found


def by_another(kind: str, row: int, column: int) -> dict[tuple[int, int], list[boxes.Step]]:
    return {(0, 1): [step(kind, amount=element(row, column))]}


ACCESSES: dict[str, tuple[Lists, set[str]]] = {
    "read": ({(0, 0): loaded((0, 8), EDGE, ACROSS, (64, 9))}, set()),
    "a pixel is written": ({(0, 0): loaded(ACROSS, EDGE)} | by_another("write tensor", 17, 10), {"X104"}),
    "a pixel behind is written": ({(0, 0): loaded(ACROSS, EDGE)} | by_another("write tensor", 18, 10), set()),
    "a pixel before the offset is written": ({(0, 0): loaded((0, 9))} | by_another("write tensor", 9, 0), set()),
    "a pixel behind the offset is written": ({(0, 0): loaded((0, 5))} | by_another("write tensor", 13, 0), {"X104"}),
    "behind the last channel": ({(0, 0): loaded(EDGE)} | by_another("write tensor", 61, 202), set()),
    "no channel": ({(0, 0): loaded((208, 4), (-64, 4))} | by_another("write tensor", 4, 208), set()),
    "no image": ({(0, 0): loaded((0, 64), (0, -32))} | by_another("write tensor", 4, 0), set()),
    "the map is written": ({(0, 0): loaded((0, 8)), (0, 1): [step("write map")]}, {"X104"}),
    "memory is read": ({(0, 0): loaded((0, 8)), (0, 1): [step("read", 512)]}, {"X103"}),
    "stored": ({(0, 0): stored((0, 8), EDGE, ACROSS)}, set()),
    "what is stored is read": ({(0, 0): stored(EDGE)} | by_another("read tensor", 62, 190), {"X103"}),
    "the last 16 bytes are read": ({(0, 0): stored((192, 60))} | by_another("read tensor", 62, 206), {"X103"}),
    "behind the last 16 bytes": ({(0, 0): stored((192, 60))} | by_another("read tensor", 62, 208), set()),
    "stored by lanes": ({(0, 0): stored((0, 8), EDGE, lanes=0xF)}, {"X123"}),
    "stored by two": ({(0, 0): stored((0, 30)), (0, 1): stored((0, 32))}, {"X103", "X104"}),
    "to a pair": ({(0, 0): loaded(EDGE, ACROSS, kind="multicast of a pair", amount=3, expected=2)}, set()),
}


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize("name", ACCESSES)
def test_accesses(name: str, check: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, codes = ACCESSES[name]
    texts, *_ = both_ways(lambda: run(lists, check=check), monkeypatch, TABLE)
    found = {code for text in texts for code in ("X102", "X103", "X104", "X123", "M412") if code in text}
    assert found == codes
    if not codes:
        assert len(handled) < 2 * TURNS


@pytest.mark.parametrize(
    ("unwritten", "at", "reads"), [(64, EDGE, False), (63, EDGE, True), (33, (208, 36), False), (17, ACROSS, True), (18, ACROSS, False)]
)
def test_undefined_bits_of_device_memory(
    unwritten: int, at: tuple[int, int], reads: bool, handled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, *_ = both_ways(lambda: run({(0, 0): loaded(at)}, unwritten=unwritten, check="all"), monkeypatch, TABLE)
    assert any("M412" in text for text in texts) is reads
    if not reads:
        assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("name", ["read", "no image", "stored"])
def test_the_accesses_that_are_told_outside(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> Any:
        outside = Outside(lambda: False)
        return run(ACCESSES[name][0], outside=outside), outside.ranges

    _, ranges = both_ways(outcome, monkeypatch, TABLE)
    assert ranges
    assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("name", ["read", "a pixel is written", "stored"])
def test_two_workers(name: str) -> None:
    lists, _ = ACCESSES[name]
    assert run(lists, clusters=4, workers=2) == run(lists, clusters=4)


def test_products(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The operand check notes the pixels as a tile."""
    both_ways(lambda: run({(0, 0): loaded((0, 8), EDGE)}, True, check="operands"), monkeypatch, TABLE)
    assert len(handled) < 2 * TURNS


def random_steps(choice: Random, own: int) -> list[boxes.Step]:
    """Steps of a warp."""
    found: list[boxes.Step] = []
    while len(found) < boxes.MOST - 4:
        kind = choice.choice([*list(STEPS)[:6], "store", "store", "expect", "arrive", "wait", *list(STEPS)[10:]])
        rank = own if kind in ("load", "load a box", "wait", "store") or choice.random() < 0.6 else own ^ 1
        bar = rank << 24 | 8 * choice.randrange(boxes.BARRIERS)
        dst = (bar & ~0xFF) + choice.choice((0, 1024, 2048, 1152))
        amount = choice.choice((1, 2, 3)) if "multicast" in kind else choice.choice((BOX, 2 * BOX))
        if "tensor" in kind:
            amount = element(choice.randrange(64), 2 * choice.randrange(128))
        at = choice.choice((0, 64, 128, 192, 208)), choice.randrange(0, 66)
        if choice.random() < 0.2 and kind != "store":
            at = choice.choice((-16, -64, 4)), choice.randrange(-20, 80)
        lanes = choice.choice((1, 1, 1 << 31, 3 if kind == "store" else 1))
        found.append(step(kind, dst, bar, amount, at, lanes, boxes.GLOBAL if kind == "load a box" else OF_PIXELS))
        if kind == "store":
            found += [step("commit", lanes=lanes), step("wait for all", lanes=lanes)][: choice.randrange(3)]
    return found


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from(("race", "all")), st.booleans())
def test_any_lists(seed: int, check: str, multiplies: bool) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta) for cta in (0, 1) for warp in (0, 1)}
    unwritten = choice.choice((64, 40, 15))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: run(lists, multiplies, unwritten=unwritten, check=check), patch, TABLE)
