"""What is measured that no compiler made: small loops for the cost of one warp-instruction, and calls for addresses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

HEADER = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 n)
.reqntid 128
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<8>;
    .shared .align 8 .b64 bar;
"""

FOOTER = """
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p1, %r1, %r0;
    @%p1 bra LOOP;
    ret;
}
"""

START = """
    ld.param.u32 %r0, [n];
    mov.u32 %r1, 0;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, 12345;
    cvt.rn.f32.u32 %f0, %r2;
    mov.f32 %f1, 0f3F000000;
"""

STEP = """
    add.s32 %r4, %r2, %r3;
    xor.b32 %r5, %r4, %r2;
    mad.lo.s32 %r3, %r5, %r2, %r4;
    shl.b32 %r6, %r3, 3;
    and.b32 %r2, %r6, %r5;
    fma.rn.f32 %f2, %f0, %f1, %f1;
    mul.f32 %f3, %f2, %f1;
    max.f32 %f0, %f3, %f2;
    setp.gt.s32 %p2, %r3, %r2;
    selp.b32 %r2, %r5, %r4, %p2;
    min.u32 %r3, %r3, %r6;
    sub.f32 %f0, %f0, %f3;
"""

ARITHMETIC = HEADER + START + "LOOP:" + STEP * 8 + FOOTER
"""A loop of 96 scalar instructions of twelve kinds and three of the loop."""

BARRIER = "\n    bar.sync 0;" * 16

MBARRIER = """
    mbarrier.arrive.shared::cta.b64 _, [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], %r7;
    @!%p3 bra WAIT;
    xor.b32 %r7, %r7, 1;
"""

MBARRIER_START = """
    mov.u32 %r7, 0;
    setp.eq.s32 %p2, %r2, 0;
    @%p2 mbarrier.init.shared::cta.b64 [bar], 128;
    bar.sync 0;
"""

SHUFFLE = "\n    shfl.sync.bfly.b32 %r3, %r3, 1, 31, -1;" * 16

ATOMIC = "\n    atom.shared.add.u32 %r3, [bar], 1;" * 16

COPY_ASYNC_START = """
    .shared .align 16 .b8 staged[2048];
    mov.u32 %r4, staged;
    shl.b32 %r5, %r2, 4;
    add.u32 %r4, %r4, %r5;
    mov.u64 %rd1, source;
    cvt.u64.u32 %rd2, %r5;
    add.u64 %rd1, %rd1, %rd2;
"""

COPY_ASYNC = "\n    cp.async.cg.shared.global [%r4], [%rd1], 16;" * 16 + "\n    cp.async.wait_all;"

WAIT_FOR_ONE = """
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], %r7;
    @!%p3 bra WAIT;
    xor.b32 %r7, %r7, 1;
    bar.sync 0;
"""

ONE_ARRIVES = """
    mov.u32 %r7, 0;
    setp.eq.s32 %p2, %r2, 0;
    @%p2 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
"""

TENSOR_COPY = (
    "\n    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};"
    + "\n    @%p2 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [map, {{0, 0}}], [bar];" * 16
    + WAIT_FOR_ONE
)

MMA_START = """
    .shared .align 1024 .b8 operands[8192];
    .shared .b32 slot;
    setp.lt.u32 %p0, %r2, 32;
    @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
    mov.u32 %r4, operands;
    shl.b32 %r5, %r2, 6;
    add.u32 %r6, %r4, %r5;
    mad.lo.u32 %r5, %r2, 65537, 1006648320;
    st.shared.v4.b32 [%r6], {%r5, %r5, %r5, %r5};
    st.shared.v4.b32 [%r6+16], {%r5, %r5, %r5, %r5};
    st.shared.v4.b32 [%r6+32], {%r5, %r5, %r5, %r5};
    st.shared.v4.b32 [%r6+48], {%r5, %r5, %r5, %r5};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.b32 %r8, [slot];
    shr.b32 %r4, %r4, 4;
    cvt.u64.u32 %rd1, %r4;
    add.u64 %rd1, %rd1, DESCRIPTOR;
    add.u64 %rd2, %rd1, 256;
"""
"""Both operands hold f16 between 1 and 2; that of B stands 4096 bytes behind that of A."""

MMA = (
    "\n    @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd1, %rd2, IDESC, 0;"
    + "\n    @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd1, %rd2, IDESC, 1;" * 15
    + "\n    @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"
    + WAIT_FOR_ONE
)

