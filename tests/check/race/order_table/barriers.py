"""Barriers and mbarrier objects: each orders what stands before an arrival and what stands behind a wait."""

from __future__ import annotations

from itertools import chain

from tests.check.race.order_table.frames import CLUSTER_BAR, FILL, LAST, PAIR_OF_CTAS, PEER, READ
from tests.check.race.order_table.pair import Pair

BARRIER = "Parallel Synchronization and Communication Instructions: bar, barrier"
CLUSTER = "Parallel Synchronization and Communication Instructions: barrier.cluster"
INIT = "Parallel Synchronization and Communication Instructions: mbarrier.init"
INVAL = "Parallel Synchronization and Communication Instructions: mbarrier.inval"
ARRIVE = "Parallel Synchronization and Communication Instructions: mbarrier.arrive"
WAIT = "Parallel Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait"
FENCE = "Parallel Synchronization and Communication Instructions: membar / fence"
GRID = "Parallel Synchronization and Communication Instructions: griddepcontrol"

BARRIER_SYNC = FILL + "setp.ne.u32 %done, %tid, 99;\n@%first st.shared.b32 [%smem], %smem;\nORDER\n@%second " + READ
NAMED = Pair(
    (
        "bar.sync 0;",
        "bar.cta.sync 1, 64;",
        "bar.red.and.pred %p0, 0, %done;",
        "bar.red.popc.u32 %r9, 0, %done;",
        "bar.red.or.pred %p0, 1, 64, %done;",
        "bar.cta.red.popc.u32 %r9, 1, 64, %done;",
        "barrier.sync 0;",
        "barrier.cta.sync.aligned 2, 64;",
        "barrier.red.and.aligned.pred %p0, 0, %done;",
        "barrier.cta.red.popc.u32 %r9, 0, %done;",
        "barrier.red.or.pred %p0, 1, 64, %done;",
        "barrier.red.popc.aligned.u32 %r9, 1, 64, %done;",
    ),
    "orders the threads that take part",
    BARRIER_SYNC,
    "FORM",
    BARRIER,
    "X101",
)
ARRIVALS = Pair(
    ("bar.arrive 1, 64;", "bar.cta.arrive 1, 64;", "barrier.arrive 1, 64;", "barrier.cta.arrive.aligned 1, 64;"),
    "orders what stands before it with what stands behind the bar.sync of others",
    FILL + "@%warp0 bra FIRST;\nbar.sync 1, 64;\n@%second " + READ + "\nbra DONE;\nFIRST:\nORDER\nDONE:",
    "@%first st.shared.b32 [%smem], %smem;\nFORM",
    BARRIER,
    "X101",
    without="FORM\n@%first st.shared.b32 [%smem], %smem;",
)
WARP = Pair(
    ("bar.warp.sync -1;",),
    "orders the threads of a warp",
    FILL + "@%first st.shared.b32 [%smem], %smem;\nORDER\nsetp.eq.u32 %done, %tid, 1;\n@%done " + READ,
    "FORM",
    "Parallel Synchronization and Communication Instructions: bar.warp.sync",
    "X101",
    options={"model": "spec"},
)
_CLUSTER = FILL + PEER + CLUSTER_BAR + "\n@%first0 st.shared.b32 [%smem], %smem;\n"
READ_PEER = "@%first1 ld.shared::cluster.b32 %r8, [%peer];\n@%first1 st.global.b32 [%out+64], %r8;"
CLUSTER_BARRIER = (
    Pair(
        ("barrier.cluster.arrive;", "barrier.cluster.arrive.release.aligned;"),
        "releases",
        _CLUSTER + "ORDER\nbarrier.cluster.wait;\n" + READ_PEER + LAST,
        "FORM",
        CLUSTER,
        "X101",
        without="barrier.cluster.arrive.relaxed;",
        options=PAIR_OF_CTAS,
    ),
    Pair(
        ("barrier.cluster.wait;", "barrier.cluster.wait.acquire.aligned;"),
        "acquires",
        _CLUSTER + "barrier.cluster.arrive;\nORDER" + LAST,
        "FORM\n" + READ_PEER,
        CLUSTER,
        "X101",
        without=READ_PEER + "\nFORM",
        options=PAIR_OF_CTAS,
    ),
)

