"""Executions that compiled code repeats while checks observe the launch: tcgen05.cp, block-scaled products, and elements of 6 bits.

As in `tests.isa.tcgen05.test_observed_repetitions`, with its kernels.
"""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.descriptors import InstructionDescriptor
from tests.isa.tcgen05.observed_copy_helpers import OTHERS, WIDER, _count_copies, cases_of, check_findings, store_of, with_copies
from tests.isa.tcgen05.test_observed_repetitions import (
    CASES,
    CHECKS,
    CTAS,
    MMA,
    MULTIPLY,
    TENSOR_CASES,
    TENSOR_TEXT,
    TEXT,
    TURNS,
    Case,
    _at_once,
    both,
    changed,
)
from tests.sweep_helpers import spread

__all__ = ["_at_once", "_count_copies"]


def with_kind(text: str, kind: str, operands: str = "", **fields: str) -> str:
    """A kernel whose products are of another kind; a step of K has as many bytes."""
    raw = int(InstructionDescriptor(kind=kind, m=128, n=64, **fields))
    given = MMA.replace("kind::f16", f"kind::{kind}" + ".block_scale" * bool(operands)).replace("idesc,", f"idesc,{operands}")
    return text.replace(MMA, given).replace("0x08100010", hex(raw))


TO_A = "tcgen05.cp.cta_group::1.32x128b.warpx4 [fa], sd;"
TO_B = "tcgen05.cp.cta_group::1.32x128b.warpx4 [fb], sd;"
SCALED = changed(
    {
        ".b32 tid,": ".b32 fa, fb, tid,",
        **WIDER,
        **with_copies("factors", "add.u32 fa, d, 64; add.u32 fb, d, 68;", store_of("add.u32 y1, y1, 0x7E7E7E7E;"), f"{TO_A}\n{TO_B}"),
    },
    with_kind(TEXT, "mxf8f6f4", " [fa], [fb],", a="e4m3", b="e4m3"),
)
"""Threads also store the scale factors of each turn, and one thread copies them to tensor memory."""
TILED = changed(
    {
        "[slot], 64;": "[slot], 128;",
        "d, 64;": "d, 128;",
        "ld.shared.b32 d, [slot];": """ld.shared.b32 d, [slot]; add.u32 fa, d, 64; add.u32 fb, d, 68;
mov.u32 y0, 0x7E7E7E7E; mov.u32 y1, y0;
shl.b32 x0, tid, 16; and.b32 x0, x0, 0x600000; add.u32 x0, x0, fa; tcgen05.st.sync.aligned.32x32b.x8.b32 [x0],
{y0, y1, y0, y1, y0, y1, y0, y1}; tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;""",
        ".b32 full, tid,": ".b32 full, fa, fb, tid,",
    },
    with_kind(TENSOR_TEXT, "mxf8f6f4", " [fa], [fb],", a="e4m3", b="e4m3"),
)
"""Threads store the scale factors before the loop, and boxes bring A and B."""

SCALED_CASES: dict[str, Case] = {
    **cases_of("factors"),
    "factors of the turn before": ({TO_A: f"@!late {TO_A}"}, "", ""),
    "other factors in one turn": ({TO_B: f"@late add.u32 fb, fb, 4; {TO_B} @late sub.u32 fb, fb, 4;"}, "", ""),
}


SCALED_MMA = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale"
HALF = int(InstructionDescriptor(kind="mxf8f6f4", m=128, n=32, a="e4m3", b="e4m3"))
KEEPING = f"""setp.ne.u32 acc, n, 0; mov.b32 idesc, {HALF};
add.u32 y0, d, 32; add.u64 w, bd, 256;
{SCALED_MMA}.collector::a::fill [d], ad, bd, idesc, [fa], [fb], acc;
{SCALED_MMA}.collector::a::lastuse [y0], ad, w, idesc, [fa], [fb], acc;"""
KEPT_SCALED = {
    name: changed({MULTIPLY.replace(MMA, f"{SCALED_MMA} [d], ad, bd, idesc, [fa], [fb], acc;"): KEEPING}, text)
    for name, text in {"words": SCALED, "tiles": TILED}.items()
}
"""Two products take one A, each with half of the columns of B."""


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("name", SCALED_CASES)
@pytest.mark.parametrize("kept", KEPT_SCALED)
def test_scaled_products_that_keep_a_matrix(kept: str, name: str, checks: str) -> None:
    changes, text = SCALED_CASES[name][0], KEPT_SCALED[kept]
    text = changed({old: new for old, new in changes.items() if old in text}, text)
    codes, handled = both(text if kept == "words" else text.replace("[factors]", "[to]"), **CHECKS[checks])
    if name == "right":
        assert {*codes} <= {"O103"}, "the elements of the array are f16"
        assert len(handled) <= 30


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("name", SCALED_CASES)
def test_scaled_products(name: str, checks: str) -> None:
    check_findings(SCALED_CASES[name], SCALED, checks, 6 * TURNS * CTAS)


@pytest.mark.parametrize("options", OTHERS, ids=str)
@pytest.mark.parametrize("case", ["right", "no wait in one turn", "a store after the copy"])
def test_scaled_products_of_other_models_and_policies(case: str, options: dict[str, Any]) -> None:
    both(changed(SCALED_CASES[case][0], SCALED), **options)


def test_handlers_are_called_until_a_turn_is_known() -> None:
    """Each product and copy once, and the first product again, which accumulates in later turns; the first copy again in other CTAs."""
    codes, handled = both(SCALED, check="race")
    assert codes == []
    assert len(handled) == 2 + 5 + CTAS - 1


def of_six_bits(text: str) -> str:
    return with_kind(text, "f8f6f4", a="e3m2", b="e2m3")


@pytest.mark.parametrize(
    ("name", "checks"),
    spread(
        4,
        {f"{name} of words": (TEXT, case) for name, case in CASES.items()}
        | {name: (TENSOR_TEXT, case) for name, case in TENSOR_CASES.items()},
        CHECKS,
    ),
)
def test_elements_of_six_bits(name: str, checks: str) -> None:
    text, cases = (TEXT, CASES) if name.endswith(" of words") else (TENSOR_TEXT, TENSOR_CASES)
    case = cases[name.removesuffix(" of words")]
    _, handled = both(of_six_bits(changed(case[0], text)), **CHECKS[checks])
    if checks == "race":
        assert len(handled) < 6 * TURNS * CTAS
