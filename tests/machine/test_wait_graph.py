"""Who waits for whom, when what is awaited is not an mbarrier: registers, tensor memory, the other warps of a warpgroup, barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab
from tests.machine.launch_helpers import kernel

BARS = ".shared .align 8 .b64 bars[4];"
INIT = "setp.eq.u32 p, tid, 0;\n@p mbarrier.init.shared.b64 [bars], 1;\nbar.sync 0;\n"


def hang(body: str, block: int, ctas: int = 1, **options: Any) -> tuple[str, list[tuple[str, str]], str]:
    """The line that is named, the facts that explain, and the fix."""

    result = kernel(body, shared=BARS).launch(grid=ctas, block=block, args=[np.zeros(block * ctas, np.uint32)], **options)
    (found,) = [d for d in result.diagnostics if d.code == "H601"]
    return found.excerpt.strip(), [fact for fact in found.details if not fact[0].startswith(("kernel", "CTA"))], found.fix


def test_registers() -> None:
    """A warp gives registers back only after what the warp does that waits for them."""
    body = (
        INIT
        + """setp.lt.u32 p, tid, 32;
    @p bra MORE;
    LOOP: mbarrier.try_wait.parity.shared.b64 q, [bars], 0;
    @!q bra LOOP;
    setmaxnreg.dec.sync.aligned.u32 40;
    bra DONE;
    MORE: setmaxnreg.inc.sync.aligned.u32 168;
    mbarrier.arrive.shared.b64 _, [bars];
    DONE:"""
    )
    line, facts, fix = hang(body, 64, registers=128)
    assert line == "MORE: setmaxnreg.inc.sync.aligned.u32 168;"
    assert fix == "let other warps of the CTA execute setmaxnreg.dec: 1280 more registers are needed"
    assert facts[0] == (
        "could come from",
        "line 32: setmaxnreg.dec, never executed; warp 1 of CTA (0, 0, 0) would reach it, but waits at line 30",
    )
    assert facts[-1] == (
        "may wait for each other",
        "warp 0 of CTA (0, 0, 0) (line 34) -> warp 1 of CTA (0, 0, 0) (line 30) -> warp 0 of CTA (0, 0, 0) (line 34)",
    )


def test_tensor_memory_of_another_cta() -> None:
    """Two CTAs of one SM hold half of the columns each, and want one more before they give any back."""
    body = """
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bars], 256;
    setp.eq.u32 p, tid, 0;
    @p red.relaxed.gpu.global.add.u32 [out], 1;
    MEET: ld.relaxed.gpu.global.u32 r3, [out];
    setp.lt.u32 q, r3, 2;
    @q bra MEET;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bars+8], 32;
    ld.shared.u32 r1, [bars];
    ld.shared.u32 r2, [bars+8];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 r2, 32;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 256;
    """
    line, facts, fix = hang(body, 32, 2, device=ptxlab.Device("sm_100a", sms=1))
    assert line == "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bars+8], 32;"
    assert fix.startswith("let CTA (1, 0, 0) execute tcgen05.dealloc without waiting for this one")
    assert facts[0][0] == "could come from"
    assert "tcgen05.dealloc, never executed; warp 0 of CTA (1, 0, 0) would reach it" in facts[0][1]
    assert facts[-1] == (
        "may wait for each other",
        "warp 0 of CTA (0, 0, 0) (line 32) -> warp 0 of CTA (1, 0, 0) (line 32) -> warp 0 of CTA (0, 0, 0) (line 32)",
    )


def test_barriers_in_other_orders() -> None:
    """Each of two warps waits at the barrier that the other one has yet to come to."""
    body = """
    setp.lt.u32 p, tid, 32;
    @p bra OTHER;
    bar.sync 1, 64;
    bar.sync 2, 64;
    bra DONE;
    OTHER: bar.sync 2, 64;
    bar.sync 1, 64;
    DONE:"""
    _, facts, _ = hang(body, 64)
    assert facts[-1] == (
        "may wait for each other",
        "warp 0 of CTA (0, 0, 0) (line 31) -> warp 1 of CTA (0, 0, 0) (line 28) -> warp 0 of CTA (0, 0, 0) (line 31)",
    )
