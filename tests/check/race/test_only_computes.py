"""Kernels whose instructions only compute have no race check, and leave undefined bits of memory as they are."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.launch.program_facts import only_computes

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize(
    ("body", "computes"),
    [
        ("ret;", True),
        (".reg .b32 %r<3>; mov.u32 %r1, %tid.x; add.u32 %r2, %r1, %r1; ret;", True),
        ("bar.sync 0; ret;", False),
        (".shared .b32 s; st.shared.b32 [s], 1; ret;", False),
        (".reg .b32 %r<2>; add.u32 %r1, %r1, 1; ret;", False),
        ("griddepcontrol.wait; ret;", False),
    ],
)
def test_which_kernels_only_compute(body: str, computes: bool) -> None:
    kernel = ptxlab.loads(HEADER + ".visible .entry k() { " + body + " }").kernel()
    assert only_computes(kernel.program) is computes


def test_memory_that_nothing_has_written_stays_so_after_such_a_launch() -> None:
    text = """.visible .entry nothing() { ret; }
.visible .entry copies(.param .u64 from, .param .u64 to) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; ld.global.b32 %r1, [%rd1]; st.global.b32 [%rd2], %r1; ret;
}"""
    module, device = ptxlab.loads(HEADER + text), ptxlab.Device("sm_90a")
    unwritten = device.empty(4, np.uint32)
    assert module["nothing"].launch(1, 32, device=device).ok
    result = module["copies"].launch(1, 1, args=[unwritten, np.zeros(4, np.uint32)], device=device)
    assert [d.code for d in result.diagnostics] == ["M412"]
