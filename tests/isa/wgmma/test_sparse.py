"""wgmma.mma_async.sp against numerics outside the machine: selectors, majors, scales, policies, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab import numerics
from tests.isa.mma.fragment_helpers import metadata_registers
from tests.isa.wgmma.test_mma import A_START, B_START, BITS, FLOATS, INTEGERS, accumulators, codes, place

from . import wgmma_helpers as bench

CODES = [4, 8, 9, 12, 13, 14, 6]


def kernel(instruction: str, count: int, in_registers: bool, tail: str) -> ptxlab.Kernel:
    """``count`` registers of D; A and the metadata come from global memory, one warpgroup."""
    ds = ", ".join(f"%d{j}" for j in range(count))
    a = "{%a0, %a1, %a2, %a3}" if in_registers else "%da"
    body = f"""
mov.u32 %t, %tid.x; mov.u32 %s, mem;
ld.param.u64 %g, [image]; ld.param.u64 %c, [c]; ld.param.u64 %o, [o];
ld.param.u64 %r, [a]; ld.param.u64 %w, [desc]; ld.param.u64 %m, [meta];
ld.global.v2.b64 {{%da, %db}}, [%w];
mad.wide.u32 %c, %t, {4 * count}, %c; mad.wide.u32 %o, %t, {4 * count}, %o; mad.wide.u32 %r, %t, 16, %r; mad.wide.u32 %m, %t, 4, %m;
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%r]; ld.global.b32 %e, [%m];
mul.lo.u32 %i, %t, 16;
again:
cvt.u64.u32 %w, %i; add.u64 %w, %w, %g; ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%w];
add.u32 %x, %s, %i; st.shared.v4.b32 [%x], {{%x0, %x1, %x2, %x3}};
add.u32 %i, %i, 2048; setp.lt.u32 %q, %i, {bench.IMAGE}; @%q bra again;
{"".join(f"ld.global.b32 %d{j}, [%c+{4 * j}];" for j in range(count))}
setp.eq.u32 %p, 0, 0;
fence.proxy.async.shared::cta;
bar.sync 0;
wgmma.fence.sync.aligned;
{instruction} {{{ds}}}, {a}, %db, %e, {tail};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{"".join(f"st.global.b32 [%o+{4 * j}], %d{j};" for j in range(count))}
"""
    names = ("image", "c", "o", "a", "desc", "meta")
    registers = (
        f".reg .pred %p, %q; .reg .b32 %d<{count}>, %a<4>, %x<4>, %t, %s, %x, %i, %e; .reg .b64 %g, %c, %o, %r, %w, %m, %da, %db;"
        f" .shared .align 1024 .b8 mem[{bench.IMAGE}];"
    )
    return ptxlab.loads(bench.head(", ".join(f".param .u64 {name}" for name in names), registers, body)).kernel()


def metadata_words(metadata: NDArray[np.uint8], bits: int, selector: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """One word for each thread; each warp has its 16 rows."""
    return np.concatenate([metadata_registers(metadata[row : row + 16], bits, selector, rng) for row in range(0, 64, 16)])


def check(
    types: tuple[str, str, str],
    n: int,
    seed: int,
    *,
    registers: bool = False,
    selector: int = 0,
    majors: tuple[str, str] = ("k", "k"),
    swizzles: tuple[str, str] = ("64B", "128B"),
    scale: tuple[int, int] = (1, 1),
    satfinite: bool = False,
    opcode: str = "",
    **options: Any,
) -> None:
    d, a, b = types
    stored = 256 // BITS[a]
    rng = np.random.default_rng(seed)
    A, B, C = codes(rng, a, (64, stored)), codes(rng, b, (n, 2 * stored)), accumulators(rng, d, n)
    metadata = rng.choice([4, 14] if a == "tf32" else CODES, (64, 8 if BITS[a] > 8 else 16)).astype(np.uint8)
    image = np.zeros(bench.IMAGE, np.uint8)
    descriptors = np.array([place(image, A, A_START, majors[0], swizzles[0]), place(image, B, B_START, majors[1], swizzles[1])], np.uint64)
    held = bench.to_registers(C[0])
    tail = f"{selector}, %p" + bench.tail_of(a, registers, scale, tuple(int(m == "mn") for m in majors))
    opcode = opcode or f"wgmma.mma_async.sp.sync.aligned.m64n{n}k{2 * stored}.{d}.{a}.{b}{'.satfinite' if satfinite else ''}"
    out = np.zeros_like(held)
    of_a = bench.a_registers(A) if registers else np.zeros((128, 4), np.uint32)
    words = metadata_words(metadata, BITS[a], selector, rng)
    launched = kernel(opcode, held.shape[1], registers, tail).launch(
        grid=1, block=128, args=[image, held, out, of_a, descriptors, words], check="all", **options
    )
    assert launched.ok, launched.diagnostics
    assert not launched.diagnostics
    want = numerics.mma(
        arch="wgmma",
        kind=None,
        a=a,
        b=b,
        d=d,
        A=A,
        B=B,
        C=C[0],
        saturate=satfinite,
        negate_a=scale[0] < 0,
        negate_b=scale[1] < 0,
        metadata=metadata,
    )
    np.testing.assert_array_equal(bench.from_registers(out, n, C.dtype), want)


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", FLOATS[:5] + INTEGERS[:2], ids="-".join)
def test_selectors(types: tuple[str, str, str], registers: bool) -> None:
    for selector in (0, 1) if BITS[types[1]] > 8 else (0,):
        check(types, 16, selector, registers=registers, selector=selector)


@pytest.mark.parametrize("majors", [("k", "mn"), ("mn", "k"), ("mn", "mn")], ids="-".join)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_majorness(element: str, majors: tuple[str, str]) -> None:
    for swizzle in ("none", "32B", "128B"):
        check(("f32", element, element), 64, 3, majors=majors, swizzles=(swizzle, "64B"))
    if majors[0] == "k":
        check(("f32", element, element), 64, 4, majors=majors, registers=True)


@pytest.mark.parametrize("scale", [(-1, 1), (1, -1)])
def test_scale(scale: tuple[int, int]) -> None:
    check(("f32", "f16", "f16"), 24, 5, scale=scale)
    check(("f32", "tf32", "tf32"), 8, 6, scale=scale, registers=True)


@pytest.mark.parametrize("policy", ["lazy", "random"])
def test_policies(policy: str) -> None:
    check(("f32", "bf16", "bf16"), 128, 8, policy=policy)
    check(("s32", "u8", "s8"), 64, 9, registers=True, satfinite=True, policy=policy)


@pytest.mark.parametrize(
    ("opcode", "selector", "words", "code", "message"),
    [
        ("m64n8k32.f32.f16.f16", 2, 0x44444444, "W904", "the sparsity selector must be an immediate, 0 or 1"),
        ("m64n8k64.f32.e4m3.e4m3", 1, 0x44444444, "W904", "the sparsity selector must be an immediate, 0"),
        ("m64n8k32.f32.f16.f16", 0, 0x44440444, "D707", "the sparsity metadata of row 0, chunk 3 is 0b0000, which selects nothing"),
        ("m64n8k16.f32.tf32.tf32", 0, 0x4444444E, "", ""),
        ("m64n8k16.f32.tf32.tf32", 0, 0x44444449, "D707", "the sparsity metadata of row 0, chunk 0 is 0b1001, which selects nothing"),
    ],
)
def test_refusals(opcode: str, selector: int, words: int, code: str, message: str) -> None:
    tail = f"{selector}, %p, 1, 1" + (", 0, 0" if "f16" in opcode else "")
    image, descriptors = np.zeros(bench.IMAGE, np.uint8), np.array([(bench.BASE >> 4) | 1 << 62] * 2, np.uint64)
    held = np.zeros((128, 4), np.uint32)
    metadata = np.full(128, 0x44444444, np.uint32)
    metadata[:32] = words
    args = [image, held, held.copy(), held, descriptors, metadata]
    launched = kernel(f"wgmma.mma_async.sp.sync.aligned.{opcode}", 4, False, tail).launch(grid=1, block=128, args=args)
    found = [(d.code, d.message) for d in launched.diagnostics if d.severity == "error"]
    assert found[:1] == ([(code, message)] if code else [])
