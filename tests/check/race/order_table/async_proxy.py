"""Launch control, fences between the generic and the async proxy, the mbarrier objects that copies tell, and the end of a CTA."""

from __future__ import annotations

from itertools import chain

from tests.check.race.order_table.copies import (
    BULK_LOADS,
    BULK_SAVES,
    BULK_TO_PEER,
    COMMIT,
    COMPLETION,
    CP_ASYNC_FORMS,
    EXPECT,
    FENCE_SHARED,
    GROUPS,
    LAST_WAIT,
    LOAD,
    REMOTE,
    SAVE,
    SHARED_TO_PEER,
    STORES_4,
    WAIT,
    WRITE_SOURCE_THEN_LOAD,
    WRITE_SOURCE_THEN_SAVE,
    of,
)
from tests.check.race.order_table.frames import BAR, CLUSTER_BAR, FILL, FILLED_FOR_ASYNC, LAST, PAIR_OF_CTAS, PEER
from tests.check.race.order_table.pair import Pair

CANCEL = "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel"
FENCE = "Parallel Synchronization and Communication Instructions: membar / fence"

# --------------------------------------------------------------------------------------------------------------- launch control
RESPONSE = "ld.shared.b128 %q0, [response];"
_CANCEL = "st.shared.b128 [response], %q0;\nfence.proxy.async.shared::cta;\n" + of(16, EXPECT) + "bar.sync 0;\n"
_CANCEL_ALL = (
    PEER
    + "st.shared.b128 [response], %q0;\nfence.proxy.async.shared::cta;\n"
    + of(16, EXPECT)
    + "fence.mbarrier_init.release.cluster;\n"
    + CLUSTER_BAR
)
CANCELS = (
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [%mbar];",
    "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [response], [%mbar];",
)
CANCEL_ALL = (
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [response], [%mbar];",
)
CONTROL = (
    Pair(
        CANCELS,
        "writes the response, async proxy",
        _CANCEL + "@%first FORM\nORDER\n@%second " + RESPONSE + LAST_WAIT,
        WAIT,
        CANCEL,
        "X103 X112",
    ),
    Pair(
        CANCELS,
        "writes the response, async proxy",
        _CANCEL + "@%second " + RESPONSE + "\nORDER\n@%first FORM" + LAST_WAIT,
        BAR,
        CANCEL,
        "X112 X103",
    ),
    Pair(
        CANCELS,
        "writes the response, async proxy",
        _CANCEL + "@%first st.shared.b32 [response], %smem;\nORDER\n@%first FORM" + LAST_WAIT,
        FENCE_SHARED,
        CANCEL,
        "X102",
    ),
    Pair(
        CANCEL_ALL,
        "writes the responses of all CTAs of the cluster",
        _CANCEL_ALL + "\n@%first1 FORM\nORDER\n@%second " + RESPONSE + LAST_WAIT + LAST,
        WAIT,
        CANCEL,
        "X103 X112",
        options=PAIR_OF_CTAS,
    ),
)

