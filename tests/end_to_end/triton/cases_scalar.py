"""scalar_kernels, and the gluon_extra kernels without a matrix product: nearly all exact."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

from .case_helpers import Array, Case, Expected, Family, cdiv, descriptor, launch_info
from .input_helpers import integers, matrix
from .reference_helpers import fma, philox


def vector_add(name: str, n: int) -> Case:
    x, y = matrix((n,), "f32", 1, wild=True), matrix((n,), "f32", 2, wild=True)
    z = np.zeros_like(x)
    return Case(name, (cdiv(n, 512),), [x, y, z, n], {"z": Expected(x + y)}, {"z": z})


def histogram(name: str, n: int) -> Case:
    x, counts = integers((n,), 0, 64, 1), np.zeros(64, np.int32)
    want = Expected(np.bincount(x, minlength=64).astype(np.int32))
    return Case(name, (cdiv(n, 512),), [x, counts, n], {"counts": want}, {"counts": counts})


def scan_rows(name: str, rows: int, cols: int) -> Case:
    x = integers((rows, cols), -50, 50, 1)
    sums, best, where = np.zeros_like(x), np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    want = {
        "sums": Expected(x.cumsum(1, dtype=np.int32)),
        "best": Expected(x.max(1)),
        "where": Expected(x.argmax(1).astype(np.int32)),
    }
    return Case(name, (rows,), [x, sums, best, where, cols], want, {"sums": sums, "best": best, "where": where})


def special_floats(n: int) -> Array:
    """Values around the limits and the ties of the narrow types, then random ones."""
    edges = [0, 1, 2.0**-24, 2.0**-25, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 448, 456, 464, 480, 57344, 61440, 65504, 65520, 1e9, 2.0**31]
    edges += [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 1.0625, 1.1875, 1.125, 3.5, 255.5, 2.0**-149, 3e38, np.inf]
    x = np.concatenate([np.array(edges), -np.array(edges), np.random.default_rng(1).standard_normal(n) * 100])[:n]
    return x.astype(np.float32)


def convert(name: str, n: int) -> Case:
    """.satfinite for the 8-bit types, rounding toward zero with clamping for the integers."""
    x = special_floats(n)
    with np.errstate(over="ignore"):
        narrow = {
            "f16": x.astype(np.float16),
            "bf16": x.astype(ml_dtypes.bfloat16),
            "e4m3": np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn),
            "e5m2": np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2),
        }
        back = narrow["bf16"].astype(np.float32) + narrow["e4m3"].astype(np.float32) + narrow["e5m2"].astype(np.float32)
    whole = np.clip(np.trunc(x.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int32)
    magnitude = np.clip(np.trunc(np.abs(x.astype(np.float64))), 0, 2**31 - 1).astype(np.int32)
    results = narrow | {"back": back, "i32": whole, "u8": magnitude.astype(np.uint8)}
    results = {k: v.view(np.uint8) if k in ("e4m3", "e5m2") else v for k, v in results.items()}
    outputs = {k: np.zeros_like(v) for k, v in results.items()}
    want = {k: Expected(v) for k, v in results.items()}
    return Case(name, (cdiv(n, 512),), [x, *outputs.values(), n], want, outputs)


def integer_mixture(name: str, n: int) -> Case:
    """Division truncates toward zero and the remainder has the sign of the dividend."""
    a, b = integers((n,), -(2**31) + 1, 2**31, 1), integers((n,), -(2**31) + 1, 2**31, 2)
    b[::3] %= 100
    b[b == 0] = 7
    out, wide = np.zeros((10, n), np.int32), np.zeros((3, n), np.int64)
    la, lb, ua, ub = a.astype(np.int64), b.astype(np.int64), a.view(np.uint32), b.view(np.uint32)
    quotient = np.sign(la) * np.sign(lb) * (np.abs(la) // np.abs(lb))
    product = ua.astype(np.uint64) * ub.astype(np.uint64)
    shift = b & 31
    random = philox(7, np.arange(n, dtype=np.uint32))
    words = [
        quotient,
        la - quotient * lb,
        ua // ub,
        ua % ub,
        product >> np.uint64(32),
        (a << shift) ^ (a >> shift),
        (ua >> shift.view(np.uint32)) | (ua & ~ub),
        np.minimum(np.abs(a), np.maximum(a, b)),
        random[0],
        random[1] ^ random[2] ^ random[3],
    ]
    cube = la * la * la
    truncated = cube // lb + ((cube % lb != 0) & ((cube < 0) != (lb < 0)))
    wides = [la * lb + (la << 7), truncated, product.view(np.int64)]
    want = {
        "out": Expected(np.stack([w.astype(np.uint64).astype(np.uint32) for w in words]).view(np.int32)),
        "wide": Expected(np.stack(wides)),
    }
    return Case(name, (cdiv(n, 256),), [a, b, out, wide, n], want, {"out": out, "wide": wide})


def sort_rows(name: str, rows: int) -> Case:
    x = matrix((rows, 256), "f32", 1)
    y = np.zeros_like(x)
    return Case(name, (rows,), [x, y], {"y": Expected(np.sort(x, 1))}, {"y": y})


def transpose(name: str, rows: int, cols: int) -> Case:
    x, y = matrix((rows, cols), "f16", 1), np.zeros((cols, rows), np.float16)
    want = {"y": Expected(np.ascontiguousarray(x.T))}
    return Case(name, (cdiv(rows, 64), cdiv(cols, 64)), [x, y, rows, cols], want, {"y": y})


def elementary(name: str, n: int) -> Case:
    """Rounded operations exactly, approximations within what the ISA states for them."""
    generator = np.random.default_rng(1)
    x = (generator.standard_normal(n) * 4).astype(np.float32)
    x[:8] = [1, -1, 0.5, 2, 1e5, -3e6, 1e-3, 88]
    v, p = x.astype(np.float64), np.abs(x).astype(np.float64)
    out = np.zeros((12, n), np.float32)
    with np.errstate(over="ignore"):
        exp = np.exp(v)
    big = exp > 3e38
    near = [
        (np.where(big, np.inf, exp), 1e-6 * (1 + p) * exp),
        (np.log(p), 1e-6 * (1 + np.abs(np.log(p)))),
        (np.sin(v), 2e-6),
        (np.cos(v), 2e-6),
        (1 / np.sqrt(p), 1e-6 / np.sqrt(p)),
        (np.sqrt(p), 1e-6 * np.sqrt(p)),
    ]
    one, quarter = np.float32(1), np.float32(0.25)
    want = {f"out/{i}": Expected(near=value, atol=limit) for i, (value, limit) in enumerate(near)}
    want |= {
        "out/6": Expected(np.sqrt(np.abs(x))),
        "out/7": Expected(one / x),
        "out/8": Expected(near=2 / v, atol=3e-7 * 2 / p),
        "out/9": Expected(np.floor(x) + np.ceil(x * np.float32(0.5))),
        "out/10": Expected(fma(x, x, np.full_like(x, quarter))),
        "out/11": Expected(np.clip(x, -one, one)),
    }
    return Case(name, (cdiv(n, 256),), [x, out, n], want, {"out": out})


def ordered_floats(name: str, n: int) -> Case:
    x = matrix((n,), "f32", 1)
    least, most = np.full(1, np.inf, np.float32), np.full(1, -np.inf, np.float32)
    total = np.full(1, 1000, np.int64)
    whole = np.trunc(x.astype(np.float64) * 16).astype(np.int64).sum()
    want = {
        "least": Expected(x.min(keepdims=True)),
        "most": Expected(x.max(keepdims=True)),
        "total": Expected(1000 + whole.reshape(1)),
    }
    return Case(name, (cdiv(n, 512),), [x, least, most, total, n], want, {"least": least, "most": most, "total": total})


def packed(name: str, element: str, n: int) -> Case:
    """fma, product, sum, and in half precision the larger one."""
    x, y = matrix((n,), element, 1, wild=True), matrix((n,), element, 2, wild=True)
    rows = [fma(x, y, x), x * y, x + y]
    if element == "f16":
        rows.append(np.maximum(x, y))
    out = np.zeros((len(rows), n), x.dtype)
    block = int(launch_info()[name]["constants"]["BLOCK"])
    return Case(name, (cdiv(n, block),), [x, y, out, n], {"out": Expected(np.stack(rows))}, {"out": out})


def copied(name: str, seed: int) -> Case:
    """Any bits, through tensor memory and back."""
    info = launch_info()[name]
    shape = (int(info["constants"]["M"]), int(info["constants"]["N"]))
    word = "uint16" if info["arguments"]["ip"] == "*fp16" else "uint32"
    x = integers(shape, 0, 1 << (16 if word == "uint16" else 32), seed, word)
    y = np.zeros_like(x)
    return Case(name, (1,), [x, y], {"y": Expected(x)}, {"y": y})


def reduce_store(name: str, programs: int) -> Case:
    """Whole numbers, so that the order of the sums does not matter."""
    x, y = integers((programs, 64, 32), -9, 10, 1, "float32"), integers((64, 32), -9, 10, 2, "float32")
    want = Expected(y + x.sum(0, dtype=np.float32))
    return Case(name, (programs,), [x, *descriptor(name, 0, y)], {"y": want}, {"y": y}, order_dependent=True)


COUNTS = {"1024": {"n": 1024}, "ragged": {"n": 1291}}
COPIES = {"first": {"seed": 1}, "second": {"seed": 2}}
CASES = {
    "vector_add_fp32": Family(partial(vector_add, "vector_add_fp32"), COUNTS),
    "histogram_i32": Family(partial(histogram, "histogram_i32"), COUNTS),
    "scan_rows_i32": Family(partial(scan_rows, "scan_rows_i32"), {"2x512": {"rows": 2, "cols": 512}, "ragged": {"rows": 3, "cols": 401}}),
    "convert_fp32": Family(partial(convert, "convert_fp32"), COUNTS),
    "integers_i32": Family(partial(integer_mixture, "integers_i32"), {"256": {"n": 256}, "ragged": {"n": 333}}),
    "sort_rows_fp32": Family(partial(sort_rows, "sort_rows_fp32"), {"1": {"rows": 1}, "3": {"rows": 3}}),
    "transpose_fp16": Family(
        partial(transpose, "transpose_fp16"), {"64x128": {"rows": 64, "cols": 128}, "ragged": {"rows": 77, "cols": 101}}
    ),
    "elementary_fp32": Family(partial(elementary, "elementary_fp32"), {"256": {"n": 256}, "ragged": {"n": 347}}),
    "ordered_floats_fp32": Family(partial(ordered_floats, "ordered_floats_fp32"), COUNTS),
    "gl_packed_fp32": Family(partial(packed, "gl_packed_fp32", "f32"), COUNTS),
    "gl_packed_fp16": Family(partial(packed, "gl_packed_fp16", "f16"), COUNTS),
    "gl_reduce_store_fp32": Family(partial(reduce_store, "gl_reduce_store_fp32"), {"1": {"programs": 1}, "4": {"programs": 4}}),
    "gl_smem_to_tmem": Family(partial(copied, "gl_smem_to_tmem"), COPIES),
    **{
        f"gl_tmem_{shapes}": Family(partial(copied, f"gl_tmem_{shapes}"), COPIES)
        for shapes in ("32x32b_16x64b_fp32", "16x128b_16x256b_fp16", "16x64b_16x128b_fp32", "16x256b_32x32b_fp32")
    },
}
