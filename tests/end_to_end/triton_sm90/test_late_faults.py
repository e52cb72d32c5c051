"""Faults in a late iteration of a GEMM, whose instructions compiled code repeats: the findings of the first iteration, and of handlers."""

from __future__ import annotations

from typing import Any

import pytest

import ptxlab
from ptxlab.diagnostics import render_text
from ptxlab.engine.repetitions import Repetitions
from ptxlab.machine.warp import context_words
from tests.end_to_end.triton.case_helpers import SM90
from tests.optimised_helpers import optimise

from .cases import CASES

NAME = "sm90_mm_ptr_fp16"
LOOP = "$L__BB0_2: "
FAULTS = {
    "nobody waits for copies": ("cp.async.wait_group \t2;", "@!%late cp.async.wait_group 2;", "X"),
    "no proxy fence": ("fence.proxy.async.shared::cta;", "@%late bra NEXT; fence.proxy.async.shared::cta; NEXT:", "X102"),
    "nobody waits for products": ("wgmma.wait_group.sync.aligned 1;", "@%late bra NEXT; wgmma.wait_group.sync.aligned 1; NEXT:", "X110"),
    "a row from elsewhere": ("add.s64 \t%rd118, %rd176, %rd32;", "add.s64 %rd118, %rd176, %rd32; @%late add.s64 %rd118, %rd118, 64;", "O1"),
    "a row goes elsewhere": ("add.s32 \t%r150, %r146, 6144;", "add.s32 %r150, %r146, 6144; @%late add.s32 %r150, %r150, 32;", "O1"),
}


def text_of(name: str, number: int) -> str:
    """The kernel with a fault in the iteration with a number, from 0 on."""
    text = (SM90 / f"{NAME}.ptx").read_text()
    old, new, _ = FAULTS[name]
    head, label, loop = text.partition(LOOP)
    loop = loop[loop.index("\n") :]
    assert old in loop
    head = head.replace("{\n\t.reg", "{\n\t.reg .pred %late; .reg .b32 %count;\n\t.reg", 1)
    count = f"setp.eq.s32 %late, %count, {number}; add.s32 %count, %count, 1;"
    return f"{head}mov.b32 %count, 0;\n{label}{count}{loop.replace(old, new, 1)}"


@pytest.fixture(autouse=True)
def optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use optimised functions from the start: what is compiled quickly at first repeats nothing."""
    optimise(monkeypatch)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_whenever_it_comes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, found = CASES[NAME].make(m=128, n=128, k=1024), []
    known: list[Any] = []
    add = Repetitions.add
    monkeypatch.setattr(Repetitions, "add", lambda self, *given: (known.append(given), add(self, *given)))
    for number in (2, 11, 11):
        if len(found) == 2:
            assert known
            monkeypatch.setattr(context_words, "_table_of_repetitions", lambda launch: 0)
        kernel = ptxlab.loads(text_of(name, number)).kernel()
        result = kernel.launch(**case.geometry(), args=[*case.args, *case.scratch()], check="all")
        found.append((render_text(result.diagnostics), result.stats.services, result.stats.instructions))
    assert FAULTS[name][2] in found[0][0]
    assert FAULTS[name][2] in found[1][0]
    assert found[1] == found[2]
