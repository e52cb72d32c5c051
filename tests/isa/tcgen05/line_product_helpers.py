"""Products whose operands bulk copies of contiguous bytes bring, by all lanes or by one thread: kernels for tests of repetitions."""

from __future__ import annotations

from tests.isa.tcgen05.test_observed_repetitions import COPY, FENCE, FULL, SYNC, TEXT, changed

__all__ = ["BY_LANES", "LINE"]

LINE = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_OBJECT = {
    ".shared .align 4": ".shared .align 8 .b64 filled;\n.shared .align 4",
    ".b32 tid,": ".b32 full, tid,",
    "ld.param.u64 row, [p_a];": (
        "mov.u32 full, filled; @one mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster; ld.param.u64 row, [p_a];"
    ),
}
EXPECT = "and.b32 parity, i, 1; @one mbarrier.arrive.expect_tx.shared::cta.b64 w, [full], 16384;"
BY_LANES = changed(
    {
        **_OBJECT,
        "FIRST:\n": f"FIRST:\n{EXPECT}\n",
        COPY: f"{LINE} [to], [from], 16, [full];",
        f"{FENCE}\n{SYNC}": f"{FULL}\n{SYNC}",
    },
    TEXT,
)
"""Each lane copies its row, 16 bytes at a time."""
