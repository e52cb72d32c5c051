"""clusterlaunchcontrol in persistent kernels: every piece of work is done once, whoever does it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.bulk import _launch_control
from tests.check.race.test_compiled_arrivals import both_ways, outcome
from tests.optimised_helpers import optimise_race_check

SHOWS = {
    "test_all_work_is_done_once": ("clusterlaunchcontrol.*",),
}

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 done, .param .u64 by)
{{
 .shared .align 16 .b8 response[16];
 .shared .align 8 .b64 bar;
 .reg .pred p, q, c;
 .reg .b32 tid, x, y, z, nx, ny, n, bars, rank, phase, i, own;
 .reg .b64 out, byp, at;
 .reg .b128 h;
 ld.param.u64 out, [done];
 ld.param.u64 byp, [by];
 mov.u32 tid, %tid.x; mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z;
 mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mov.u32 rank, %cluster_ctarank;
 mad.lo.u32 own, z, ny, y; mad.lo.u32 own, own, nx, x;
 mov.u32 phase, 0;
 setp.eq.u32 p, tid, 0;
 @p mbarrier.init.shared::cta.b64 [bar], 1;
 @p fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
LOOP:
 mad.lo.u32 i, z, ny, y;
 mad.lo.u32 i, i, nx, x;
 mul.wide.u32 at, i, 4;
 add.u64 at, at, out;
 @p red.global.add.u32 [at], 1;
 mul.wide.u32 at, i, 4;
 add.u64 at, at, byp;
 @p st.global.u32 [at], own;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
 @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
 {barrier}
 setp.eq.and.u32 c, rank, 0, p;
 @c clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128 [response], [bar];
WAIT:
 mbarrier.try_wait.parity.shared::cta.b64 q, [bar], phase;
 @!q bra WAIT;
 ld.shared.b128 h, [response];
 xor.b32 phase, phase, 1;
 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 q, h;
 @!q bra END;
 {query}
 {offset}
 bra LOOP;
END:
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
 ret;
}}
"""
VECTOR = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {x, y, z, _}, h;"
AXES = "".join(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{a}.b32.b128 {a}, h;" for a in "xyz")
BARRIER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
POLICIES = [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)]


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize("query", [VECTOR, AXES])
@pytest.mark.parametrize("cluster", [1, 2])
def test_all_work_is_done_once(policy: str, seed: int, query: str, cluster: int) -> None:
    grid = (6, 3, 2)
    text = KERNEL.format(
        barrier=BARRIER,
        query=query,
        multicast=".multicast::cluster::all" if cluster > 1 else "",
        offset="mov.u32 i, %cluster_ctaid.x; add.u32 x, x, i;",
    )
    done, by = np.zeros(36, np.uint32), np.full(36, 99, np.uint32)
    device = ptxlab.Device("sm_100a", sms=4, ctas_per_sm=1)
    result = ptxlab.loads(text).kernel().launch(
        grid=grid, block=32, cluster=(cluster, 1, 1), args=[done, by], device=device, policy=policy, seed=seed
    )  # fmt: skip
    assert result.diagnostics == ()
    assert done.tolist() == [1] * 36
    assert len(set(by.tolist())) == result.stats.ctas < 36
    assert sum(v for k, v in result.stats.services.items() if "try_cancel" in k) == 36 // cluster


def test_nothing_is_left_to_cancel() -> None:
    text = KERNEL.format(barrier="", query=VECTOR, multicast="", offset="")
    done, by = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    result = ptxlab.loads(text).kernel().launch(grid=1, block=32, args=[done, by])
    assert result.ok
    assert done.tolist() == [1]


