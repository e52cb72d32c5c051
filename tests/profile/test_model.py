"""The time model: what it knows, what it replays, and its estimates beside times of an H200."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.pipes import Pipe
from ptxlab.profile import parameters_of
from ptxlab.profile.model.parameters import TARGETS
from tests.profile.timing.evaluate import compared, errors
from tests.profile.timing.problems import held_out

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
CHAIN = (
    HEAD
    + """
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<4>; .reg .f32 %f<40>; .reg .b64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, 0;
AGAIN:
  {body}
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, 100;
  @%p bra AGAIN;
  st.global.f32 [%rd1], %f1;
  ret;
}}
"""
)


def cycles(body: str, block: int = 32, **launch: int) -> float:
    kernel = ptxlab.loads(CHAIN.format(body=body)).kernel()
    found = kernel.launch(block=block, args=[np.zeros(64, np.float32)], profile=True, check="none", **launch).profile.estimate
    return float(found.cycles - found.parameters.launch)


def test_every_parameter_has_a_source() -> None:
    for target, known in TARGETS.items():
        assert parameters_of(target) is known
        for each in fields(known):
            assert each.name == "target" or known.source(each.name), each.name
        assert set(known.costs) == set(known.latencies) == set(Pipe)


def test_targets_without_measurements_say_so() -> None:
    assert "not measured" in TARGETS["sm_100a"].source("l2_latency")
    assert "not measured" not in TARGETS["sm_90a"].source("l2_latency")


def test_a_chain_takes_its_latency_and_independent_instructions_take_their_throughput() -> None:
    """Sixteen f32 additions: 4 cycles each if each needs the one before, else little more than 1."""
    known = TARGETS["sm_90a"]
    chain = cycles("add.rn.f32 %f1, %f1, %f2;" * 16)
    apart = cycles("".join(f"add.rn.f32 %f{i}, %f{i}, %f30;" for i in range(1, 17)))
    assert chain - apart == pytest.approx(100 * 16 * (known.latencies[Pipe.FLOAT] - known.costs[Pipe.FLOAT]), rel=0.1)


def test_warps_share_the_special_function_units() -> None:
    """32 warps are 8 in each sub-partition, which take turns at its unit."""
    body = "".join(f"ex2.approx.ftz.f32 %f{i}, %f{i};" for i in range(1, 17))
    assert cycles(body, block=1024) == pytest.approx(8 * 16 * 100 * TARGETS["sm_90a"].costs[Pipe.SPECIAL], rel=0.1)


def test_warps_wait_at_a_barrier() -> None:
    kernel = ptxlab.loads(CHAIN.format(body="bar.sync 0;")).kernel()
    found = kernel.launch(block=128, args=[np.zeros(64, np.float32)], profile=True).profile
    assert found.totals.barrier_waits > 0
    assert "barrier" in found.estimate.waits
    assert {span.kind for span in found.estimate.spans} >= {"run", "barrier"}


def test_an_estimate_is_the_same_from_a_sample_of_the_grid() -> None:
    """All CTAs of this grid do the same, so that one of them says as much as all."""
    body = "add.rn.f32 %f1, %f1, %f2;"
    assert cycles(body, grid=300) == pytest.approx(cycles(body, grid=300, only=[(7, 0, 0)]), rel=0.01)  # type: ignore[arg-type]


def test_memory_that_no_cta_accesses_does_not_fill_l2() -> None:
    """64 CTAs read the first MB of an array of 64 MB, which is more than L2 keeps. Of a sample, nobody knows what the others access."""
    text = HEAD + (
        ".visible .entry k(.param .u64 a) { .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p; ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; "
        "mad.wide.u32 %rd2, %r1, 16, %rd1; mov.u32 %r2, 0; AGAIN: ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2]; "
        "add.u64 %rd2, %rd2, 16384; add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 64; @%p bra AGAIN; ret; }"
    )
    launch = {"grid": 64, "args": [np.zeros(1 << 24, np.uint32)], "block": 1024, "check": "none", "profile": True}
    whole = ptxlab.loads(text).kernel().launch(**launch).profile
    assert (whole.footprint.read, whole.footprint.reuse) == (1 << 20, 64)
    assert whole.estimate.position.dram_bytes == 0
    sample = ptxlab.loads(text).kernel().launch(only=[(7, 0, 0)], **launch).profile
    assert sample.estimate.position.dram_bytes == 1 << 26


SHOWN = (
    "add/1024.w4.s3",
    "transpose_f16/64x64.w4.s3",
    "layer_norm/4096.w4.s3",
    "cuda/gemm_f16/1024x1024x64",
    "gemm_f16_deep/64x64x64.w4.s2",
)


@pytest.mark.recording
@pytest.mark.sweep
def test_estimates_beside_times_of_an_h200() -> None:
    """Some kernels of the fitted half; `tests.profile.timing.evaluate` alone uses the half that is held out, and keeps a log."""
    assert not any(map(held_out, SHOWN))
    found = [compared(name) for name in SHOWN]
    assert errors(found)[0] < 0.2
    assert max(abs(each.error) for each in found) < 0.4
