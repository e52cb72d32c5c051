"""Copies of a pipeline of a GEMM by compiled code under the race check and the operand check: the same findings as by the handler."""

from __future__ import annotations

from typing import Any

import pytest

from . import gemm_kernels
from .box_list_helpers import TABLE, _at_once, handled
from .test_compiled_arrivals import FIRST, FREED, REFILLED, both_ways, outcome

__all__ = ["_at_once", "handled"]

WAIT_EMPTY = """WAIT_EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r13], %r14;
    @!%p4 bra WAIT_EMPTY;
"""
LATE = "    setp.eq.u32 %p4, %r5, 6;\n"
LESS = REFILLED.replace("24576", "16384")
PIPELINES: dict[str, tuple[list[tuple[str, str]], dict[str, Any]]] = {
    "correct": ([], {}),
    "overwritten before its readers arrive": ([(WAIT_EMPTY, "")], {}),
    "overwritten in one turn": ([(WAIT_EMPTY, f"{LATE}    @%p4 bra GO;\n{WAIT_EMPTY}GO:\n")], {}),
    "released before it is read": ([(FREED, ""), (FIRST, FREED + FIRST)], {}),
    "fewer bytes announced": ([(REFILLED, REFILLED.replace("24576", "24000"))], {}),
    "more bytes announced": ([(REFILLED, REFILLED.replace("24576", "24592"))], {}),
    "fewer in one turn": ([(REFILLED, f"{LATE}    @%p4 bra LESS;\n{REFILLED}    bra GO;\nLESS:\n{LESS}GO:\n")], {}),
    "two copies to places that overlap": ([("%r16, %r15, 16384;", "%r16, %r15, 8192;")], {}),
    "overlapping in one turn": ([("%r15, 16384;", f"%r15, 16384;\n{LATE}    @%p4 sub.u32 %r16, %r16, 8192;")], {}),
    "other coordinates": ([("shl.b32 %r17, %r5, 6;", "shl.b32 %r17, %r5, 5;")], {}),
    "outside the tensor in one turn": ([("mov.u32 %r18, 0;", f"mov.u32 %r18, 0;\n{LATE}    @%p4 mov.u32 %r18, 8;")], {}),
    "another box": ([(REFILLED, REFILLED.replace("24576", "12288"))], {"BOX": 32, "SWIZZLE": "64B"}),
    "another swizzle": ([], {"SWIZZLE": "none"}),
}
"""What is replaced in the text, and in the launch."""


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("options", [{}, {"check": "race"}, {"check": "operands"}], ids=str)
def test_a_pipeline(name: str, options: dict[str, Any], handled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_kernels, "STEPS", 10)
    text, (changes, more) = gemm_kernels.TEXT, PIPELINES[name]
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    for key, value in more.items():
        monkeypatch.setattr(gemm_kernels, key, value)

    def run() -> Any:
        result, is_right = gemm_kernels.launch(text, **({"max_instructions": 100_000} | options))
        return outcome(result, is_right)

    diagnostics, *_, is_right = both_ways(run, monkeypatch, TABLE)
    if name == "correct":
        assert is_right
        assert not diagnostics
        assert len(handled) < 40
    else:
        assert diagnostics or not is_right or options.get("check") == "operands"
