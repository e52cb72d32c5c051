"""The kernels of ``copies.cu``: tensor copies of every kind, convolution, split-K."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

THREADS = 128


def coordinates(rows: Any) -> Any:
    """Rows of five integers."""
    found = np.zeros((len(rows), 5), np.int32)
    for i, row in enumerate(rows):
        found[i, : len(row)] = row
    return found


def tiles(
    kind: str, dims: tuple[int, ...], box: tuple[int, ...], where: list[tuple[int, ...]], swizzles: tuple[str, str], **options: Any
) -> Kernel:
    """Boxes of a tensor at coordinates ``where``, in and outside, to places one after the other. Dimensions innermost first."""
    rank = len(dims)
    steps = options.get("element_strides", (1,) * rank)
    taken = tuple(-(-b // s) for b, s in zip(box, steps, strict=True))
    source = full(41, kind, *reversed(dims)) if kind[0] != "u" else ordinary(41, kind, *reversed(dims))
    # The last box is cut off by the end of the tensor.
    target_dims = [*taken[:-1], taken[-1] * len(where) - (taken[-1] > 1)] if rank > 1 else [taken[0] * len(where) - 4]
    target = np.zeros(target_dims[::-1], source.dtype)
    maps = [TensorMap(source, box, swizzles[0], **options), TensorMap(target, taken, swizzles[1])]
    starts = [row for i, at in enumerate(where) for row in (at, (*(0,) * (rank - 1), i * taken[-1]))]
    size = int(np.prod(taken)) * source.itemsize
    stride = -(-size // 1024) * 1024
    args = [*maps, coordinates(starts), len(where) // 2, size]
    return case("copies", f"tiles_{rank}d", args, [target], inputs=kind, grid=2, block=THREADS, shared_bytes=2 * stride)


def every_tile() -> list[Kernel]:
    five = [(c, *rest) for c in (-4, 0) for rest in product((-1, 1), (0, 2), (-1,), (0, 1))]
    return [
        tiles("f32", (1000,), (128,), [(x,) for x in (-128, -64, 0, 200, 444, 900, 992, 1004)], ("none", "none"), oob_fill="nan"),
        tiles("bf16", (200, 77), (64, 24), [(x, y) for x in (-32, 64, 152) for y in (-5, 60)], ("128B", "none"), oob_fill="nan"),
        tiles("u8", (96, 19, 7), (64, 9, 3), [(x, y, 5) for x in (-16, 48) for y in (-2, 12)], ("64B", "64B"), element_strides=(1, 2, 1)),
        tiles("f16", (40, 9, 6, 5), (16, 4, 3, 2), [(x, -1, y, 3) for x in (-8, 32) for y in (-2, 4)], ("32B", "none"), oob_fill="nan"),
        tiles("u32", (12, 5, 4, 3, 3), (8, 3, 2, 2, 2), five, ("none", "32B")),
    ]


def im2col(
    kind: str, shape: tuple[int, ...], lower: tuple[int, ...], upper: tuple[int, ...], channels: int, pixels: int, swizzle: str
) -> Kernel:
    """Columns of pixels from an image in NHWC, with offsets of the filter, to an image of the same size."""
    image, out = full(42, kind, *shape), np.zeros(shape, np.dtype(ordinary(1, kind, 1).dtype))
    spatial = len(lower)
    maps = [
        TensorMap.im2col(image, lower, upper, channels, pixels, swizzle, oob_fill="nan"),
        TensorMap.im2col(out, (0,) * spatial, (0,) * spatial, channels, pixels, swizzle),
    ]
    rows = []
    inside = shape[-2:0:-1]  # W, H, D
    total = int(np.prod(inside)) * shape[0]
    for i, pixel in enumerate(range(0, total, pixels)):
        at, rest = [], pixel
        for size in inside:
            at.append(rest % size)
            rest //= size
        low = [min(a + b, s - 1 + u) for a, b, s, u in zip(at, lower, inside, upper, strict=True)]
        rows += [(0, *low, rest), tuple((i + d) % 3 for d in range(spatial)), (0, *at, rest)]
    args = [*maps, coordinates(rows), len(rows) // 3, channels * pixels * image.itemsize]
    return case(
        "copies", f"im2col_{spatial + 2}d", args, [out], block=THREADS, shared_bytes=-(-channels * pixels * image.itemsize // 1024) * 1024
    )


def convolution(inputs: str = "") -> Kernel:
    n, h, w, c, k = 2, 9, 11, 128, 128
    image, filters, out = ordinary(43, "f16", n, h, w, c), ordinary(44, "f16", k, 9 * c), np.zeros((n, h, w, k), np.float16)
    if inputs == "special":
        special(image, "f16", {(0, 4, 4, 7): NAN, (1, 8, 10, 3): INF})
        special(filters, "f16", {(70, 100): 0.0, (70, 900): -INF})
    maps = [
        TensorMap.im2col(image, (-1, -1), (-1, -1), 64, 64, "128B"),
        TensorMap(filters, (64, 64), "128B"),
        TensorMap.im2col(out, (0, 0), (0, 0), 64, 64, "128B"),
    ]
    firsts = range(0, n * h * w, 64)
    pixels = [(p % w, p // w % h, p // w // h) for p in firsts]
    starts = coordinates([row for x, y, z in pixels for row in ((0, x - 1, y - 1, z), (0, x, y, z))])
    return case("copies", "convolution", [*maps, starts, 3, k, c], [out], inputs=inputs, grid=(len(firsts), k // 64), block=THREADS)


def reduction(operation: str, kind: str, contributions: int) -> Kernel:
    """``contributions`` tiles for each place: 1 where the order matters."""
    rows, columns = 64, 128 // ordinary(1, kind, 1).itemsize
    make: Any = full if kind in ("f16", "bf16", "f32") else ordinary
    tensors = make(45, kind, contributions * rows, columns)
    target = make(46, kind, rows, columns)
    if make is full:
        special(tensors, kind, {(3, 5): NAN, (7, 1): INF, (9, 2): -INF, (20, 3): 0.0})
        special(target, kind, {(5, 5): NAN, (7, 1): -INF, (9, 2): -INF, (20, 3): -0.0})
    maps = [TensorMap(tensors, (columns, 16)), TensorMap(target, (columns, 16))]
    grid = contributions * rows // 16
    return case("copies", f"reduce_{operation}", [*maps, rows], [target], inputs=kind, grid=grid, block=THREADS)


def split_k() -> Kernel:
    a, b = ordinary(47, "s8", 128, 1024).view(np.uint8), ordinary(48, "s8", 64, 1024).view(np.uint8)
    d = integers(49, -(1 << 20), 1 << 20, 128, 64)
    maps = [TensorMap(a, (128, 64), "128B"), TensorMap(b, (128, 64), "128B"), TensorMap(d, (32, 64), "128B")]
    return case("copies", "split_k", [*maps, 2], [d], grid=(2, 1, 4), block=THREADS)


def kernels() -> list[Kernel]:
    return [
        *every_tile(),
        im2col("f16", (3, 50, 32), (-2,), (1,), 32, 40, "64B"),
        im2col("bf16", (2, 9, 11, 64), (-1, -2), (-1, 0), 64, 48, "128B"),
        im2col("f32", (2, 4, 5, 6, 8), (-1, 0, -1), (0, -1, -1), 8, 32, "32B"),
        convolution(),
        convolution("special"),
        *(reduction("add", kind, 4) for kind in ("u32", "s32")),
        *(reduction("add", kind, 1) for kind in ("f16", "bf16", "f32")),
        *(reduction(operation, kind, 4) for operation in ("min", "max") for kind in ("u32", "s32")),
        *(reduction(operation, kind, 1) for operation in ("min", "max") for kind in ("f16", "bf16")),
        *(reduction(operation, "u32", 1) for operation in ("inc", "dec")),
        *(reduction(operation, "u32", 4) for operation in ("and", "or", "xor")),
        split_k(),
    ]
