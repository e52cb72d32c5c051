"""wgmma: arithmetic of every type, and operands under any descriptor.

Shared memory, two descriptors and registers are all that a case gives: nothing here knows which element of a matrix is where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ptxlab.formats import FORMATS
from ptxlab.silicon._case import STYLES, Array, Case, constants, head, random_words
from ptxlab.silicon.parts.mma import metadata_words, packed

__all__ = ["FORMS", "THREADS", "Form", "kernel", "wgmma_arithmetic", "wgmma_layouts"]

THREADS = 128
FORMS = [(d, a, a) for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"))]
FORMS += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
FORMS += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
"""The types of D, A and B."""
_LAYOUT_CODES = (0, 3, 2, 1)
"""Bytes of the swizzling mode (16, 32, 64, 128) -> the field of the descriptor."""


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async. ``transposed`` and ``scale`` are the immediates for A and B; ``selector`` is that of a sparse A."""

    d: str
    a: str
    b: str
    n: int = 8
    sparse: bool = False
    selector: int = 0
    registers: bool = False
    transposed: tuple[int, int] = (0, 0)
    scale: tuple[int, int] = (1, 1)
    satfinite: bool = False

    @property
    def opcode(self) -> str:
        k = (512 if self.sparse else 256) // FORMATS[self.a].bits
        name = f"wgmma.mma_async{'.sp' if self.sparse else ''}.sync.aligned.m64n{self.n}k{k}.{self.d}.{self.a}.{self.b}"
        return name + (".satfinite" if self.satfinite else "")

    @property
    def count(self) -> int:
        """Registers of D in a thread."""
        return self.n // (4 if self.d == "f16" else 2)

    @property
    def image(self) -> int:
        """Bytes of shared memory of a product without swizzling: A, then B, in core matrices."""
        return 2048 + self.n * (64 if self.sparse else 32)


def kernel(form: Form, image: int, first: str) -> str:
    """One warpgroup for each CTA: the image to shared memory, the registers of C, A and metadata, one product, the registers of D.

    ``first``: the first lines of the module.
    """
    each = range(form.count)
    ds = ", ".join(f"%d{j}" for j in each)
    a = "{%a0, %a1, %a2, %a3}" if form.registers else "%da"
    tail = [*map(str, form.scale)] if form.d != "s32" else []
    if form.a in ("f16", "bf16"):
        tail += [str(x) for x in form.transposed[form.registers :]]
    sparse = ["%meta", str(form.selector)] if form.sparse else []
    operands = ", ".join([f"{{{ds}}}", a, "%db", *sparse, "p", *tail])
    return f"""{first}.visible .entry k(.param .u64 image, .param .u64 desc, .param .u64 c, .param .u64 a, .param .u64 meta, .param .u64 o)
{{
  .reg .pred p, more; .reg .b32 %d<{form.count}>, %a<4>, %meta, %t, %g, %s, %x, %y, %i; .reg .b64 %c, %o, %im, %r, %w, %m, %da, %db, %base;
  .shared .align 1024 .b8 mem[{image}];
  mov.u32 %t, %tid.x; mov.u32 %s, mem; mov.u32 %y, %ctaid.x; mad.lo.u32 %g, %y, {THREADS}, %t;
  ld.param.u64 %im, [image]; ld.param.u64 %c, [c]; ld.param.u64 %o, [o]; ld.param.u64 %r, [a];
  ld.param.u64 %w, [desc]; ld.param.u64 %m, [meta];
  mad.wide.u32 %w, %y, 16, %w; mad.wide.u32 %im, %y, {image}, %im;
  ld.global.b64 %da, [%w]; ld.global.b64 %db, [%w+8];
  shr.u32 %x, %s, 4; cvt.u64.u32 %base, %x; add.u64 %da, %da, %base; add.u64 %db, %db, %base;
  mul.lo.u32 %i, %t, 4;
again:
  cvt.u64.u32 %w, %i; add.u64 %w, %w, %im; ld.global.b32 %x, [%w]; add.u32 %y, %s, %i; st.shared.b32 [%y], %x;
  add.u32 %i, %i, {4 * THREADS}; setp.lt.u32 more, %i, {image}; @more bra again;
  mad.wide.u32 %c, %g, {4 * form.count}, %c; mad.wide.u32 %o, %g, {4 * form.count}, %o;
  mad.wide.u32 %r, %g, 16, %r; mad.wide.u32 %m, %g, 4, %m;
  ld.global.b32 %meta, [%m]; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%r];
  {" ".join(f"ld.global.b32 %d{j}, [%c+{4 * j}];" for j in each)}
  setp.eq.u32 p, 0, 0;
  fence.proxy.async.shared::cta; bar.sync 0;
  wgmma.fence.sync.aligned;
  {form.opcode} {operands};
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  {" ".join(f"st.global.b32 [%o+{4 * j}], %d{j};" for j in each)}
  ret;
}}
"""


