"""What cp.async writes to shared memory: the bytes that each lane reads, and zeros behind them."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import kernel

LANES = np.arange(32)
READ = {
    "whole operands": np.full(32, 16),
    "nothing": np.zeros(32, int),
    "whole operands or nothing": np.where(LANES % 3 == 0, 0, 16),
    "parts of operands": LANES % 17,
    "one part of an operand": np.where(LANES == 30, 5, 16),
}


def copied(size: int, operand: str, read: list[int], first: int, check: str) -> ptxlab.Result:
    """Copy with 32 lanes; lane i reads the i-th operand behind ``first`` bytes of an array."""
    shift = size.bit_length() - 1
    body = f"""
        mad.lo.u32 r1, tid, 4, 0; cvt.u64.u32 rd1, r1; add.s64 rd1, rd1, out; ld.global.u32 r2, [rd1]; setp.eq.u32 p, r2, 0;
        shl.b32 r3, tid, {shift}; add.u32 r4, r3, s; cvt.u64.u32 rd2, r3; ld.param.u64 rd3, [source]; add.s64 rd2, rd2, rd3;
        ld.global.u32 r5, [rd3]; st.shared.v4.u32 [s], {{r19, r19, r19, r19}};
        cp.async.{"cg" if size == 16 else "ca"}.shared.global [r4], [rd2+{first}], {size}{operand};
        cp.async.commit_group; cp.async.wait_group 0;
        ld.param.u64 rd4, [target]; cvt.u64.u32 rd5, r3; add.s64 rd4, rd4, rd5;
        ld.shared.v{size // 4}.u32 {{{", ".join(f"r{10 + i}" for i in range(size // 4))}}}, [r4];
        st.global.v{size // 4}.u32 [rd4], {{{", ".join(f"r{10 + i}" for i in range(size // 4))}}};
    """.replace(".v1", "").replace("{r10}", "r10")
    loaded = kernel(body, shared=".shared .align 16 .b8 s[512];", params=", .param .u64 source, .param .u64 target")
    source = (np.arange(16 + 32 * size) % 251 + 1).astype(np.uint8)
    target = np.full(32 * size, 0xEE, np.uint8)
    result = loaded.launch(grid=1, block=32, args=[np.array(read, np.uint32), source, target], check=check)
    if result.completed:
        bytes_ = np.tile(np.arange(size), (32, 1))
        kept = bytes_ < np.minimum(np.array(read), size)[:, None]
        assert np.array_equal(target.reshape(32, size), np.where(kept, source.take(first + bytes_ + size * LANES[:, None], mode="wrap"), 0))
    return result


@pytest.mark.parametrize("check", ["none", "memory"])
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("name", READ)
def test_source_sizes(name: str, size: int, check: str) -> None:
    read = np.minimum(READ[name], size).tolist()
    assert copied(size, ", r2", read, 16, check).ok


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("read", [[16] * 32, [0] * 32, [16, 0] * 16])
def test_ignored_sources(size: int, read: list[int]) -> None:
    assert copied(size, ", p", np.minimum(read, size).tolist(), 16, "none").ok


def test_lanes_that_read_nothing_may_have_any_address() -> None:
    assert copied(16, ", r2", [0] * 32, 1 << 20, "none").ok
    assert copied(16, ", p", [0] * 32, 3, "none").ok


@pytest.mark.parametrize(("first", "code"), [(1 << 20, "M401"), (3, "M405")])
def test_a_lane_that_reads_faults(first: int, code: str) -> None:
    result = copied(16, ", r2", [0] * 9 + [16] + [0] * 22, first, "none")
    assert [(finding.code, dict(finding.details)["lanes"]) for finding in result.diagnostics] == [(code, "9")]
