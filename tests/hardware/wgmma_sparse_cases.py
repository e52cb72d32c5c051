"""What `record_wgmma_sparse` runs: sparse wgmma with both selectors, any descriptors, transposed operands, negation.

Shared memory, descriptors and registers are all a case says: nothing here knows which matrix element is where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import wgmma_cases as wild

__all__ = ["FORMS", "IMAGE", "Form", "inputs", "operands", "ptx"]

U32 = NDArray[np.uint32]
IMAGE = 1 << 15
THREADS = 128
CODES = (4, 6, 8, 9, 12, 13, 14)


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async.sp with N = 8. ``transposed`` and ``scale`` are the immediates for A and B."""

    d: str
    a: str
    b: str
    selector: int
    registers: bool
    transposed: tuple[int, int] = (0, 0)
    scale: tuple[int, int] = (1, 1)
    swizzles: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        flags = ("registers." if self.registers else "") + "".join(map(str, (*self.transposed, *self.swizzles)))
        return f"{self.d}.{self.a}.{self.b}.{self.selector}.{flags}.{self.scale[0]}.{self.scale[1]}"

    @property
    def count(self) -> int:
        """Registers of D in a thread."""
        return 2 if self.d == "f16" else 4


def _forms() -> list[Form]:
    found = []
    for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32")):
        for selector in (0, 1):
            for swizzle in range(4):
                found.append(Form(d, a, a, selector, False, swizzles=(swizzle, 3 - swizzle)))
            found.append(Form(d, a, a, selector, True, swizzles=(0, 1 + selector), scale=(-1, 1)))
            if a != "tf32":
                found += [Form(d, a, a, selector, False, t, (1, -1), (s, (s + 1) % 4)) for t in ((0, 1), (1, 0), (1, 1)) for s in range(4)]
                found += [Form(d, a, a, selector, True, (0, 1), swizzles=(0, s)) for s in range(4)]
    found += [
        Form("f32", a, b, 0, registers, swizzles=(1, 2)) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for registers in (False, True)
    ]
    found += [Form("s32", a, b, 0, registers, swizzles=(3, 0)) for a in ("s8", "u8") for b in ("s8", "u8") for registers in (False, True)]
    return found


FORMS = _forms()


def inputs() -> dict[str, NDArray[np.uint8] | U32]:
    """Shared memory for each type of A, A in registers, C, metadata, and two descriptors for each form without their start."""
    rng = np.random.default_rng(71)
    pools: dict[str, NDArray[np.uint8] | U32] = {}
    for fmt, bits in wild.BITS.items():
        for name, size in (("image", IMAGE), ("registers", 16 * THREADS)):
            codes = wild._codes(rng, fmt, (1, 8 * size // bits), 0)
            pools[f"{name}/{fmt}"] = np.ascontiguousarray(codes).view(np.uint8)[0]
    for fmt in ("f32", "f16"):
        pools[f"C/{fmt}"] = np.ascontiguousarray(wild._codes(rng, fmt, (1, 4 * THREADS * (1 if fmt == "f32" else 2)), 0)).view(np.uint32)
    pools["C/s32"] = rng.integers(0, 1 << 32, 4 * THREADS, dtype=np.uint64).astype(np.uint32)
    for name, choice in (("metadata", CODES), ("metadata/tf32", (4, 14))):
        nibbles = rng.choice(choice, (THREADS, 8)).astype(np.uint32)
        pools[name] = (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(axis=1, dtype=np.uint32)
    # Leading and stride byte offsets up to 1 KiB, starts in the first 8 KiB: no operand leaves the image.
    pools["descriptors"] = rng.integers(1, 64, (len(FORMS), 2, 3)).astype(np.uint32)
    return pools


def operands(form: Form, number: int, pools: Mapping[str, NDArray[np.uint8] | U32]) -> list[NDArray[np.uint8] | U32 | NDArray[np.uint64]]:
    """Image, descriptors relative to it, C, A in registers, metadata."""
    layout = {0: 0, 1: 3, 2: 2, 3: 1}
    rows = np.asarray(pools["descriptors"])[number].astype(np.uint64)
    codes = np.array([layout[s] for s in form.swizzles], np.uint64)
    made = rows[:, 0] * np.uint64(8) | rows[:, 1] << np.uint64(16) | rows[:, 2] << np.uint64(32) | codes << np.uint64(62)
    c = np.asarray(pools[f"C/{form.d}"]).ravel()[: form.count * THREADS]
    metadata = pools["metadata/tf32" if form.a == "tf32" else "metadata"]
    image = np.asarray(pools[f"image/{form.a}"])
    if form.b != form.a:
        image = np.where(np.arange(IMAGE) % 2, image, np.asarray(pools[f"image/{form.b}"])).astype(np.uint8)
    return [image, made, np.ascontiguousarray(c), np.asarray(pools[f"registers/{form.a}"]), metadata]


def ptx(form: Form) -> str:
    """One warpgroup: the image to shared memory, the registers of C, A and metadata, one multiplication, the registers of D."""
    each = range(form.count)
    ds = ", ".join(f"%d{j}" for j in each)
    a = "{%a0, %a1, %a2, %a3}" if form.registers else "%da"
    k = 64 * 8 // wild.BITS[form.a]
    tail = [*map(str, form.scale)] if form.d != "s32" else []
    if form.a in ("f16", "bf16"):
        tail += [str(x) for x in form.transposed[form.registers :]]
    operands = ", ".join([f"{{{ds}}}", a, "%db", "%meta", str(form.selector), "p", *tail])
    return f""".version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 desc, .param .u64 c, .param .u64 a, .param .u64 meta, .param .u64 o)
{{
  .reg .pred p, more; .reg .b32 %d<4>, %a<4>, %meta, %t, %s, %x, %y, %i; .reg .b64 %c, %o, %g, %r, %w, %m, %da, %db, %base;
  .shared .align 1024 .b8 mem[{IMAGE}];
  mov.u32 %t, %tid.x; mov.u32 %s, mem;
  ld.param.u64 %g, [image]; ld.param.u64 %c, [c]; ld.param.u64 %o, [o]; ld.param.u64 %r, [a];
  ld.param.u64 %w, [desc]; ld.param.u64 %m, [meta];
  ld.global.b64 %da, [%w]; ld.global.b64 %db, [%w+8];
  shr.u32 %x, %s, 4; cvt.u64.u32 %base, %x; add.u64 %da, %da, %base; add.u64 %db, %db, %base;
  mul.lo.u32 %i, %t, 4;
again:
  cvt.u64.u32 %w, %i; add.u64 %w, %w, %g; ld.global.b32 %x, [%w]; add.u32 %y, %s, %i; st.shared.b32 [%y], %x;
  add.u32 %i, %i, {4 * THREADS}; setp.lt.u32 more, %i, {IMAGE}; @more bra again;
  mad.wide.u32 %c, %t, {4 * form.count}, %c; mad.wide.u32 %o, %t, {4 * form.count}, %o;
  mad.wide.u32 %r, %t, 16, %r; mad.wide.u32 %m, %t, 4, %m;
  ld.global.b32 %meta, [%m]; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%r];
  {" ".join(f"ld.global.b32 %d{j}, [%c+{4 * j}];" for j in each)}
  setp.eq.u32 p, 0, 0;
  fence.proxy.async.shared::cta; bar.sync 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sp.sync.aligned.m64n8k{k}.{form.d}.{form.a}.{form.b} {operands};
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  {" ".join(f"st.global.b32 [%o+{4 * j}], %d{j};" for j in each)}
  ret;
}}
"""
