"""Copies of rows by compiled code under checks, with a coordinate each and in im2col mode: what the handlers give and find."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.machine.test_outside import Outside

from .box_list_helpers import TABLE, TURNS, Lists, _at_once
from .row_list_helpers import FOUR_ROWS, PIXELS, Copies, by_another
from .test_compiled_arrivals import both_ways
from .test_compiled_waits import calls_of

__all__ = ["_at_once"]

gathered, scattered, loaded, stored = FOUR_ROWS.loaded, FOUR_ROWS.stored, PIXELS.loaded, PIXELS.stored
FORMS = {"rows": FOUR_ROWS, "pixels": PIXELS}
EDGE = (128, 38)
"""Column 128, of which 73 are inside, and rows 38, 40 (outside), 33 and 38."""
ACROSS = (0, 12)
"""Rows 12 to 15, two pixels that are outside the images, and rows 16 and 17."""
LAST = (128, 60)
"""Column 128, of which 73 are inside, rows 60 to 63, and pixels behind the last image."""

OF_ROWS: dict[str, tuple[Lists, set[str]]] = {
    "read": ({(0, 0): gathered((0, 8), EDGE, (0, 20))}, set()),
    "a row is written": ({(0, 0): gathered((0, 20), EDGE)} | by_another("write tensor", 33, 200), {"X104"}),
    "a row between is written": ({(0, 0): gathered((0, 20))} | by_another("write tensor", 19, 0), set()),
    "behind the last column": ({(0, 0): gathered(EDGE)} | by_another("write tensor", 33, 202), set()),
    "behind the last row": ({(0, 0): gathered(EDGE)} | by_another("write tensor", 40, 128), set()),
    "before the first row": ({(0, 0): gathered((-16, 3))} | by_another("write tensor", 5, 0), {"X104"}),
    "no column": ({(0, 0): gathered((208, 3), (-128, 3))} | by_another("write tensor", 3, 208), set()),
    "the map is written": ({(0, 0): gathered((0, 8)), (0, 1): [FOUR_ROWS.step("write map")]}, {"X104"}),
    "memory is read": ({(0, 0): gathered((0, 8)), (0, 1): [FOUR_ROWS.step("read", 512)]}, {"X103"}),
    "stored": ({(0, 0): scattered((0, 8), EDGE)}, set()),
    "what is stored is read": ({(0, 0): scattered(EDGE)} | by_another("read tensor", 38, 200), {"X103"}),
    "the last 16 bytes are read": ({(0, 0): scattered(EDGE)} | by_another("read tensor", 38, 206), {"X103"}),
    "behind the last 16 bytes": ({(0, 0): scattered(EDGE)} | by_another("read tensor", 38, 208), set()),
    "stored by lanes": ({(0, 0): scattered((0, 8), EDGE, lanes=0xF)}, {"X123"}),
    "stored by two": ({(0, 0): scattered((0, 30)), (0, 1): scattered((0, 32))}, {"X103", "X104"}),
    "to a pair": ({(0, 0): gathered(EDGE, (0, 8), kind="multicast of a pair", amount=3, expected=2)}, set()),
}
OF_PIXELS: dict[str, tuple[Lists, set[str]]] = {
    "read": ({(0, 0): loaded((0, 8), LAST, ACROSS, (64, 9))}, set()),
    "a pixel is written": ({(0, 0): loaded(ACROSS, LAST)} | by_another("write tensor", 17, 10), {"X104"}),
    "a pixel behind is written": ({(0, 0): loaded(ACROSS, LAST)} | by_another("write tensor", 18, 10), set()),
    "a pixel before the offset is written": ({(0, 0): loaded((0, 9))} | by_another("write tensor", 9, 0), set()),
    "a pixel behind the offset is written": ({(0, 0): loaded((0, 5))} | by_another("write tensor", 13, 0), {"X104"}),
    "behind the last channel": ({(0, 0): loaded(LAST)} | by_another("write tensor", 61, 202), set()),
    "no channel": ({(0, 0): loaded((208, 4), (-64, 4))} | by_another("write tensor", 4, 208), set()),
    "no image": ({(0, 0): loaded((0, 64), (0, -32))} | by_another("write tensor", 4, 0), set()),
    "the map is written": ({(0, 0): loaded((0, 8)), (0, 1): [PIXELS.step("write map")]}, {"X104"}),
    "memory is read": ({(0, 0): loaded((0, 8)), (0, 1): [PIXELS.step("read", 512)]}, {"X103"}),
    "stored": ({(0, 0): stored((0, 8), LAST, ACROSS)}, set()),
    "what is stored is read": ({(0, 0): stored(LAST)} | by_another("read tensor", 62, 190), {"X103"}),
    "the last 16 bytes are read": ({(0, 0): stored((192, 60))} | by_another("read tensor", 62, 206), {"X103"}),
    "behind the last 16 bytes": ({(0, 0): stored((192, 60))} | by_another("read tensor", 62, 208), set()),
    "stored by lanes": ({(0, 0): stored((0, 8), LAST, lanes=0xF)}, {"X123"}),
    "stored by two": ({(0, 0): stored((0, 30)), (0, 1): stored((0, 32))}, {"X103", "X104"}),
    "to a pair": ({(0, 0): loaded(LAST, ACROSS, kind="multicast of a pair", amount=3, expected=2)}, set()),
}
ACCESSES = {"rows": OF_ROWS, "pixels": OF_PIXELS}


@pytest.fixture
def copies(form: str) -> Copies:
    return FORMS[form]


@pytest.fixture
def handled(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The copies that Python has handled."""
    return calls_of(monkeypatch, *copies.handler)


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize(("form", "name"), [(form, name) for form, accesses in ACCESSES.items() for name in accesses])
def test_accesses(form: str, name: str, check: str, copies: Copies, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, codes = ACCESSES[form][name]
    texts, *_ = both_ways(lambda: copies.run(lists, check=check), monkeypatch, TABLE)
    found = {code for text in texts for code in ("X102", "X103", "X104", "X123", "M412") if code in text}
    assert found == codes
    if not codes:
        assert len(handled) < 2 * TURNS


@pytest.mark.parametrize(
    ("form", "unwritten", "at", "reads"),
    [
        ("rows", 39, EDGE, False),
        ("rows", 38, EDGE, True),
        ("rows", 33, (208, 36), False),
        ("rows", 9, (0, 8), True),
        ("rows", 11, (0, 8), False),
        ("pixels", 64, LAST, False),
        ("pixels", 63, LAST, True),
        ("pixels", 33, (208, 36), False),
        ("pixels", 17, ACROSS, True),
        ("pixels", 18, ACROSS, False),
    ],
)
def test_undefined_bits_of_device_memory(
    unwritten: int, at: tuple[int, int], reads: bool, copies: Copies, handled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, *_ = both_ways(lambda: copies.run({(0, 0): copies.loaded(at)}, unwritten=unwritten, check="all"), monkeypatch, TABLE)
    assert any("M412" in text for text in texts) is reads
    if not reads:
        assert len(handled) < 2 * TURNS


@pytest.mark.parametrize(
    ("form", "name"),
    [(form, name) for form, nothing in (("rows", "no column"), ("pixels", "no image")) for name in ("read", nothing, "stored")],
)
def test_the_accesses_that_are_told_outside(
    form: str, name: str, copies: Copies, handled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome() -> Any:
        outside = Outside(lambda: False)
        return copies.run(ACCESSES[form][name][0], outside=outside), outside.ranges

    _, ranges = both_ways(outcome, monkeypatch, TABLE)
    assert ranges
    assert len(handled) < 2 * TURNS


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("rows", "read"),
        ("rows", "a row is written"),
        ("rows", "stored"),
        ("pixels", "read"),
        ("pixels", "a pixel is written"),
        ("pixels", "stored"),
    ],
)
def test_two_workers(form: str, name: str, copies: Copies) -> None:
    lists, _ = ACCESSES[form][name]
    assert copies.run(lists, clusters=4, workers=2) == copies.run(lists, clusters=4)


@pytest.mark.parametrize(("form", "edge"), [("rows", EDGE), ("pixels", LAST)])
def test_products(edge: tuple[int, int], copies: Copies, handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The operand check notes the rows as a tile."""
    both_ways(lambda: copies.run({(0, 0): copies.loaded((0, 8), edge)}, True, check="operands"), monkeypatch, TABLE)
    assert len(handled) < 2 * TURNS


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from(("race", "all")), st.booleans())
def test_any_lists(form: str, seed: int, check: str, multiplies: bool) -> None:
    choice, copies = Random(seed), FORMS[form]
    lists = {(cta, warp): copies.random_steps(choice, cta) for cta in (0, 1) for warp in (0, 1)}
    unwritten = choice.choice((64, 40, 15))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: copies.run(lists, multiplies, unwritten=unwritten, check=check), patch, TABLE)
