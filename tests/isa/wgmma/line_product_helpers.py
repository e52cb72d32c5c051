"""A loop of wgmma.mma_async whose matrices one thread brings with bulk copies of contiguous bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

from . import wgmma_helpers as bench
from .test_repeated import COMMIT, FENCE, WAIT, A, B, product

__all__ = ["FULL", "MATRIX", "launch", "text_of"]

MATRIX = 2048
"""Bytes of A, 64 x 16 elements, and of B."""
LINE = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
FULL = "full: mbarrier.try_wait.parity.shared::cta.b64 %q, [done], %j; @!%q bra full;"


def text_of(between: str = "", wait: str = FULL) -> str:
    """``between`` is executed before the product of a turn."""
    registers = 32
    return bench.head(
        ".param .u64 o, .param .u64 from, .param .u32 turns",
        f".reg .pred %p, %q, %one, %late; .reg .b32 %d<{registers}>, %t, %i, %j, %n; .reg .b64 %o, %from, %da, %db; "
        f".shared .align 1024 .b8 mem[{8 * MATRIX}]; .shared .align 8 .b64 done;",
        f"""
ld.param.u64 %o, [o]; ld.param.u64 %from, [from]; ld.param.u32 %n, [turns]; mov.u32 %t, %tid.x; setp.eq.u32 %one, %t, 0;
mad.wide.u32 %o, %t, {4 * registers}, %o;
@%one mbarrier.init.shared::cta.b64 [done], 1; fence.mbarrier_init.release.cluster;
{"".join(f"mov.b32 %d{j}, 0;" for j in range(registers))}
mov.u32 %i, 0; setp.ne.u32 %p, %i, 0; mov.b64 %da, {A:#x}; mov.b64 %db, {B:#x};
again:
bar.sync 0;
setp.eq.u32 %late, %i, 8; and.b32 %j, %i, 1;
@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [done], {2 * MATRIX};
@%one {LINE} [mem], [%from], {MATRIX}, [done];
@%one {LINE} [mem+{4 * MATRIX}], [%from+{MATRIX}], {MATRIX}, [done];
{wait}
{between}
{FENCE} {product("f32.f16.f16", 64, 16)} {COMMIT} {WAIT} 0;
add.u64 %from, %from, {2 * MATRIX}; setp.eq.u32 %p, 0, 0; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra again;
{"".join(f"st.global.b32 [%o+{4 * j}], %d{j};" for j in range(registers))}
""",
    )


def launch(kernel: ptxlab.Kernel, turns: int, **options: Any) -> tuple[NDArray[np.float32], ptxlab.Result]:
    given = np.random.default_rng(turns).integers(-4, 5, turns * MATRIX).astype(np.float16)
    out = np.zeros((128, 32), np.float32)
    return out, kernel.launch(grid=1, block=128, args=[out, given, turns], **options)
