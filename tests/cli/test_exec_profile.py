"""``ptxlab exec --profile``, ``--report`` and ``--estimate-time``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab.cuda.remote.executables import link_libraries
from ptxlab.interop import nvcc
from ptxlab.interop.compilers import switched
from ptxlab.interop.profiles import MOST_KEPT, Profiles
from ptxlab.interop.session import Session, Settings
from tests.cli.test_exec import SCRIPT, needs_triton, run
from tests.interop.nvcc_helpers import require_nvcc

TUNED = """
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 1024}, num_warps=4)], key=[])
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

n = 1 << 16
x, out = torch.ones(n, device="cuda"), torch.zeros(n, device="cuda")
launch = lambda: add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, out, n)
launch()
times = [time for listed in add.configs_timings.values() for time in listed[:1]]
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
launch()
launch()
end.record()
end.synchronize()
print(add.best_config.kwargs["BLOCK"], int(out.sum().item()), *times, triton.testing.do_bench(launch), start.elapsed_time(end))
"""
"""2,048 CTAs of one warp take longer to start than 64 CTAs of four warps take in all."""
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [a];
  mov.u32 %r1, %tid.x;
  st.global.u32 [%rd1], 1;
  ret;
}
"""


def session(**settings: object) -> Session:
    return Session(Settings().changed(target="sm_90a", check="none", **settings), lambda _: None)


def test_launches_of_one_kernel_and_grid_are_kept_once() -> None:
    made = session()
    made.profiles.kept = []
    kernel = ptxlab.loads(TEXT).kernel()
    with switched(made):
        for grid, block in ((1, 32), (2, 32), (1, 32), (1, 64)):
            kernel.launch(grid=grid, block=block, args=[np.zeros(1, np.uint32)])
    found = [(each.profile.ctas, each.profile.occupancy.threads, each.launches) for each in made.profiles.kept]
    assert found == [(1, 32, 2), (2, 32, 1), (1, 64, 1)]
    assert all(launch.result.profile is None for launch in made.launches), "only one place keeps them"
    assert made.estimated == 0


def test_only_so_many_are_kept() -> None:
    made = session()
    made.profiles = Profiles(kept=[])
    kernel = ptxlab.loads(TEXT).kernel()
    with switched(made):
        for grid in range(1, MOST_KEPT + 3):
            kernel.launch(grid=grid, block=32, only=[(0, 0, 0)], args=[np.zeros(1, np.uint32)])
    assert (len(made.profiles.kept or ()), made.profiles.left) == (MOST_KEPT, 2)


def test_the_time_of_a_session_is_that_of_its_launches() -> None:
    made = session(estimate_time=True)
    kernel = ptxlab.loads(TEXT).kernel()
    assert made.seconds == 0
    with switched(made):
        first, second = (kernel.launch(block=32, args=[np.zeros(1, np.uint32)]) for _ in range(2))
    assert first.estimated == first.profile.estimate.nanoseconds > 0
    assert made.seconds == pytest.approx((first.estimated + second.estimated) * 1e-9)
    assert made.profiles.kept is None


@needs_triton
@pytest.mark.compiler
def test_autotuning_and_benchmarks_by_estimate(tmp_path: Path) -> None:
    done = run(tmp_path, TUNED, options=("--target", "sm_90a", "--estimate-time"))
    assert done.returncode == 0, done.stderr
    block, total, *times = map(float, done.stdout.split())
    assert (block, total) == (1024, 2 << 16)
    small, large, bench, events = times
    assert bench == pytest.approx(large, rel=0.05)
    assert events == pytest.approx(2 * bench, rel=0.01)
    assert small > 1.2 * large
    assert not any(code in done.stderr for code in ("I305", "I306"))
    assert done.stderr.endswith(
        "ptxlab: 6 launches on sm_90a, nothing found; benchmarks, autotuning and events have taken estimated times\n"
    )


@needs_triton
@pytest.mark.compiler
def test_without_the_option_autotuning_takes_the_first(tmp_path: Path) -> None:
    script = TUNED[: TUNED.index("times =")] + 'print(add.best_config.kwargs["BLOCK"])'
    done = run(tmp_path, script, options=("--target", "sm_90a"))
    assert (done.returncode, done.stdout) == (0, "32\n"), done.stderr
    assert "--estimate-time compares all of them" in done.stderr


@needs_triton
@pytest.mark.compiler
def test_profiles_and_the_page_of_a_script(tmp_path: Path) -> None:
    script = SCRIPT + "for _ in range(2): double[(3,)](x, 0, BLOCK=128)\n"
    done = run(tmp_path, script, "60", options=("--target", "sm_90a", "--profile", "--report", "page.html"))
    assert done.returncode == 0, done.stderr
    assert "profile of one launch at " in done.stderr
    assert "profile of the last of 2 launches at " in done.stderr
    assert done.stderr.count("estimate for sm_90a: ") == 2
    page = (tmp_path / "page.html").read_text()
    text = page[page.index("const LAUNCHES = ") + 17 : page.index(";\n", page.index("const LAUNCHES = "))]
    assert [launch["kernel"] for launch in json.loads(text.replace("<\\/", "</"))] == ["double", "double"]
    done = run(tmp_path, script, "60", options=("--target", "sm_90a", "--profile", "--json"))
    found = json.loads(done.stdout)["profiles"]
    assert [(each["launches"], each["profile"]["ctas"]) for each in found] == [(1, 1), (2, 3)]
    assert found[0]["site"]["line"] == 1 + SCRIPT[: SCRIPT.index("double[")].count("\n")


EVENTS = """
#include <cstdio>
__global__ void fill(float *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
int main() {
  float *out, once, twice;
  cudaEvent_t at[3];
  cudaMalloc(&out, 4 << 16);
  for (auto &event : at) cudaEventCreate(&event);
  cudaEventRecord(at[0]);
  fill<<<256, 256>>>(out);
  cudaEventRecord(at[1]);
  fill<<<256, 256>>>(out);
  fill<<<256, 256>>>(out);
  cudaEventRecord(at[2]);
  cudaDeviceSynchronize();
  cudaEventElapsedTime(&once, at[0], at[1]);
  cudaEventElapsedTime(&twice, at[1], at[2]);
  printf("%f %f\\n", once, twice);
}
"""


@pytest.mark.compiler
def test_events_of_a_native_program(tmp_path: Path) -> None:
    """They are those of another process, and take the estimate of the same launch once and twice."""
    require_nvcc()
    link_libraries(tmp_path)
    (tmp_path / "events.cu").write_text(EVENTS)
    target = ("-gencode", "arch=compute_90a,code=compute_90a", f"-L{tmp_path}", "-cudart", "shared")
    subprocess.run([nvcc.find_nvcc(), *target, "-o", "events", "events.cu"], cwd=tmp_path, check=True, capture_output=True)
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", "--target", "sm_90a", "--estimate-time", "./events"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    once, twice = map(float, done.stdout.split())
    assert 0.0005 < once < 0.1
    assert twice == pytest.approx(2 * once, rel=0.01)