MMA_END = """
    @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 128;
"""


@dataclass(frozen=True)
class Loop:
    """A kernel that goes round n times, and how many times a turn what is measured stands in it; 0: every instruction counts alike."""

    text: str
    times: int = 0
    box: tuple[int, int] | None = None
    """Of the tensor map that is the third parameter, f16, if there is one."""


def mma(m: int, n: int) -> Loop:
    """Sixteen tcgen05.mma of m x n x 16 in f16, the first a new sum, K-major without swizzle; and the wait for their end."""
    from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor

    shared = int(SharedMemoryDescriptor(start=0, leading=128, stride=256, swizzle="none"))
    instruction = int(InstructionDescriptor(kind="f16", m=m, n=n, a="f16", b="f16", d="f32"))
    start = MMA_START.replace("DESCRIPTOR", str(shared))
    end = FOOTER.replace("    ret;", MMA_END + "    ret;")
    loop = MMA.replace("IDESC", str(instruction))
    return Loop(HEADER + START + ONE_ARRIVES + start + "LOOP:" + loop + end, 16)


def tensor_copy(width: int, height: int) -> Loop:
    """Sixteen copies of a box of f16 to shared memory, swizzled, and the wait for their end."""
    bytes = 2 * width * height
    header = HEADER.replace("n)", "n, .param .align 64 .b8 map[128])")
    tile = f"    .shared .align 1024 .b8 tile[{bytes}];\n"
    return Loop(header + tile + START + ONE_ARRIVES + "LOOP:" + TENSOR_COPY.format(bytes=16 * bytes) + FOOTER, 16, (width, height))


def services() -> dict[str, Loop]:
    """What is measured, by its name in the results."""
    source = HEADER.replace(".visible", ".global .align 16 .b8 source[2048];\n.visible")
    return {
        "bar.sync": Loop(HEADER + START + "LOOP:" + BARRIER + FOOTER),
        "mbarrier": Loop(HEADER + START + MBARRIER_START + "LOOP:" + MBARRIER + FOOTER),
        "tcgen05.mma 64x8x16": mma(64, 8),
        "tcgen05.mma 128x128x16": mma(128, 128),
        "tensor copy, 128 bytes": tensor_copy(64, 1),
        "tensor copy, 16 KB": tensor_copy(64, 128),
        "cp.async": Loop(source + START + COPY_ASYNC_START + "LOOP:" + COPY_ASYNC + FOOTER),
        "shfl": Loop(HEADER + START + "LOOP:" + SHUFFLE + FOOTER),
        "atom.shared": Loop(HEADER + START + "LOOP:" + ATOMIC + FOOTER),
    }


def addresses() -> dict[str, list[Callable[[], int]]]:
    """Calls that say how many addresses they have found."""
    from ptxlab.descriptors import OperandTile
    from ptxlab.layout import accumulator_location, fragment, operand_addresses, scale_factor_location

    def operands(type: str, k: int, bits: int, majors: tuple[str, ...]) -> list[Callable[[], int]]:
        tiles = [
            OperandTile(rows, k, type, major, swizzle, 1024)  # type: ignore[arg-type]
            for rows in (64, 128, 256)
            for major in majors
            for swizzle in ("none", "32B", "64B", "128B")
        ]
        given = [(tile.descriptor(), tile.rows, tile.k, bits, tile.major) for tile in tiles]
        return [lambda g=g: operand_addresses(*g).size for g in given]  # type: ignore[misc]

    accumulators = ((64, 128, 1), (128, 256, 1), (128, 256, 2), (256, 128, 2))
    scales = ((128, 1), (128, 4), (256, 2), (256, 4))
    shapes = (("32x32b", 128), ("16x64b", 128), ("16x128b", 64), ("16x256b", 32))
    return {
        "operands": operands("bf16", 16, 16, ("k", "mn")),
        "operands, 4 bits": operands("e2m1", 64, 4, ("k",)),
        "accumulators": [lambda a=a: accumulator_location(*a).lane.size for a in accumulators],  # type: ignore[misc]
        "scale factors": [lambda a=a: scale_factor_location(*a).lane.size for a in scales],  # type: ignore[misc]
        "fragments": [lambda s=s, n=n: fragment(s, num=n).lane.size for s, n in shapes],  # type: ignore[misc]
    }


def forget_layouts() -> None:
    """Empty the caches of `ptxlab.layout`."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ptxlab.layout."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
