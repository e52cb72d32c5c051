"""tcgen05.ld.red against minima and maxima of Python."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from tests.machine.launch_helpers import run

COUNT = 4
WORDS = (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001, 1, 0x80000001, 0x7F7FFFFF)

BODY = """
    setp.eq.u32 p, warp, 0;
    @p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    bar.sync 0;
    ld.shared.u32 r1, [slot];
    shl.b32 r2, warp, 21;
    add.u32 r2, r2, r1;
    ld.param.u64 rd1, [source];
    mul.wide.u32 rd2, tid, 32;
    add.s64 rd1, rd1, rd2;
    {loads}
    tcgen05.wait::st.sync.aligned;
    {instruction};
    tcgen05.wait::ld.sync.aligned;
    ld.param.u64 rd3, [loaded];
    mul.wide.u32 rd2, tid, 16;
    add.s64 rd3, rd3, rd2;
    st.global.v4.u32 [rd3], {{r4, r5, r6, r7}};
    st.global.u32 [at], r8;
    bar.sync 0;
    @p tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    @p tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 32;
"""
LOADS = "".join(
    f"ld.global.u32 r10, [rd1+{4 * i}]; add.u32 r11, r2, {i}; tcgen05.st.sync.aligned.32x32b.x1.b32 [r11], {{r10}};\n" for i in range(8)
)


def number(word: int) -> float:
    return struct.unpack("<f", struct.pack("<I", word))[0]


def expected(words: list[int], operation: str, flags: str, type: str) -> int:
    if type == "u32":
        return (max if operation == "max" else min)(words)
    if type == "s32":
        return (max if operation == "max" else min)(w - (w >> 31 << 32) for w in words) & 0xFFFFFFFF
    if ".abs" in flags:
        words = [w & 0x7FFFFFFF for w in words]
    numbers = [w for w in words if not math.isnan(number(w))]
    if not numbers or (".NaN" in flags and len(numbers) < len(words)):
        return 0x7FFFFFFF
    return (max if operation == "max" else min)(numbers, key=lambda w: (number(w), math.copysign(1, number(w))))


FORMS = [(o, f, t) for o in ("min", "max") for f, t in [("", "u32"), ("", "s32"), *((f, "f32") for f in ("", ".abs", ".NaN", ".abs.NaN"))]]


@pytest.mark.parametrize(("operation", "flags", "type"), FORMS)
@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
def test_values_and_reduction(operation: str, flags: str, type: str, shape: str) -> None:
    rng = np.random.default_rng([len(operation), len(flags), len(type), len(shape)])
    source = rng.choice(np.array(WORDS, np.uint32), (128, 8))
    source[::3] = rng.integers(0, 1 << 32, (43, 8))
    loaded = np.zeros((128, 4), np.uint32)
    split = ", 4" if shape == "16x32bx2" else ""
    instruction = f"tcgen05.ld.red.sync.aligned.{shape}.x4.{operation}{flags}.{type} {{r4, r5, r6, r7}}, r8, [r2]{split}"
    out, result = run(
        BODY.format(loads=LOADS, instruction=instruction),
        128,
        shared=".shared .b32 slot;",
        params=", .param .u64 source, .param .u64 loaded",
        args=(source, loaded),
    )
    assert result.diagnostics == ()
    for t in range(128):
        lane, first = (t, 0) if not split else (t // 32 * 32 + t % 16, 4 * (t % 32 // 16))
        words = source[lane, first : first + 4].tolist()
        assert loaded[t].tolist() == words
        assert int(out[t]) == expected(words, operation, flags, type), (t, [hex(w) for w in words])
