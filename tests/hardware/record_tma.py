"""Record tensor copies on a GPU: ``python -m tests.hardware record tma`` (needs an sm_90a device and cupy)."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.hardware.suite._tools import ASSEMBLE, tools
from tests.hardware.tma_cases import BUFFER, CASE, cases, module, tensor_bytes


def encode(driver: ctypes.CDLL, case: np.void, address: int) -> bytes | None:
    raw = (ctypes.c_uint8 * 256)()
    start = ctypes.addressof(raw)
    aligned = -(-start // 64) * 64
    rank = int(case["rank"])
    dims = (ctypes.c_uint64 * 5)(*case["dims"].tolist())
    strides = (ctypes.c_uint64 * 4)(*case["strides"].tolist())
    box = (ctypes.c_uint32 * 5)(*case["box"].tolist())
    steps = (ctypes.c_uint32 * 5)(*case["steps"].tolist())
    error = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(aligned),
        int(case["type"]),
        rank,
        ctypes.c_void_p(address),
        dims,
        strides,
        box,
        steps,
        int(case["interleave"]),
        int(case["swizzle"]),
        0,
        int(case["fill"]),
    )
    return ctypes.string_at(aligned, 128) if error == 0 else None


def run(binary: str, first: int, out: str) -> None:
    """Run cases from ``first`` on, appending to ``out``; a case that the device faults on ends the process."""
    import cupy

    driver = ctypes.CDLL("libcuda.so.1")
    loaded = cupy.RawModule(path=binary)
    loaded.compile()
    with open(out, "ab") as file:
        for i, case in list(enumerate(cases()))[first:]:
            data = tensor_bytes(int(case["seed"]), int(case["size"]))
            device = cupy.asarray(data)
            assert device.data.ptr % 256 == 0
            raw = encode(driver, case, device.data.ptr)
            if raw is None:
                pickle.dump((i, "refused", b""), file)
                continue
            name = f"{case['operation'].decode()}_{int(case['rank'])}"
            image = cupy.zeros(BUFFER, cupy.uint8)
            done = cupy.zeros(2, cupy.uint32)
            coordinates = [np.int32(c) for c in case["coordinates"].tolist()]
            device_map = cupy.asarray(np.frombuffer(raw, np.uint64).copy())
            arguments = (device_map, image, done, *coordinates, np.uint32(case["expect"]), np.uint32(case["offset"]))
            loaded.get_function(name)((1,), (128,), arguments)
            try:
                cupy.cuda.Device().synchronize()
            except cupy.cuda.runtime.CUDARuntimeError as error:
                pickle.dump((i, str(error), b""), file)
                file.flush()
                os._exit(3)
            shown = image if case["operation"].startswith(b"load") else device
            pickle.dump((i, int(done.get()[0]), shown.get().tobytes()), file)
        pickle.dump((-1, "all cases have run", b""), file)


def main(out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, binary, results = Path(folder, "tma.ptx"), Path(folder, "tma.cubin"), Path(folder, "results")
        source.write_text(module())
        subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
        found: dict[int, tuple[object, bytes]] = {}
        while -1 not in found:
            first = max(found, default=-1) + 1
            subprocess.run([sys.executable, "-m", "tests.hardware.record_tma", "--run", str(binary), str(first), str(results)], check=False)
            with open(results, "rb") as file:
                while True:
                    try:
                        i, state, image = pickle.load(file)
                    except EOFError:
                        break
                    found[i] = state, image
            if max(found) + 1 == first:
                raise SystemExit("no progress")
    del found[-1]
    listed = cases()
    kept, images = [], []
    for i, (state, image) in sorted(found.items()):
        case = np.array(listed[i], CASE)
        if isinstance(state, str):
            print(i, state, case)
            continue
        case["done"] = state
        kept.append(case[()])
        images.append(image)
    np.savez_compressed(
        out,
        cases=np.array(kept, CASE),
        images=np.frombuffer(b"".join(images), np.uint8),
        tools=np.array(tools()),
    )
    print(len(kept), "cases", *tools())


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(sys.argv[1])
