"""Counters of kernels whose executions can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import kernel, store
from tests.machine.product_kernels import WARP, WARPGROUP

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n"

SPECIALISED = (
    HEAD.format(target="sm_90a")
    + """
.file 1 "work.cu"
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  .loc 1 10 0
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  mov.u32 %r2, 0;
  @%p1 bra OTHERS;
  .loc 1 20 0
FIRST:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 5;
  @%p2 bra FIRST;
  bra.uni END;
  .loc 1 30 0
OTHERS:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 7;
  @%p2 bra OTHERS;
END:
  .loc 1 40 0
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.u32 [%rd2], %r2;
  ret;
}
"""
)


def profile(text: str, **options: object) -> ptxlab.Profile:
    result = ptxlab.loads(text, file="k.ptx").kernel().launch(**{"check": "none"} | options, profile=True)  # type: ignore[arg-type]
    assert result.diagnostics == ()
    found: ptxlab.Profile = result.profile
    assert sum(each.counts.executions for each in found.instructions) == result.stats.instructions
    return found


def executions(found: ptxlab.Profile, by: str = "ptx") -> dict[int, int]:
    return {line.place.line: line.counts.executions for line in found.lines(by) if line.place is not None}


def test_loops_of_specialised_warps() -> None:
    """Three CTAs of one warp that counts to 5 and two that count to 7."""
    out = np.zeros(96, np.uint32)
    found = profile(SPECIALISED, grid=3, block=96, args=[out])
    assert (out[:32] == 5).all()
    assert (out[32:] == 7).all()
    assert executions(found, "source") == {10: 3 * 3 * 5, 20: 3 * (5 * 3 + 1), 30: 3 * 2 * 7 * 3, 40: 3 * 3 * 3}
    assert [role.warps for role in found.roles] == [(0,), (1, 2)]
    assert [role.name for role in found.roles] == ["warp 0", "warps 1-2"]
    loops = {line.place.line: [c.executions for c in line.by_role] for line in found.lines("source") if line.place is not None}
    assert loops[20] == [48, 0]
    assert loops[30] == [0, 126]
    assert loops[40] == [9, 18]
    assert found.ctas == 3


def test_lines_of_ptx_and_threads_of_a_part_of_a_warp() -> None:
    """A CTA of 40 threads; the second warp has 8."""
    text = HEAD.format(target="sm_90a") + (
        ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p; .reg .b32 %r<3>;\nmov.u32 %r1, %laneid;\nsetp.lt.u32 %p, %r1, 4;\n"
        "@%p bra SMALL;\nadd.u32 %r2, %r1, 1;\nadd.u32 %r2, %r1, 2;\nSMALL:\nret;\n}\n"
    )
    found = profile(text, block=40, args=[np.zeros(1, np.uint32)])
    assert executions(found) == {7: 2, 8: 2, 9: 2, 10: 2, 11: 2, 13: 2}
    threads = {line.place.line: line.counts.threads for line in found.lines() if line.place is not None}
    assert threads == {7: 40, 8: 40, 9: 40, 10: 28 + 4, 11: 28 + 4, 13: 40}


def test_lanes_that_meet_at_a_shuffle_execute_it_once() -> None:
    """Half of the warp takes a longer way to the shuffle, which needs all lanes; where they meet is executed once."""
    body = (
        "setp.lt.u32 p, lane, 16;\nmov.u32 r1, lane;\n@p bra SHORT;\nadd.u32 r1, r1, 100;\nbra.uni MEET;\nSHORT:\nadd.u32 r1, r1, 1;\n"
        "MEET:\nshfl.sync.bfly.b32 r2, r1, 16, 31, -1;\n" + store("r2")
    )
    found = kernel(body).launch(block=32, args=[np.zeros(32, np.uint32)], check="none", profile=True).profile
    counted = {each.opcode: each.counts for each in found.instructions}
    (shuffle,) = [counts for opcode, counts in counted.items() if opcode.startswith("shfl")]
    assert (shuffle.executions, shuffle.threads) == (1, 32)


@pytest.mark.parametrize(("policy", "late"), [("eager", 1), ("lazy", 4)])
def test_copies_products_and_waits_of_a_warpgroup(policy: str, late: int) -> None:
    """Three warps wait at the barrier of the CTA for the fourth, which goes on before the first one starts the copies.

    Under lazy the copies perform when all four warps wait for them.
    """
    args = [np.ones((64, 16), np.float16), np.ones((8, 16), np.float16), np.zeros((128, 4), np.float32)]
    found = profile(WARPGROUP, block=128, args=args, policy=policy)
    totals = found.totals
    assert (totals.copies, totals.bytes_to_shared, totals.bytes_from_shared, totals.multicast_saved) == (2, 2048 + 256, 0, 0)
    assert (totals.products, totals.tensor_operations) == (1, 2 * 64 * 8 * 16)
    (product,) = found.products
    assert (product.types, product.shape, product.count) == ("f16 * f16 -> f32", (64, 8, 16), 1)
    assert (totals.barrier_waits, totals.mbarrier_waits) == (3, late)
    assert [(role.warps, role.units) for role in found.roles] == [((0,), ("TMA", "wgmma")), ((1, 2, 3), ("wgmma",))]
    # Each thread stores 16 bytes, all threads 2048 consecutive ones.
    assert (totals.global_requests, totals.global_sectors, totals.global_least) == (4, 64, 64)


def test_products_of_a_warp() -> None:
    """Two steps of ldmatrix and mma.sync; rows of 64 bytes: of 8 rows, those 2 apart use the same banks."""
    args = [np.ones((16, 32), np.float16), np.ones((8, 32), np.float16), np.zeros((16, 8), np.float32)]
    found = profile(WARP, block=32, args=args)
    assert (found.totals.products, found.totals.tensor_operations) == (2, 2 * 2 * 16 * 8 * 16)
    matrices = [each.counts for each in found.instructions if each.opcode.startswith("ldmatrix")]
    assert [(c.executions, c.shared_wavefronts, c.shared_least) for c in matrices] == [(2, 2 * 4 * 4, 2 * 4), (2, 2 * 2 * 4, 2 * 2)]


MULTICAST = (
    HEAD.format(target="sm_90a")
    + """
