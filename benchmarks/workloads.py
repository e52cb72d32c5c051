"""The kernels that are measured: the same source runs as PTX in ptxlab and under Triton's interpreter."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

KERNELS = Path(__file__).resolve().parents[1] / "tests" / "end_to_end" / "triton"
SCALE = float(np.log2(np.e) / 8)
SIZE = 1024
HEADS = 8
COMMON_CHECKS = ("memory", "barrier", "tmem", "descriptor", "register", "race")
"""The checks that all versions have."""


def options(check: str) -> dict[str, Any]:
    """The options of a launch with ``"default"`` checks, with the ``"common"`` ones, or with those of another name."""
    return {} if check == "default" else {"check": COMMON_CHECKS if check == "common" else check}


@dataclass(frozen=True)
class Workload:
    """One measured launch; `arrays` makes the inputs, the last of them is the result."""

    title: str
    ptx: str
    geometry: dict[str, Any]
    arrays: Callable[[], list[Any]]
    arguments: Callable[[list[Any]], list[Any]]
    source: str
    interpret: Callable[[Any, list[Any]], None]
    near: Callable[[list[Any]], Any]
    tolerance: float


def source(name: str) -> Any:
    """A kernel source of the tests, as a module."""
    spec = importlib.util.spec_from_file_location(name, KERNELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _normal(*shapes: tuple[int, ...]) -> list[Any]:
    generator = np.random.default_rng(1)
    return [(generator.standard_normal(shape) * 0.5).astype(np.float16) for shape in shapes]


def _matrices() -> list[Any]:
    return [*_normal((SIZE, SIZE), (SIZE, SIZE)), np.zeros((SIZE, SIZE), np.float16)]


def _heads() -> list[Any]:
    shape = (HEADS, SIZE, 64)
    return [*_normal(shape, shape, shape), np.zeros((HEADS, SIZE), np.float32), np.zeros(shape, np.float16)]


def _pointers(x: list[Any]) -> list[Any]:
    return [*x, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, None, None]


def _descriptors(x: list[Any]) -> list[Any]:
    import ptxlab

    maps: list[Any] = []
    for array in x:
        maps += [ptxlab.TensorMap(array, box=(64, 128), swizzle="128B"), SIZE, SIZE, SIZE, 1]
    return [*maps, SIZE, SIZE, SIZE, None, None]


def _attention(x: list[Any]) -> list[Any]:
    q, k, v, lse, o = x
    return [q, k, v, o, lse, SIZE, SCALE, None, None]


def _interpret_pointers(module: Any, x: list[Any]) -> None:
    import triton.language as tl

    grid = ((SIZE // 128) ** 2,)
    sizes = (SIZE,) * 6
    module.mm_ptr[grid](*x, *sizes, BM=128, BN=128, BK=64, ACC=tl.float32, OUT=tl.float16, TF="tf32")


def _interpret_descriptors(module: Any, x: list[Any]) -> None:
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    blocks = ([256, 64], [128, 64], [256, 128])
    maps = [TensorDescriptor.from_tensor(t, block) for t, block in zip(x, blocks, strict=True)]
    grid = (SIZE // 256 * (SIZE // 128),)
    module.mm_hdesc[grid](*maps, SIZE, SIZE, SIZE, BM=256, BN=128, BK=64, OUT=tl.float16, WS=False)


def _interpret_attention(module: Any, x: list[Any]) -> None:
    q, k, v, lse, o = x
    module.attention[(SIZE // 128, HEADS)](q, k, v, o, lse, SIZE, SCALE, D=64, BM=128, BN=128, CAUSAL=False)


def _product(transposed: bool) -> Callable[[list[Any]], Any]:
    def near(x: list[Any]) -> Any:
        a, b = x[0].astype(np.float64), x[1].astype(np.float64)
        return a @ (b.T if transposed else b)

    return near


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """softmax(q @ k.T / 8) @ v of each head, in float64."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    s = q @ k.swapaxes(1, 2) / 8
    if causal:
        s = np.where(np.tri(s.shape[1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(2, keepdims=True))
    return p @ v / p.sum(2, keepdims=True)


WORKLOADS = {
    "gemm_pointers": Workload(
        "GEMM 1024x1024x1024 f16, pointers (mm_ptr_fp16)",
        "mm_ptr_fp16",
        {"grid": 64, "block": 128, "shared_bytes": 98320},
        _matrices,
        _pointers,
        "triton_kernels",
        _interpret_pointers,
        _product(False),
        0.05,
    ),
    "gemm_descriptors": Workload(
        "GEMM 1024x1024x1024 f16, TMA, CTA pairs (mm_host_desc_fp16_cta2)",
        "mm_host_desc_fp16_cta2",
        {"grid": 64, "block": 128, "cluster": 2, "shared_bytes": 98352},
        _matrices,
        _descriptors,
        "triton_kernels",
        _interpret_descriptors,
        _product(True),
        0.05,
    ),
    "attention": Workload(
        "flash attention S=1024 d=64, 8 heads (flash_fp16)",
        "flash_fp16",
        {"grid": (8, HEADS), "block": 128, "shared_bytes": 114720},
        _heads,
        _attention,
        "neural_kernels",
        _interpret_attention,
        lambda x: attention(*x[:3]),
        0.01,
    ),
}
