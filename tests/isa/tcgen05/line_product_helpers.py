"""Products whose operands bulk copies of contiguous bytes bring, by all lanes or by one thread: kernels for tests of repetitions."""

from __future__ import annotations

from tests.isa.tcgen05.test_observed_repetitions import BOX, COPY, FENCE, FULL, SYNC, TENSOR_TEXT, TEXT, TURNS, changed

__all__ = ["BRING", "BY_LANES", "BY_ONE", "EXPECT", "LINE"]

LINE = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
EXPECT = "@one mbarrier.arrive.expect_tx.shared::cta.b64 w, [full], 16384;"
BRING = f"{LINE} [to], [from], 16384, [full];"
BY_LANES = changed(
    {
        ".shared .align 4": ".shared .align 8 .b64 filled;\n.shared .align 4",
        ".b32 tid,": ".b32 full, tid,",
        "ld.param.u64 row, [p_a];": "mov.u32 full, filled; @one mbarrier.init.shared::cta.b64 [full], 1;\nld.param.u64 row, [p_a];",
        "FIRST:\n": f"FIRST: and.b32 parity, i, 1;\n{EXPECT}\n",
        COPY: f"{LINE} [to], [from], 16, [full];",
        f"{FENCE}\n{SYNC}": f"{FULL}\n{SYNC}",
    },
    TEXT,
)
"""Each lane copies its row, 16 bytes at a time, to where the swizzle has them."""
BY_ONE = changed(
    {
        ".param .align 64 .b8 p_a[128]": ".param .u64 p_a",
        BOX: f"ld.param.u64 from, [p_a]; mad.lo.u32 x0, cta, {TURNS}, i; mul.wide.u32 w, x0, 16384; add.u64 from, from, w;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [p_a, {x0, x1}], [full];": BRING,
    },
    TENSOR_TEXT,
)
"""One thread copies tiles that have been arranged for the descriptor, to two places in turn."""
