"""The tensor copies that are recorded on silicon, and the PTX that runs them.

What the silicon refuses with an illegal instruction is left out: an innermost coordinate that is not a multiple of 16 bytes; a negative
coordinate of a store or reduction; and, or, xor of s64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.silicon.parts.tma import REDUCTIONS

BUFFER = 8192
"""Bytes of shared memory that a case shows."""

CASE = np.dtype(
    [
        ("operation", "S16"), ("type", "<i4"), ("rank", "<i4"),
        ("dims", "<u8", 5), ("strides", "<u8", 4), ("box", "<u4", 5), ("steps", "<u4", 5),
        ("interleave", "<i4"), ("swizzle", "<i4"), ("fill", "<i4"), ("coordinates", "<i4", 5),
        ("offset", "<u4"), ("expect", "<u4"), ("seed", "<u4"), ("size", "<u4"), ("done", "<u4"),
    ]
)  # fmt: skip
"""Types and modes are the driver's numbers. ``done``: the mbarrier's phase completed with ``expect`` bytes."""

ELEMENT = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}


def tensor_bytes(seed: int, size: int) -> NDArray[np.uint8]:
    """A pattern that needs no generator: a multiplicative hash of place and seed."""
    words = np.arange(-(-size // 4), dtype=np.uint64)
    words = (words + np.uint64(seed) * np.uint64(7919)) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(29)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    return (words >> np.uint64(32)).astype(np.uint32).view(np.uint8)[:size].copy()


def _tiled(rng: np.random.Generator, operation: str, type: int, swizzle: int, interleave: int, fill: int) -> np.void:
    case = np.zeros((), CASE)
    element = ELEMENT[type]
    rank = int(rng.integers(3, 6)) if interleave else int(rng.integers(1, 6))
    width = {1: 32, 2: 64, 3: 128}.get(swizzle, 256)
    unit = 16
    if interleave:
        unit = 16 * interleave
        inner = unit
        if interleave == 2:
            swizzle = 1 if swizzle else 0
    else:
        inner = 16 * int(rng.integers(1, width // 16 + 1))
    box = [inner // element]
    dims = [max(1, int(rng.integers(box[0] // 2, 3 * box[0] + 2)))]
    if interleave:
        dims = [unit // element * int(rng.integers(1, 3))]
    steps = [1]
    room = BUFFER // 2 // max(inner, width if swizzle else inner)
    for _ in range(rank - 1):
        box.append(int(rng.integers(1, max(2, min(room, 20) + 1))))
        room //= box[-1]
        steps.append(int(rng.integers(1, 3)) if rng.random() < 0.3 else 1)
        dims.append(int(rng.integers(1, 16 if rank < 4 else 5)))
    pitches, span = [], -(-dims[0] * element // unit) * unit
    for d in dims[1:]:
        pitches.append(span + unit * int(rng.integers(0, 2)))
        span = pitches[-1] * d
    least = -3 if operation == "load" else 0
    chunk = 16 // element
    coordinates = [chunk * int(rng.integers(least, max(dims[0] // chunk, 1))) if rng.random() < 0.6 else 0]
    if interleave:
        coordinates = [0]
    for i in range(1, rank):
        coordinates.append(int(rng.integers(least, dims[i] + 1)) if rng.random() < 0.6 else 0)
    count = inner
    for d, (b, s) in enumerate(zip(box, steps, strict=True)):
        # An interleaved tensor has whole pixels along dimension 0, and one slice of the channels.
        if d != (rank - 2 if interleave else 0):
            count *= -(-b // s)
    case["operation"], case["type"], case["rank"] = operation.encode(), type, rank
    for name, values in (("dims", dims), ("strides", pitches), ("box", box), ("steps", steps), ("coordinates", coordinates)):
        case[name][: len(values)] = values
    case["steps"][len(steps) :] = 1
    case["interleave"], case["swizzle"], case["fill"] = interleave, swizzle, fill
    case["offset"] = 128 * int(rng.integers(0, 8)) if not interleave else 256 * int(rng.integers(0, 4))
    case["expect"] = count
    case["seed"], case["size"] = int(rng.integers(0, 1 << 30)), span + 64
    return case[()]


def cases() -> list[np.void]:
    rng = np.random.default_rng(20)
    found = [_tiled(rng, "load", int(t), int(s), 0, 0) for t in ELEMENT for s in (0, 1, 2, 3) for _ in range(4)]
    found += [_tiled(rng, "load", int(t), int(rng.integers(0, 4)), 0, 1) for t in (6, 7, 8, 9, 10, 11, 12) for _ in range(6)]
    found += [_tiled(rng, "load", int(rng.integers(0, 10)), int(rng.integers(0, 4)), i, 0) for i in (1, 2) for _ in range(15)]
    found += [_tiled(rng, "store", int(t), int(s), 0, 0) for t in ELEMENT for s in (0, 1, 2, 3) for _ in range(2)]
    for op, types in REDUCTIONS.items():
        found += [_tiled(rng, f"red_{op}", int(t), int(rng.integers(0, 4)), 0, 0) for t in types for _ in range(5)]
    return found


_HEAD = """.version 8.6
.target sm_90a
.address_size 64
"""


def entry(
    name: str,
    operation: str,
    rank: int,
    *,
    parameters: str,
    loads: str,
    registers: str,
    expect: str = "ld.param.u32 %expect, [expect];",
    offset: str,
    buffer: int = BUFFER,
    mode: str = "tile",
    offsets: str = "",
) -> str:
    """A kernel that fills shared memory, performs one copy, and writes out what shared memory holds.

    ``parameters`` are those behind map, image and flag, ``loads`` what reads their coordinates; ``offset`` (a register or number) is where
    the copy begins; ``offsets`` are the im2col offsets of a load.
    """
    coordinates = "{" + ", ".join(f"%c{i}" for i in range(rank)) + "}"
    if operation == "load":
        copy = f"""
