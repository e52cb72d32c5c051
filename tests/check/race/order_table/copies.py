"""Asynchronous copies and stores without tensor maps, what completes them, and the fences between the generic and the async proxy."""

from __future__ import annotations

from itertools import chain

from tests.check.race.order_table.frames import (
    BAR,
    CLUSTER_BAR,
    FILL,
    FILLED_FOR_ASYNC,
    FLAG,
    LAST,
    PAIR_OF_CTAS,
    PEER,
    READ,
    READ_GLOBAL,
    READ_THEN_SHARED,
    RELEASED,
    WRITE_THEN_GLOBAL,
)
from tests.check.race.order_table.pair import Pair

COMPLETION = "Completion Mechanisms for Asynchronous Copy Operations"
GROUPS = "Async-group mechanism"
PROXY = "Async Proxy"
CONFLICT = "Conflict and Data-races"
ASYNC = "Asynchronous Operations"
CP_ASYNC = "Data Movement and Conversion Instructions: cp.async"
BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
REDUCE = "Data Movement and Conversion Instructions: cp.reduce.async.bulk"
ST_ASYNC = "Data Movement and Conversion Instructions: st.async"
RED_ASYNC = "Parallel Synchronization and Communication Instructions: red.async"

# ------------------------------------------------------------------------------------------------------------------ cp.async
COPY_THEN_READ = FILL + "@%first FORM\n@%first cp.async.commit_group;\nORDER\nbar.sync 0;\n@%second " + READ + "\ncp.async.wait_all;"
COPY_THEN_OWN_READ = FILL + "@%first FORM\n@%first cp.async.commit_group;\nORDER\n@%first " + READ + "\ncp.async.wait_all;"
COPY_THEN_WRITE_SOURCE = (
    FILL + "@%first FORM\n@%first cp.async.commit_group;\nORDER\nbar.sync 0;\n@%second st.global.b32 [%gmem], %tid;\ncp.async.wait_all;"
)
CP_ASYNC_FORMS = (
    "cp.async.ca.shared.global [%smem], [%gmem], 4;",
    "cp.async.ca.shared::cta.global.L2::128B [%smem], [%gmem], 8;",
    "cp.async.cg.shared.global [%smem], [%gmem], 16;",
    "cp.async.ca.shared.global.L2::cache_hint [%smem], [%gmem], 16, %policy;",
    "cp.async.ca.shared.global [%smem], [%gmem], 4, %copied;",
    "cp.async.cg.shared.global [%smem], [%gmem], 16, %copied;",
)
PARTLY = ("cp.async.cg.shared.global [%smem], [%gmem], 16, 8;",)
ZERO_FORMS = ("cp.async.cg.shared.global [%smem], [%gmem], 16, 0;", "cp.async.ca.shared.global [%smem], [%gmem], 4, %ignored;")
_GROUP = FILL + "@%first cp.async.ca.shared.global [%smem], [%gmem], 4;\n"
_ARRIVING = (
    FILL
    + "@%first mbarrier.init.shared::cta.b64 [%mbar], COUNT;\nbar.sync 0;\n"
    + "@!%first bra READER;\ncp.async.ca.shared.global [%smem], [%gmem], 4;\nORDER\nREADER:\n@!%second bra DONE;\n"
    + "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar], 0;\n@!%done bra AGAIN;\n"
    + READ
    + "\nDONE:\ncp.async.wait_all;"
)
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%mbar];"
NON_BULK = (
    Pair((*CP_ASYNC_FORMS, *PARTLY, *ZERO_FORMS), "writes shared memory", COPY_THEN_READ, "cp.async.wait_group 0;", COMPLETION, "X111"),
    Pair((*CP_ASYNC_FORMS, *PARTLY, *ZERO_FORMS), "writes shared memory", COPY_THEN_OWN_READ, "cp.async.wait_all;", COMPLETION, "X111"),
    Pair(CP_ASYNC_FORMS, "writes shared memory", READ_THEN_SHARED + "\ncp.async.wait_all;", BAR, CONFLICT, "X101 X111"),
    Pair(CP_ASYNC_FORMS, "reads global memory", FILL + WRITE_THEN_GLOBAL + "\ncp.async.wait_all;", BAR, CONFLICT, "X114 X104"),
    Pair(CP_ASYNC_FORMS, "reads global memory", COPY_THEN_WRITE_SOURCE, "cp.async.wait_all;", COMPLETION, "X104"),
    Pair(PARTLY, "reads some of its bytes in global memory", COPY_THEN_WRITE_SOURCE, "cp.async.wait_all;", COMPLETION, "X104"),
    Pair(
        ("cp.async.wait_all;", "cp.async.wait_group 0;"),
        "completes the copies of the thread",
        _GROUP + "cp.async.commit_group;\nORDER\nbar.sync 0;\n@%second " + READ + "\ncp.async.wait_all;",
        "FORM",
        CP_ASYNC + ".wait_group / cp.async.wait_all",
        "X111",
        without="cp.async.wait_group 1;",
    ),
    Pair(
        ("cp.async.commit_group;",),
        "makes a group of the copies of the thread",
        _GROUP + "ORDER\ncp.async.wait_group 0;\nbar.sync 0;\n@%second " + READ + "\ncp.async.wait_all;",
        "FORM",
        CP_ASYNC + ".commit_group",
        "X111",
    ),
    Pair(
        ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%mbar];",),
        "arrives when the copies of the thread are complete",
        _ARRIVING.replace("COUNT", "1"),
        "FORM",
        CP_ASYNC + ".mbarrier.arrive",
        "X111",
        without=ARRIVE,
    ),
    Pair(
        ("cp.async.mbarrier.arrive.shared.b64 [%mbar];",),
        "arrives when the copies of the thread are complete, once more than is expected",
        _ARRIVING.replace("COUNT", "1"),
        "FORM\n" + ARRIVE,
        CP_ASYNC + ".mbarrier.arrive",
        "X111",
        without=ARRIVE,
    ),
)

