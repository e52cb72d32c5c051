"""A kernel, launch files and campaign files for the tests of campaigns, and a function that ends its process."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

DOUBLE = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry double(.param .u64 source, .param .u64 target, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [source]; ld.param.u64 %rd2, [target]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra END;
  mul.wide.u32 %rd3, %r5, 4;
  add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
  ld.global.f32 %f, [%rd1];
  add.f32 %f, %f, %f;
  st.global.f32 [%rd2], %f;
END: ret;
}
"""

LAUNCH = """
ptx = "double.ptx"
grid = "cdiv(N, 128)"
block = 128
sizes = {N = 256}
[[args]]
name = "x"
array = {shape = ["N"], fill = "normal", seed = 1}
[[args]]
name = "y"
array = {shape = ["N"]}
[[args]]
value = "N"
dtype = "u32"
"""

RACE = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry race(.param .u64 target) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [target];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
  st.global.u32 [%rd1], %r2;
  ret;
}
"""

RACE_LAUNCH = 'ptx = "race.ptx"\ngrid = 2\nblock = 32\n[[args]]\nname = "y"\narray = {shape = [1], dtype = "uint32"}\n'

ENDS = "PTXLAB_TEST_ENDS"
"""Names a folder in which a worker leaves a file for each time that it has ended its process."""


def write(folder: Path) -> Path:
    """The launch files `LAUNCH` and `RACE_LAUNCH` with their kernels; returns the folder."""
    (folder / "double.ptx").write_text(DOUBLE)
    (folder / "double.toml").write_text(LAUNCH)
    (folder / "race.ptx").write_text(RACE)
    (folder / "race.toml").write_text(RACE_LAUNCH)
    return folder


def end_after(calls: int, times: int) -> None:
    """Make the process end at its ``calls``-th cell, as long as fewer than ``times`` processes have."""
    from ptxlab.campaign import cell, runner

    original, count = cell.run_cell, 0

    def run(*args: object) -> object:
        nonlocal count
        count += 1
        folder = Path(os.environ[ENDS])
        if count == calls and len(list(folder.iterdir())) < times:
            (folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args)  # type: ignore[arg-type]

    cell.run_cell = run  # type: ignore[assignment]
    runner.run_cell = run  # type: ignore[assignment]


def two_processes() -> Executor:
    """An executor that a campaign finds by its name."""
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))
