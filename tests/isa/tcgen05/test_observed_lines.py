"""Products of operands that bulk copies of contiguous bytes have brought, as in `test_observed_repetitions`.

Compiled code repeats the copies and the products: the same bits, statistics and findings as by handlers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ptxlab.check.operands._observer import OperandCheck
from ptxlab.isa.bulk import _linear
from ptxlab.machine.warp import context_words
from tests.repetition_helpers import note_handled

from .line_product_helpers import BRING, BY_LANES, BY_ONE, EXPECT, LINE, MIXED, MOVED, MOVED_BYTES, MOVED_HALVES, MOVED_WORDS
from .test_observed_repetitions import (
    CHECKS,
    COMMIT,
    CTAS,
    CURRENT,
    FULL,
    HANDLED,
    LOAD,
    MULTIPLY,
    STEP,
    TURNS,
    WAIT,
    Case,
    _at_once,
    changed,
    launch,
)

__all__ = ["_at_once"]

LINES: list[int] = []
"""The lines of the bulk copies that the handler has executed."""
SOURCES: list[list[bytes]] = []
"""Where the words of the CTAs came from when they exited, as the operand check has noted."""


@pytest.fixture(autouse=True)
def _count_lines(monkeypatch: pytest.MonkeyPatch, _at_once: None) -> Iterator[None]:
    note_handled(monkeypatch, _linear, "start", LINES)
    ended = OperandCheck.ended

    def note(self: OperandCheck, cta: Any) -> None:
        words = self._memory[id(cta)].words
        assert words is not None
        SOURCES.append([each.tobytes() for each in (words.addresses, words.bytes, words.prepared, words.boxed)])
        ended(self, cta)

    monkeypatch.setattr(OperandCheck, "ended", note)
    yield
    LINES.clear()
    SOURCES.clear()


def both(text: str, **options: Any) -> tuple[list[str], int, int]:
    """The codes of a launch, and how many products and copies handlers execute; all else is the same if they execute each."""
    found = []
    for way in (context_words._table_of_repetitions, lambda launch: 0):
        LINES.clear()
        SOURCES.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            result = launch(text, **options)
        found.append((result, list(SOURCES), len(HANDLED), len(LINES)))
    (first, sources, *calls), (second, expected, *every) = found
    assert first[:4] == second[:4]
    assert sources == expected
    assert calls <= every
    return first[4], *calls


SHIFTED = "@late add.u32 to, to, 128;"
COLUMNS = f"@late mov.b32 idesc, 0x08080010; {MULTIPLY}"
COMMON: dict[str, Case] = {
    #                               what is replaced, and a code that the race check and one that the operand check reports
    "right":                       ({}, "", ""),
    "no wait":                     ({"@q bra FIRST;": "bra FIRST;"}, "X106", ""),
    "no wait in one turn":         ({WAIT: f"@late bra FIRST; {WAIT}"}, "", ""),
    "no wait for the bytes":       ({FULL: f"@late bra FULL; {FULL.replace('FULL', 'AGAIN')} FULL:"}, "X103", ""),
    "too few bytes":               ({EXPECT.replace("@one ", ""): EXPECT.replace("@one ", "").replace("16384", "8192")}, "H601", ""),
    "too many bytes":              ({EXPECT.replace("@one ", ""): EXPECT.replace("@one ", "").replace("16384", "16400")}, "H601", ""),
    "a load after the product":    ({"NEXT:": f"NEXT: @!late bra OFF; {LOAD} OFF:"}, "X108", ""),
    "a store of a thread":         ({COMMIT: f"@late st.shared.b32 [tile], tid; {COMMIT}"}, "X106", ""),
    "no step":                     ({STEP: ""}, "", ""),
    "no step in one turn":         ({STEP: f"@late bra OFF; {STEP} OFF:"}, "", ""),
    "another number of columns":   ({MULTIPLY: COLUMNS}, "", ""),
    "D is overwritten":            ({"setp.ne.u32 acc, n, 0;": "@late setp.ne.u32 acc, k, 0; @!late setp.ne.u32 acc, n, 0;"}, "", ""),
}  # fmt: skip
CASES: dict[str, tuple[str, Case]] = {f"lanes: {name}": (BY_LANES, case) for name, case in COMMON.items()}
CASES |= {f"one: {name}": (BY_ONE, case) for name, case in COMMON.items()}
CASES |= {
    "lanes: another size":            (BY_LANES, ({f"{LINE} [to], [from], 16": f"{LINE} [to], [from], 24"}, "C902", "")),
    "lanes: a store of threads":      (BY_LANES, ({f"{FULL}\n": f"{FULL}\n@late st.shared.b32 [own], tid;\n"}, "X102", "")),
    "one: another place":             (BY_ONE, ({CURRENT: f"{CURRENT} @late xor.b64 ad, ad, 1024;"}, "", "")),
    "one: half of the bytes twice":   (BY_ONE, ({BRING: f"{BRING.replace('16384', '8192')} {BRING.replace('16384', '8192')}"}, "X103", "")),
    "one: further on":                (BY_ONE, ({BRING: f"{SHIFTED} {BRING}"}, "", "")),
    "one: through another CTA":       (BY_ONE, ({BRING: BRING.replace("shared::cta", "shared::cluster")}, "", "")),
}  # fmt: skip


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_findings(name: str, checks: str) -> None:
    text, (changes, race, operands) = CASES[name]
    codes, products, copies = both(changed(changes, text), **CHECKS[checks])
    if checks == "race":
        assert {race} - {""} <= set(codes)
    if checks == "operands":
        assert {operands} - {""} <= set(codes)
    if name.endswith("right"):
        assert codes == []
        assert products < CTAS * TURNS
        assert copies <= (128 * CTAS if text == BY_LANES else CTAS)


FROM_SHARED = {
    "copies": MOVED,
    "words of threads": MOVED_WORDS,
    "halves of words": MOVED_HALVES,
    "bytes of words": MOVED_BYTES,
    "mixed": MIXED,
}
WORD_CASES: dict[str, tuple[dict[str, str], str]] = {
    #                               what is replaced, and a code that the operand check reports where threads have copied the words
    "right":                       ({}, ""),
    "no step":                     ({STEP: ""}, "O105"),
    "no step in one turn":         ({STEP: f"@late bra OFF; {STEP} OFF:"}, ""),
    "a step of A only":            ({STEP: "add.u64 ad, ad, 2; @!late add.u64 bd, bd, 2;"}, "O105"),
    "a step of 16 bytes":          ({STEP: STEP.replace(" 2;", " 1;")}, "O105"),
    "another number of columns":   ({MULTIPLY: COLUMNS}, "O107"),
}  # fmt: skip


@pytest.mark.parametrize("checks", ["race", "operands", "all"])
@pytest.mark.parametrize("name", WORD_CASES)
@pytest.mark.parametrize("brought", FROM_SHARED)
def test_operands_that_are_moved_in_shared_memory(brought: str, name: str, checks: str) -> None:
    """The words come from where those come of which they are copies."""
    changes, code = WORD_CASES[name]
    codes, _, copies = both(changed(changes, FROM_SHARED[brought]), check=checks)
    assert copies <= (128 if brought == "mixed" else 2) * CTAS
    if checks == "operands":
        assert codes == ([code] if code and brought not in ("copies", "mixed") else []) or brought == "bytes of words" or code == "O107"
    elif name == "right":
        assert codes == []
