"""Where the ISA's tables put elements: rows and columns of each register, one element at a time.

The functions follow the sections "Matrix Fragments for mma.m16n8k16 with floating point type" and its siblings, and those of sparse A.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]


def _pack(codes: list[int], bits: int) -> list[int]:
    """Elements into 32-bit registers, low bits first (an element of 64 bits: two words)."""
    word = sum(code << bits * i for i, code in enumerate(codes))
    return [word >> 32 * i & 0xFFFFFFFF for i in range(max(len(codes) * bits // 32, 1))]


def a_registers(A: NDArray[Any], bits: int) -> U32:
    """[32, words]: row t/4 and t/4 + 8 by turns, a register's elements side by side, then the second half of K."""
    m, k = A.shape
    each = max(32 // bits, 1)
    rows = []
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        codes = []
        for part in range(k // (4 * each)):
            for half in range(m // 8):
                codes += [int(A[group + 8 * half, part * 4 * each + thread * each + i]) for i in range(each)]
        rows.append(_pack(codes, bits))
    return np.array(rows, np.uint32)


def b_registers(B: NDArray[Any], bits: int) -> U32:
    """B [8, K]: column t/4, rows side by side."""
    each = max(32 // bits, 1)
    rows = []
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        codes = [int(B[group, part * 4 * each + thread * each + i]) for part in range(B.shape[1] // (4 * each)) for i in range(each)]
        rows.append(_pack(codes, bits))
    return np.array(rows, np.uint32)


def c_places(m: int) -> list[list[tuple[int, int]]]:
    """Row and column of c0, c1 ... of each thread."""
    return [[((lane >> 2) + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)) for i in range(m // 4)] for lane in range(32)]


def c_registers(C: NDArray[Any], bits: int) -> U32:
    return np.array([_pack([int(C[place]) for place in places], bits) for places in c_places(len(C))], np.uint32)


def d_matrix(registers: U32, m: int, bits: int) -> NDArray[Any]:
    D = np.zeros((m, 8), f"u{bits // 8}")
    for lane, places in enumerate(c_places(m)):
        word = sum(int(x) << 32 * i for i, x in enumerate(registers[lane]))
        for i, place in enumerate(places):
            D[place] = word >> bits * i & ((1 << bits) - 1)
    return D


def metadata_registers(codes: NDArray[np.uint8], bits: int, selector: int, rng: np.random.Generator) -> U32:
    """[32]: figures "Sparse MMA ... metadata layout". Threads that do not contribute hold anything."""
    chunks = codes.shape[1]
    words = rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)
    for group in range(8):
        top, bottom = ([int(x) for x in codes[row]] for row in (group, group + 8))
        if bits >= 16:
            # A contributing thread has four chunks of both rows.
            brought = [top[i : i + 4] + bottom[i : i + 4] for i in range(0, chunks, 4)]
        else:
            # Eight chunks of one row: first row t/4, then row t/4 + 8.
            brought = [row[i : i + 8] for i in range(0, chunks, 8) for row in (top, bottom)]
        for i, nibbles in enumerate(brought):
            words[4 * group + selector * len(brought) + i] = _pack(nibbles, 4)[0]
    return words


def scale_registers(A: NDArray[np.uint8], B: NDArray[np.uint8], select_a: tuple[int, int], select_b: tuple[int, int]) -> tuple[U32, U32]:
    """Scale factors [16, count] and [8, count] where the selectors say; all other bytes are NaN scales."""
    a, b = np.full((32, 4), 0xFF, np.uint8), np.full((32, 4), 0xFF, np.uint8)
    count = A.shape[1]
    for row in range(16):
        thread = 4 * (row % 8) + (2 if select_a[1] else 0) + (1 if row >= 8 else 0)
        a[thread, select_a[0] : select_a[0] + count] = A[row]
    for column in range(8):
        b[4 * column + select_b[1], select_b[0] : select_b[0] + count] = B[column]
    return a.view(np.uint32)[:, 0], b.view(np.uint32)[:, 0]
