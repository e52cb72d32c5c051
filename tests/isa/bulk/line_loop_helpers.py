"""Loops of bulk copies of contiguous bytes in a cluster of two CTAs, and what they compute."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

THREADS, CTAS = 64, 2
BYTES = 4 * THREADS
"""That a CTA copies in a turn."""
FORM = "cp.async.bulk.{direction}.mbarrier::complete_tx::bytes"
LOAD, LOAD_ANYWHERE = (FORM.format(direction=f"shared::{space}.global") for space in ("cta", "cluster"))
EXPECT = f"@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {BYTES};"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [full], parity; @!q bra WAIT;"
READ = "ld.shared.u32 v, [own]; add.u32 total, total, v;"
FILL = "ld.global.u32 v, [mine]; st.shared.u32 [filled], v; fence.proxy.async;"
CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
LANES = "setp.lt.u32 q, tid, 16; @!q bra BEHIND;"
"""16 lanes copy 16 bytes each."""
EACH = "mul.wide.u32 w, tid, 16; add.u64 from, cta_in, w; shl.b32 to, tid, 4; add.u32 source, a, to; add.u32 to, b, to;"
GROUP = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; BEHIND: bar.sync 0;"
PEER = "shared::cluster.shared::cta"
BODIES = {
    "load": f"{EXPECT} @one {LOAD} [b], [cta_in], {BYTES}, [full]; {WAIT} {READ}",
    "load of a register's size": f"{EXPECT} @one {LOAD} [b], [cta_in], size, [full]; {WAIT} {READ}",
    "load of lanes": f"{EXPECT} {LANES} {EACH} {LOAD} [to], [from], 16, [full]; BEHIND: {WAIT} {READ}",
    "load anywhere": f"{EXPECT} @one {LOAD_ANYWHERE} [there], [cta_in], {BYTES}, [full_there]; {WAIT} {READ}",
    "multicast": f"""{EXPECT} setp.eq.and.u32 q, rank, 0, one;
@q {FORM.format(direction="shared::cluster.global")}.multicast::cluster [b], [cta_in], {BYTES}, [full], both; {WAIT} {READ}""",
    "exchange": f"{EXPECT} {FILL} bar.sync 0; @one {FORM.format(direction=PEER)} [there], [a], {BYTES}, [full_there]; {WAIT} {READ}",
    "sum": f"""{EXPECT} {FILL} bar.sync 0;
@one cp.reduce.async.bulk.{PEER}.mbarrier::complete_tx::bytes.add.u32 [there], [a], {BYTES}, [full_there]; {WAIT} {READ}""",
    "store": f"{FILL} bar.sync 0; @one cp.async.bulk.global.shared::cta.bulk_group [out], [a], {BYTES}; {GROUP}",
    "store of lanes": f"""{FILL} bar.sync 0; {LANES} {EACH} add.u64 from, out, w;
cp.async.bulk.global.shared::cta.bulk_group [from], [source], 16; {GROUP}""",
    "store of some bytes": f"""{FILL} bar.sync 0; {LANES} {EACH} add.u64 from, out, w;
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [from], [source], 16, some; {GROUP}""",
    "reduction of lanes": f"""{FILL} bar.sync 0; {LANES} {EACH} add.u64 from, sums, w;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [from], [source], 16; {GROUP}""",
    "all copies of threads": f"cp.async.ca.shared.global [own], [mine], 4; cp.async.wait_all; bar.sync 0; {READ}",
}
MASK = 0x0FF0


def text_of(name: str) -> str:
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_in, .param .u64 p_out, .param .u64 p_totals, .param .u32 p_turns)
{{
.shared .align 128 .b8 first[{BYTES}];
.shared .align 128 .b8 second[{BYTES}];
.shared .align 8 .b64 object;
.reg .pred one, q, more;
.reg .b16 both, some;
.reg .b32 tid, rank, i, turns, a, b, full, there, full_there, own, filled, parity, v, total, size, to, source;
.reg .b64 cta_in, mine, out, sums, w, from;
mov.u32 tid, %tid.x; mov.u32 rank, %cluster_ctarank; setp.eq.u32 one, tid, 0;
mov.b16 both, 3; mov.b16 some, {MASK}; mov.u32 size, {BYTES};
mov.u32 a, first; mov.u32 b, second; mov.u32 full, object;
xor.b32 v, rank, 1; mapa.shared::cluster.u32 there, b, v; mapa.shared::cluster.u32 full_there, full, v;
shl.b32 v, tid, 2; add.u32 own, b, v; add.u32 filled, a, v;
mov.u32 v, 0; st.shared.u32 [own], v; fence.proxy.async;
@one mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;
ld.param.u64 cta_in, [p_in]; ld.param.u64 out, [p_out]; ld.param.u32 turns, [p_turns];
mul.wide.u32 w, rank, {BYTES}; add.u64 sums, out, w;
mul.lo.u32 v, rank, turns; mul.wide.u32 w, v, {BYTES}; add.u64 cta_in, cta_in, w; add.u64 out, out, w;
mul.wide.u32 w, tid, 4; add.u64 mine, cta_in, w;
mov.u32 i, 0; mov.u32 total, 0;
TURN:
and.b32 parity, i, 1;
{CLUSTER}
{BODIES[name]}
add.u64 cta_in, cta_in, {BYTES}; add.u64 mine, mine, {BYTES}; add.u64 out, out, {BYTES};
add.u32 i, i, 1; setp.lt.u32 more, i, turns; @more bra TURN;
{CLUSTER}
ld.param.u64 out, [p_totals]; mad.lo.u32 v, rank, {THREADS}, tid; mul.wide.u32 w, v, 4; add.u64 out, out, w; st.global.u32 [out], total;
ret;
}}
"""


@cache
def kernel(text: str) -> ptxlab.Kernel:
    return ptxlab.loads(text).kernel()


def inputs(turns: int) -> NDArray[np.uint32]:
    return np.random.default_rng(turns).integers(0, 1 << 32, (CTAS, turns, THREADS), np.uint32)


def launch(text: str, turns: int, **options: Any) -> tuple[NDArray[np.uint32], NDArray[np.uint32], ptxlab.Result]:
    """What the copies write to global memory, and what the threads add."""
    device = ptxlab.Device("sm_100a")
    out, totals = device.array(np.zeros((CTAS, turns, THREADS), np.uint32)), device.array(np.zeros((CTAS, THREADS), np.uint32))
    args = [inputs(turns), out, totals, turns]
    result = kernel(text).launch(grid=CTAS, cluster=CTAS, block=THREADS, args=args, device=device, **options)
    return out.numpy(), totals.numpy(), result


def expected(name: str, turns: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The same, of a kernel of `BODIES`."""
    given = inputs(turns)
    out, totals = np.zeros_like(given), np.zeros((CTAS, THREADS), np.uint32)
    if name in ("store", "store of lanes"):
        out = given
    elif name == "store of some bytes":
        chosen = np.tile([bool(MASK >> bit & 1) for bit in range(16)], BYTES // 16)
        out = np.where(chosen, given.view(np.uint8), np.uint8(0)).view(np.uint32)
    elif name == "reduction of lanes":
        out.reshape(-1, THREADS)[:CTAS] = given.sum(1, dtype=np.uint32)
    elif name == "sum":
        totals = given[::-1].cumsum(1, dtype=np.uint32).sum(1, dtype=np.uint32)
    else:
        brought = given[:1].repeat(CTAS, 0) if name == "multicast" else given[::-1] if name in ("exchange", "load anywhere") else given
        totals = brought.sum(1, dtype=np.uint32)
    return out, totals
