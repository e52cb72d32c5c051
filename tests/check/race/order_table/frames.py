"""Kernels that several families share: who accesses what, with FORM where the instruction stands and ORDER where the order does."""

from __future__ import annotations

BAR = "bar.sync 0;"
CLUSTER_BAR = "barrier.cluster.arrive;\nbarrier.cluster.wait;"
PAIR_OF_CTAS = {"grid": 2, "cluster": 2}

FILL = "mad.lo.u32 %t, %tid, 16, %smem;\nst.shared.v4.b32 [%t], {%r0, %r0, %r0, %r0};\nbar.sync 0;\n"
"""The first KiB of shared memory has values."""
FILLED_FOR_ASYNC = FILL.replace("bar.sync", "fence.proxy.async.shared::cta;\nbar.sync")
READ = "ld.shared.b32 %r8, [%smem];\nst.global.b32 [%out+64], %r8;"
READ_GLOBAL = "ld.global.b32 %r8, [%gmem];\nst.global.b32 [%out+64], %r8;"
PEER = (
    "mov.u32 %rank, %cluster_ctarank;\nxor.b32 %t, %rank, 1;\n"
    "mapa.shared::cluster.u32 %peer, %smem, %t;\nmapa.shared::cluster.u32 %peer_mbar, %mbar, %t;\n"
    "setp.eq.u32 %cta0, %rank, 0;\nsetp.eq.u32 %cta1, %rank, 1;\n"
    "and.pred %first0, %first, %cta0;\nand.pred %first1, %first, %cta1;\nand.pred %lead, %warp0, %cta0;\n"
)
"""In a cluster of two: ``%peer`` and ``%peer_mbar`` are of the other CTA, ``%first0`` and ``%first1`` the first threads of the two,
``%lead`` the first warp of the first one.
"""


# The instruction in one warp, an ordinary access in another: the last word says what the other one does.
SHARED_THEN_WRITE = FILL + "@%first FORM\nORDER\n@%second st.shared.v4.b32 [%smem], {%tid, %tid, %tid, %tid};"
WRITE_THEN_SHARED = FILL + "@%first st.shared.v4.b32 [%smem], {%smem, %smem, %smem, %smem};\nORDER\n@%second FORM"
SHARED_THEN_READ = FILL + "@%first FORM\nORDER\n@%second ld.shared.b32 %r8, [%smem];\nst.global.b32 [%out+64], %r8;"
READ_THEN_SHARED = FILL + "@%first ld.shared.b32 %r8, [%smem];\nst.global.b32 [%out+64], %r8;\nORDER\n@%second FORM"
GLOBAL_THEN_WRITE = "@%first FORM\nORDER\n@%second st.global.v4.b32 [%gmem], {%tid, %tid, %tid, %tid};"
WRITE_THEN_GLOBAL = "@%first st.global.v4.b32 [%gmem], {%smem, %smem, %smem, %smem};\nORDER\n@%second FORM"
GLOBAL_THEN_READ = "@%first FORM\nORDER\n@%second ld.global.b32 %r8, [%gmem];\nst.global.b32 [%out+64], %r8;"
READ_THEN_GLOBAL = "@%first ld.global.b32 %r8, [%gmem];\nst.global.b32 [%out+64], %r8;\nORDER\n@%second FORM"

# The instruction in one CTA reaches the shared memory of the other one, which accesses it itself.
LAST = "\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"
WRITE_THEN_PEER = (
    FILL + PEER + CLUSTER_BAR + "\n@%first0 st.shared.v4.b32 [%smem], {%smem, %smem, %smem, %smem};\nORDER\n@%first1 FORM" + LAST
)
PEER_THEN_READ = (
    FILL + PEER + CLUSTER_BAR + "\n@%first1 FORM\nORDER\n@%first0 ld.shared.b32 %r8, [%smem];\nst.global.b32 [%out+64], %r8;" + LAST
)

# Data and a flag: the first thread of warp 0 writes and releases, that of warp 1 acquires and reads.
_DATA_AND_FLAG = """
@!%first bra READER;
st.global.b32 [%gmem], 5;
{release}
READER:
@!%second bra DONE;
AGAIN:
{acquire}
setp.ne.u32 %done, %r0, 1;
@%done bra AGAIN;
{behind}
ld.global.b32 %r8, [%gmem];
st.global.b32 [%out+64], %r8;
DONE:
"""
FLAG = "[%gmem+64]"
RELEASED = _DATA_AND_FLAG.format(release="ORDER", acquire=f"ld.acquire.gpu.global.b32 %r0, {FLAG};", behind="")
ACQUIRED = _DATA_AND_FLAG.format(release=f"st.release.gpu.global.b32 {FLAG}, 1;", acquire="ORDER", behind="")
FENCED_RELEASE = _DATA_AND_FLAG.format(
    release=f"ORDER\nst.relaxed.gpu.global.b32 {FLAG}, 1;", acquire=f"ld.acquire.gpu.global.b32 %r0, {FLAG};", behind=""
)
FENCED_ACQUIRE = _DATA_AND_FLAG.format(
    release=f"st.release.gpu.global.b32 {FLAG}, 1;", acquire=f"ld.relaxed.gpu.global.b32 %r0, {FLAG};", behind="ORDER"
)
