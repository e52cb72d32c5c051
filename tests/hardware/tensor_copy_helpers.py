"""What the recorders of tensor copies have in common: encode a tensor map, launch a kernel for each case, collect the results."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware.suite._tools import ASSEMBLE, tools
from tests.hardware.tma_cases import tensor_bytes


def encode(driver: ctypes.CDLL, case: np.void, address: int) -> bytes | None:
    raw = (ctypes.c_uint8 * 256)()
    aligned = -(-ctypes.addressof(raw) // 64) * 64
    head = (ctypes.c_void_p(aligned), int(case["type"]), int(case["rank"]), ctypes.c_void_p(address))
    dims = (ctypes.c_uint64 * 5)(*case["dims"].tolist())
    strides = (ctypes.c_uint64 * 4)(*case["strides"].tolist())
    steps = (ctypes.c_uint32 * 5)(*case["steps"].tolist())
    tail = (int(case["interleave"]), int(case["swizzle"]), 0, int(case["fill"]))
    if "im2col" in case.dtype.names and case["im2col"]:
        lower, upper = ((ctypes.c_int * 3)(*case[name].tolist()) for name in ("lower", "upper"))
        shape = (lower, upper, ctypes.c_uint32(int(case["channels"])), ctypes.c_uint32(int(case["pixels"])))
        error = driver.cuTensorMapEncodeIm2col(*head, dims, strides, *shape, steps, *tail)
    else:
        box = (ctypes.c_uint32 * 5)(*case["box"].tolist())
        error = driver.cuTensorMapEncodeTiled(*head, dims, strides, box, steps, *tail)
    return ctypes.string_at(aligned, 128) if error == 0 else None


def run(
    binary: str,
    first: int,
    out: str,
    *,
    cases: Sequence[np.void],
    name: Callable[[np.void], str],
    arguments: Callable[[np.void], tuple[Any, ...]],
    buffer: int,
) -> None:
    """Run cases from ``first`` on, appending to ``out``; a case that the device faults on ends the process.

    ``name`` is the kernel of a case, ``arguments`` what it takes behind the map, the image and the flag.
    """
    import cupy

    driver = ctypes.CDLL("libcuda.so.1")
    loaded = cupy.RawModule(path=binary)
    loaded.compile()
    with open(out, "ab") as file:
        for i, case in list(enumerate(cases))[first:]:
            device = cupy.asarray(tensor_bytes(int(case["seed"]), int(case["size"])))
            assert device.data.ptr % 256 == 0
            raw = encode(driver, case, device.data.ptr)
            if raw is None:
                pickle.dump((i, "refused", b""), file)
                continue
            image, done = cupy.zeros(buffer, cupy.uint8), cupy.zeros(2, cupy.uint32)
            device_map = cupy.asarray(np.frombuffer(raw, np.uint64).copy())
            loaded.get_function(name(case))((1,), (128,), (device_map, image, done, *arguments(case)))
            try:
                cupy.cuda.Device().synchronize()
            except cupy.cuda.runtime.CUDARuntimeError as error:
                pickle.dump((i, str(error), b""), file)
                file.flush()
                os._exit(3)
            shown = image if case["operation"].startswith(b"load") else device
            pickle.dump((i, int(done.get()[0]), shown.get().tobytes()), file)
        pickle.dump((-1, "all cases have run", b""), file)


def record(out: str, program: str, ptx: str, cases: Sequence[np.void], **more: Any) -> None:
    """Run ``program`` with ``--run`` until it has done all cases, and write what it gave; ``more`` are further arrays of the file."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary, results = Path(folder, "copies.ptx"), Path(folder, "copies.cubin"), Path(folder, "results")
        source.write_text(ptx)
        subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
        found: dict[int, tuple[object, bytes]] = {}
        while -1 not in found:
            first = max(found, default=-1) + 1
            subprocess.run([sys.executable, "-m", program, "--run", str(binary), str(first), str(results)], check=False)
            with open(results, "rb") as file:
                while True:
                    try:
                        i, state, image = pickle.load(file)
                    except EOFError:
                        break
                    found[i] = state, image
            if -1 not in found and max(found, default=-1) + 1 == first:
                raise SystemExit("no progress")
    del found[-1]
    kept, images, refused = [], [], []
    for i, (state, image) in sorted(found.items()):
        case = np.array(cases[i], cases[i].dtype)
        if isinstance(state, str):
            print(i, state, case)
            refused.append(case[()])
            continue
        case["done"] = state
        kept.append(case[()])
        images.append(image)
    dtype = cases[0].dtype
    np.savez_compressed(
        out,
        cases=np.array(kept, dtype),
        refused=np.array(refused, dtype),
        images=np.frombuffer(b"".join(images), np.uint8),
        tools=np.array(tools()),
        **more,
    )
    print(len(kept), "cases", *tools())