def _case(name: str, form: Form, image: int, descriptors: Sequence[tuple[int, int]], styles: Sequence[int], target: str) -> Case:
    """A launch with a CTA for each pair of descriptors, relative to the start of shared memory, and its style."""
    seeds = list(enumerate(styles))
    grid = len(seeds)
    half = image // 8
    images = []
    for cta, style in seeds:
        if image == form.image:
            parts = [packed(form.a, "", 512, style, True, 1, cta), packed(form.b, "", (image - 2048) // 4, style, False, 2, cta)]
        else:
            parts = [packed(form.a, "", half, style, True, 1, cta), packed(form.b, "", half, style, False, 2, cta)]
        images.append(np.concatenate(parts))
    c = [packed(form.d, "", THREADS * form.count, style, False, 3, cta) for cta, style in seeds]
    a = [packed(form.a, "", 4 * THREADS, style, True, 4, cta) for cta, style in seeds]
    each = ("CTA", "thread", "register")
    inputs = (
        Array("shared memory", np.stack(images), ("CTA", "word")),
        Array("descriptors", constants(descriptors), ("CTA", "operand")),
        Array("C", np.stack(c).reshape(grid, THREADS, form.count), each),
        Array("A in registers", np.stack(a).reshape(grid, THREADS, 4), each),
        Array("metadata", metadata_words(form.a, grid * THREADS).reshape(grid, THREADS), ("CTA", "thread")),
    )
    out = Array.zeros("D", (grid, THREADS, form.count), each)
    return Case(name, kernel(form, image, head(target)), grid, THREADS, inputs, (out,), (form.opcode,))


def _plain(form: Form) -> tuple[int, int]:
    """The descriptors of core matrices of 8 rows by 16 bytes, first along K, without swizzling."""
    leading = 128 >> 4 << 16
    return leading | (256 >> 4) << 32, (2048 >> 4) + (leading | ((512 if form.sparse else 256) >> 4) << 32)


def wgmma_arithmetic(target: str) -> Iterator[Case]:
    """Every type, dense and sparse, A in shared memory and in registers, in every style; other N with one type each."""
    for (d, a, b), sparse, registers, satfinite in product(FORMS, (False, True), (False, True), (False, True)):
        if satfinite and d != "s32":
            continue
        form = Form(d, a, b, 8, sparse, 0, registers, satfinite=satfinite)
        name = f"{form.opcode}{', A in registers' if registers else ''}"
        yield _case(name, form, form.image, [_plain(form)] * len(STYLES), range(len(STYLES)), target)
    for number, (d, a, b) in enumerate(FORMS):
        form = Form(d, a, b, (16, 48, 96)[number % 3] if number else 256, bool(number & 1))
        yield _case(form.opcode, form, form.image, [_plain(form)], [3], target)


def wgmma_layouts(target: str) -> Iterator[Case]:
    """Any leading and stride byte offsets under each swizzling mode, both majors, negation, the sparsity selectors."""
    image = 1 << 14
    for number, (a, sparse, transposed, registers) in enumerate(
        product(("f16", "tf32", "e4m3", "s8"), (False, True), ((0, 0), (0, 1), (1, 0), (1, 1)), (False, True))
    ):
        if (a != "f16" and any(transposed)) or (registers and transposed[0]):
            continue
        selector = number // 2 & 1 if sparse and a in ("f16", "tf32") else 0
        scale = (1, 1) if a == "s8" else ((1, 1), (-1, 1), (1, -1), (-1, -1))[number % 4]
        form = Form("s32" if a == "s8" else "f32", a, a, 8, sparse, selector, registers, transposed, scale)
        raw = random_words(8 * 6, number).reshape(8, 2, 3) >> np.uint64(12)
        descriptors = []
        for cta in range(8):
            # Starts below 2 KiB and offsets below 512 bytes: no operand leaves the image.
            starts, leading, stride = raw[cta, :, 0] % 16 * 8, 1 + raw[cta, :, 1] % 31, 1 + raw[cta, :, 2] % 31
            swizzles = (cta % 4, (cta + cta // 4 + 1) % 4)
            descriptors.append(
                tuple(int(starts[i]) | int(leading[i]) << 16 | int(stride[i]) << 32 | _LAYOUT_CODES[swizzles[i]] << 62 for i in (0, 1))
            )
        majors = "".join("MK"[not t] for t in transposed)
        name = f"{form.opcode}, descriptors, majors {majors}{', A in registers' if registers else ''}"
        yield _case(name, form, image, [(x, y) for x, y in descriptors], [1] * 8, target)
