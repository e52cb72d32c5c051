"""The kernels of ``wgmma_gemm.cu``: their operands, and what they should give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "wgmma_gemm.cu"
TILES, M, N, STEPS = 1, 128, 64, 3
STEP = 128
"""Bytes of K that a step takes; an instruction takes 32."""
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
EXPONENT = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}

FLOATS = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
NARROW = [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INTEGERS = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]


@dataclass(frozen=True)
class Gemm:
    """One kernel. ``a_source`` and ``b_source``: KMajor, MNMajor or Registers."""

    instruction: str
    d: str
    a: str
    b: str
    a_source: str = "KMajor"
    b_source: str = "KMajor"
    negate: tuple[bool, bool] = (False, False)
    satfinite: bool = False

    @property
    def name(self) -> str:
        return f"{self.instruction}_{self.a_source}_{self.b_source}"

    @property
    def k(self) -> int:
        """Elements of K in all."""
        return STEPS * STEP * 8 // BITS[self.a]

    def codes(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """A [TILES * M, K] and B [N, K]: of floats, numbers whose sums are rounded, with some zeros."""
        return _codes(self.a, (TILES * M, self.k), 1), _codes(self.b, (N, self.k), 2)

    def arguments(self) -> list[Any]:
        """What the kernel takes; the output last but one."""
        A, B = self.codes()
        columns = N // (2 if self.d == "f16" else 1)
        if self.a_source == "MNMajor":
            A = A.reshape(TILES, M, self.k).transpose(0, 2, 1)
        if self.b_source == "MNMajor":
            B = B.T
        return [_bytes(A, self.a), _bytes(B, self.b), np.zeros((TILES * M, columns), np.uint32), STEPS]

    def expected(self) -> NDArray[Any]:
        """D as words: one fused step for each instruction."""
        A, B = self.codes()
        if self.a == "b1":
            return (A.astype(np.int64) @ B.T.astype(np.int64)).astype(np.uint32)
        D: NDArray[Any] = np.zeros((TILES * M, N), np.uint16 if self.d == "f16" else np.uint32)
        each = 256 // BITS[self.a]
        for k in range(0, self.k, each):
            D = numerics.mma(
                arch="wgmma", kind=None, a=self.a, b=self.b, d=self.d, A=A[:, k : k + each], B=B[:, k : k + each], C=D if k else None,
                saturate=self.satfinite, negate_a=self.negate[0], negate_b=self.negate[1],
            )  # fmt: skip
        return np.ascontiguousarray(D).view(np.uint32)


def _codes(kind: str, shape: tuple[int, int], seed: int) -> NDArray[Any]:
    raw = np.random.PCG64([seed, *kind.encode()]).random_raw(shape[0] * shape[1]).reshape(shape)
    if kind == "b1":
        return (raw & np.uint64(1)).astype(np.uint8)
    bits = BITS[kind]
    dtype = np.dtype(f"u{bits // 8}")
    if kind in ("s8", "u8"):
        return np.where(raw >> np.uint64(59) & np.uint64(1), 0x7F, raw & np.uint64(0xFF)).astype(dtype)
    exponent, mantissa = EXPONENT[kind]
    middle = (1 << exponent - 1) - 1
    spread = (raw >> np.uint64(40)) % np.uint64(min(6, middle)) + np.uint64(middle - 3 if middle > 3 else 1)
    sign = (raw >> np.uint64(50) & np.uint64(1)) << np.uint64(bits - 1)
    fraction = raw & np.uint64((1 << mantissa) - 1)
    zero = raw >> np.uint64(55) == 0
    return np.where(zero, 0, sign | spread << np.uint64(mantissa) | fraction).astype(dtype)


def _bytes(matrix: NDArray[Any], kind: str) -> NDArray[np.uint8]:
    if kind == "b1":
        return np.packbits(matrix, axis=-1, bitorder="little").reshape(-1)
    return np.ascontiguousarray(matrix).view(np.uint8).reshape(-1)


def gemms() -> list[Gemm]:
    found = []
    for d, a, b in FLOATS:
        found.append(Gemm(f"{d}_{a}", d, a, b))
    found += [Gemm(f"{d}_{a}_{b}", d, a, b) for d, a, b in (*NARROW, *INTEGERS)]
    found += [Gemm(f"s32_{t}_{t}_satfinite", "s32", t, t, satfinite=True) for t in ("s8", "u8")]
    found.append(Gemm("s32_b1", "s32", "b1", "b1"))
    found += [
        Gemm("f32_f16_nn", "f32", "f16", "f16", negate=(True, True)),
        Gemm("f16_f16_pn", "f16", "f16", "f16", negate=(False, True)),
        Gemm("f32_bf16_np", "f32", "bf16", "bf16", negate=(True, False)),
        Gemm("f32_tf32_np", "f32", "tf32", "tf32", negate=(True, False)),
        Gemm("f32_e4m3_e5m2_pn", "f32", "e4m3", "e5m2", negate=(False, True)),
    ]
    found = [Gemm(**{**g.__dict__, "a_source": source}) for g in found for source in ("KMajor", "Registers")]
    return [
        *found,
        Gemm("f32_f16_ta", "f32", "f16", "f16", "MNMajor", "KMajor"),
        Gemm("f32_f16_tb", "f32", "f16", "f16", "KMajor", "MNMajor"),
        Gemm("f32_f16_tb", "f32", "f16", "f16", "Registers", "MNMajor"),
        Gemm("f32_bf16_tab", "f32", "bf16", "bf16", "MNMajor", "MNMajor"),
        Gemm("f16_f16_tab", "f16", "f16", "f16", "MNMajor", "MNMajor"),
    ]
