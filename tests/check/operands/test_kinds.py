"""Products of operands that come to shared memory in different ways: compiled code that repeats them finds what the handlers find.

What is different is in a late turn of a loop, when compiled code repeats its products and copies.
"""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.numerics import MmaProgram
from tests.check.race.test_compiled_arrivals import both_ways
from tests.optimised_helpers import optimise
from tests.sweep_helpers import spread

from . import kind_kernels
from .kind_kernels import DESCRIPTORS, NEXT_STEP, TURNS, WAYS, WORDS_FROM, WRONG_WAYS

PAIRS = [(a, b) for a in WAYS for b in WAYS]
BEGIN = "mov.u32 i, 0; mov.u32 n, 0;"
COLUMNS_64, COLUMNS_32 = "mov.b32 idesc, 0x08100010;", "mov.b32 idesc, 0x08080010;"
MISTAKES: dict[str, tuple[str, str]] = {
    "stride of A": (DESCRIPTORS, f"{DESCRIPTORS} @late add.u64 ad, ad, 0x400000000;"),
    "stride of B": (DESCRIPTORS, f"{DESCRIPTORS} @late sub.u64 bd, bd, 0x400000000;"),
    "swizzle of A": (DESCRIPTORS, f"{DESCRIPTORS} @late xor.b64 ad, ad, 0x8000000000000000;"),
    "fewer columns": (
        f"{DESCRIPTORS}\nmov.u32 k, 0;\nSTEP:\n",
        f"""{DESCRIPTORS} and.b32 k, i, 1; setp.eq.u32 q, k, 0; @q {COLUMNS_32} @late {COLUMNS_64} mov.u32 k, 0;
STEP: setp.eq.and.u32 q, k, 2, late; @q {COLUMNS_32}
""",
    ),
    "the same columns again": (NEXT_STEP, f"@late sub.u64 ad, ad, 2; @late sub.u64 bd, bd, 2; {NEXT_STEP}"),
    "A of the other place": (DESCRIPTORS, f"{DESCRIPTORS} @late mov.u64 ad, bd;"),
    "the columns before": ("shl.b32 at, i, 7;", "shl.b32 at, i, 7; @late sub.u32 at, at, 128;"),
    "other columns of A": (WORDS_FROM["a"], f"{WORDS_FROM['a']} @late add.u64 from, from, 16;"),
    "other rows of B": (WORDS_FROM["b"], f"{WORDS_FROM['b']} @late xor.b64 from, from, 64;"),
}
"""What is replaced in the text."""
OTHER_WAYS = [(name, way) for name in "ab" for way in (*WAYS, *WRONG_WAYS)]
"""Which operand comes how in the late turn."""


@pytest.fixture(autouse=True)
def handled(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """The products that handlers have performed; functions are optimised from the start."""
    calls: list[None] = []
    optimise(monkeypatch)
    run = MmaProgram.run

    def counted(*given: Any) -> Any:
        calls.append(None)
        return run(*given)

    monkeypatch.setattr(MmaProgram, "run", counted)
    return calls


def compared(text: str, check: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], bool]:
    """The findings, which are the same if handlers perform all products, and whether the result is right."""

    def run() -> Any:
        result, c, is_right = kind_kernels.launch(text, check=check)
        assert result.completed
        return [str(found) for found in result.diagnostics], result.stats.instructions, c.tobytes(), is_right

    findings, *_, is_right = both_ways(run, monkeypatch, "_table_of_repetitions")
    return findings, is_right


@pytest.mark.parametrize("check", ["operands", "all"])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_compiled_code_repeats_them(pair: tuple[str, str], check: str, handled: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    findings, is_right = compared(kind_kernels.text_of(*pair), check, monkeypatch)
    assert is_right
    assert findings == []
    in_handlers = 4 * TURNS
    assert in_handlers < len(handled) <= in_handlers + 4 * 6


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_beside_words_of_parts(pair: tuple[str, str], handled: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads may put words together of parts, so that elements are compared one by one, but they do so elsewhere."""
    text = kind_kernels.text_of(*pair)
    assert text.count(BEGIN) == 1
    text = text.replace(BEGIN, f"{BEGIN} ld.param.u64 from, [p_a]; ld.global.b16 h, [from]; st.shared.b16 [columns+4], h;")
    text = text.replace(".reg .b32 tid,", ".reg .b16 h;\n.reg .b32 tid,").replace(".align 4 .b32 columns;", ".align 4 .b32 columns[2];")
    findings, is_right = compared(text, "operands", monkeypatch)
    assert is_right
    assert findings == []
    assert (len(handled) <= 4 * (TURNS + 6)) == (pair != ("box", "box"))


@pytest.mark.parametrize(("a", "b", "name"), spread(4, WAYS, WAYS, MISTAKES))
def test_a_late_mistake(a: str, b: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kind_kernels.text_of(a, b)
    old, new = MISTAKES[name]
    if old not in text:
        old, new = DESCRIPTORS, f"{DESCRIPTORS} @late add.u64 bd, bd, 2;"
    assert text.count(old) == 1
    compared(text.replace(old, new), "operands", monkeypatch)


@pytest.mark.parametrize(("a", "b", "late"), spread(4, WAYS, WAYS, OTHER_WAYS))
def test_another_way_in_a_late_turn(a: str, b: str, late: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    name, way = late
    text = kind_kernels.text_of(a, b, *((way, "") if name == "a" else ("", way)))
    findings, is_right = compared(text, "operands", monkeypatch)
    assert is_right == (way not in WRONG_WAYS)
    assert not findings or not is_right
