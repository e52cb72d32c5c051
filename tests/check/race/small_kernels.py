"""Small kernels: a body in a frame, launched with one array."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab

SCHEDULES: tuple[dict[str, Any], ...] = (
    {"policy": "eager"},
    {"policy": "lazy"},
    {"policy": "random", "seed": 3},
    {"policy": "random", "seed": 4},
)
FRAME = """.version 9.0
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .u64 a{more})
{{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<80>; .reg .b64 %rd<30>; .reg .f32 %f<80>;
.shared .align 8 .b64 bar;
.shared .align 8 .b64 free;
.shared .align 4 .b32 slot;
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
mov.b32 %r2, dyn;
mov.b32 %r7, bar;
setp.eq.u32 %p1, %r1, 0;
{body}
ret;
}}
"""
FILL = """
mad.lo.u32 %r3, %r1, 16, %r2;
mov.u32 %r4, 0;
st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};
fence.proxy.async.shared::cta;
bar.sync 0;
"""
"""128 threads write 2 KiB, for the async proxy to read."""
WGMMA = """
shr.u32 %r5, %r2, 4;
cvt.u64.u32 %rd5, %r5;
or.b64 %rd5, %rd5, 0x0000001000080000;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd5, %rd5, 0, 1, 1, 0, 0;
"""
"""A product of these bytes by themselves."""


def text(body: str, target: str = "sm_100a", more: str = "") -> str:
    """The whole module."""
    return FRAME.format(target=target, body=body, more=more)


def launch(body: str, target: str = "sm_100a", more: str = "", args: tuple[Any, ...] = (), words: int = 4096, **options: Any) -> Any:
    """The result; ``words`` is the size of the array."""
    given: dict[str, Any] = {"block": 64, "shared_bytes": 32768, "max_instructions": 200_000}
    kernel = ptxlab.loads(text(body, target, more), file="small.ptx").kernel()
    return kernel.launch(args=[np.zeros(words, np.uint32), *args], **(given | options))


def found(result: Any) -> list[tuple[str, str]]:
    """The code of each finding and the line of PTX that it names; the note about equal writes (X123) has tests of its own."""
    return [(d.code, d.excerpt.strip() if d.excerpt else "") for d in result.diagnostics if d.code != "X123"]