@!%p bra DONE;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %expect;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%dst], [%map, {coordinates}], [%bar]{offsets};
mov.u32 %n, 0;
LOOP:
mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], 0;
@%q bra FULL;
add.u32 %n, %n, 1;
setp.lt.u32 %r, %n, 2000;
@%r bra LOOP;
bra DONE;
FULL:
mov.u32 %n, 1;
st.global.u32 [%flag], %n;
DONE:
bar.sync 0;
"""
    else:
        head, tail = ("cp.async", "") if operation == "store" else ("cp.reduce.async", "." + operation.removeprefix("red_"))
        copy = f"""
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p bra DONE;
{head}.bulk.tensor.{rank}d.global.shared::cta{tail}.{mode}.bulk_group [%map, {coordinates}], [%dst];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
bar.sync 0;
"""
    start = "mov.u32 %v, 0xEEEEEEEE;" if operation == "load" else _pattern()
    return f"""
.visible .entry {name}(.param .u64 map, .param .u64 image, .param .u64 flag,{parameters})
{{
.reg .pred %p, %q, %r;
.reg .u64 %map, %image, %flag, %g;
.reg .s32 %c<5>;
{registers}
.shared .align 1024 .b8 buffer[{buffer}];
.shared .align 8 .b64 barrier;
ld.param.u64 %map, [map];
ld.param.u64 %image, [image];
ld.param.u64 %flag, [flag];
{loads}
{expect}
mov.u32 %t, %tid.x;
mov.u32 %a, buffer;
add.u32 %dst, %a, {offset};
mov.u32 %bar, barrier;
setp.eq.u32 %p, %t, 0;
mov.u32 %i, %t;
FILL:
shl.b32 %w, %i, 2;
add.u32 %w, %w, %a;
{start}
st.shared.u32 [%w], %v;
add.u32 %i, %i, 128;
setp.lt.u32 %r, %i, {buffer // 4};
@%r bra FILL;
@%p mbarrier.init.shared::cta.b64 [%bar], 1;
fence.proxy.async;
bar.sync 0;
{copy}
mov.u32 %i, %t;
OUT:
shl.b32 %w, %i, 2;
cvt.u64.u32 %g, %w;
add.u64 %g, %g, %image;
add.u32 %w, %w, %a;
ld.shared.u32 %v, [%w];
st.global.u32 [%g], %v;
add.u32 %i, %i, 128;
setp.lt.u32 %r, %i, {buffer // 4};
@%r bra OUT;
ret;
}}
"""


COORDINATES = "\n".join(f"ld.param.s32 %c{i}, [c{i}];" for i in range(5))


def _entry(operation: str, rank: int) -> str:
    return entry(
        f"{operation}_{rank}",
        operation,
        rank,
        parameters="\n " + ", ".join(f".param .s32 c{i}" for i in range(5)) + ", .param .u32 expect, .param .u32 offset",
        loads=COORDINATES,
        registers=".reg .u32 %expect, %offset, %t, %i, %a, %v, %w, %dst, %bar, %n;",
        expect="ld.param.u32 %expect, [expect];\nld.param.u32 %offset, [offset];",
        offset="%offset",
    )


def _pattern() -> str:
    """What shared memory holds before a store: a hash of the word's index."""
    return """mul.lo.u32 %v, %i, 0x9E3779B1;
shr.u32 %n, %v, 15;
xor.b32 %v, %v, %n;
mul.lo.u32 %v, %v, 0x85EBCA77;"""


def shared_pattern() -> NDArray[np.uint8]:
    """The same as an array."""
    v = np.arange(BUFFER // 4, dtype=np.uint32) * np.uint32(0x9E3779B1)
    v ^= v >> np.uint32(15)
    return (v * np.uint32(0x85EBCA77)).view(np.uint8)


def module() -> str:
    operations = ["load", "store", *(f"red_{op}" for op in REDUCTIONS)]
    return _HEAD + "".join(_entry(op, rank) for op in operations for rank in range(1, 6))
