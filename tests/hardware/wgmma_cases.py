"""What `record_wgmma` runs, and how matrices stand in shared memory and registers.

A case is put together from pools of codes that the recording carries: the first N rows of a pool are B, and C repeats a palette.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["A_BYTES", "IMAGE", "KEPT", "Case", "Instruction", "descriptor", "from_registers", "inputs", "instructions"]

U32 = NDArray[np.uint32]
A_BYTES, IMAGE = 2048, 2048 + 256 * 64
KEPT = [5, 58]
"""Rows of D that the recording keeps of a large result, beside the digest of the whole."""
CASES = 4
PALETTE = 2039
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
EXPONENT = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}
FLOATS = [("f32", "f16", "f16"), ("f32", "bf16", "bf16"), ("f16", "f16", "f16"), ("f32", "tf32", "tf32")]
FLOATS += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INTEGERS = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
INTEGER_N = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True)
class Instruction:
    """One wgmma.mma_async."""

    d: str
    a: str
    b: str
    n: int
    registers: bool = False
    sparse: bool = False
    satfinite: bool = False

    @property
    def k(self) -> int:
        """Stored elements of a row of A: 32 bytes."""
        return 256 // BITS[self.a]

    @property
    def logical_k(self) -> int:
        return self.k * (1 + self.sparse)

    @property
    def b_bytes(self) -> int:
        return 32 * (1 + self.sparse)

    @property
    def d_registers(self) -> int:
        return self.n // (4 if self.d == "f16" else 2)

    @property
    def whole(self) -> bool:
        """Whether all of D is kept."""
        return self.n == 8

    @property
    def cases(self) -> int:
        return CASES if self.n in (8, 64) else 1

    def __str__(self) -> str:
        flags = [name for name in ("registers", "sparse", "satfinite") if getattr(self, name)]
        return ".".join([f"m64n{self.n}k{self.logical_k}", self.d, self.a, self.b, *flags])


def instructions() -> list[Instruction]:
    """Every N of every combination of types, dense and sparse, A in shared memory; some N with A in registers."""
    found = []
    for types in (*FLOATS, *INTEGERS):
        for satfinite in (False, True) if types[0] == "s32" else (False,):
            for sparse in (False, True):
                for n in INTEGER_N if types[0] == "s32" else range(8, 257, 8):
                    found.append(Instruction(*types, n, False, sparse, satfinite))
                found += [Instruction(*types, n, True, sparse, satfinite) for n in (8, 64, 256)]
    return found


def _codes(rng: np.random.Generator, fmt: str, shape: tuple[int, ...], case: int) -> NDArray[Any]:
    """Codes of case 0: exponents close together; 1: everything; 2: small exponents; 3: middling, half of them negated copies."""
    dtype = np.dtype(f"u{ {16: 2, 32: 4, 8: 1}[BITS.get(fmt, 32)] }")
    raw = rng.integers(0, 1 << (8 * dtype.itemsize), shape, dtype=np.uint64)
    if fmt in ("s8", "u8"):
        return np.where(rng.random(shape) < 0.3, rng.choice([0, 127, 128, 255], shape), raw).astype(dtype)
    bits, mantissa = EXPONENT[fmt]
    top = (1 << bits) - 1
    centre = {0: rng.integers(2, top - 1, (shape[0], 1)), 2: 2, 3: top // 2}.get(case)
    exponent = rng.integers(0, top, shape)
    if centre is not None:
        exponent = np.clip(centre + rng.integers(-3, 4, shape), 0, top - 1)
    raw = (raw & np.uint64((1 << mantissa) - 1 | 1 << (bits + mantissa))) | exponent.astype(np.uint64) << np.uint64(mantissa)
    special = rng.random(shape) < 0.3 / shape[-1]
    raw = np.where(special, raw | np.uint64(top << mantissa), raw)
    raw = np.where(rng.random(shape) < 0.1, raw & np.uint64(1 << (bits + mantissa)), raw)
    return raw.astype(dtype)


def inputs() -> dict[str, NDArray[Any]]:
    """The pools."""
    rng = np.random.default_rng(20)
    pools: dict[str, NDArray[Any]] = {}
    for case in range(CASES):
        for fmt, bits in BITS.items():
            k = 256 // bits
            pools[f"A/{fmt}/{case}"] = _codes(rng, fmt, (64, k), case)
            pools[f"B/{fmt}/{case}"] = _codes(rng, fmt, (256, 2 * k), case)
        for chunks in (8, 16):
            pools[f"metadata/{chunks}/{case}"] = rng.choice([4, 8, 9, 12, 13, 14, 6], (64, chunks)).astype(np.uint8)
        pools[f"metadata/tf32/{case}"] = rng.choice([4, 14], (64, 8)).astype(np.uint8)
    pools["C/f32"] = _codes(rng, "f32", (PALETTE, 1), 1)[:, 0].astype(np.uint32)
    pools["C/f16"] = _codes(rng, "f16", (PALETTE, 1), 1)[:, 0]
    edges = rng.choice([0, 1 << 31, (1 << 31) - 1, (1 << 32) - 1], PALETTE) + rng.integers(-300000, 300000, PALETTE)
    pools["C/s32"] = edges.astype(np.int64).astype(np.uint32)
    return pools


@dataclass(frozen=True)
class Case:
    """Operands of one execution: codes, and the same as the instruction takes them."""

    i: Instruction
    A: NDArray[Any]
    B: NDArray[Any]
    C: NDArray[Any]
    metadata: NDArray[np.uint8] | None

    @classmethod
    def of(cls, i: Instruction, case: int, pools: Mapping[str, NDArray[Any]]) -> Case:
        m, n = np.arange(64)[:, None], np.arange(i.n)[None]
        chunks = "tf32" if i.a == "tf32" else i.logical_k // 4
        metadata = pools[f"metadata/{chunks}/{case}"] if i.sparse else None
        C = pools[f"C/{i.d}"][(67 * m + 131 * n + 997 * case) % PALETTE]
        return cls(i, pools[f"A/{i.a}/{case}"], pools[f"B/{i.b}/{case}"][: i.n, : i.logical_k], C, metadata)

    def image(self) -> NDArray[np.uint8]:
        """Shared memory: A, then B, each K-major without swizzle: core matrices of 8 rows by 16 bytes, first along K."""
        image = np.zeros(IMAGE, np.uint8)
        for start, matrix in ((0, self.A), (A_BYTES, self.B)):
            rows = np.ascontiguousarray(matrix).view(np.uint8)
            core = rows.reshape(rows.shape[0] // 8, 8, -1, 16).transpose(0, 2, 1, 3)
            image[start : start + rows.size] = core.ravel()
        return image

    def a_registers(self) -> U32:
        """Section "Register Fragments for wgmma.mma_async.m64nNk16" and its siblings: four words a thread."""
        words = np.ascontiguousarray(self.A).view(np.uint32).reshape(64, 8)
        thread, register = np.arange(128)[:, None], np.arange(4)[None]
        row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register & 1)
        return np.ascontiguousarray(words[row, thread % 4 + 4 * (register >> 1)])

    def c_registers(self) -> U32:
        row, column = places(self.i)
        if self.i.d != "f16":
            return np.ascontiguousarray(self.C[row, column].astype(np.uint32))
        low, high = (self.C[row, column + j].astype(np.uint32) for j in (0, 1))
        return low | high << np.uint32(16)

    def meta_registers(self) -> U32:
        """Section "Register Fragments for wgmma.mma_async.sp": one word a thread, sparsity selector 0."""
        thread = np.arange(128)
        found = np.zeros(128, np.uint32)
        if self.metadata is None:
            return found
        row, part = 16 * (thread // 32) + thread % 32 // 4, thread % 4
        codes = self.metadata.astype(np.uint32)
        eight = (codes[:, j : j + 8] << (4 * np.arange(8, dtype=np.uint32)) for j in range(0, codes.shape[1], 8))
        words = np.stack([x.sum(axis=1).astype(np.uint32) for x in eight], axis=1)
        if words.shape[1] == 2:
            return np.asarray(words[row + 8 * (part & 1), part >> 1])
        half = np.uint32(16) * (part & 1).astype(np.uint32)
        low, high = (words[row + shift, 0] >> half & np.uint32(0xFFFF) for shift in (0, 8))
        return np.where(part < 2, low | high << np.uint32(16), 0).astype(np.uint32)


def descriptor(row_bytes: int) -> int:
    """Leading and stride byte offsets of a matrix whose rows have so many bytes; the start address is added to it."""
    return (128 >> 4) << 16 | (8 * row_bytes >> 4) << 32


def places(i: Instruction) -> tuple[NDArray[Any], NDArray[Any]]:
    """Row and (first) column of each register of D: section "Accumulator D" of the register fragments."""
    thread, register = np.arange(128)[:, None], np.arange(i.d_registers)[None]
    row = 16 * (thread // 32) + thread % 32 // 4
    if i.d == "f16":
        return row + 8 * (register & 1), 8 * (register >> 1) + 2 * (thread % 4)
    return row + 8 * (register >> 1 & 1), 8 * (register >> 2) + 2 * (thread % 4) + (register & 1)


def from_registers(i: Instruction, registers: U32) -> NDArray[Any]:
    """D of its registers [128, count]."""
    row, column = places(i)
    if i.d != "f16":
        d = np.empty((64, i.n), np.uint32)
        d[row, column] = registers
        return d
    d = np.empty((64, i.n), np.uint16)
    d[row, column], d[row, column + 1] = registers & np.uint32(0xFFFF), registers >> np.uint32(16)
    return d
