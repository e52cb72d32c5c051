"""The cases: a kernel with one launch of it, by name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.kernels.case_helpers import case as stored
from tests.hardware.kernels.gemm_cases import gemm as warpgroup_gemm
from tests.hardware.suite._kernel import Kernel
from tests.profile.timing.build import ARCHIVE
from tests.profile.timing.problems import PROBLEMS, Configuration, Problem

__all__ = ["CASES", "Case"]

HEADS = 32
ROWS = 8192
DTYPES = {"fp16": np.float16, "fp32": np.float32, "fp8e4nv": np.uint8}
MAPS = {"fp16": "f16"}
SWIZZLES = ("none", "32B", "64B", "128B")


@dataclass(frozen=True)
class Case:
    """``family``: the class of the error table; ``problem``: cases of one problem are compared with each other."""

    name: str
    problem: str
    family: str
    triton: bool
    make: Callable[[], Kernel]


@cache
def _archive() -> tuple[dict[str, str], dict[str, Any]]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return texts, json.loads(texts.pop("launch.json"))


@cache
def data(dtype: str, *shape: int, seed: int = 1) -> Any:
    """Ordinary numbers; a block of them again and again, so that large arrays are made soon."""
    block = np.random.default_rng(seed).standard_normal(1 << 16).astype(np.float32)
    made: Any = (np.abs(block * 16).astype(np.uint8) + 40) if dtype == "fp8e4nv" else block.astype(DTYPES[dtype])
    return np.resize(made, shape)


def _arrays(problem: Problem, constants: dict[str, int]) -> tuple[tuple[int, ...], list[Any], list[Any]]:
    """The grid, the arrays of the pointers in order, and what follows the integers."""
    size, types = problem.sizes, problem.types
    if problem.family == "GEMM":
        m, n, k = size["M"], size["N"], size["K"]
        grid = (m // constants["BM"] * (n // constants["BN"]),)
        return grid, [data(types[0], m, k), data(types[1], n, k, seed=2), np.zeros((m, n), DTYPES[types[2]])], []
    if problem.family == "attention":
        s, d = size["S"], problem.fixed["D"]
        inputs = [data("fp16", HEADS, s, d, seed=seed) for seed in (1, 2, 3)]
        return (s // constants["BM"], HEADS), [*inputs, np.zeros((HEADS, s, d), np.float16)], [np.float32(0.18)]
    if problem.family == "element-wise":
        count = 1 << (20 if problem.name.endswith("small") else 24)
        inputs = [data(kind, count, seed=seed) for seed, kind in enumerate(types[:-1], 1)]
        return (count // constants["BLOCK"],), [*inputs, np.zeros(count, DTYPES[types[-1]])], []
    if problem.family == "transposes":
        m, n = size["M"], size["N"]
        grid = (m // constants["BM"], n // constants["BN"])
        return grid, [data(types[0], m, n), np.zeros((n, m), DTYPES[types[1]])], []
    n = size["N"]
    if problem.kernel == "column_sum":
        return (n // constants["BN"],), [data(types[0], size["M"], n), np.zeros(n, np.float32)], []
    rows = ROWS // 4 if problem.kernel == "softmax_loop" else ROWS
    out = np.zeros(rows, np.float32) if problem.kernel == "row_sum" else np.zeros((rows, n), DTYPES[types[-1]])
    weights = [data(kind, n, seed=seed) for seed, kind in enumerate(types[1:-1], 2)]
    return (rows,), [data(types[0], rows, n), *weights, out], []


def _map(array: Any, kind: str, meta: dict[str, Any]) -> list[Any]:
    box = tuple(reversed(meta["block_size"]))
    strides = [np.int64(stride // array.itemsize) for stride in array.strides]
    return [TensorMap(array, box=box, swizzle=SWIZZLES[meta["swizzle"]], dtype=MAPS[kind]), *array.shape, *strides]


def _triton(name: str, problem: Problem, configuration: Configuration) -> Kernel:
    texts, launch = _archive()
    binary = problem.binary(configuration)
    info = launch[binary]
    grid, arrays, more = _arrays(problem, configuration.constants)
    given: list[Any] = arrays
    if info["tensor_maps"]:
        given = [a for array, kind, meta in zip(arrays, problem.types, info["tensor_maps"], strict=True) for a in _map(array, kind, meta)]
    args = [*given, *problem.sizes.values(), *more, None, None]
    text = texts[f"{binary}.ptx"]
    return Kernel(name, text, tuple(args), grid, info["block"], info["shared_bytes"], (arrays[-1],), info["entry"], module=True)


def _multicast(entry: str, a: str, b: str, shape: tuple[int, int, int], cluster: tuple[int, int]) -> Kernel:
    return warpgroup_gemm(entry, a, b, shape, 512, cluster=cluster)


def _warp_gemm(entry: str, kind: str, rows: int, columns: int, size: int) -> Kernel:
    a, b = (np.resize(data("fp16", 1 << 16, seed=seed).view(np.uint8), (side, size)) for seed, side in ((1, rows), (2, columns)))
    d = np.zeros((rows, columns), np.uint32)
    return stored("warp_gemm", entry, [a, b, d, rows, columns, size], [d], grid=(rows // 64, columns // 64), block=128)


def _attention(entry: str, heads: int, length: int) -> Kernel:
    q, k, v = (data("fp16", heads, length, 64, seed=seed) for seed in (1, 2, 3))
    o, most, total = np.zeros_like(q), np.zeros((heads, length), np.float32), np.zeros((heads, length), np.float32)
    args = [q, k, v, o, most, total, length, np.float32(0.18)]
    return stored("attention", entry, args, [o], grid=(length // 64, heads), block=128)


def _rows(entry: str, rows: int, columns: int) -> Kernel:
    x, y = data("fp32", rows, columns), np.zeros((rows, columns), np.float32)
    return stored("rows", entry, [x, y, columns], [y], grid=rows, block=128)


def _layer_norm(rows: int, columns: int) -> Kernel:
    x, weight, bias = data("fp16", rows, columns), data("fp32", columns, seed=2), data("fp32", columns, seed=3)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    return stored("rows", "layer_norm_welford", [x, weight, bias, y, mean, rstd, columns, np.float32(1e-5)], [y], grid=rows, block=128)


def _cluster_gemm(entry: str, rows: int, columns: int, steps: int) -> Kernel:
    """A kernel of ``cluster_gemm.cu``, named ``TYPE_N_sSTAGES_CMxCN``."""
    kind, n, stages, cluster = entry.split("_")[:4]
    down, across = map(int, cluster.split("x"))
    elements, columns_of_tile = 64 if kind in ("f16", "none") else 128, int(n)
    a, b = (
        data("fp16", side, steps * 64, seed=seed) if elements == 64 else data("fp8e4nv", side, steps * 128, seed=seed)
        for side, seed in ((rows, 1), (columns, 2))
    )
    maps = [
        TensorMap(array, (elements, side), "128B", dtype="f16" if elements == 64 else "u8")
        for array, side in ((a, 128 // across), (b, columns_of_tile // down))
    ]
    d = np.zeros((rows, columns), np.uint32)
    stages_bytes = int(stages[1:]) * ((128 + columns_of_tile) * 128 + 16)
    return Kernel(
        entry,
        _archive()[0]["cluster_gemm.ptx"],
        (*maps, d, rows, columns, steps, elements),
        rows // 128 * (columns // columns_of_tile),
        384,
        stages_bytes,
        (d,),
        entry,
        module=True,
        registers=168,
    )


SHARES = ("1x1", "1x2", "2x1", "2x2", "4x1", "1x2_fenced", "2x1_fenced", "2x2_fenced")
CLUSTERS = tuple(
    (
        "cluster copies" if kind.startswith("none") else "cluster GEMM",
        f"{kind}_{share}/{rows}x{columns}x{steps}",
        partial(_cluster_gemm, f"{kind}_{share}", rows, columns, steps),
    )
    for kind, rows, columns, steps in (
        ("f16_64_s3", 2048, 2048, 32),
        ("f16_128_s3", 2048, 2048, 32),
        ("f16_128_s5", 4096, 4096, 32),
        ("e4m3_128_s4", 4096, 4096, 16),
        ("s8_64_s4", 2048, 2048, 16),
        ("none_64_s4", 2048, 2048, 32),
    )
    for share in SHARES
)
"""Kernels of ``cluster_gemm.cu``: clusters that share tiles, with and without a release at the scope of the cluster."""
CUDA: tuple[tuple[str, str, Callable[[], Kernel]], ...] = (
    ("GEMM", "gemm_f16/2048x2048x32", partial(warpgroup_gemm, "gemm_f16", "f16", "f16", (2048, 2048, 32), 512)),
    ("GEMM", "gemm_f16/1024x1024x64", partial(warpgroup_gemm, "gemm_f16", "f16", "f16", (1024, 1024, 64), 128)),
    ("GEMM", "gemm_e4m3/2048x2048x16", partial(warpgroup_gemm, "gemm_e4m3", "e4m3", "e4m3", (2048, 2048, 16), 512)),
    ("GEMM", "gemm_e4m3_promoted/2048x2048x16", partial(warpgroup_gemm, "gemm_e4m3_promoted", "e4m3", "e4m3", (2048, 2048, 16), 512)),
    ("GEMM", "gemm_tf32_persistent/2048x2048x32", partial(warpgroup_gemm, "gemm_tf32_persistent", "tf32", "tf32", (2048, 2048, 32), 132)),
    *CLUSTERS,
    (
        "GEMM",
        "gemm_f16_multicast_a/2048x2048x32",
        partial(warpgroup_gemm, "gemm_f16_multicast_a", "f16", "f16", (2048, 2048, 32), 512, cluster=(1, 2)),
    ),
    (
        "GEMM",
        "gemm_s8_multicast_b/2048x2048x16",
        partial(warpgroup_gemm, "gemm_s8_multicast_b", "s8", "u8", (2048, 2048, 16), 512, cluster=(2, 1)),
    ),
    ("GEMM", "warp_f32_f16/1024x1024x2048", partial(_warp_gemm, "warp_f32_f16", "f16", 1024, 1024, 2048)),
    ("GEMM", "warp_f32_bf16/2048x2048x1024", partial(_warp_gemm, "warp_f32_bf16", "bf16", 2048, 2048, 1024)),
    ("GEMM", "warp_s32_s8/2048x2048x1024", partial(_warp_gemm, "warp_s32_s8", "u8", 2048, 2048, 1024)),
    ("attention", "attention/32x1024", partial(_attention, "attention", 32, 1024)),
    ("attention", "attention_causal/32x1024", partial(_attention, "attention_causal", 32, 1024)),
    ("softmax", "softmax_online/4096x4096", partial(_rows, "softmax_online", 4096, 4096)),
    ("softmax", "log_softmax_fast/4096x2048", partial(_rows, "log_softmax_fast", 4096, 2048)),
    ("norms", "layer_norm_welford/8192x1024", partial(_layer_norm, 8192, 1024)),
)
"""Kernels in CUDA C++ of `tests.hardware.kernels`, each a problem of its own."""


def _all() -> Iterator[Case]:
    for problem in PROBLEMS:
        for name, configuration in problem.cases():
            yield Case(name, problem.name, problem.family, True, partial(_triton, name, problem, configuration))
    for family, name, make in CUDA:
        yield Case(f"cuda/{name}", f"cuda/{name}", family, False, make)


CASES: dict[str, Case] = {case.name: case for case in _all()}
