"""A kernel around one wgmma.mma_async: each CTA has the same shared memory and its own descriptors and accumulator."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab
from ptxlab.layout import wgmma_a_fragment, wgmma_fragment

IMAGE = 1 << 16
"""Bytes of shared memory that a CTA is given, from offset 0x400 on."""
BASE = 0x400

Array = NDArray[Any]
U32 = NDArray[np.uint32]


def head(parameters: str, registers: str, body: str, target: str = "sm_90a") -> str:
    """A module with one entry ``k``."""
    return f".version 8.6\n.target {target}\n.address_size 64\n.visible .entry k({parameters})\n{{\n{registers}\n{body}\nret;\n}}\n"


@cache
def kernel(instruction: str, count: int, tail: str, in_registers: bool) -> ptxlab.Kernel:
    """``count`` registers of D in each thread; ``tail`` are the operands behind scale-d."""
    ds = ", ".join(f"%d{j}" for j in range(count))
    a = "{%a0, %a1, %a2, %a3}" if in_registers else "%da"
    body = f"""
mov.u32 %t, %tid.x; mov.u32 %s, mem; mov.u32 %x, %ctaid.x;
ld.param.u64 %g, [image]; ld.param.u64 %c, [c]; ld.param.u64 %o, [o]; ld.param.u64 %r, [a]; ld.param.u64 %w, [desc];
ld.param.u32 %e, [enable];
setp.ne.u32 %p, %e, 0;
mad.wide.u32 %w, %x, 16, %w;
ld.global.v2.b64 {{%da, %db}}, [%w];
mad.lo.u32 %x, %x, 128, %t;
mad.wide.u32 %c, %x, {4 * count}, %c; mad.wide.u32 %o, %x, {4 * count}, %o; mad.wide.u32 %r, %x, 16, %r;
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%r];
mul.lo.u32 %i, %t, 16;
again:
cvt.u64.u32 %w, %i; add.u64 %w, %w, %g; ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%w];
add.u32 %x, %s, %i; st.shared.v4.b32 [%x], {{%x0, %x1, %x2, %x3}};
add.u32 %i, %i, 2048; setp.lt.u32 %q, %i, {IMAGE}; @%q bra again;
{"".join(f"ld.global.b32 %d{j}, [%c+{4 * j}];" for j in range(count))}
fence.proxy.async.shared::cta;
bar.sync 0;
wgmma.fence.sync.aligned;
{instruction} {{{ds}}}, {a}, %db, %p{tail};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{"".join(f"st.global.b32 [%o+{4 * j}], %d{j};" for j in range(count))}
"""
    text = head(
        ".param .u64 image, .param .u64 c, .param .u64 o, .param .u64 a, .param .u64 desc, .param .u32 enable",
        f".reg .pred %p, %q; .reg .b32 %d<{count}>, %a<4>, %x<4>, %t, %s, %x, %i, %e; .reg .b64 %g, %c, %o, %r, %w, %da, %db;"
        f" .shared .align 1024 .b8 mem[{IMAGE}];",
        body,
    )
    return ptxlab.loads(text).kernel()


def to_registers(c: Array) -> U32:
    """Registers uint32[128, count] of a matrix of 64 rows; two values to a register if they are halves."""
    place = wgmma_fragment(c.shape[1])
    found = np.ascontiguousarray(c[place.row, place.column])
    return found.view(np.uint32) if c.dtype == np.uint16 else found.astype(np.uint32)


def from_registers(registers: U32, n: int, dtype: Any) -> Array:
    """The inverse of `to_registers`."""
    place = wgmma_fragment(n)
    found = np.empty((64, n), dtype)
    found[place.row, place.column] = registers.view(dtype)
    return found


def a_registers(a: Array) -> U32:
    """Registers uint32[128, 4] of a matrix A of 64 rows."""
    place = wgmma_a_fragment(8 * a.dtype.itemsize)
    return np.ascontiguousarray(a[place.row, place.column]).view(np.uint32)


def run(
    instruction: str,
    image: Array,
    descriptors: Array,
    c: Array,
    *,
    a: Array | None = None,
    enable: bool = True,
    tail: str = "",
    **options: Any,
) -> Array:
    """D of every case: ``descriptors`` uint64[cases, 2], ``c`` [cases, 64, n], ``a`` [cases, 64, k] for A in registers."""
    cases, _, n = c.shape
    held = np.stack([to_registers(x) for x in c])
    of_a = np.zeros((cases, 128, 4), np.uint32) if a is None else np.stack([a_registers(x) for x in a])
    out = np.zeros_like(held)
    padded = np.zeros(IMAGE, np.uint8)
    padded[: image.size] = image
    arguments = [padded, held, out, of_a, np.ascontiguousarray(descriptors, np.uint64), int(enable)]
    launched = kernel(instruction, held.shape[2], tail, a is not None)
    result = launched.launch(grid=(cases,), block=(128,), args=arguments, check="all", **options)
    assert result.ok, result.diagnostics
    assert not result.diagnostics
    return np.stack([from_registers(x, n, c.dtype) for x in out])


def tail_of(element: str, in_registers: bool = False, scale: tuple[int, int] = (1, 1), transposed: tuple[int, ...] = (0, 0)) -> str:
    """The immediates that instructions of an element type have."""
    if element in ("s8", "u8"):
        return ""
    found = [*scale, *(transposed[in_registers:] if element in ("f16", "bf16") else ())]
    return "".join(f", {x}" for x in found)