RESPONSES = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 given)
{
 .reg .pred p, q, c;
 .reg .b32 x<7>, tid;
 .reg .b64 a, b, at;
 .reg .b128 h;
 .shared .align 8 .b64 bar;
 ld.param.u64 a, [out]; ld.param.u64 b, [given];
 mov.u32 tid, %tid.x;
 mul.wide.u32 at, tid, 16; add.u64 b, b, at;
 mul.wide.u32 at, tid, 32; add.u64 a, a, at;
 ld.global.b128 h, [b];
 mov.b32 x0, 7; mov.b32 x1, 8; mov.b32 x2, 9; mov.b32 x3, 10; mov.b32 x4, 11; mov.b32 x5, 12; mov.b32 x6, 13;
 setp.lt.u32 p, tid, 20;
 setp.eq.u32 q, tid, tid;
 @p clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 q, h;
 @p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {x0, x1, x2, x3}, h;
 @!p clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 x4, h;
 clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 x5, h;
 @!p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x6, h;
 st.global.v4.b32 [a], {x0, x1, x2, x3};
 selp.b32 x3, 1, 0, q;
 st.global.v4.b32 [a+16], {x4, x5, x6, x3};
 ret;
}
"""


@pytest.mark.parametrize("check", ["none", "all"])
def test_compiled_code_decodes_responses(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.random.default_rng(1).integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    given[::3, 3] = 0
    wanted = np.tile(np.array([7, 8, 9, 10, 11, 12, 13, 1], np.uint32), (32, 1))
    wanted[:20, :4], wanted[:20, 3], wanted[:20, 7] = given[:20], 0, given[:20, 3] != 0
    wanted[20:, 4], wanted[:, 5], wanted[20:, 6] = given[20:, 2], given[:, 1], given[20:, 0]
    asked, words = [], _launch_control._words
    monkeypatch.setattr(_launch_control, "_words", lambda *where: asked.append(where) or words(*where))
    for policy in ("eager", "random"):
        out = np.zeros((32, 8), np.uint32)
        result = ptxlab.loads(RESPONSES).kernel().launch(grid=1, block=32, args=[out, given], check=check, policy=policy)
        assert result.diagnostics == ()
        assert np.array_equal(out, wanted)
        assert sum(count for name, count in result.stats.services.items() if "query" in name) == 5
    assert asked == []


CANCELS = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_out, .param .u32 p_warps, .param .u32 p_response, .param .u32 p_turn)
{{
 .shared .align 16 .b8 response[64];
 .shared .align 8 .b64 bar;
 .reg .pred p, q, c, d;
 .reg .b32 tid, n, bars, phase, i, at, odd, rank, x, y, z, w, turn;
 .reg .b64 out, rd;
 ld.param.u64 out, [p_out]; ld.param.u32 odd, [p_response]; ld.param.u32 turn, [p_turn];
 mov.u32 tid, %tid.x; mov.u32 rank, %cluster_ctarank; mov.u32 i, %ctaid.x; mul.wide.u32 rd, i, 1024; add.u64 out, out, rd;
 mov.u32 phase, 0; mov.u32 i, 0; mov.u32 at, response;
 ld.param.u32 n, [p_warps];
 setp.eq.u32 p, tid, 0;
 @p mbarrier.init.shared::cta.b64 [bar], 1;
 @p fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
LOOP:
 setp.eq.u32 d, i, turn; @d add.u32 at, at, odd;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
 @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
 setp.eq.and.u32 c, rank, 0, p;
 @c clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128 [at], [bar];
WAIT:
 mbarrier.try_wait.parity.shared::cta.b64 q, [bar], phase;
 @!q bra WAIT;
 xor.b32 phase, phase, 1;
 ld.shared.v4.u32 {{x, y, z, w}}, [at];
 fence.proxy.async;
 @p st.global.v4.u32 [out], {{x, y, z, w}};
 add.u64 out, out, 16; add.u32 i, i, 1;
 setp.lt.u32 q, i, n;
 @q bra LOOP;
 ret;
}}
"""


@cache
def canceling(multicast: str) -> ptxlab.Kernel:
    return ptxlab.loads(CANCELS.format(multicast=multicast)).kernel()


@pytest.mark.parametrize("check", ["none", "race", "all"])
@pytest.mark.parametrize("only", [None, [(0, 0, 0), (2, 1, 0), (4, 0, 1), (0, 2, 1), (6, 1, 1)]])
@pytest.mark.parametrize("cluster", [1, 2])
def test_compiled_code_cancels(cluster: int, only: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as the handler, which is called in the first launch, and under a check once in each launch."""
    optimise_race_check()
    handled: list[int] = []
    answer = _launch_control._answer
    monkeypatch.setattr(_launch_control, "_answer", lambda *given: handled.append(1) or answer(*given))

    def run() -> Any:
        out = np.full((8, 64, 4), 99, np.uint32)
        device = ptxlab.Device("sm_100a", sms=2 * cluster, ctas_per_sm=1)
        result = canceling(".multicast::cluster::all" if cluster > 1 else "").launch(
            grid=(8, 3, 2), block=64, cluster=(cluster, 1, 1), args=[out, 20, 0, 99], device=device, only=only, check=check
        )
        return outcome(result, out.tobytes(), result.stats.ctas)

    texts, *_, found, ctas = both_ways(run, monkeypatch, "_table_of_repetitions")
    assert texts == []
    clusters = 48 // cluster if only is None else len(only)
    words = np.frombuffer(found, np.uint32).reshape(8, 64, 4)[:, :20].reshape(-1, 4)
    places = {tuple(each[:3]) for each in words.tolist() if each[3] == 1}
    assert len(places) == clusters - ctas // cluster
    handled.clear()
    run()
    assert len(handled) == (check != "none")


@pytest.mark.parametrize(("odd", "code"), [(8, "C901"), (1 << 24, "C903"), (4096, "C903"), (48, None)])
@pytest.mark.parametrize("turn", [0, 5])
def test_places_of_responses(odd: int, code: str | None, turn: int) -> None:
    """Whether compiled code has cancelled before or not."""
    out = np.zeros((8, 64, 4), np.uint32)
    result = canceling(".multicast::cluster::all").launch(grid=2, block=64, cluster=(2, 1, 1), args=[out, 8, odd, turn], check="none")
    assert [finding.code for finding in result.diagnostics] == ([] if code is None else [code])
