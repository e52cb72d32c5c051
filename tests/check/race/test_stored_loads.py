"""Columns that are stored again after tcgen05.ld, without tcgen05.wait::ld: storing the registers of the load waits for it."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) .reqntid 128
{
.shared .align 4 .b32 slot;
.reg .b32 loaded, tid, quarter, at;
.reg .pred p;
mov.u32 tid, %tid.x;
setp.lt.u32 p, tid, 32;
@p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
bar.sync 0;
ld.shared.b32 at, [slot];
shr.u32 quarter, tid, 5;
shl.b32 quarter, quarter, 21;
add.u32 at, at, quarter;
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {tid};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {loaded}, [at];
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {STORED};
tcgen05.wait::st.sync.aligned;
tcgen05.wait::ld.sync.aligned;
bar.sync 0;
ld.shared.b32 at, [slot];
@p tcgen05.dealloc.cta_group::1.sync.aligned.b32 at, 32;
ret;
}
"""


@pytest.mark.parametrize(
    ("stored", "check", "found"),
    [
        ("loaded", "race", [("X109", "note")]),
        ("loaded", "all", [("R809", "warning")]),
        ("tid", "race", [("X108", "error")]),
        ("tid", "all", [("X108", "error")]),
    ],
)
def test_what_is_stored(stored: str, check: str, found: list[tuple[str, str]]) -> None:
    result = ptxlab.loads(KERNEL.replace("STORED", stored)).kernel().launch(args=[np.zeros(4, np.uint32)], check=check)
    assert [(d.code, d.severity) for d in result.diagnostics] == found
