"""Compiled kernels stay loaded while mma programs hold the addresses of their functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc
from ptxlab import native
from ptxlab.numerics.ir import kernels
from tests.end_to_end.triton.cases import CASES

case = CASES["gl_mm_fp16"]("256x256x128")
case.launch()
for cache in (kernels.preparer, kernels._preparers, kernels.multiplier, kernels._multiplier):
    cache.cache_clear()
gc.collect()
trap = "define i32 @f{0}(i32 %x) {{ call void @llvm.trap() unreachable }} declare void @llvm.trap()"
libraries = [native.compile_ir(trap.format(i), [f"f{i}"]) for i in range(300)]
case.launch()
print("done")
"""
"""Traps take the place of whatever has been unloaded."""


def test_programs_run_after_the_caches_of_kernels_are_cleared() -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=root)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
