"""The kernels of ``probes.cu``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.inputs import integers, ordinary
from tests.hardware.suite._kernel import Kernel

PLACES = 128
WORDS = {
    "b8": (np.uint8, 1),
    "b16": (np.uint16, 1),
    "b32": (np.uint32, 1),
    "b64": (np.uint64, 1),
    "v2": (np.uint32, 2),
    "v4": (np.uint32, 4),
}


def slots() -> Any:
    """The place of each lane in each pattern, or -1."""
    lanes = np.arange(32)
    odd = integers(401, 0, 2, 32) == 0
    patterns = [
        lanes * 0, lanes // 2, lanes % 2, lanes % 16, lanes // 4, lanes % 3, 31 - lanes // 2, (31 - lanes) % 5, lanes % 4 * 32,
        lanes // 8 * 32 + lanes % 2, np.where(odd, 7, -1), np.where((lanes > 0) & (lanes < 31), 5, -1), np.where(lanes > 15, lanes % 4, -1),
    ]  # fmt: skip
    patterns += [integers(402 + i, 0, most, 32) for i, most in enumerate((2, 3, 8, 8, 20, 128, 128))]
    patterns += [np.where(integers(410 + i, 0, 3, 32) > 0, integers(420 + i, 0, 9, 32), -1) for i in range(4)]
    return np.array(patterns, np.int32)


def kernels() -> list[Kernel]:
    found = []
    for name, (dtype, count) in WORDS.items():
        patterns = slots()
        results = [np.zeros((len(patterns), PLACES, count), dtype) for _ in range(2)]
        args = [patterns, *results, PLACES]
        size = PLACES * count * np.dtype(dtype).itemsize
        found.append(case("probes", f"colliding_stores_{name}", args, results, grid=len(patterns), block=32, shared_bytes=size))
    patterns = slots()
    results = [np.zeros((len(patterns), 2, PLACES), np.uint32), np.zeros((len(patterns), 4, 32), np.uint32)]
    found.append(case("probes", "colliding_atomics", [patterns, *results, PLACES], results, grid=len(patterns), block=32))
    for entry, kind, rows in (("carry_flags", "u32", 49), ("carry_flags_64", "u64", 8)):
        n = 128
        raw = [ordinary(431 + i, "u32", n * (2 if kind == "u64" else 1)).view(f"u{4 * (1 + (kind == 'u64'))}") for i in range(3)]
        for i, extreme in enumerate((0, -1, 1, 1 << 31)):
            for j, values in enumerate(raw):
                values[8 * i + j : 8 * i + 2 * j + 2] = np.array(extreme, np.int64).astype(values.dtype)
        y = np.zeros((rows, n), raw[0].dtype)
        found.append(case("probes", entry, [*raw, y, n], [y], grid=1, block=n))
    return found
