"""Kernels in which one thread copies words to tensor memory that threads have stored, in each turn, for `test_observed_repetitions`."""

from __future__ import annotations

import pytest

from ptxlab.isa.tcgen05 import _cp
from tests.isa.tcgen05.test_observed_repetitions import CHECKS, COMMIT, FENCE, HANDLED, SYNC, WAIT, Case, both, changed
from tests.repetition_helpers import note_handled

__all__ = ["LOAD", "OTHERS", "WIDER", "_count_copies", "cases_of", "check_findings", "store_of", "with_copies"]

LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {y0}, [fa]; tcgen05.wait::ld.sync.aligned;"
WIDER = {"[slot], 64;": "[slot], 128;", "d, 64;": "d, 128;"}
"""The kernel has twice as many columns of tensor memory."""
OTHERS = [{"model": "spec"}, {"policy": "lazy"}, {"policy": "random"}, {"profile": True}]
"""Options of other models and policies."""


@pytest.fixture(autouse=True)
def _count_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    note_handled(monkeypatch, _cp, "launch", HANDLED)


def store_of(word: str) -> str:
    """What each thread stores in a turn: a word that it computes in y1."""
    return f"shl.b32 to, tid, 2; add.u32 to, to, x0; and.b32 y1, i, 1; {word} st.shared.b32 [to], y1;"


def with_copies(name: str, places: str, store: str, copies: str) -> dict[str, str]:
    """Replacements: each turn threads store 512 bytes, which ``copies`` bring to the ``places`` in tensor memory."""
    return {
        ".shared .align 8 .b64 barrier;": f".shared .align 16 .b8 {name}[512];\n.shared .align 8 .b64 barrier;",
        ".b64 from,": ".b64 sd, from,",
        "ld.shared.b32 d, [slot];": f"""ld.shared.b32 d, [slot]; {places}
mov.u32 x0, {name}; shr.u32 x0, x0, 4; cvt.u64.u32 sd, x0; or.b64 sd, sd, 0x0000400800010000;""",
        "add.u64 row, row, 128;": f"add.u64 row, row, 128; mov.u32 x0, {name}; {store}",
        "@!one bra NEXT;": f"@!one bra NEXT;\n{copies}",
    }


def cases_of(name: str) -> dict[str, Case]:
    """What is replaced, and a code that the race check reports."""
    return {
        "right":                        ({}, "", ""),
        "no wait":                      ({"@q bra FIRST;": "bra FIRST;"}, "X106", ""),
        "no wait in one turn":          ({WAIT: f"@late bra FIRST; {WAIT}"}, "X106", ""),
        "no fence in one turn":         ({FENCE: f"@late bra OFF; {FENCE} OFF:"}, "X102", ""),
        "a store after the copy":       ({COMMIT: f"@late st.shared.b32 [{name}], tid; {COMMIT}"}, "X106", ""),
        "a load after the copy":        ({"NEXT:": f"NEXT: @!late bra OFF; {LOAD} OFF:"}, "X108", ""),
        "no barrier in one turn":       ({f"{FENCE}\n{SYNC}": f"{FENCE} @late bra OFF; {SYNC} OFF:"}, "H601", ""),
    }  # fmt: skip


def check_findings(case: Case, text: str, checks: str, most: int) -> None:
    """The findings are those of handlers, which are called fewer times than ``most``."""
    changes, race, _ = case
    codes, handled = both(changed(changes, text), **CHECKS[checks])
    if checks == "race":
        assert {race} - {""} <= set(codes)
        assert bool(codes) == bool(race)
    assert len(handled) < most
