"""The conditions of the pipeline of two tcgen05.mma: the same accumulator and shape, by the letter; in practice neither."""

from __future__ import annotations

import pytest

from .gemm_kernels import TEXT, launch

MMA = "    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r17, 1;\n"
NARROW = "    mov.u32 %r18, 0x08080010;\n    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r18, 1;\n"
"""N = 32 in place of 64."""
ELSEWHERE = (
    NARROW.replace("[%r4]", "[%r18+32]")
    .replace("0x08080010;\n", "%r4;\n    mov.u32 %r17, 0x08080010;\n")
    .replace("%rd11, %r18", "%rd11, %r17")
)
"""The same, in the last 32 columns of the accumulator before."""
FENCE = "    tcgen05.fence::after_thread_sync;\n"
DONE = "mov.u32 %r19, done;\n    tcgen05.commit"
FIRST = """tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [first];
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p8, [first], 0;
    @!%p8 bra AGAIN;
"""


def found(text: str, model: str) -> list[tuple[str, int]]:
    result, _ = launch(text, model=model, check="race")
    return [(d.code, d.place.line if d.place else 0) for d in result.diagnostics]


def replaced(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


@pytest.mark.parametrize("change", [NARROW, ELSEWHERE])
def test_another_shape_is_no_pipeline(change: str) -> None:
    text = replaced(MMA, change)
    line = text[: text.index("%rd11, %r18, 1;" if change is NARROW else "[%r18+32]")].count("\n") + 1
    assert found(text, "practice") == []
    assert ("X105", line) in found(text, "spec")


def test_disabled_lanes_are_no_other_shape() -> None:
    text = replaced(
        MMA, MMA.replace("%r17, 1;", "%r17, {%r18, %r18, %r18, %r18}, 1;").replace("    tcgen05", "    mov.u32 %r18, 0xff;\n    tcgen05")
    )
    assert found(text, "spec") == []


@pytest.mark.parametrize(("fence", "codes"), [(FENCE, set()), ("", {"X115"})])
def test_behind_a_wait_it_may_have_another_shape(fence: str, codes: set[str]) -> None:
    text = replaced(DONE, FIRST + fence + NARROW + DONE)
    text = text.replace(".b64 done;", ".b64 done, first;").replace(
        "[done], 1;", "[done], 1;\n    mbarrier.init.shared::cta.b64 [first], 1;"
    )
    assert {code for code, _ in found(text, "spec")} == codes
    assert found(text, "practice") == []
