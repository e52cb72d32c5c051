"""Clusters in the time model: they start together, wait for each other, and share what multicast copies read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import ptxlab
from ptxlab.profile import parameters_of
from tests.machine.launch_helpers import kernel
from tests.profile.test_kernels import HEAD, MULTICAST, profile

KNOWN = parameters_of("sm_90a")


def test_all_ctas_wait_for_a_multicast_copy_of_one() -> None:
    found = profile(MULTICAST, grid=4, block=32, cluster=4, args=[np.zeros(512, np.uint8)]).estimate
    copy = min((span for span in found.spans if span.track == "TMA" and span.cta == 0), key=lambda span: span.begin)
    waits = {span.cta: span for span in found.spans if span.kind == "mbarrier"}
    assert set(waits) == {0, 1}
    assert waits[0].end == waits[1].end == copy.end + KNOWN.mbarrier
    assert {each.cta for each in found.memory if each.kind == "TMA"} == {0, 1}


def test_a_cluster_waits_at_its_barrier_for_its_slowest_cta() -> None:
    """CTA 1 has a loop of 500 dependent additions of floats before it arrives."""
    text = (
        HEAD.format(target="sm_90a")
        + """.visible .entry k(.param .u64 out) { .reg .f32 %f<3>; .reg .b32 %r<4>; .reg .pred %p;
      mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, 0; setp.eq.u32 %p, %r1, 0; @%p bra MEET;
    AGAIN: add.rn.f32 %f1, %f1, %f2; add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 500; @%p bra AGAIN;
    MEET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }"""
    )
    found = profile(text, grid=2, block=32, cluster=2, args=[np.zeros(1, np.uint32)]).estimate
    ends = {span.cta: span.end for span in found.spans if span.kind == "barrier"}
    arrived = max(span.end for span in found.spans if span.cta == 1 and span.kind == "run" and span.end < ends[1])
    assert arrived > 500 * 4
    assert ends[0] == ends[1] == pytest.approx(arrived + KNOWN.cluster_barrier, abs=10)
    assert all(one.end == two.begin for one, two in pairwise(found.path))


@pytest.mark.parametrize(("grid", "cluster", "expected"), [(300, 1, 3), (300, 4, 3), (264, 2, 2), (264, 8, 3), (130, 4, 2)])
def test_clusters_of_the_fullest_sms(grid: int, cluster: int, expected: int) -> None:
    """132 SMs hold 31 clusters of 4 side by side, or 15 clusters of 8: the groups of SMs are of 14, 16 and 18."""
    text = HEAD.format(target="sm_90a") + ".visible .entry k() { ret; }"
    grid -= grid % cluster
    device = ptxlab.Device("sm_90a", sms=132)
    found = profile(text, grid=grid, block=32, cluster=cluster, device=device, only=[(0, 0, 0)]).estimate
    assert found.ctas == expected


def test_multicast_takes_less_of_l2() -> None:
    """Each CTA of a pair needs 192 KB; half of it from each of them for both, or all of it for itself.

    As on an H200 (bulk.multicast.c2 and bulk.each.c2 in micro_h200.json), this takes no less time, as each SM gets as many bytes.
    """
    body = """
      setp.ne.u32 p, tid, 0;
      mov.u32 r1, %cluster_ctarank;
      @!p mbarrier.init.shared.b64 [bar], 1;
      fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive;
      barrier.cluster.wait;
      @p bra WAIT;
      mbarrier.arrive.expect_tx.shared.b64 rd1, [bar], 196608;
      mov.u32 r2, tile;
      {copies}
    WAIT:
      mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
      @!p bra WAIT;
      barrier.cluster.arrive;
      barrier.cluster.wait;
    """
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    alone = "".join(f"{copy} [r2+{i * 16384}], [out], 16384, [bar];" for i in range(12))
    shared = "mul.lo.u32 r3, r1, 98304; add.u32 r2, r2, r3; mov.b16 h, 3;" + "".join(
        f"{copy}.multicast::cluster [r2+{i * 16384}], [out], 16384, [bar], h;" for i in range(6)
    )
    times = {}
    for name, copies in (("alone", alone), ("multicast", shared)):
        made = kernel(body.format(copies=copies), shared=".shared .align 128 .b8 tile[196608]; .shared .align 8 .b64 bar;")
        result = made.launch(grid=2, block=32, cluster=2, args=[np.zeros(16384, np.uint8)], check="none", profile=True)
        assert result.diagnostics == ()
        times[name] = result.profile.estimate
    assert times["multicast"].position.l2_bytes == times["alone"].position.l2_bytes / 2
    assert times["multicast"].cycles == pytest.approx(times["alone"].cycles, rel=0.15)


@pytest.mark.parametrize(("form", "waits"), [("", 0), (".release.cluster", 1), (".relaxed.cluster", 0)])
def test_a_release_to_the_cluster_waits_for_l2(form: str, waits: int) -> None:
    """An arrival that names the scope has a fence before it, which takes as long as an access of L2."""
    text = (
        HEAD.format(target="sm_90a")
        + f""".visible .entry k() {{ .reg .b32 %r<3>; .reg .pred %p; .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive.relaxed; barrier.cluster.wait;
      mapa.shared::cluster.u32 %r2, %r1, 0; mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p, %r1, 0; @%p bra END;
      mbarrier.arrive{form}.shared::cluster.b64 _, [%r2];
    END: barrier.cluster.arrive.relaxed; barrier.cluster.wait; ret; }}"""
    )
    found = profile(text, grid=2, block=1, cluster=2, args=[]).estimate
    fences = [span for span in found.spans if span.kind == "fence"]
    assert [span.end - span.begin for span in fences] == [KNOWN.fence] * waits


def test_an_arrival_in_another_cta_is_seen_later() -> None:
    """CTA 0 waits for CTA 1, which arrives at once: `remote_arrival` after its arrival."""
    text = (
        HEAD.format(target="sm_90a")
        + """.visible .entry k() { .reg .b32 %r<4>; .reg .pred %p; .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive.relaxed; barrier.cluster.wait;
      mapa.shared::cluster.u32 %r2, %r1, 0; mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p, %r3, 0; @%p bra WAIT;
      mbarrier.arrive.shared::cluster.b64 _, [%r2]; bra.uni END;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0; @!%p bra WAIT;
    END: barrier.cluster.arrive.relaxed; barrier.cluster.wait; ret; }"""
    )
    found = profile(text, grid=2, block=1, cluster=2, args=[]).estimate
    (wait,) = [span for span in found.spans if span.kind == "mbarrier"]
    arrived = max(span.end for span in found.spans if span.cta == 1 and span.kind == "run" and span.end < wait.end)
    assert wait.end == pytest.approx(arrived + KNOWN.remote_arrival + KNOWN.mbarrier, abs=10)
