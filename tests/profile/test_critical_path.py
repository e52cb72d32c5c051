"""The critical path of an estimate: it covers the time of the replay, and goes through what was waited for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.profile.test_model import CHAIN, HEAD

TWO_WARPS = (
    HEAD
    + """
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p, %r1, 32;
  @%p bra SECOND;
  {first}
SECOND:
  {second}
  bar.sync 0;
  st.global.f32 [%rd1], %f1;
  ret;
}}
"""
)
SLOW = "add.rn.f32 %f1, %f1, %f2;" * 400
COPY = (
    HEAD
    + """
.visible .entry k(.param .u64 from) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  .shared .align 128 .b8 tile[16384];
  .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [from];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16384;
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16384, [full];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAIT;
  ret;
}
"""
)


def estimated(text: str, array: np.ndarray[Any, Any] | None = None, **launch: Any) -> Any:
    args = [np.zeros(64, np.float32) if array is None else array]
    return ptxlab.loads(text).kernel().launch(args=args, profile=True, check="none", **launch).profile.estimate


@pytest.mark.parametrize("grid", [1, 5000])
def test_it_covers_the_time_without_gaps(grid: int) -> None:
    found = estimated(CHAIN.format(body="bar.sync 0; add.rn.f32 %f1, %f1, %f2;"), block=128, grid=grid, only=[(0, 0, 0)])
    assert found.path[0].begin == 0
    assert all(one.end == other.begin for one, other in pairwise(found.path))
    if grid == 1:
        assert found.path[-1].end == found.cycles - found.parameters.launch
    assert sum(found.path_parts.values()) == pytest.approx(1)


@pytest.mark.parametrize(("first", "second", "slow"), [(SLOW + "bra.uni MEET;", "", 0), ("bra.uni MEET;", SLOW, 1)])
def test_it_goes_through_the_warp_that_arrives_last(first: str, second: str, slow: int) -> None:
    """The other warp waits at the barrier, and its wait is not on the path."""
    text = TWO_WARPS.format(first=first, second=second).replace("  bar.sync 0;", "MEET:\n  bar.sync 0;")
    found = estimated(text, block=64)
    parts = {}
    for (track, _, _), part in found.path_parts.items():
        parts[track] = parts.get(track, 0.0) + part
    assert parts[f"warp {slow}"] > 0.7
    waits = sum(span.end - span.begin for span in found.path if span.kind == "barrier")
    assert waits <= 2 * found.parameters.barrier


def test_it_goes_through_a_copy() -> None:
    """16 KiB: the copy takes most of the time, and three other warps and its own wait for it."""
    found = estimated(COPY, np.zeros(16384, np.uint8), block=128)
    kinds = {(span.track, span.kind) for span in found.path}
    assert ("TMA", "operation") in kinds
    (copy,) = (span for span in found.path if span.track == "TMA")
    assert copy.end - copy.begin > 0.5 * found.path[-1].end
    after = found.path[found.path.index(copy) + 1]
    assert (after.kind, after.begin) == ("mbarrier", copy.end)