# ------------------------------------------------------------------------------------ copies that an mbarrier object completes
WAIT = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar], 0;\n@!%done bra AGAIN;"
LAST_WAIT = "\nFINALLY: mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar], 0;\n@!%done bra FINALLY;"
MASK = "mov.b16 %h0, 3;\n"
EXPECT = "@%first mbarrier.init.shared::cta.b64 [%mbar], 1;\n@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mbar], BYTES;\n"
LOAD = MASK + FILLED_FOR_ASYNC + EXPECT + "bar.sync 0;\n"
LOAD_THEN_READ = LOAD + "@%first FORM\nORDER\n@%second " + READ + LAST_WAIT
LOAD_THEN_WRITE_SOURCE = LOAD + "@%first FORM\nORDER\n@%second st.global.b32 [%gmem], %tid;" + LAST_WAIT
READ_THEN_LOAD = LOAD + "@%second " + READ + "\nORDER\n@%first FORM" + LAST_WAIT
WRITE_THEN_LOAD = LOAD + "@%first st.shared.b32 [%smem], %smem;\nORDER\n@%first FORM" + LAST_WAIT
WRITE_SOURCE_THEN_LOAD = LOAD + "@%first st.global.b32 [%gmem], %smem;\nORDER\n@%first FORM" + LAST_WAIT
BULK_LOADS = (
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%smem], [%gmem], 64, [%mbar];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%gmem], 64, [%mbar];",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%smem], [%gmem], 64, [%mbar], %policy;",
)

# In a pair of CTAs the second issues, into the shared memory of the first.
REMOTE = MASK + FILLED_FOR_ASYNC + PEER + EXPECT + "fence.mbarrier_init.release.cluster;\n" + CLUSTER_BAR + "\n"
REMOTE_THEN_READ = REMOTE + "@%first1 FORM\n@!%cta0 bra DONE;\nORDER\n@%second " + READ + LAST_WAIT + "\nDONE:" + LAST
MULTICAST_THEN_READ = REMOTE + "@%first1 FORM\nORDER\n@%second " + READ + LAST_WAIT + LAST
READ_THEN_REMOTE = REMOTE + "@%first0 " + READ + "\nORDER\n@%first1 FORM\n@!%cta0 bra DONE;" + LAST_WAIT + "\nDONE:" + LAST
WRITE_SOURCE_THEN_REMOTE = (
    REMOTE + "@%first1 st.shared.b32 [%smem+512], %smem;\nORDER\n@%first1 FORM\n@!%cta0 bra DONE;" + LAST_WAIT + "\nDONE:" + LAST
)
REMOTE_THEN_WRITE_SOURCE = (
    REMOTE + "@%first1 FORM\n@!%cta0 bra DONE;" + LAST_WAIT + "\nDONE:\nORDER\n@%first1 st.shared.b32 [%smem+512], %tid;" + LAST
)
BULK_MULTICASTS = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%smem], [%gmem], 64, [%mbar], %h0;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%smem], [%gmem], 64, [%mbar],"
    " %h0, %policy;",
)
BULK_TO_PEER = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%peer], [%gmem], 64, [%peer_mbar];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%peer], [%gmem], 64, [%peer_mbar], %policy;",
)
SHARED_TO_PEER = (
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%peer], [%smem+512], 64, [%peer_mbar];",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%peer], [%smem+512], 64, [%peer_mbar];",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.and.b32 [%peer], [%smem+512], 64, [%peer_mbar];",
)
FENCE_SHARED, FENCE_GLOBAL = "fence.proxy.async.shared::cta;", "fence.proxy.async.global;"


