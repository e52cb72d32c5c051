"""Record im2col and interleaved tensor copies on an sm_90a GPU: ``python -m tests.hardware record im2col`` (cupy and ptxas)."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
import sys
from typing import Any

import numpy as np

from tests.hardware.im2col_cases import BUFFER, WIDE, cases, module
from tests.hardware.tensor_copy_helpers import record, run


def name(case: np.void) -> str:
    return f"{case['operation'].decode()}_{'im2col' if case['im2col'] else 'tile'}_{int(case['rank'])}"


def arguments(case: np.void) -> tuple[Any, ...]:
    coordinates, offsets = case["coordinates"].tolist(), case["offsets"].tolist()
    return np.uint32(case["expect"]), *(np.int32(c) for c in coordinates), *(np.uint32(o) for o in offsets)


def wide(driver: ctypes.CDLL) -> np.ndarray:
    """Calls of the encoder of ``im2col::w``: arguments, the error, the 128 bytes. It may be refused where the device has no such mode."""
    rng = np.random.default_rng(64)
    rows = []
    for number in range(64):
        row = np.zeros((), WIDE)
        rank = row["rank"] = 3 + number % 3
        row["lower"], row["upper"] = (rng.integers(-300, 300, 2) if number % 4 == 3 else rng.integers(-3, 3, 2)).tolist()
        row["mode"], row["swizzle"], row["pixels"] = number // 32, 1 + number % 3, rng.integers(1, 1025)
        raw = (ctypes.c_uint8 * 256)()
        aligned = -(-ctypes.addressof(raw) // 64) * 64
        dims, strides = (ctypes.c_uint64 * 5)(16, *[400] * 4), (ctypes.c_uint64 * 4)(*(32 * 400**d for d in range(4)))
        corners = (ctypes.c_int(int(row["lower"])), ctypes.c_int(int(row["upper"])))
        counts = (ctypes.c_uint32(16), ctypes.c_uint32(int(row["pixels"])))
        head = (ctypes.c_void_p(aligned), 6, int(rank), ctypes.c_void_p(1 << 32), dims, strides)
        tail = ((ctypes.c_uint32 * 5)(*[1] * 5), 0, int(row["mode"]), int(row["swizzle"]), 0, 0)
        row["error"] = driver.cuTensorMapEncodeIm2colWide(*head, *corners, *counts, *tail)
        row["bytes"] = np.frombuffer(ctypes.string_at(aligned, 128), np.uint8)
        rows.append(row[()])
    return np.array(rows, WIDE)


def main(out: str) -> None:
    command = [sys.executable, "-m", "tests.hardware.record_im2col", "--wide"]
    encoded = pickle.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print("im2col::w maps:", sorted(set(encoded["error"].tolist())))
    record(out, "tests.hardware.record_im2col", module(), cases(), wide=encoded)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4], cases=cases(), name=name, arguments=arguments, buffer=BUFFER)
    elif sys.argv[1] == "--wide":
        import cupy

        cupy.zeros(1)
        sys.stdout.buffer.write(pickle.dumps(wide(ctypes.CDLL("libcuda.so.1"))))
    else:
        main(sys.argv[1])
