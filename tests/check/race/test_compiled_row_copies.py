"""tile::gather4 and tile::scatter4 by compiled code under checks: the same clocks, tiles and findings as by the handlers."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.isa.bulk import _rows
from tests.isa.bulk import box_step_helpers as boxes
from tests.machine.test_outside import Outside

from .box_list_helpers import ACCESS_SOURCE, MOST, TABLE, TURNS, Lists, _at_once, element, fenced, in_each_turn, run_sources
from .test_compiled_arrivals import both_ways
from .test_compiled_copies import MULTIPLY
from .test_compiled_waits import calls_of

__all__ = ["_at_once"]

ROWS = "add.u32 r1, c1, 2; add.u32 r2, c1, -5;\n"
"""The four rows are c1, c1 + 2, c1 - 5 and c1."""
BOX_TO_ROWS = ".mbarrier::complete_tx", ".tile::gather4.mbarrier::complete_tx"


def _gather(name: str) -> str:
    return ROWS + boxes.STEPS[name].replace(*BOX_TO_ROWS).replace("{c0, c1}", "{c0, c1, r1, r2, c1}")


STEPS = {
    "gather": _gather("load"),
    "gather anywhere": _gather("load anywhere"),
    "gather for a pair": _gather("load of a pair"),
    "multicast": _gather("multicast"),
    "multicast for a pair": _gather("multicast of a pair"),
    **{name: boxes.STEPS[name] for name in ("load", "expect", "arrive", "wait")},
    "scatter": ROWS + "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [m, {c0, c1, r1, r2, c1}], [dst];",
    "commit": "cp.async.bulk.commit_group;",
    "wait for all": "cp.async.bulk.wait_group 0;",
    **ACCESS_SOURCE,
    "write map": "st.global.u64 [m], rd1;",
}
KINDS = {name: number for number, name in enumerate(STEPS)}
BOX = boxes.BOX
OF_ROWS = boxes.GLOBAL + 6
"""The tensor map of columns 0 to 200 of rows 0 to 39, boxes of 128 x 1."""
EDGE = (128, 38)
"""Column 128, of which 73 are inside, and rows 38, 40 (outside), 33 and 38."""


@cache
def kernel(multiplies: bool = False) -> ptxlab.Kernel:
    """``multiplies``: with a product in the kernel, so that the operand check follows copies."""
    steps = STEPS | dict.fromkeys(("read tensor", "write tensor", "read"), "") if multiplies else STEPS
    text = boxes.text_of(steps, boxes.MAPS).replace(f"r1, {boxes.MOST * 32};", f"r1, {MOST * 32};")
    return fenced(
        text.replace(".param .u64 p_out)", ".param .u64 p_out, .param .u64 p_source)").replace("END:", MULTIPLY if multiplies else "END:")
    )


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The copies that Python has handled."""
    return calls_of(monkeypatch, _rows, "_regions")


def step(
    kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 8), lanes: int = 1, which: int = OF_ROWS
) -> boxes.Step:
    return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, which


def run(lists: Lists, multiplies: bool = False, **options: Any) -> Any:
    return run_sources(kernel(multiplies), lists, **options)


def gathered(*places: tuple[int, int], kind: str = "gather", amount: int = 0, expected: int = 1) -> list[boxes.Step]:
    return in_each_turn(step, kind, places, amount, expected)


def scattered(*places: tuple[int, int], lanes: int = 1) -> list[boxes.Step]:
    found = []
    for turn in range(TURNS):
        found += [step("write", amount=turn), step("scatter", at=places[turn % len(places)], lanes=lanes)]
        found += [step("commit", lanes=lanes), step("wait for all", lanes=lanes)]
    return found


def by_another(kind: str, row: int, column: int) -> dict[tuple[int, int], list[boxes.Step]]:
    return {(0, 1): [step(kind, amount=element(row, column))]}


