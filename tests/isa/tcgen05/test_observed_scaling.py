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

SCALED_CASES: dict[str, Case] = {
    **cases_of("factors"),
    "factors of the turn before": ({TO_A: f"@!late {TO_A}"}, "", ""),
    "other factors in one turn": ({TO_B: f"@late add.u32 fb, fb, 4; {TO_B} @late sub.u32 fb, fb, 4;"}, "", ""),
}


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
