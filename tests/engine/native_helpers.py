"""Kernels that run on both back ends, whose results must be equal."""

from __future__ import annotations

import numpy as np

from ptxlab.engine import Word
from tests.engine.engine_helpers import FULL, Bench, program_of

BACKENDS = ("llvm", "numpy")
RNG = np.random.default_rng(7)
LOAD_ARRAYS = """
 mov.u32 %r1, %tid.x;
 ld.param.u64 %rd1, [A];
 ld.param.u64 %rd2, [B];
 mul.wide.u32 %rd3, %r1, 4;
 add.s64 %rd4, %rd1, %rd3;
 add.s64 %rd5, %rd2, %rd3;
 ld.global.b32 %r2, [%rd4];
 mul.wide.u32 %rd6, %r1, 64;
 add.s64 %rd7, %rd2, %rd6;
"""
PARAMS = ".param .u64 A, .param .u64 B"


def run(body, a, *, backend, out=512, before="", fill=0, lanes=FULL, setup=None, **options):
    """Run a kernel that finds its lane's word of A in %r2 and stores 64 bytes a lane at [%rd7]."""
    program = program_of(LOAD_ARRAYS + body + "\nret;", params=PARAMS, before=before)
    b = np.full(out, fill, np.uint32)
    bench = Bench(program, backend=backend, arrays=[a, b], lanes=lanes, **options)
    bench.set_param("A", bench.addresses[0])
    bench.set_param("B", bench.addresses[1])
    if setup:
        setup(bench)
    bench.run()
    return bench, b.reshape(32, -1)


def both(body, a, **options):
    """The result of the compiled code, having seen that NumPy's is the same."""
    results = [run(body, a.copy(), backend=backend, **options) for backend in BACKENDS]
    (one, left), (two, right) = results
    assert one.status == two.status
    assert np.array_equal(left, right)
    assert np.array_equal(one.shared, two.shared)
    assert np.array_equal(one.arrays[0], two.arrays[0])
    assert np.array_equal(one.words, two.words)
    keep = [
        w for w in Word if w.name in ("MASK", "EXITED", "LIVE", "FUEL", "FAULT", "FAULT_LANE", "FAULT_ADDRESS", "INFO", "PENDING_COUNT")
    ]
    assert [int(one.context.words[w]) for w in keep] == [int(two.context.words[w]) for w in keep]
    return one, left


WORDS = RNG.integers(0, 1 << 32, 32, np.uint32)
