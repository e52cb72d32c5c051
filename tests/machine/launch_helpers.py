"""Small PTX texts for tests of the machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import ptxlab

PRELUDE = """
    .reg .pred p, q, t;
    .reg .b16 h;
    .reg .b32 r<20>, tid, lane, warp, cta, size;
    .reg .b64 rd<20>, out, at, state;
    ld.param.u64 out, [result];
    mov.u32 tid, %tid.x;
    mov.u32 lane, %laneid;
    shr.u32 warp, tid, 5;
    mov.u32 cta, %ctaid.x;
    mov.u32 size, %ntid.x;
    mad.lo.s32 r19, cta, size, tid;
    mul.wide.u32 at, r19, 4;
    add.s64 at, at, out;
"""


def kernel(body: str, *, shared: str = "", params: str = "", directives: str = "", top: str = "") -> ptxlab.Kernel:
    """A kernel with one result pointer, and registers: at = &result[global thread], tid, lane, warp, cta."""
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
{top}
.visible .entry k(.param .u64 result{params})
{directives}
{{
    {shared}
    {PRELUDE}
    {body}
    ret;
}}
"""
    return ptxlab.loads(text).kernel()


def run(
    body: str, threads: int = 32, ctas: int = 1, *, args: tuple[object, ...] = (), **options: object
) -> tuple[NDArray[np.uint32], ptxlab.Result]:
    """Run a body; the results of all threads."""
    build = {k: options.pop(k) for k in ("shared", "params", "directives", "top") if k in options}
    out = np.full(threads * ctas, 0xDEAD, np.uint32)
    result = kernel(body, **build).launch(grid=ctas, block=threads, args=[out, *args], **options)  # type: ignore[arg-type]
    return out, result


def store(value: str) -> str:
    """Store a 32-bit register as the thread's result."""
    return f"st.global.u32 [at], {value};\n"


def codes(result: ptxlab.Result) -> list[str]:
    """The codes of the findings."""
    return [found.code for found in result.diagnostics]


def details(found: ptxlab.Diagnostic) -> dict[str, str]:
    """The details of a finding by their names."""
    return dict(found.details)
