"""Tensor memory: loads, stores, and copies from shared memory."""

from __future__ import annotations

from .asynchronous import BARRIERS
from .writer import Family, Statement, Writer

__all__ = ["TENSOR"]

_SHAPES = {"32x32b": (1, (1, 2, 4)), "16x64b": (1, (1, 2, 4)), "16x128b": (2, (1, 2)), "16x256b": (4, (1, 2)), "16x32bx2": (1, (1, 2, 4))}
"""Registers of the smallest form, and multiples of it."""
_BEGIN = (
    BARRIERS
    + """mov.u32 t, slot;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [t], 64;
ld.shared.b32 taddr, [t];
"""
)
_END = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 taddr, 64;\n"


def _moves(writer: Writer) -> Statement:
    """A load or store of columns."""
    shape = writer.random.choice(list(_SHAPES))
    registers, multiples = _SHAPES[shape]
    multiple = writer.random.choice(multiples)
    value = writer.registers(32, registers * multiple)
    half = ", 8" if shape == "16x32bx2" else ""
    place = f"[taddr+{4 * writer.random.randrange(8)}]"
    tail = f"sync.aligned.{shape}.x{multiple}"
    if writer.random.random() < 0.5:
        packed = writer.random.choice(("", ".unpack::16b"))
        text = f"tcgen05.st.{tail}{packed}.b32 {place}{half}, {value}; tcgen05.wait::st.sync.aligned;"
    else:
        packed = writer.random.choice(("", ".pack::16b"))
        text = f"tcgen05.ld.{tail}{packed}.b32 {value}, {place}{half}; tcgen05.wait::ld.sync.aligned;"
    return Statement(text, together=True)


def _copies(writer: Writer) -> Statement:
    """A copy of 32 or 128 rows of the shared memory, without swizzling."""
    shape = writer.random.choice(("32x128b.warpx4", "128x128b", "128x256b"))
    start = 0 if shape == "128x256b" else writer.random.randrange(8)
    # Leading dimension byte offset 16 x 128 bytes, stride dimension byte offset 128 bytes.
    high = (1 << 46) | (8 << 32) | (128 << 16)
    text = (
        f"add.u32 t, base, {16 * start}; shr.u32 t, t, 4; cvt.u64.u32 desc, t; or.b64 desc, desc, {high}; fence.proxy.async; "
        "bar.warp.sync -1; tcgen05.fence::before_thread_sync; "
        f"add.u32 t, taddr, {8 * writer.random.randrange(4)}; @lane_0 tcgen05.cp.cta_group::1.{shape} [t], desc; "
        "@lane_0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]; "
        f"{writer.wait(0)} tcgen05.fence::after_thread_sync;"
    )
    return Statement(text, together=True)


def _shared(writer: Writer) -> Statement:
    return Statement(f"st.shared.v4.b32 [at+{16 * writer.random.randrange(4)}], {writer.registers(32, 4)};")


TENSOR = {
    "tensor_moves": Family(_moves, _BEGIN, _END),
    "tensor_copies": Family(lambda w: w.random.choice((_moves, _copies, _shared))(w), _BEGIN, _END),
}
