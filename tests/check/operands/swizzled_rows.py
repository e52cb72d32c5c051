"""The part of a kernel that copies rows of two matrices to shared memory, swizzled as the mode 128B."""

from __future__ import annotations

CHUNKS = 8
"""Of 16 bytes, in a row."""


def copy_rows(threads: int, rows_of_a: int, rows_of_b: int) -> str:
    """Copies with cp.async from ``%rd1`` and ``%rd2`` to ``%r2``, B after A; ``%r1`` is the number of the thread."""
    return f"""mov.u32 %r3, %r1;
COPY:
    setp.lt.u32 %p1, %r3, {CHUNKS * rows_of_a};
    shr.u32 %r4, %r3, 3;
    and.b32 %r5, %r3, 7;
    and.b32 %r6, %r4, 7;
    xor.b32 %r6, %r6, %r5;
    shl.b32 %r4, %r4, 7;
    shl.b32 %r6, %r6, 4;
    add.u32 %r6, %r6, %r4;
    add.u32 %r6, %r6, %r2;
    mul.wide.u32 %rd3, %r3, 16;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    sub.u64 %rd5, %rd5, {16 * CHUNKS * rows_of_a};
    selp.b64 %rd4, %rd4, %rd5, %p1;
    cp.async.cg.shared.global [%r6], [%rd4], 16;
    add.u32 %r3, %r3, {threads};
    setp.lt.u32 %p2, %r3, {CHUNKS * (rows_of_a + rows_of_b)};
    @%p2 bra COPY;
    cp.async.wait_all;"""
