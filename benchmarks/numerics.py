"""Speed of the arithmetic on one core: instructions of m128n256, beside float32 matrix products of NumPy.

On prepared operands it is that of the loop along K of a GEMM: STEPS instructions that add to one accumulator, on different operands.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

M, N = 128, 256
STEPS = 16
CASES: dict[str, dict[str, Any]] = {
    "f16": {"kind": "f16", "fmt": "f16", "k": 16},
    "bf16": {"kind": "f16", "fmt": "bf16", "k": 16},
    "tf32": {"kind": "tf32", "fmt": "tf32", "k": 8},
    "e4m3": {"kind": "f8f6f4", "fmt": "e4m3", "k": 32},
    "mxf8 e4m3": {"kind": "mxf8f6f4", "fmt": "e4m3", "k": 32, "scale": "ue8m0", "block": 32},
    "mxf4": {"kind": "mxf4", "fmt": "e2m1", "k": 64, "scale": "ue8m0", "block": 32},
    "nvf4": {"kind": "mxf4nvf4", "fmt": "e2m1", "k": 64, "scale": "ue4m3", "block": 16},
}
REQUIRED = {"f16": (8, 14, 1), "e4m3": (6, 10, 1), "nvf4": (10, 25, 1)}
"""GFLOP/s that the call, the step on prepared operands, and the general path must have."""


def measure(repeats: int) -> dict[str, Any]:
    return {name: _case(repeats, **case) for name, case in CASES.items()}


def _rate(call: Any, k: int, repeats: int) -> float:
    call()
    seconds = []
    for _ in range(10 * repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return 2 * M * N * k / median(seconds) / 1e9


def _operands(fmt: str, k: int, scale: str | None, block: int | None, seed: int = 0) -> tuple[list[Any], list[Any], Any, list[Any]]:
    """Values and codes of A and B, the words of C, and the scale factors."""
    from ptxlab.formats import encode

    rng = np.random.default_rng(seed)
    values = [rng.standard_normal((rows, k)).astype(np.float32) for rows in (M, N)]
    C = rng.standard_normal((M, N)).astype(np.float32).view(np.uint32)
    scales: list[Any] = [None, None]
    if scale is not None and block is not None:
        scales = [encode(np.exp2(rng.integers(-3, 4, (rows, k // block))) * 1.5, scale, "rz") for rows in (M, N)]
    return values, [encode(x, fmt) for x in values], C, scales


def prepared_steps(kind: str, fmt: str, k: int, scale: str | None = None, block: int | None = None) -> tuple[Callable[[], None], list[Any]]:
    """The loop along K on prepared operands as a function, and each prepared B."""
    from ptxlab import numerics

    given = {"kind": kind, "scale": scale, "block": block}

    def prepared(seed: int) -> list[Any]:
        _, codes, _, scales = _operands(fmt, k, scale, block, seed)
        return [numerics.prepare(x, fmt, role=role, scales=s, **given) for x, role, s in zip(codes, "ab", scales, strict=True)]

    operands = [prepared(seed) for seed in range(STEPS)]
    cells = np.zeros((N, M), np.uint32)

    def run() -> None:
        for number, (a, b) in enumerate(operands):
            numerics.mma_prepared(kind, "f32", a, b, cells, accumulate=number > 0)

    return run, [b for _, b in operands]


def _case(repeats: int, kind: str, fmt: str, k: int, scale: str | None = None, block: int | None = None) -> dict[str, float]:
    from ptxlab import numerics

    values, (A, B), C, scales = _operands(fmt, k, scale, block)
    whole = {"arch": "tcgen05", "kind": kind, "a": fmt, "b": fmt, "d": "f32", "A": A, "B": B, "C": C, "scale": scale, "block": block}
    found = {"call": _rate(lambda: numerics.mma(**whole, scale_a=scales[0], scale_b=scales[1]), k, repeats)}
    loop, prepared = prepared_steps(kind, fmt, k, scale, block)
    found["prepared"] = _rate(loop, STEPS * k, repeats)
    # Flagging every row of B leaves all of it to the general path.
    for b in prepared:
        flags = ctypes.c_int64.from_address(b.address + (32 if b.groups else 16)).value
        ctypes.memset(flags, 0xFF, 4 * N)
    found["general"] = _rate(loop, STEPS * k, 1)
    across = np.ascontiguousarray(values[1].T)
    found["numpy"] = _rate(lambda: values[0] @ across, k, repeats)
    return found
