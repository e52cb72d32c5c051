"""Speed of the arithmetic on one core: instructions of m128n256, beside float32 matrix products of NumPy.

On prepared operands it is that of the loop along K of a GEMM: STEPS instructions that add to one accumulator, on different operands. These
are normally distributed. Others have exponents of a wide range, or sums in which one half of the terms cancels the other.
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
OF_NUMPY = {"f16": 0.35, "bf16": 0.35, "e4m3": 0.5, "mxf4": 1.0, "nvf4": 1.0}
"""The least rate on prepared operands, as a part of NumPy's rate; half of it on codes."""
SLOWER = 3
"""How many times slower operands with wide exponents, or whose sums cancel, may be."""
EXPONENTS = {"f16": 14, "bf16": 60, "tf32": 60, "e4m3": 6, "e2m1": 1}
"""Wide exponents: powers of two from minus this up to this, by which normally distributed numbers are multiplied; products are finite."""


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


def _operands(
    fmt: str, k: int, scale: str | None, block: int | None, seed: int = 0, sort: str = "normal"
) -> tuple[list[Any], list[Any], Any, list[Any]]:
    """Values and codes of A and B, the words of C, and the scale factors."""
    from ptxlab.formats import encode

    rng = np.random.default_rng(seed)
    values = [rng.standard_normal((rows, k)).astype(np.float32) for rows in (M, N)]
    if sort == "wide":
        widest = EXPONENTS[fmt]
        values = [x * np.exp2(rng.integers(-widest, widest + 1, x.shape)).astype(np.float32) for x in values]
    elif sort == "cancelling":
        for x, sign in zip(values, (-1, 1), strict=True):
            x[:, 1::2] = sign * x[:, ::2]
    C = rng.standard_normal((M, N)).astype(np.float32).view(np.uint32)
    scales: list[Any] = [None, None]
    if scale is not None and block is not None:
        scales = [encode(np.exp2(rng.integers(-3, 4, (rows, k // block))) * 1.5, scale, "rz") for rows in (M, N)]
    return values, [encode(x, fmt) for x in values], C, scales


def prepared_steps(
    kind: str, fmt: str, k: int, scale: str | None = None, block: int | None = None, sort: str = "normal"
) -> tuple[Callable[[], None], list[Any]]:
    """The loop along K on prepared operands as a function, and each prepared B."""
    from ptxlab import numerics

    given = {"kind": kind, "scale": scale, "block": block}

    def prepared(seed: int) -> list[Any]:
        _, codes, _, scales = _operands(fmt, k, scale, block, seed, sort)
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
    for sort in ("wide", "cancelling"):
        found[sort] = _rate(prepared_steps(kind, fmt, k, scale, block, sort)[0], STEPS * k, repeats)
    # Flagging every row of B leaves all of it to the general path.
    for b in prepared:
        flags = ctypes.c_int64.from_address(b.address + (32 if b.groups else 16)).value
        ctypes.memset(flags, 0xFF, 4 * N)
    found["general"] = _rate(loop, STEPS * k, 1)
    across = np.ascontiguousarray(values[1].T)
    found["numpy"] = _rate(lambda: values[0] @ across, k, repeats)
    found |= {f"{key}_of_numpy": found[key] / found["numpy"] for key in ("call", "prepared")}
    return found | {f"{sort}_times": found["prepared"] / found[sort] for sort in ("wide", "cancelling")}
