"""Matrix multiplications of triton_kernels, gluon_kernels and gemm_kernels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .case_helpers import Array, Case, Expected, Family, cdiv, descriptor, descriptors, for_hopper
from .input_helpers import integers, matrix
from .reference_helpers import DTYPES, chain, product, rounded


def expected(name: str, a: Array, b: Array, element: str, block_k: int, to: str) -> Expected:
    """The product a [M, K] times b [N, K]: exact bits and a float64 value."""
    hopper = for_hopper(name)
    bits = rounded(chain(a, b, element, block_k, arch="wgmma" if hopper else "tcgen05"), to)
    near, tolerance = product(a, b, to, cdiv(a.shape[1], 8), element, 11 if hopper and a.itemsize == 1 else 23)
    return Expected(bits, near, tolerance)


def integer_product(a: Array, b: Array) -> Expected:
    """The product of int8 matrices, wrapped to 32 bits."""
    exact = a.astype(np.int64) @ b.astype(np.int64).T
    return Expected(exact.astype(np.int32), exact.astype(np.float64))


def operands(m: int, n: int, k: int, element: str, wild: bool) -> tuple[Array, Array]:
    return matrix((m, k), element, 1, wild), matrix((n, k), element, 2, wild, small=True)


def raw(array: Array) -> Array:
    """8-bit elements as bytes, as tensor maps and kernels see them."""
    return array.view(np.uint8) if array.itemsize == 1 else array


def mm_ptr(name: str, element: str, to: str, block_k: int, m: int, n: int, k: int, wild: bool = False) -> Case:
    """b is [K, N]; rows and columns wrap on loading, K is masked, the store is masked."""
    a, b = operands(m, n, k, element, wild)
    c = np.zeros((m, n), DTYPES[to])
    args = [a, np.ascontiguousarray(b.T), c, m, n, k, k, n, n]
    programs = (cdiv(m, 128) * cdiv(n, 128),)
    return Case(name, programs, args, {"c": expected(name, a, b, element, block_k, to)}, {"c": c})


def mm_bt(name: str, element: str, m: int, n: int, k: int, wild: bool = False) -> Case:
    """b is [N, K]; the store is not masked, so c has whole tiles, and rows past M repeat the first ones."""
    rows, columns = (np.arange(cdiv(x, 128) * 128) % x for x in (m, n))
    if element == "int8":
        a, b = integers((m, k), -128, 128, 1, "int8"), integers((n, k), -128, 128, 2, "int8")
        c = np.zeros((len(rows), len(columns)), np.int32)
        want = integer_product(a[rows], b[columns])
    else:
        a, b = operands(m, n, k, element, wild)
        c = np.zeros((len(rows), len(columns)), np.float16)
        want = expected(name, a[rows], b[columns], element, 128, "f16")
    args = [raw(a), raw(b), c, m, n, k, k, k, c.shape[1]]
    return Case(name, (cdiv(m, 128) * cdiv(n, 128),), args, {"c": want}, {"c": c})


def mm_device_desc(name: str, m: int, n: int, k: int, wild: bool = False) -> Case:
    a, b = operands(m, n, k, "f16", wild)
    c = np.zeros((m, n), np.float16)
    programs = (cdiv(m, 128) * cdiv(n, 128),)
    return Case(name, programs, [a, b, c, m, n, k], {"c": expected(name, a, b, "f16", 64, "f16")}, {"c": c})


def mm_host_desc(name: str, block: tuple[int, int], limit: int, m: int, n: int, k: int, wild: bool = False) -> Case:
    """One-dimensional grid of at most `limit` programs; a, b [N, K] and c by tensor maps, then M, N, K."""
    a, b = operands(m, n, k, "f16", wild)
    c = np.zeros((m, n), np.float16)
    maps = descriptors(name, a, b, c)
    programs = (min(limit, cdiv(m, block[0]) * cdiv(n, block[1])),)
    return Case(name, programs, [*maps, m, n, k], {"c": expected(name, a, b, "f16", 64, "f16")}, {"c": c})


def tiled(
    name: str, element: str, to: str, block: tuple[int, int, int], m: int, n: int, k: int, transposed: bool = False, wild: bool = False
) -> Case:
    """Two-dimensional grid, a, b and c by tensor maps, then K; `transposed`: b is [K, N] in memory."""
    if element == "int8":
        a, b = integers((m, k), -128, 128, 1, "int8"), integers((n, k), -128, 128, 2, "int8")
        c = np.zeros((m, n), np.int32)
        want = integer_product(a, b)
    else:
        a, b = operands(m, n, k, element, wild)
        c = np.zeros((m, n), DTYPES[to])
        want = expected(name, a, b, element, block[2], to)
    stored = np.ascontiguousarray(b.T) if transposed else b
    maps = descriptors(name, raw(a), raw(stored), c)
    return Case(name, (cdiv(m, block[0]), cdiv(n, block[1])), [*maps, k], {"c": want}, {"c": c})


def a_in_tmem(name: str, m: int, k: int, wild: bool = False) -> Case:
    """a by plain loads, so whole tiles only; b is [K, 128]."""
    a, b = operands(m, 128, k, "f16", wild)
    c = np.zeros((m, 128), np.float32)
    args = [a, *descriptor(name, 0, np.ascontiguousarray(b.T)), c, k]
    return Case(name, (m // 128,), args, {"c": expected(name, a, b, "f16", 64, "f32")}, {"c": c})


def stored_directly(name: str, element: str, block: tuple[int, int, int], m: int, n: int, k: int, wild: bool = False) -> Case:
    """a and b [N, K] by tensor maps, c by plain stores of whole tiles, then N, K."""
    a, b = operands(m, n, k, element, wild)
    programs = (m // block[0], n // block[1])
    if name.endswith("acc16"):
        c: Array = np.zeros((m, n), np.float16)
        bits = chain(a, b, element, block[2], d="f16").astype(np.uint16).view(np.float16)
        near, tolerance = product(a, b, "f16", cdiv(k, 16))
        steps = cdiv(k, 16)
        tolerance += steps * 2.0**-11 * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T) + steps * 2.0**-24
        want = Expected(bits, near, tolerance)
    else:
        c = np.zeros((m, n), np.float32)
        want = expected(name, a, b, element, block[2], "f32")
    args = [*descriptor(name, 0, a), *descriptor(name, 1, b), c, n, k]
    return Case(name, programs, args, {"c": want}, {"c": c})


def split_k(name: str, m: int, n: int, k: int) -> Case:
    """Atomic sums: small whole numbers, so that every order gives the same bits."""
    a, b = (integers(shape, -4, 5, seed, "float16") for shape, seed in (((m, k), 1), ((n, k), 2)))
    c = np.zeros((m, n), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    want = Expected(exact.astype(np.float32), exact)
    return Case(name, (m // 128, n // 64, 4), [a, b, c, m, n, k], {"c": want}, {"c": c}, order_dependent=True)


def weights(name: str, m: int, n: int, k: int, wild: bool = False) -> Case:
    """b is [K, N] of int8, by tensor maps in the kernel with descriptors."""
    a, b = matrix((m, k), "f16", 1, wild), integers((n, k), -128, 128, 2, "int8")
    c, across = np.zeros((m, n), np.float16), np.ascontiguousarray(b.T)
    args = [*descriptors(name, a, across, c), k] if "desc" in name else [a, across, c, m, n, k]
    return Case(name, (m // 128, n // 128), args, {"c": expected(name, a, b.astype(np.float16), "f16", 64, "f16")}, {"c": c})


def split_k_ordered(name: str, m: int, n: int, k: int, wild: bool = False) -> Case:
    """Four programs of a tile add their part of K one after the other."""
    a, b = operands(m, n, k, "f16", wild)
    c, locks = np.full((m, n), np.nan, np.float32), np.zeros((m // 64) * (n // 128), np.int32)
    bits = None
    for part in range(4):
        mine = np.concatenate([np.arange(k)[s : s + 64] for s in range(part * 64, k, 256)])
        own = chain(a[:, mine], b[:, mine], "f16", 64).view(np.float32)
        bits = own if bits is None else own + bits
    near, tolerance = product(a, b, "f32", k // 16 + 4)
    want = {"c": Expected(bits, near, tolerance), "locks": Expected(np.full_like(locks, 4))}
    args = [a, b, c, locks, m, n, k]
    return Case(name, (len(locks), 4), args, want, {"c": c, "locks": locks})


def batched(name: str, batch: int, m: int, n: int, k: int, wild: bool = False) -> Case:
    """a [B, M, K], b [B, K, N], c [B, M, N] by three-dimensional tensor maps."""
    pairs = [(matrix((m, k), "f16", 2 * i, wild), matrix((n, k), "f16", 2 * i + 1, wild)) for i in range(batch)]
    each = [expected(name, a, b, "f16", 64, "f16") for a, b in pairs]
    a, b = np.stack([a for a, _ in pairs]), np.ascontiguousarray(np.stack([b.T for _, b in pairs]))
    c = np.zeros((batch, m, n), np.float16)
    maps = descriptors(name, a, b, c)
    want = Expected(*(np.stack([getattr(e, f) for e in each]) for f in ("bits", "near", "atol")))
    return Case(name, (cdiv(m, 128), cdiv(n, 128), batch), [*maps, k], {"c": want}, {"c": c})


def sizes(*shapes: tuple[int, int, int], wild: tuple[int, int, int] | None = None, ragged: tuple[int, int, int] | None = None) -> Any:
    """Named sizes of M, N, K."""
    named = {"x".join(map(str, s)): dict(zip("mnk", s, strict=True)) for s in shapes}
    if ragged:
        named["ragged"] = dict(zip("mnk", ragged, strict=True))
    if wild:
        named["wild"] = dict(zip("mnk", wild, strict=True), wild=True)
    return named


def family(make: Any, name: str, *fixed: Any, sizes: dict[str, Any], **more: Any) -> dict[str, Family]:
    return {name: Family(partial(make, name, *fixed, **more), sizes)}


ODD = (208, 176, 112)
CASES: dict[str, Family] = {
    **family(mm_ptr, "mm_ptr_fp16", "f16", "f16", 64, sizes=sizes((128, 128, 192), (256, 256, 128), ragged=ODD, wild=(128, 128, 128))),
    **family(mm_ptr, "mm_ptr_tf32", "tf32", "f32", 32, sizes=sizes((128, 128, 96), (256, 256, 64), ragged=ODD, wild=(128, 128, 64))),
    **family(mm_bt, "mm_bt_e4m3", "e4m3", sizes=sizes((128, 128, 256), (256, 256, 128), ragged=(208, 176, 384), wild=(128, 128, 128))),
    **family(mm_bt, "mm_bt_int8", "int8", sizes=sizes((128, 128, 256), (256, 256, 128), ragged=(208, 176, 384))),
    **family(mm_device_desc, "mm_device_desc_fp16", sizes=sizes((128, 128, 192), (256, 256, 128), ragged=ODD, wild=(128, 128, 128))),
    **family(
        mm_host_desc,
        "mm_host_desc_fp16_cta2",
        (256, 128),
        1 << 30,
        sizes=sizes((256, 128, 192), (512, 256, 128), ragged=(272, 144, 80), wild=(256, 128, 64)),
    ),
    **family(
        mm_host_desc,
        "mm_persistent_ws_fp16",
        (128, 128),
        148,
        sizes=sizes((128, 128, 192), (256, 256, 128), (1664, 1536, 64), ragged=ODD, wild=(128, 128, 128)),
    ),
    **family(
        tiled,
        "gl_mm_fp16",
        "f16",
        "f16",
        (128, 128, 64),
        transposed=True,
        sizes=sizes((128, 128, 192), (256, 256, 128), ragged=ODD, wild=(128, 128, 128)),
    ),
    **family(
        tiled,
        "gl_mm_fp16_m64",
        "f16",
        "f16",
        (64, 64, 64),
        sizes=sizes((64, 64, 192), (128, 192, 128), ragged=(80, 112, 176), wild=(64, 64, 128)),
    ),
    **family(tiled, "gl_mm_i8", "int8", "", (128, 64, 64), sizes=sizes((128, 64, 192), (256, 128, 128), ragged=(208, 112, 176))),
    **family(
        a_in_tmem,
        "gl_mm_a_in_tmem_fp16",
        sizes={"128x192": {"m": 128, "k": 192}, "384x128": {"m": 384, "k": 128}, "wild": {"m": 128, "k": 128, "wild": True}},
    ),
    **family(
        tiled,
        "gl_mm_2cta_fp16",
        "f16",
        "f16",
        (256, 128, 64),
        transposed=True,
        sizes=sizes((256, 128, 192), (512, 256, 128), ragged=(272, 144, 80), wild=(256, 128, 64)),
    ),
    **family(
        tiled,
        "mm_tile_128x256_bf16",
        "bf16",
        "bf16",
        (128, 256, 64),
        sizes=sizes((128, 256, 128), (256, 512, 64), ragged=(144, 272, 80), wild=(128, 256, 64)),
    ),
    **family(
        tiled,
        "mm_tile_64x64_fp16",
        "f16",
        "f16",
        (64, 64, 32),
        sizes=sizes((64, 64, 96), (128, 192, 64), ragged=(80, 112, 48), wild=(64, 64, 64)),
    ),
    **family(
        tiled,
        "mm_tile_64x128_e5m2",
        "e5m2",
        "f32",
        (64, 128, 64),
        sizes=sizes((64, 128, 192), (128, 256, 128), ragged=(80, 144, 176), wild=(64, 128, 128)),
    ),
    **family(tiled, "mm_tile_cta4_fp16", "f16", "f16", (256, 256, 64), sizes=sizes((256, 256, 128), (512, 256, 64), ragged=(272, 144, 80))),
    **family(
        tiled, "gl_mm_e5m2", "e5m2", "f16", (128, 128, 128), sizes=sizes((128, 128, 256), ragged=(144, 208, 176), wild=(128, 128, 128))
    ),
    **family(
        stored_directly,
        "gl_mm_fp16_acc16",
        "f16",
        (128, 64, 64),
        sizes=sizes((128, 64, 192), (256, 128, 128), wild=(128, 64, 128)),
    ),
    **family(
        stored_directly,
        "gl_mm_multicast_bf16",
        "bf16",
        (256, 128, 64),
        sizes=sizes((256, 128, 192), (512, 256, 64), wild=(256, 128, 64)),
    ),
    **family(weights, "mm_weights_int8", sizes=sizes((128, 128, 192), (256, 128, 128), wild=(128, 128, 64))),
    **family(weights, "mm_desc_weights_int8", sizes=sizes((128, 128, 192), (128, 256, 128), wild=(128, 128, 64))),
    **family(split_k, "mm_split_k_fp16", sizes=sizes((128, 64, 512), (256, 128, 256))),
    **family(split_k_ordered, "mm_split_k_ordered_fp16", sizes=sizes((64, 128, 512), (128, 256, 256), wild=(64, 128, 256))),
    **family(
        batched,
        "mm_batched_fp16",
        sizes={
            "2x128x128x128": {"batch": 2, "m": 128, "n": 128, "k": 128},
            "ragged": {"batch": 3, "m": 144, "n": 80, "k": 112},
        },
    ),
}
