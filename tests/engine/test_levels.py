"""Kernels in code for another level of processors do what the NumPy back end does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_void_p
from weakref import WeakValueDictionary

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.engine import Status
from ptxlab.engine.llvm import _region_cache
from tests.engine.engine_helpers import Bench, program_of
from tests.native.level_helpers import emulated, functions_of

START = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 64; add.s64 %rd3, %rd1, %rd2; mov.u32 %r30, s;"
BODIES = {
    "lanes that leave a loop one by one": """
      mov.u32 %r2, 0; mov.u32 %r3, 0;
      LOOP: add.s32 %r3, %r3, %r2; add.s32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %r1; @%p1 bra LOOP;
      st.global.b32 [%rd3], %r3; ret;""",
    "shared memory": """
      mul.lo.u32 %r5, %r1, 16; add.s32 %r5, %r5, %r30; xor.b32 %r6, %r5, 48;
      ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];
      st.shared.v4.b32 [%r5], {%r13, %r12, %r11, %r10};
      bar.warp.sync -1;
      ld.shared.v2.b64 {%rd10, %rd11}, [%r6]; ld.shared.s8 %r14, [%r6+3];
      st.global.v2.b64 [%rd3], {%rd10, %rd11}; st.global.b32 [%rd3+16], %r14; ret;""",
    "exchanges between lanes": """
      ld.global.b32 %r2, [%rd3]; shfl.sync.bfly.b32 %r3|%p1, %r2, 5, 31, -1; shfl.sync.down.b32 %r4, %r2, 3, 31, -1;
      setp.lt.s32 %p2, %r2, 0; vote.sync.ballot.b32 %r5, %p2, -1; redux.sync.max.s32 %r6, %r2, -1; match.any.sync.b32 %r7, %r2, -1;
      st.global.v4.b32 [%rd3], {%r3, %r4, %r5, %r6}; st.global.b32 [%rd3+16], %r7; ret;""",
    "atomics": """
      and.b32 %r2, %r1, 3; mul.lo.u32 %r2, %r2, 4; add.s32 %r2, %r2, %r30; ld.global.b32 %r3, [%rd3];
      st.shared.b32 [%r2], 0; atom.shared.add.u32 %r4, [%r2], %r3; atom.global.max.s32 %r5, [%rd1], %r3;
      atom.shared.cas.b32 %r6, [%r2], %r4, 7;
      st.global.v2.b32 [%rd3+16], {%r4, %r5}; st.global.b32 [%rd3+24], %r6; ret;""",
    "floating point": """
      ld.global.b32 %r2, [%rd3]; mov.b32 %f1, %r2; cvt.rn.f16.f32 %h1, %f1; fma.rn.f16 %h2, %h1, %h1, %h1; cvt.f32.f16 %f2, %h2;
      rcp.approx.f32 %f3, %f1; ex2.approx.f32 %f4, %f2; sqrt.rn.f32 %f5, %f1; div.rn.f32 %f6, %f2, %f1; cvt.rzi.s32.f32 %r3, %f1;
      cvt.f64.f32 %fd1, %f1; fma.rz.f64 %fd2, %fd1, %fd1, 0d3FF5555555555555; cvt.rn.bf16x2.f32 %r4, %f1, %f2;
      st.global.v4.f32 [%rd3], {%f3, %f4, %f5, %f6}; st.global.v2.b32 [%rd3+16], {%r3, %r4}; st.global.f64 [%rd3+24], %fd2;
      st.global.f32 [%rd3+32], %f2; ret;""",
}


def words() -> NDArray[np.uint32]:
    rng = np.random.default_rng(4)
    ordinary = rng.standard_normal(512).astype(np.float32).view(np.uint32)
    found = np.where(rng.random(512) < 0.6, ordinary, rng.integers(0, 1 << 32, 512, np.uint32))
    found[:64:16] = 0x7F800000, 0x7FC00001, 1, 0x80000000
    return found


def bench(body: str, backend: str) -> Bench:
    made = Bench(
        program_of(f"{START}\n{body}", params=".param .u64 out", before=".shared .align 64 .b8 s[2048];"), backend=backend, arrays=[words()]
    )
    made.set_param("out", made.addresses[0])
    return made


@contextmanager
def compiled(body: str, level: str) -> Iterator[Bench]:
    """A kernel in code for a level."""
    if level != "NEON":
        with functions_of(level):
            yield bench(body, "llvm")
        return
    with emulated() as emulator:
        made = bench(body, "llvm")
        address = made.executable.dispatch_address
        made.executable._dispatch = lambda *words: emulator.call(address, c_int, (c_void_p, c_void_p), words)
        yield made


@pytest.fixture(autouse=True)
def no_loaded_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_region_cache, "_LOADED", WeakValueDictionary())


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("level", ["SSE4", "AVX2", "NEON"])
def test_kernels(level: str, name: str) -> None:
    other = bench(BODIES[name], "numpy")
    assert other.run() is Status.EXIT
    with compiled(BODIES[name], level) as one:
        assert one.run() is Status.EXIT
        assert one.executable.compiled
    assert np.array_equal(one.arrays[0], other.arrays[0])
    assert np.array_equal(one.shared, other.shared)
    assert not np.array_equal(one.arrays[0], words())
