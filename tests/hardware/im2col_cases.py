"""Tensor copies in im2col mode and with interleave, and the PTX that runs them on silicon.

Types and modes are the driver's numbers; dimensions innermost first. A store must not leave the tensor: its corners and coordinates are
chosen so.
"""

from __future__ import annotations

import numpy as np

from . import tma_cases as tiled

__all__ = ["BUFFER", "CASE", "WIDE", "cases", "module"]

BUFFER = 4096
"""Bytes of shared memory that a case shows."""
ROOM = 3072
OFFSET = 1024
"""Where the copy begins in it."""

CASE = np.dtype(
    [
        ("operation", "S16"), ("im2col", "?"), ("type", "<i4"), ("rank", "<i4"),
        ("dims", "<u8", 5), ("strides", "<u8", 4), ("box", "<u4", 5), ("steps", "<u4", 5),
        ("lower", "<i4", 3), ("upper", "<i4", 3), ("channels", "<u4"), ("pixels", "<u4"),
        ("interleave", "<i4"), ("swizzle", "<i4"), ("fill", "<i4"), ("coordinates", "<i4", 5), ("offsets", "<u2", 3),
        ("expect", "<u4"), ("seed", "<u4"), ("size", "<u4"), ("done", "<u4"),
    ]
)  # fmt: skip
"""``done``: the mbarrier's phase completed with ``expect`` bytes."""

WIDE = np.dtype(
    [
        ("rank", "<i4"),
        ("lower", "<i4"),
        ("upper", "<i4"),
        ("pixels", "<u4"),
        ("mode", "<i4"),
        ("swizzle", "<i4"),
        ("error", "<i4"),
        ("bytes", "u1", 128),
    ]
)
"""A call of the encoder of maps for ``im2col::w``: f16, channels 16, dimensions 16, 400, 400 ..."""

REDUCTIONS = {"add": (2, 3, 4, 6, 7, 9), "min": (3, 6), "max": (2, 9), "xor": (2,)}