def of(bytes_: int, kernel: str) -> str:
    """A kernel whose mbarrier object expects so many bytes."""
    return kernel.replace("BYTES", str(bytes_))


LOADS = (
    Pair(BULK_LOADS, "writes shared memory, async proxy", of(64, LOAD_THEN_READ), WAIT, COMPLETION, "X103"),
    Pair(BULK_LOADS, "writes shared memory, async proxy", of(64, READ_THEN_LOAD), BAR, CONFLICT, "X112 X103"),
    Pair(BULK_LOADS, "writes shared memory, async proxy", of(64, WRITE_THEN_LOAD), FENCE_SHARED, PROXY, "X102"),
    Pair(BULK_LOADS, "reads global memory, async proxy", of(64, LOAD_THEN_WRITE_SOURCE), WAIT, COMPLETION, "X104"),
    Pair(BULK_LOADS, "reads global memory, async proxy", of(64, WRITE_SOURCE_THEN_LOAD), FENCE_GLOBAL, PROXY, "X102"),
    Pair(
        BULK_MULTICASTS, "writes shared memory of several CTAs", of(64, MULTICAST_THEN_READ), WAIT, COMPLETION, "X103", options=PAIR_OF_CTAS
    ),
    Pair(BULK_TO_PEER, "writes shared memory of another CTA", of(64, REMOTE_THEN_READ), WAIT, COMPLETION, "X103", options=PAIR_OF_CTAS),
    Pair(
        BULK_TO_PEER,
        "writes shared memory of another CTA",
        of(64, READ_THEN_REMOTE),
        CLUSTER_BAR,
        CONFLICT,
        "X112 X103 X101",
        options=PAIR_OF_CTAS,
    ),
    Pair(SHARED_TO_PEER, "writes shared memory of another CTA", of(64, REMOTE_THEN_READ), WAIT, COMPLETION, "X103", options=PAIR_OF_CTAS),
    Pair(
        SHARED_TO_PEER,
        "writes shared memory of another CTA",
        of(64, READ_THEN_REMOTE),
        CLUSTER_BAR,
        CONFLICT,
        "X112 X103 X101",
        options=PAIR_OF_CTAS,
    ),
    Pair(SHARED_TO_PEER, "reads shared memory", of(64, WRITE_SOURCE_THEN_REMOTE), FENCE_SHARED, PROXY, "X102", options=PAIR_OF_CTAS),
    Pair(SHARED_TO_PEER, "reads shared memory", of(64, REMOTE_THEN_WRITE_SOURCE), CLUSTER_BAR, COMPLETION, "X104", options=PAIR_OF_CTAS),
)

# ------------------------------------------------------------------------------------------------------------- st.async, red.async
STORES_4 = (
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%peer], %smem, [%peer_mbar];",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%peer], %f0, [%peer_mbar];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%peer], %r0, [%peer_mbar];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%peer], %r0, [%peer_mbar];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%peer], %r0, [%peer_mbar];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 [%peer], %r0, [%peer_mbar];",
)
STORES_8 = (
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%peer], %d0, [%peer_mbar];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%peer], %d0, [%peer_mbar];",
)
STORES_16 = (
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%peer], {%d0, %d0}, [%peer_mbar];",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%peer], {%smem, %r0, %r0, %r0}, [%peer_mbar];",
)
GLOBAL_STORES = (
    f"st.async.release.gpu.global.b32 {FLAG}, 1;",
    f"st.async.mmio.release.sys.global.u32 {FLAG}, 1;",
    f"red.async.release.gpu.global.add.u32 {FLAG}, 1;",
)
GLOBAL_WRITES = ("st.async.release.gpu.global.b32 [%gmem], %tid;", "red.async.release.gpu.global.add.u32 [%gmem], %r0;")
_STORE = "writes shared memory of another CTA, asynchronously, generic proxy"
STORES = (
    *(
        Pair(forms, _STORE, of(bytes_, REMOTE_THEN_READ), WAIT, ST_ASYNC, "X103 X101", options=PAIR_OF_CTAS)
        for forms, bytes_ in ((STORES_4, 4), (STORES_8, 8), (STORES_16, 16))
    ),
    *(
        Pair(forms, _STORE, of(bytes_, READ_THEN_REMOTE), CLUSTER_BAR, CONFLICT, "X112 X103 X101", options=PAIR_OF_CTAS)
        for forms, bytes_ in ((STORES_4, 4), (STORES_8, 8), (STORES_16, 16))
    ),
    Pair(
        GLOBAL_STORES,
        "releases",
        RELEASED,
        "FORM",
        ST_ASYNC,
        "X114",
        without=f"st.relaxed.gpu.global.b32 {FLAG}, 1;",
    ),
    Pair(GLOBAL_WRITES, "writes global memory, asynchronously, generic proxy", WRITE_THEN_GLOBAL, BAR, CONFLICT, "X114"),
)