# ------------------------------------------------------------------------------------------------------------------ proxy fences
_PEER_WRITES = (
    of(64, REMOTE) + "@%first0 st.shared.b32 [%smem], %smem;\nRELEASE\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nACQUIRE\n"
    "@%first1 " + SHARED_TO_PEER[0] + "\n@!%cta0 bra DONE;" + LAST_WAIT + "\nDONE:" + LAST
)
RELEASE_FENCE = "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"
ACQUIRE_FENCE = "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"
PROXIES = (
    Pair(
        ("fence.proxy.async;", "fence.proxy.async.shared::cta;", "membar.proxy.async;", "membar.proxy.async.shared::cta;"),
        "orders the proxies for shared memory",
        WRITE_SOURCE_THEN_SAVE.replace("FORM", BULK_SAVES[0]),
        "FORM",
        FENCE,
        "X102",
    ),
    Pair(
        ("fence.proxy.async;", "fence.proxy.async.global;", "membar.proxy.async;", "membar.proxy.async.global;"),
        "orders the proxies for global memory",
        of(64, WRITE_SOURCE_THEN_LOAD).replace("FORM", BULK_LOADS[0]),
        "FORM",
        FENCE,
        "X102",
    ),
    Pair(
        (RELEASE_FENCE, "fence.proxy.async.shared::cluster;"),
        "orders the proxies, before it releases",
        _PEER_WRITES.replace("RELEASE", "ORDER").replace("ACQUIRE", ""),
        "FORM",
        FENCE,
        "X102",
        options=PAIR_OF_CTAS,
    ),
    Pair(
        (ACQUIRE_FENCE, "fence.proxy.async;"),
        "orders the proxies, behind an acquire",
        _PEER_WRITES.replace("RELEASE", "").replace("ACQUIRE", "ORDER"),
        "FORM",
        FENCE,
        "X102",
        options=PAIR_OF_CTAS,
    ),
    Pair(
        (RELEASE_FENCE,),
        "orders the proxies together with the fence that acquires: by the letter neither does alone",
        _PEER_WRITES.replace("RELEASE", "ORDER").replace("ACQUIRE", ACQUIRE_FENCE),
        "FORM",
        FENCE,
        "X102",
        options=PAIR_OF_CTAS | {"model": "spec"},
    ),
    Pair(
        (ACQUIRE_FENCE,),
        "orders the proxies together with the fence that releases: by the letter neither does alone",
        _PEER_WRITES.replace("RELEASE", RELEASE_FENCE).replace("ACQUIRE", "ORDER"),
        "FORM",
        FENCE,
        "X102",
        options=PAIR_OF_CTAS | {"model": "spec"},
    ),
    Pair(("fence.proxy.alias;", "membar.proxy.alias;"), "orders accesses through two addresses of one location", "FORM", "", FENCE),
)
# ------------------------------------------------------------------------- the mbarrier object that is told, and the end of the CTA
_MADE_BY_OTHERS = (
    FILLED_FOR_ASYNC + EXPECT.replace("%first", "%second") + "ORDER\n@%first FORM\nbar.sync 0;" + LAST_WAIT + "\ncp.async.wait_all;"
)
_PEER_MAKES = (
    FILLED_FOR_ASYNC + PEER + EXPECT + "ORDER\n@%first1 FORM\n" + CLUSTER_BAR + "\n@!%cta0 bra DONE;" + LAST_WAIT + "\nDONE:" + LAST
)
INIT = "Parallel Synchronization and Communication Instructions: mbarrier.init"
MADE_KNOWN = "fence.mbarrier_init.release.cluster;\n" + CLUSTER_BAR
TOLD = (
    Pair(BULK_LOADS[:1], "tells an mbarrier object", of(64, _MADE_BY_OTHERS), BAR, INIT, "X120"),
    Pair(CANCELS[:1], "tells an mbarrier object", "st.shared.b128 [response], %q0;\n" + of(16, _MADE_BY_OTHERS), BAR, INIT, "X120"),
    Pair(
        ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%mbar];", "cp.async.mbarrier.arrive.shared::cta.b64 [%mbar];"),
        "tells an mbarrier object",
        FILLED_FOR_ASYNC + "@%second mbarrier.init.shared::cta.b64 [%mbar], 2;\nORDER\n@%first FORM",
        BAR,
        INIT,
        "X120",
    ),
    Pair(
        BULK_TO_PEER[:1],
        "tells an mbarrier object of another CTA",
        of(64, _PEER_MAKES),
        MADE_KNOWN,
        INIT,
        "X120",
        ("X112",),
        options=PAIR_OF_CTAS,
    ),
    Pair(
        SHARED_TO_PEER[:2],
        "tells an mbarrier object of another CTA",
        of(64, _PEER_MAKES),
        MADE_KNOWN,
        INIT,
        "X120",
        ("X112",),
        options=PAIR_OF_CTAS,
    ),
    Pair(
        (STORES_4[0], STORES_4[4]),
        "tells an mbarrier object of another CTA",
        of(4, _PEER_MAKES),
        MADE_KNOWN,
        INIT,
        "X120",
        ("X101",),
        options=PAIR_OF_CTAS,
    ),
)
ENDS = (
    Pair(
        BULK_LOADS, "writes shared memory of a CTA that may not have ended", of(64, LOAD) + "@%first FORM\nORDER", WAIT, COMPLETION, "X116"
    ),
    Pair(
        BULK_SAVES,
        "reads shared memory of a CTA that may not have ended",
        SAVE + "@%first FORM\n" + COMMIT + "ORDER",
        "@%first cp.async.bulk.wait_group.read 0;",
        GROUPS,
        "X119",
    ),
    Pair(
        CP_ASYNC_FORMS[:1],
        "writes shared memory of a CTA that may not have ended",
        FILL + "@%first FORM\nORDER",
        "cp.async.wait_all;",
        COMPLETION,
        "X116",
    ),
)

TABLE: tuple[Pair, ...] = tuple(chain(CONTROL, PROXIES, TOLD, ENDS))
