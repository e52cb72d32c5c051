"""What would help: sentences that follow from counters and the estimate, and none without a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.profile import advice
from tests.profile.test_critical_path import COPY
from tests.profile.test_model import HEAD

STORES = (
    HEAD
    + """
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p;
  .shared .align 16 .b8 tile[8192];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r1, %r1, 31;
  mad.lo.u32 %r2, %r1, {shared}, 0;
  mov.u32 %r3, tile;
  add.u32 %r2, %r2, %r3;
  mad.wide.u32 %rd2, %r1, {apart}, %rd1;
  mov.u32 %r4, 0;
AGAIN:
  {body}
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p, %r4, 50;
  @%p bra AGAIN;
  ret;
}}
"""
)
TO_SHARED, TO_GLOBAL = "st.shared.u32 [%r2], %r1;", "st.global.u32 [%rd2], %r1;"


def told(body: str, shared: int = 4, apart: int = 4, **launch: Any) -> tuple[str, ...]:
    kernel = ptxlab.loads(STORES.format(body=body, shared=shared, apart=apart)).kernel()
    options = {"block": 512, "grid": 4, "device": ptxlab.Device("sm_90a", sms=4)} | launch
    return advice(kernel.launch(args=[np.zeros(4096, np.uint32)], profile=True, check="none", **options).profile)


def test_bank_conflicts() -> None:
    """16 warps, 4 CTAs and 50 executions are 3,200 stores, of 32 wavefronts each if the words of all lanes lie in one bank."""
    (found,) = told(TO_SHARED, shared=128)
    assert found.startswith(
        "line 17: bank conflicts: 102,400 wavefronts of shared memory, of which 3,200 would do if words lay in different banks"
    )
    assert found.endswith("97% of its wavefronts")
    assert told(TO_SHARED, shared=132) == told(TO_SHARED) == ()


def test_sectors() -> None:
    (found,) = told(TO_GLOBAL, apart=128)
    assert found.startswith("line 17: 102,400 sectors of global memory, of which 12,800 would do if the threads of a warp")
    assert told(TO_GLOBAL) == ()


def test_idle_sms() -> None:
    (found,) = told("", grid=5)
    assert found.startswith("5 CTAs on 4 SMs: the fullest SM has 2, and SMs have nothing to do 38% of that time")
    assert told("", grid=8) == ()


def test_latency_of_copies() -> None:
    """One CTA that copies and waits, once or in a loop that has one stage."""
    once = COPY.replace("16384", "1024")
    start, stop = once.index("  @%p1 mbarrier.arrive"), once.index("  ret;")
    again = "  mov.u32 %r2, 0;\nAGAIN:\n" + once[start:stop].replace("[full], 0;", "[full], %r3;")
    again = (
        again.replace("WAIT:", "  and.b32 %r3, %r2, 1;\nWAIT:")
        + "bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 8;\n@%p2 bra AGAIN;\n"
    )
    device = ptxlab.Device("sm_90a", sms=1)
    for text, end in ((once, "no copy is repeated"), (once[:start] + again + once[stop:], "more stages would help")):
        launch = ptxlab.loads(text).kernel().launch
        (found,) = advice(launch(args=[np.zeros(1024, np.uint8)], block=128, profile=True, check="none", device=device).profile)
        assert "for this mbarrier, and copies are" in found
        assert f"while there are any, 1.0 are in flight: {end}" in found


@pytest.mark.parametrize(("scope", "found"), [("cta", False), ("cluster", True), ("gpu", True)])
def test_fences_at_wide_scopes_that_are_on_the_critical_path(scope: str, found: bool) -> None:
    said = told(f"fence.acq_rel.{scope};")
    assert any("is a fence at the scope of the cluster or a wider one" in sentence for sentence in said) == found
