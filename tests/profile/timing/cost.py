"""What profiling costs: ``python -m tests.profile.timing.cost [WORD...]``.

Launches without checks and counted ones alternate; the shortest CPU time of each counts, compilation excluded. The estimate is timed apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

import ptxlab
from tests.profile.timing.cases import CASES

__all__ = ["measured"]

Run = Callable[[bool], Any]
PAIRS = 5
GATHER = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .u64 places, .param .u64 data, .param .u64 out) {
  .reg .b32 %r<16>; .reg .b64 %rd<12>; .reg .pred %p;
  ld.param.u64 %rd1, [places]; ld.param.u64 %rd2, [data]; ld.param.u64 %rd3, [out];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2; mov.u32 %r4, %r3; mov.u32 %r5, 0; mov.u32 %r6, 0;
AGAIN:
  mad.wide.u32 %rd4, %r4, 4, %rd1; ld.global.u32 %r7, [%rd4];
  mad.wide.u32 %rd5, %r7, 4, %rd2; ld.global.u32 %r8, [%rd5]; add.u32 %r6, %r6, %r8;
  add.u32 %r4, %r4, 65536; add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 16; @%p bra AGAIN;
  mad.wide.u32 %rd6, %r3, 4, %rd3; st.global.u32 [%rd6], %r6; ret; }"""
"""Each thread loads 16 words at random places of 16 MB."""
TIMED = {
    "gemm_tma_small/128x128x64.w8.s3": (16, 4, 1),
    "gemm_f16_deep/64x64x64.w4.s2": (16, 4, 1),
    "attention/64x64.w4.s3": (8, 4, 1),
    "softmax/4096.w4.s3": (512, 4, 1),
    "add/1024.w4.s3": (4096, 4, 1),
    "transpose_f32/32x32.w4.s3": (512, 4, 1),
}
"""CTAs that run of some of the timed kernels: many, as many as are recorded for the estimate, and one."""


def _gather() -> Run:
    rng = np.random.default_rng(1)
    places, data, out = rng.integers(0, 1 << 22, 1 << 20).astype(np.uint32), np.zeros(1 << 22, np.uint32), np.zeros(1 << 16, np.uint32)
    kernel = ptxlab.loads(GATHER).kernel()
    return lambda profile: kernel.launch(grid=256, block=256, args=[places, data, out], check="none", profile=profile)


def _case(name: str, ctas: int) -> Run:
    case = CASES[name].make()
    kernel = ptxlab.loads(case.text)[case.symbol]
    x, y, _ = case.dims
    return lambda profile: kernel.launch(
        grid=case.grid,
        block=case.block,
        shared_bytes=case.shared_bytes,
        args=[int(a) if isinstance(a, np.integer) else a for a in case.args],
        check="none",
        profile=profile,
        only=[(i % x, i // x, 0) for i in range(min(ctas, x * y))],
    )


def _cpu_time(act: Callable[[Any], Any], argument: Any) -> tuple[float, Any]:
    started = time.process_time()
    made = act(argument)
    return time.process_time() - started, made


def measured(words: tuple[str, ...] = ()) -> Iterator[tuple[str, float, float, float]]:
    """The seconds of a launch, of a counted one, and of its estimate."""
    makers: dict[str, Callable[[], Run]] = {"random gather": _gather}
    makers |= {f"{name}, CTAs: {ctas}": partial(_case, name, ctas) for name, numbers in TIMED.items() for ctas in numbers}
    for name, make in makers.items():
        if words and not any(word in name for word in words):
            continue
        run = make()
        for profile in (False, True):
            run(profile)
        pairs = [(_cpu_time(run, False), _cpu_time(run, True)) for _ in range(PAIRS)]
        estimate, _ = _cpu_time(attrgetter("profile.estimate"), pairs[-1][1][1])
        yield name, min(plain for (plain, _), _ in pairs), min(counted for _, (counted, _) in pairs), estimate


if __name__ == "__main__":
    for name, plain, counted, estimate in measured(tuple(sys.argv[1:])):
        print(f"{name:44} {plain:6.3f} s, counted {counted:6.3f} s: {counted / plain:4.2f} times; estimate {estimate:6.3f} s", flush=True)
