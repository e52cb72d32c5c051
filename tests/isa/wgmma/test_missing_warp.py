"""A warpgroup of which one warp does not take part: the report of the hang says which, and where it stands."""

from __future__ import annotations

from tests.check.race.small_kernels import FILL, WGMMA, launch


def test_a_warp_waits_elsewhere() -> None:
    body = (
        FILL
        + """@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
setp.lt.u32 %p3, %r1, 96;
@%p3 bra PRODUCT;
AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AWAIT;
PRODUCT:"""
        + WGMMA
        + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nmbarrier.arrive.shared::cta.b64 _, [%r7];"
    )
    (found,) = [d for d in launch(body, target="sm_90a", block=128).diagnostics if d.code == "H601"]
    cycle = dict(found.details)["may wait for each other"]
    assert cycle.startswith("warp 0 of CTA (0, 0, 0) (line 35) -> warp 3 of CTA (0, 0, 0) (line 26) -> warp 0"), found
