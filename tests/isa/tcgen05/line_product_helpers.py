"""Products whose operands bulk copies of contiguous bytes bring, by all lanes or by one thread: kernels for tests of repetitions."""

from __future__ import annotations

from tests.isa.tcgen05.test_observed_repetitions import BOX, COPY, FENCE, FULL, SYNC, TENSOR_TEXT, TEXT, TURNS, changed

__all__ = ["BRING", "BY_LANES", "BY_ONE", "EXPECT", "LINE", "MIXED", "MOVED", "MOVED_BYTES", "MOVED_HALVES", "MOVED_WORDS"]

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
_MOVE = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_SCRATCH = {".b8 tiles[32768]": ".b8 tiles[65536]"}
MOVED = changed(
    _SCRATCH
    | {
        BRING: f"""add.u32 x0, to, 32768; {BRING.replace("[to]", "[x0]")}
shl.b32 parity, i, 1; and.b32 parity, parity, 1; {FULL.replace("FULL", "BROUGHT")}
{EXPECT.replace("@one ", "")} {_MOVE} [to], [x0], 16384, [full]; mov.u32 parity, 1;""",
    },
    BY_ONE,
)
"""The thread brings them to another place before."""
MOVED_WORDS = changed(
    _SCRATCH
    | {
        f"{LINE} [to], [from], 16, [full];": f"add.u32 to, to, 32768; {COPY}",
        EXPECT: "",
        f"{FULL}\n{SYNC}": f"""{FENCE} {SYNC} add.u32 x0, tile, 32768; {EXPECT}
@one {_MOVE} [tile], [x0], 16384, [full]; and.b32 parity, i, 1; {FULL}""",
    },
    BY_LANES,
)
"""Threads copy words, which one thread moves."""
IN_HALVES = """st.shared.b32 [to], x0; mov.b32 {h0, h1}, x1; st.shared.v2.b16 [to+4], {h0, h1};
mov.b32 {h0, h1}, x2; st.shared.v2.b16 [to+8], {h0, h1}; st.shared.b32 [to+12], x3;"""
IN_BYTES = """st.shared.b32 [to], x0; ld.global.v2.b8 {h0, h1}, [from+4]; ld.global.v2.b8 {h2, h3}, [from+10];
st.shared.v4.b8 [to+4], {h0, h1, h2, h3};
st.shared.b32 [to+8], x2; st.shared.b32 [to+12], x3;"""
MOVED_HALVES, MOVED_BYTES = (
    changed({"st.shared.v4.b32 [to], {x0, x1, x2, x3};": stores, ".b32 full,": ".b16 h<4>;\n.reg .b32 full,"}, MOVED_WORDS)
    for stores in (IN_HALVES, IN_BYTES)
)
"""The same with some words in halves, or in bytes."""
MIXED = changed(
    {
        EXPECT: f"setp.eq.u32 q, parity, 0; @!q bra BESIDE; {EXPECT} BESIDE:",
        f"{LINE} [to], [from], 16, [full];": f"""setp.eq.u32 q, parity, 0; @!q bra ON; {LINE} [to], [from], 16, [full]; bra OVER;
ON: {COPY} OVER:""",
        f"{FULL}\n{SYNC}": f"""{FENCE} setp.eq.u32 q, parity, 0; @!q bra PASS; shr.u32 parity, i, 1; and.b32 parity, parity, 1; {FULL}
PASS: {SYNC}""",
    },
    BY_LANES,
)
"""Every second turn threads copy words, in the others bulk copies bring them."""
