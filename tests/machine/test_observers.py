"""Several observers of one launch: each learns of every instruction, as it does alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ptxlab

COPY = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) .reqntid 64 {
  .reg .b64 %rd<4>;
  .reg .b32 %r<6>;
  .shared .align 16 .b32 words[64];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  cvt.u64.u32 %rd3, %r2;
  add.u64 %rd1, %rd1, %rd3;
  mov.u32 %r3, words;
  add.u32 %r4, %r3, %r2;
  cp.async.ca.shared.global [%r4], [%rd1], 4;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  xor.b32 %r2, %r2, 128;
  add.u32 %r4, %r3, %r2;
  ld.shared.b32 %r5, [%r4];
  add.u64 %rd2, %rd2, %rd3;
  st.global.b32 [%rd2], %r5;
  ret;
}
"""


@pytest.mark.parametrize("waits", [True, False])
def test_the_race_checker_beside_a_trace(waits: bool, tmp_path: Path) -> None:
    """The checker learns of the wait from a hook of the instruction."""
    kernel = ptxlab.loads(COPY if waits else COPY.replace("  cp.async.wait_group 0;\n", "")).kernel()
    found = []
    for trace in (None, tmp_path / "t.json"):
        result = kernel.launch(args=[np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)], trace=trace)
        found.append([d.code for d in result.diagnostics])
    assert found[0] == found[1]
    assert bool(found[0]) != waits
    names = " ".join(str(event["name"]) for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"])
    assert "bar.sync" in names