# ----------------------------------------------------------------------------------------------------------------- bulk groups
SAVE = MASK + FILLED_FOR_ASYNC
COMMIT, FINISH = "@%first cp.async.bulk.commit_group;\n", "\n@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;"
SAVE_THEN_READ = SAVE + "@%first FORM\n" + COMMIT + "ORDER\nbar.sync 0;\n@%second " + READ_GLOBAL + FINISH
SAVE_THEN_WRITE_SOURCE = SAVE + "@%first FORM\n" + COMMIT + "ORDER\nbar.sync 0;\n@%second st.shared.b32 [%smem], %tid;" + FINISH
WRITE_SOURCE_THEN_SAVE = SAVE + "@%first st.shared.b32 [%smem], %smem;\nORDER\n@%first FORM" + FINISH
OTHER_WRITES_THEN_SAVE = SAVE + "@%second st.shared.b32 [%smem], %smem;\nfence.proxy.async.shared::cta;\nORDER\n@%first FORM" + FINISH
READ_THEN_SAVE = SAVE + "@%second " + READ_GLOBAL + "\nORDER\n@%first FORM" + FINISH
WRITE_THEN_SAVE = SAVE + "@%first st.global.b32 [%gmem], %smem;\nORDER\n@%first FORM" + FINISH
BULK_SAVES = (
    "cp.async.bulk.global.shared::cta.bulk_group [%gmem], [%smem], 64;",
    "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%gmem], [%smem], 64, %policy;",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%gmem], [%smem], 64, %h0;",
    "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask [%gmem], [%smem], 64, %policy, %h0;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%gmem], [%smem], 64;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%gmem], [%smem], 64;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.min.s64 [%gmem], [%smem], 64, %policy;",
)
WAIT_GROUP, WAIT_READ = "@%first cp.async.bulk.wait_group 0;", "@%first cp.async.bulk.wait_group.read 0;"
SAVES = (
    Pair(BULK_SAVES, "writes global memory, async proxy", SAVE_THEN_READ, WAIT_GROUP, GROUPS, "X103"),
    Pair(BULK_SAVES, "writes global memory, async proxy", READ_THEN_SAVE, BAR, CONFLICT, "X112 X103"),
    Pair(BULK_SAVES, "writes global memory, async proxy", WRITE_THEN_SAVE, FENCE_GLOBAL, PROXY, "X102"),
    Pair(BULK_SAVES, "reads shared memory, async proxy", SAVE_THEN_WRITE_SOURCE, WAIT_READ, GROUPS, "X104"),
    Pair(BULK_SAVES, "reads shared memory, async proxy", WRITE_SOURCE_THEN_SAVE, FENCE_SHARED, PROXY, "X102"),
    Pair(BULK_SAVES, "reads shared memory, async proxy", OTHER_WRITES_THEN_SAVE, BAR, CONFLICT, "X112 X103"),
    Pair(
        ("cp.async.bulk.wait_group 0;",),
        "completes the copies of the thread",
        SAVE_THEN_READ.replace("FORM", BULK_SAVES[0]),
        "@%first FORM",
        BULK + ".wait_group",
        "X103",
        without=WAIT_READ,
    ),
    Pair(
        ("cp.async.bulk.wait_group.read 0;",),
        "completes the reads of the copies of the thread",
        SAVE_THEN_WRITE_SOURCE.replace("FORM", BULK_SAVES[0]),
        "@%first FORM",
        BULK + ".wait_group",
        "X104",
        without="@%first cp.async.bulk.wait_group.read 1;",
    ),
    Pair(
        ("cp.async.bulk.commit_group;",),
        "makes a group of the copies of the thread",
        SAVE_THEN_READ.replace("FORM", BULK_SAVES[0]).replace("ORDER", WAIT_GROUP).replace(COMMIT, "ORDER\n"),
        "@%first FORM",
        BULK + ".commit_group",
        "X103",
        also=("X119",),
    ),
)

HINTS = (
    Pair(
        (
            "cp.async.bulk.prefetch.L2.global [%gmem], 64;",
            "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%gmem], 64, %policy;",
        ),
        "a hint: no access of the memory model",
        WRITE_THEN_GLOBAL,
        "",
        BULK + ".prefetch",
    ),
)

TABLE: tuple[Pair, ...] = tuple(chain(NON_BULK, LOADS, STORES, SAVES, HINTS))
