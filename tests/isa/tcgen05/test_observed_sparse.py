"""Sparse products that compiled code repeats while checks observe the launch, as in `tests.isa.tcgen05.test_observed_scaling`."""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.descriptors import InstructionDescriptor
from tests.isa.tcgen05.observed_copy_helpers import LOAD, OTHERS, WIDER, _count_copies, cases_of, check_findings, store_of, with_copies
from tests.isa.tcgen05.test_observed_repetitions import (
    CHECKS,
    CTAS,
    HANDLED,
    MMA,
    MULTIPLY,
    STEP,
    TENSOR_TEXT,
    TEXT,
    TURNS,
    WAIT,
    Case,
    _at_once,
    both,
    changed,
    launch,
    of_pairs,
)

__all__ = ["_at_once", "_count_copies"]

SPARSE_MMA = "add.u32 fm, fa, k; tcgen05.mma.sp.cta_group::1.kind::f16 [d], ad, bd, [fm], idesc, acc;"
SPARSE_STEP = "add.u64 ad, ad, 2; add.u64 bd, bd, 4;"
DENSE_BITS, PAIR_BITS = "0x08100010", "0x10100010"


def idesc(m: int) -> str:
    return hex(int(InstructionDescriptor(kind="f16", m=m, n=64, a="f16", b="f16", sparse=True)))


OF_SPARSE = {
    MMA: SPARSE_MMA,
    STEP: SPARSE_STEP,
    "setp.lt.u32 q, k, 4;": "setp.lt.u32 q, k, 2;",
    DENSE_BITS: idesc(128),
    "done, d, idesc,": "done, d, fa, fm, idesc,",
    **WIDER,
}
"""A turn has two products; each of them takes the metadata of a column."""
TO_TENSOR = "tcgen05.cp.cta_group::1.32x128b.warpx4 [fa], sd;"
STORE = store_of("mad.lo.u32 y1, y1, 0xAAAAAAAA, 0x44444444;")
SPARSE = changed({**OF_SPARSE, **with_copies("metadata", "add.u32 fa, d, 64;", STORE, TO_TENSOR)}, TEXT)
"""Threads also store the metadata of each turn, and one thread copies them to tensor memory."""
STORED = changed(
    {
        **OF_SPARSE,
        "ld.shared.b32 d, [slot];": """ld.shared.b32 d, [slot]; add.u32 fa, d, 64; mov.u32 y0, 0x9CE84D64; mov.u32 y1, 0x4D9C8E48;
shl.b32 x0, tid, 16; and.b32 x0, x0, 0x600000; add.u32 x0, x0, fa; tcgen05.st.sync.aligned.32x32b.x2.b32 [x0], {y0, y1};
tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;""",
    },
    TENSOR_TEXT,
)
"""Threads store metadata before the loop, and boxes bring A and B."""
HALF = int(InstructionDescriptor(kind="f16", m=128, n=32, a="f16", b="f16", sparse=True))
SPARSE_KEEPING = f"""setp.ne.u32 acc, n, 0; mov.b32 idesc, {HALF};
add.u32 fm, fa, k; add.u32 y0, d, 32; add.u64 w, bd, 256;
tcgen05.mma.sp.cta_group::1.kind::f16.collector::a::fill [d], ad, bd, [fm], idesc, acc;
tcgen05.mma.sp.cta_group::1.kind::f16.collector::a::lastuse [y0], ad, w, [fm], idesc, acc;"""
KEPT_SPARSE = {
    name: changed({MULTIPLY.replace(MMA, SPARSE_MMA): SPARSE_KEEPING}, text) for name, text in {"words": SPARSE, "tiles": STORED}.items()
}
"""Two products take one A, each with half of the columns of B."""
STORE_CELL = "tcgen05.st.sync.aligned.32x32b.x1.b32 [fa], {idesc}; tcgen05.wait::st.sync.aligned;"
ILLEGAL = STORE.replace("st.shared", "setp.eq.and.u32 q, tid, 5, late; @q mov.u32 y1, 0x44444544; st.shared")

CASES: dict[str, Case] = {
    **cases_of("metadata"),
    "a store after the product": ({"NEXT:": f"NEXT: setp.eq.u32 q, i, 6; @!q bra OFF; {STORE_CELL} OFF:"}, "X106", ""),
    "metadata of the turn before": ({TO_TENSOR: f"@!late {TO_TENSOR}"}, "", ""),
    "other metadata in one turn": ({SPARSE_MMA: SPARSE_MMA.replace("tcgen05", "@late xor.b32 fm, fm, 1; tcgen05")}, "", ""),
    "no step in one turn": ({SPARSE_STEP: f"@late bra OFF; {SPARSE_STEP} OFF:"}, "", ""),
    "codes that select nothing": ({STORE: ILLEGAL}, "D707", ""),
}


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_findings(name: str, checks: str) -> None:
    check_findings(CASES[name], SPARSE, checks, 3 * TURNS * CTAS)


PAIR_CASES = ("right", "no wait in one turn", "no fence in one turn", "a load after the copy", "metadata of the turn before")


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("name", [*PAIR_CASES, "other metadata in one turn", "no step in one turn", "codes that select nothing"])
def test_pairs(name: str, checks: str) -> None:
    text = of_pairs(changed(CASES[name][0], SPARSE).replace(idesc(128), DENSE_BITS)).replace(PAIR_BITS, idesc(256))
    codes, handled = both(text, **CHECKS[checks])
    if checks == "race":
        assert {CASES[name][1]} - {""} <= set(codes)
    assert len(handled) < 3 * TURNS * CTAS


STORED_CASES: dict[str, dict[str, str]] = {
    "right": {},
    "no wait in one turn": {WAIT: f"@late bra FIRST; {WAIT}"},
    "no step in one turn": {SPARSE_STEP: f"@late bra OFF; {SPARSE_STEP} OFF:"},
    "a load after the product": {"NEXT:": f"NEXT: @!late bra OFF; {LOAD} OFF:"},
    "a store after the product": {"NEXT:": f"NEXT: setp.eq.u32 q, i, 6; @!q bra OFF; {STORE_CELL} OFF:"},
}


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("name", STORED_CASES)
def test_metadata_that_are_stored(name: str, checks: str) -> None:
    _, handled = both(changed(STORED_CASES[name], STORED), **CHECKS[checks])
    assert len(handled) < 2 * TURNS * CTAS


@pytest.mark.parametrize("options", OTHERS, ids=str)
@pytest.mark.parametrize("case", ["right", "no wait in one turn", "a store after the copy"])
def test_other_models_and_policies(case: str, options: dict[str, Any]) -> None:
    both(changed(CASES[case][0], SPARSE), **options)


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("text", [SPARSE, STORED], ids=["copied", "stored"])
def test_handlers_are_called_until_a_turn_is_known(text: str, check: str) -> None:
    counts = []
    for turns in (TURNS - 2, TURNS):
        launch(text.replace(f"more, i, {TURNS};", f"more, i, {turns};"), check=check)
        counts.append(len(HANDLED))
    assert counts[0] == counts[1] < 4 * CTAS