ACCESSES: dict[str, tuple[Lists, set[str]]] = {
    "read": ({(0, 0): gathered((0, 8), EDGE, (0, 20))}, set()),
    "a row is written": ({(0, 0): gathered((0, 20), EDGE)} | by_another("write tensor", 33, 200), {"X104"}),
    "a row between is written": ({(0, 0): gathered((0, 20))} | by_another("write tensor", 19, 0), set()),
    "behind the last column": ({(0, 0): gathered(EDGE)} | by_another("write tensor", 33, 202), set()),
    "behind the last row": ({(0, 0): gathered(EDGE)} | by_another("write tensor", 40, 128), set()),
    "before the first row": ({(0, 0): gathered((-16, 3))} | by_another("write tensor", 5, 0), {"X104"}),
    "no column": ({(0, 0): gathered((208, 3), (-128, 3))} | by_another("write tensor", 3, 208), set()),
    "the map is written": ({(0, 0): gathered((0, 8)), (0, 1): [step("write map")]}, {"X104"}),
    "memory is read": ({(0, 0): gathered((0, 8)), (0, 1): [step("read", 512)]}, {"X103"}),
    "stored": ({(0, 0): scattered((0, 8), EDGE)}, set()),
    "what is stored is read": ({(0, 0): scattered(EDGE)} | by_another("read tensor", 38, 200), {"X103"}),
    "the last 16 bytes are read": ({(0, 0): scattered(EDGE)} | by_another("read tensor", 38, 206), {"X103"}),
    "behind the last 16 bytes": ({(0, 0): scattered(EDGE)} | by_another("read tensor", 38, 208), set()),
    "stored by lanes": ({(0, 0): scattered((0, 8), EDGE, lanes=0xF)}, {"X123"}),
    "stored by two": ({(0, 0): scattered((0, 30)), (0, 1): scattered((0, 32))}, {"X103", "X104"}),
    "to a pair": ({(0, 0): gathered(EDGE, (0, 8), kind="multicast for a pair", amount=3, expected=2)}, set()),
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
    ("unwritten", "at", "reads"), [(39, EDGE, False), (38, EDGE, True), (33, (208, 36), False), (9, (0, 8), True), (11, (0, 8), False)]
)
def test_undefined_bits_of_device_memory(
    unwritten: int, at: tuple[int, int], reads: bool, handled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, *_ = both_ways(lambda: run({(0, 0): gathered(at)}, unwritten=unwritten, check="all"), monkeypatch, TABLE)
    assert any("M412" in text for text in texts) is reads
    if not reads:
        assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("name", ["read", "no column", "stored"])
def test_the_accesses_that_are_told_outside(name: str, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> Any:
        outside = Outside(lambda: False)
        return run(ACCESSES[name][0], outside=outside), outside.ranges

    _, ranges = both_ways(outcome, monkeypatch, TABLE)
    assert ranges
    assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("name", ["read", "a row is written", "stored"])
def test_two_workers(name: str) -> None:
    lists, _ = ACCESSES[name]
    assert run(lists, clusters=4, workers=2) == run(lists, clusters=4)


def test_products(handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The operand check notes the rows as a tile."""
    both_ways(lambda: run({(0, 0): gathered((0, 8), EDGE)}, True, check="operands"), monkeypatch, TABLE)
    assert len(handled) < 2 * TURNS


def random_steps(choice: Random, own: int) -> list[boxes.Step]:
    """Steps of a warp."""
    found: list[boxes.Step] = []
    while len(found) < boxes.MOST - 4:
        kind = choice.choice([*list(STEPS)[:6], "scatter", "scatter", "expect", "arrive", "wait", *list(STEPS)[10:]])
        rank = own if kind in ("gather", "load", "wait", "scatter") or choice.random() < 0.6 else own ^ 1
        bar = rank << 24 | 8 * choice.randrange(boxes.BARRIERS)
        dst = (bar & ~0xFF) + choice.choice((0, 1024, 2048, 1152))
        amount = choice.choice((1, 2, 3)) if "multicast" in kind else choice.choice((BOX, 2 * BOX))
        if "tensor" in kind:
            amount = element(choice.randrange(64), 2 * choice.randrange(128))
        at = choice.choice((0, 64, 128, 200, 208)), choice.randrange(5, 42)
        if choice.random() < 0.2 and kind != "scatter":
            at = choice.choice((-16, -128, 64)), choice.randrange(-4, 46)
        lanes = choice.choice((1, 1, 1 << 31, 3 if kind == "scatter" else 1))
        found.append(step(kind, dst, bar, amount, at, lanes, boxes.GLOBAL if kind == "load" else OF_ROWS))
        if kind == "scatter":
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