def _tensor(rng: np.random.Generator, case: np.void, room: int) -> int:
    """Choose dimensions and strides; returns the bytes of a pixel that are copied.

    Without interleave dimension 0 is that of channels. With it, channels come in slices of 16 or 32 bytes that no dimension counts: first
    the dimensions of the image, then that of slices, then that of images.
    """
    element = tiled.ELEMENT[int(case["type"])]
    rank, interleave, swizzle = int(case["rank"]), int(case["interleave"]), int(case["swizzle"])
    unit = 16 * max(interleave, 1)
    if interleave == 2 and swizzle:
        case["swizzle"] = swizzle = 1
    width = {1: 32, 2: 64, 3: 128}.get(swizzle, 128)
    inner = unit if interleave else 16 * int(rng.integers(1, width // 16 + 1))
    image = [int(rng.integers(1, room)) for _ in range(rank - 2)]
    batch = int(rng.integers(1, 4))
    if interleave:
        dims, span = [*image, int(rng.integers(1, 4)), batch], image[0] * unit
    else:
        dims = [max(1, int(rng.integers(inner // element // 2, 2 * inner // element + 2))), *image, batch]
        span = -(-dims[0] * element // unit) * unit
    pitches = []
    for size in dims[1:]:
        pitches.append(span + unit * int(rng.integers(0, 2)))
        span = pitches[-1] * size
    case["dims"][:rank], case["strides"][: rank - 1] = dims, pitches
    case["seed"], case["size"] = int(rng.integers(0, 1 << 30)), span + 64
    return inner


def _row(case: np.void, inner: int) -> int:
    """Bytes of shared memory for a pixel."""
    return inner if case["interleave"] else max(inner, {1: 32, 2: 64, 3: 128}.get(int(case["swizzle"]), 0))


def _im2col(rng: np.random.Generator, operation: str, type: int, interleave: int, outside: bool = False) -> np.void:
    """``outside``: the base of the filter may lie outside the bounding box."""
    case = np.zeros((), CASE)
    load = operation == "load"
    case["operation"], case["im2col"], case["type"] = operation.encode(), True, type
    case["rank"], case["swizzle"], case["interleave"] = rng.integers(3, 6), rng.integers(0, 4), interleave
    case["fill"] = load and type in (6, 7, 8, 9, 10, 11, 12) and rng.random() < 0.3
    rank = int(case["rank"])
    inner = _tensor(rng, case, {3: 24, 4: 9, 5: 6}[rank] if load else {3: 12, 4: 6, 5: 4}[rank])
    element = tiled.ELEMENT[type]
    first = 0 if interleave else 1
    image = []
    case["steps"] = 1
    for d in range(rank - 2):
        size = int(case["dims"][first + d])
        low = min(int(rng.integers(-2 if load else 0, 3)), size - 1)
        high = int(rng.integers(max(-2, low - size + 1), 3 if load else 1))
        case["lower"][d], case["upper"][d] = low, high
        case["steps"][first + d] = rng.integers(1, 4) if rng.random() < 0.4 else 1
        image.append(int(rng.integers(low, size + high)) + (int(rng.integers(-2, 3)) if outside else 0))
        case["offsets"][d] = rng.integers(0, 4) if load and rng.random() < 0.6 else 0
    batch = int(rng.integers(0, int(case["dims"][rank - 1])))
    if load and rng.random() < 0.1:
        batch = int(rng.choice([-1, int(case["dims"][rank - 1])]))
    if interleave:
        slices = int(case["dims"][rank - 2])
        coordinates = [*image, int(rng.integers(-1, slices + 1) if load else rng.integers(0, slices)), batch]
    else:
        channel = 16 // element * int(rng.integers(-2 if load else 0, 4)) if rng.random() < 0.4 else 0
        coordinates = [channel, *image, batch]
    case["coordinates"][:rank] = coordinates
    case["pixels"] = rng.integers(1, min(ROOM // _row(case, inner), 60) + 1)
    case["channels"] = inner // element
    case["expect"] = inner * int(case["pixels"])
    return case[()]


def _interleaved(rng: np.random.Generator, operation: str, type: int, interleave: int) -> np.void:
    """A tile of pixels: channels of one slice."""
    case = np.zeros((), CASE)
    case["operation"], case["type"], case["interleave"] = operation.encode(), type, interleave
    case["rank"], case["swizzle"] = rng.integers(3, 6), rng.integers(0, 4)
    rank = int(case["rank"])
    inner = _tensor(rng, case, 12 if rank < 5 else 5)
    # The driver wants whole 16 bytes of elements along dimension 0, though there it counts pixels.
    least = max(16 // tiled.ELEMENT[type], 1)
    room, count = ROOM // inner, inner
    box, coordinates = [], []
    for d in range(rank):
        size = least * int(rng.integers(1, 3)) if d == 0 else int(rng.integers(1, max(2, min(room, 8) + 1)))
        step = int(rng.integers(1, 3)) if rng.random() < 0.4 else 1
        steps = -(-size // step)
        box.append(size)
        case["steps"][d] = step
        if d != rank - 2:
            count *= steps
            room //= max(steps, 1)
        low = -2 if operation == "load" else 0
        coordinates.append(int(rng.integers(low, int(case["dims"][d]) + 1)) if rng.random() < 0.6 else 0)
    case["steps"][rank:] = 1
    case["box"][:rank], case["coordinates"][:rank], case["expect"] = box, coordinates, count
    return case[()]


def cases() -> list[np.void]:
    rng = np.random.default_rng(63)
    found = [_im2col(rng, "load", t, 0) for t in tiled.ELEMENT for _ in range(18)]
    found += [_im2col(rng, "load", int(rng.choice([0, 1, 2, 6, 7, 8])), i) for i in (1, 2) for _ in range(24)]
    found += [_im2col(rng, "store", t, 0) for t in tiled.ELEMENT for _ in range(4)]
    found += [_im2col(rng, "store", int(rng.choice([0, 1, 2, 6, 7, 8])), i) for i in (1, 2) for _ in range(6)]
    found += [_im2col(rng, f"red_{op}", t, int(rng.integers(0, 3))) for op, types in REDUCTIONS.items() for t in types for _ in range(2)]
    found += [_interleaved(rng, "load", int(rng.integers(0, 10)), i) for i in (1, 2) for _ in range(20)]
    found += [_interleaved(rng, "store", int(rng.integers(0, 10)), i) for i in (1, 2) for _ in range(12)]
    found += [_interleaved(rng, f"red_{op}", t, i) for op, types in REDUCTIONS.items() for t in types for i in (1, 2)]
    # What may end the kernel comes last.
    return found + [_im2col(rng, "load", 1, 0, outside=True) for _ in range(12)]


def _entry(operation: str, im2col: bool, rank: int) -> str:
    mode = ("im2col" if operation == "load" else "im2col_no_offs") if im2col else "tile"
    parameters = ", ".join([f".param .s32 c{i}" for i in range(5)] + [f".param .u32 o{i}" for i in range(3)])
    return tiled.entry(
        f"{operation}_{'im2col' if im2col else 'tile'}_{rank}",
        operation,
        rank,
        parameters=f" .param .u32 expect,\n {parameters}",
        loads=tiled.COORDINATES + "\n" + "\n".join(f"ld.param.u32 %v, [o{i}];\ncvt.u16.u32 %h{i}, %v;" for i in range(3)),
        registers=".reg .u16 %h<3>;\n.reg .u32 %expect, %t, %i, %a, %v, %w, %dst, %bar, %n;",
        offset=str(OFFSET),
        buffer=BUFFER,
        mode=mode,
        offsets=", {" + ", ".join(f"%h{i}" for i in range(rank - 2)) + "}" if im2col else "",
    )


def module() -> str:
    operations = ["load", "store", *(f"red_{op}" for op in REDUCTIONS)]
    entries = [_entry(op, im2col, rank) for op in operations for im2col in (False, True) for rank in range(3, 6)]
    return ".version 8.6\n.target sm_90a\n.address_size 64\n" + "".join(entries)