# An mbarrier object of two arrivals: data and an arrival of warp 0, an arrival, a wait and a read of warp 1.
MBARRIER = FILL + "@%first mbarrier.init.shared::cta.b64 [%mbar], 2;\nbar.sync 0;\n"
_PASSED = (
    MBARRIER
    + """@!%first bra READER;
st.shared.b32 [%smem], %smem;
ARRIVE
READER:
@!%second bra DONE;
mbarrier.arrive.shared::cta.b64 %d0, [%mbar];
AGAIN: WAIT
@!%done bra AGAIN;
"""
    + READ
    + "\nDONE:"
)
ARRIVED = _PASSED.replace("ARRIVE", "ORDER").replace("WAIT", "mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar], 0;")
AWAITED = _PASSED.replace("ARRIVE", "mbarrier.arrive.shared::cta.b64 _, [%mbar];").replace("WAIT", "ORDER")
ARRIVED_AT_PEER = (
    FILL
    + PEER
    + """@%first mbarrier.init.shared::cta.b64 [%mbar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive;
barrier.cluster.wait;
@!%first1 bra READER;
st.shared::cluster.b32 [%peer], %smem;
ORDER
READER:
@!%first0 bra DONE;
AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [%mbar], 0;
@!%done bra AGAIN;
"""
    + READ
    + "\nDONE:"
    + LAST
)
RELEASES = (
    Pair(
        (
            "mbarrier.arrive.shared::cta.b64 %d1, [%mbar];",
            "mbarrier.arrive.release.cta.shared.b64 _, [%mbar], 1;",
            "mbarrier.arrive_drop.shared.b64 %d1, [%mbar];",
            "mbarrier.arrive.noComplete.shared.b64 %d1, [%mbar], 1;",
            "mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64 %d1, [%mbar], 1;",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mbar], 0;",
            "mbarrier.arrive_drop.expect_tx.release.cta.shared.b64 %d1, [%mbar], 0;",
        ),
        "releases: what stands before it is seen behind the wait",
        ARRIVED,
        "FORM",
        ARRIVE,
        "X101",
        without="mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%mbar];",
    ),
    Pair(
        (
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer_mbar];",
            "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%peer_mbar];",
            "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%peer_mbar], 0;",
            "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%peer_mbar], 0;",
        ),
        "releases to another CTA",
        ARRIVED_AT_PEER,
        "FORM",
        ARRIVE,
        "X101",
        without="mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%peer_mbar];",
        options=PAIR_OF_CTAS,
    ),
)
ACQUIRES = (
    Pair(
        (
            "mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar], 0;",
            "mbarrier.try_wait.parity.acquire.cta.shared.b64 %done, [%mbar], 0, 100;",
            "mbarrier.test_wait.parity.shared.b64 %done, [%mbar], 0;",
            "mbarrier.try_wait.shared::cta.b64 %done, [%mbar], %d0;",
            "mbarrier.test_wait.acquire.cta.shared::cta.b64 %done, [%mbar], %d0;",
        ),
        "acquires: accesses before the arrivals are visible after it",
        AWAITED,
        "FORM",
        WAIT,
        "X101",
        without="mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %done, [%mbar], 0;",
    ),
)
INITIALISED = "@%first mbarrier.init.shared::cta.b64 [%mbar], 9;\nORDER\n@%second FORM"
OBJECT = (
    Pair(
        ("mbarrier.init.shared::cta.b64 [%mbar], 3;", "mbarrier.init.shared.b64 [%mbar], 3;"),
        "writes the mbarrier object",
        "@%first FORM\nORDER\n@%second mbarrier.arrive.shared::cta.b64 _, [%mbar];",
        "bar.sync 0;",
        INIT,
        "X120",
    ),
    Pair(
        ("mbarrier.init.shared::cta.b64 [%smem], 3;",),
        "writes shared memory",
        FILL + "@%second " + READ + "\nORDER\n@%first FORM",
        "bar.sync 0;",
        INIT,
        "X101",
    ),
    Pair(
        (
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [%mbar], 16;",
            "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%mbar], 16;",
            "mbarrier.arrive.shared::cta.b64 _, [%mbar];",
            "mbarrier.arrive_drop.shared.b64 _, [%mbar];",
            "mbarrier.arrive.noComplete.shared.b64 %d1, [%mbar], 1;",
            "mbarrier.arrive_drop.noComplete.shared.b64 %d1, [%mbar], 1;",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mbar], 16;",
            "mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%mbar], 16;",
            "mbarrier.test_wait.parity.shared.b64 %done, [%mbar], 1;",
            "mbarrier.try_wait.parity.shared.b64 %done, [%mbar], 1;",
            "mbarrier.inval.shared::cta.b64 [%mbar];",
        ),
        "accesses the mbarrier object",
        INITIALISED,
        "bar.sync 0;",
        INIT,
        "X120",
    ),
    Pair(
        ("mbarrier.inval.shared.b64 [%mbar];",),
        "ends the mbarrier object",
        MBARRIER + "@%second mbarrier.arrive.shared::cta.b64 _, [%mbar];\nORDER\n@%first FORM",
        "bar.sync 0;",
        INVAL,
        "B514",
    ),
    Pair(
        ("mbarrier.inval.shared.b64 [%mbar];",),
        "ends the mbarrier object, here behind the use that nothing orders with it",
        MBARRIER + "@%first mbarrier.arrive.shared::cta.b64 _, [%mbar];\nORDER\n@%second FORM",
        "bar.sync 0;",
        INVAL,
        "X101",
    ),
    Pair(
        ("mbarrier.inval.shared.b64 [%smem];",),
        "ends the mbarrier object, whose memory may then have another use",
        FILL + "@%first mbarrier.init.shared::cta.b64 [%smem], 2;\nbar.sync 0;\n@%first FORM\nORDER\n@%second st.shared.b32 [%smem], %tid;",
        "bar.sync 0;",
        INVAL,
        "X101",
    ),
)
RESTRICTED = (
    Pair(
        ("fence.mbarrier_init.release.cluster;",),
        "releases mbarrier.init",
        PEER
        + "@%first mbarrier.init.shared::cta.b64 [%mbar], 1;\nORDER\nbarrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n"
        + "@%first1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer_mbar];"
        + LAST,
        "FORM",
        FENCE,
        "X120",
        options=PAIR_OF_CTAS,
    ),
    Pair(
        ("fence.release.sync_restrict::shared::cta.cluster;", "fence.acq_rel.cluster;", "fence.release.cluster;"),
        "releases what stands in the CTA's shared memory",
        _CLUSTER + "ORDER\nbarrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n" + READ_PEER + LAST,
        "FORM",
        FENCE,
        "X101",
        options=PAIR_OF_CTAS,
    ),
    Pair(
        ("fence.acquire.sync_restrict::shared::cluster.cluster;", "fence.acquire.cluster;"),
        "acquires what stands in the cluster's shared memory",
        ARRIVED_AT_PEER.replace("acquire.cluster", "relaxed.cluster")
        .replace("ORDER", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer_mbar];")
        .replace("@!%done bra AGAIN;\n", "@!%done bra AGAIN;\nORDER\n"),
        "FORM",
        FENCE,
        "X101",
        options=PAIR_OF_CTAS,
    ),
)
COUNT = "@%first ld.global.b32 %r8, [%gmem];\nadd.u32 %r8, %r8, 1;\n@%first st.global.b32 [%gmem], %r8;\ngriddepcontrol.wait;"
GRIDS = (
    Pair(
        ("griddepcontrol.wait;",),
        "orders this grid with the one before",
        "griddepcontrol.launch_dependents;\nORDER\n" + COUNT,
        "FORM",
        GRID,
        "X121",
        options={"launches": 2},
    ),
    Pair(
        ("griddepcontrol.launch_dependents;",),
        "lets the next grid start",
        "ORDER\n" + COUNT,
        "FORM\ngriddepcontrol.wait;",
        GRID,
        "X121",
        without="FORM",
        options={"launches": 2},
    ),
)

TABLE: tuple[Pair, ...] = tuple(chain((NAMED, ARRIVALS, WARP), CLUSTER_BARRIER, RELEASES, ACQUIRES, OBJECT, RESTRICTED, GRIDS))