.visible .entry k(.param .u64 from)
{
  .reg .pred %p<4>; .reg .b16 %h; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  .shared .align 128 .b8 tile[512];
  .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [from];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  setp.eq.and.u32 %p2, %r2, 0, %p1;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
  mov.b16 %h, 15;
  @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd1], 512, [full], %h;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
  @!%p3 bra WAIT;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
"""
)


def test_multicast_saves_what_it_does_not_read_again() -> None:
    """One CTA of each cluster of four copies 512 bytes to all four; each of them writes 256 bytes back."""
    found = profile(MULTICAST, grid=8, block=32, cluster=4, args=[np.zeros(512, np.uint8)])
    totals = found.totals
    assert (totals.copies, totals.bytes_to_shared, totals.multicast_saved) == (2 + 8, 2 * 4 * 512, 2 * 3 * 512)
    assert totals.bytes_from_shared == 8 * 256


def test_tensor_memory() -> None:
    """Two warps load 32 lanes x 8 columns each, and the CTA has had 64 + 32 columns at most: 5 such CTAs fit an SM by that."""
    body = """
      setp.eq.u32 p, warp, 0;
      @!p bra READ;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot+4], 32;
      ld.shared.u32 r2, [slot+4];
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 r2, 32;
    READ:
      bar.sync 0;
      ld.shared.u32 r1, [slot];
      shl.b32 r3, warp, 21;
      add.u32 r1, r1, r3;
      tcgen05.st.sync.aligned.32x32b.x8.b32 [r1], {lane, lane, lane, lane, lane, lane, lane, lane};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.32x32b.x8.b32 {r4, r5, r6, r7, r8, r9, r10, r11}, [r1];
      tcgen05.wait::ld.sync.aligned;
      bar.sync 0;
      @p tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 64;
    """
    made = kernel(body, shared=".shared .align 8 .b8 slot[8];")
    result = made.launch(block=64, args=[np.zeros(64, np.uint32)], check="none", profile=True)
    assert result.diagnostics == ()
    assert result.profile.totals.tensor_memory_bytes == 2 * 2 * 32 * 8 * 4
    assert result.profile.occupancy.tensor_columns == 96
    assert result.profile.occupancy.limits["tensor memory"] == 5


def test_registers_of_the_launch_limit_the_occupancy() -> None:
    """168 registers x 32 lanes are 21 units of 256; 16384 registers of a partition hold 3 warps, an SM 12, so 3 CTAs of 4 warps."""
    found = profile(SPECIALISED, grid=1000, block=128, args=[np.zeros(128, np.uint32)], device=ptxlab.Device("sm_90a", sms=132))
    assert (found.occupancy.limiters, found.occupancy.ctas_per_sm) == (("threads",), 16)
    assert "registers" not in found.occupancy.limits
    limited = found.with_assembled(ptxlab.profile.Assembled(168)).occupancy
    assert (limited.limiters, limited.ctas_per_sm, limited.warps) == (("registers",), 3, 12)
    assert limited.waves == 1000 / (3 * 132)
    assert limited.tail == 1000 - 2 * 3 * 132


def test_a_launch_that_is_not_counted_has_no_profile() -> None:
    result = ptxlab.loads(SPECIALISED).kernel().launch(block=96, args=[np.zeros(96, np.uint32)])
    assert result.profile is None


def test_counting_does_not_change_what_checks_find() -> None:
    """Two warps write one word: the race check reports it, and the counters are those of a launch without checks."""
    body = "st.global.u32 [out], tid;"
    both = kernel(body).launch(block=64, args=[np.zeros(64, np.uint32)], profile=True)
    alone = kernel(body).launch(block=64, args=[np.zeros(64, np.uint32)], profile=True, check="none")
    plain = kernel(body).launch(block=64, args=[np.zeros(64, np.uint32)])
    assert [d.code for d in both.diagnostics] == [d.code for d in plain.diagnostics] != []
    assert both.profile.totals == alone.profile.totals
    assert both.profile.totals.global_sectors == 2


def test_a_replay_is_not_counted_again() -> None:
    """Provenance runs the launch again, without a profile."""
    out = np.zeros(64, np.uint32)
    result = kernel(store("tid")).launch(block=64, args=[out], profile=True, keep_inputs=True, check="none")
    assert result.provenance(out, 3).count == 1
    assert result.replay.run()[0].profile is None
    assert result.replay.run(profile=True)[0].profile.totals == result.profile.totals


def test_profile_is_true_or_false() -> None:
    with pytest.raises(ptxlab.LaunchError) as caught:
        ptxlab.loads(SPECIALISED).kernel().launch(block=96, args=[np.zeros(96, np.uint32)], profile="source")  # type: ignore[arg-type]
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("A310", "profile must be True or False, not 'source'")


@pytest.mark.parametrize(("step", "sectors", "lines"), [(32, 32, 8), (64, 32, 16), (0, 1, 1)])
def test_accesses_of_32_bytes(step: int, sectors: int, lines: int) -> None:
    """Each lane loads a sector: next to each other, every second one, and all the same."""
    body = f"mad.wide.u32 rd1, lane, {step}, out;\nld.global.v8.b32 {{r1, r2, r3, r4, r5, r6, r7, r8}}, [rd1];\n"
    found = kernel(body).launch(block=32, args=[np.zeros(1024, np.uint32)], check="none", profile=True).profile.totals
    assert (found.global_sectors, found.global_lines, found.global_least) == (sectors, lines, sectors)
    assert found.global_bytes == 32 * 32
