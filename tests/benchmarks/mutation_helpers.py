"""A kernel that copies a tile in turns, for tests of the mutation benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.mutations.judge import Verdict, judge

import ptxlab

COPY = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 out, .param .u32 turns)
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 128 .b8 tile[512];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
shl.b32 %r3, %r1, 2;
add.u32 %r3, %r2, %r3;
ld.param.u64 %rd1, [out];
ld.param.u32 %r5, [turns];
cvta.to.global.u64 %rd1, %rd1;
setp.ne.u32 %p1, %r1, 127;
mov.u32 %r4, 1;
NEXT:
mad.lo.u32 %r6, %r1, 5, %r4;
st.shared.u32 [%r3], %r6;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra BEHIND;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 512;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
BEHIND:
bar.sync 0;
add.u64 %rd1, %rd1, 512;
add.u32 %r4, %r4, 1;
setp.le.u32 %p2, %r4, %r5;
@%p2 bra NEXT;
setp.gt.u32 %p3, %r5, 1000;
@%p3 bar.sync 1;
ret;
}
"""

RACE = ("race", "memory")


class Copy:
    """Turn by turn all threads fill a tile, of which one thread makes a copy."""

    def __init__(self, turns: int, text: str = COPY) -> None:
        self.kernel = ptxlab.loads(text).kernel()
        self.out = np.zeros((turns, 128), np.uint32)
        self.turns = turns

    def launch(self, **options: Any) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
        self.out[:] = 0
        result = self.kernel.launch(grid=1, block=128, args=[self.out, self.turns], **options)
        return result, {"out": self.out.copy()}


def right(turns: int) -> list[list[int]]:
    return (5 * np.arange(128) + np.arange(1, turns + 1)[:, None]).tolist()  # type: ignore[no-any-return]


def verdicts() -> list[Verdict]:
    small, large = Copy(1), Copy(3)
    large.kernel = small.kernel
    return list(judge("copy", small.kernel, {"1 turn": small, "3 turns": large}))
