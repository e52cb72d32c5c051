"""Record im2col and interleaved tensor copies on an sm_90a GPU: ``python -m tests.hardware.record_im2col OUT.npz`` (cupy and ptxas)."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.hardware.im2col_cases import BUFFER, CASE, WIDE, cases, module
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
    if case["im2col"]:
        lower, upper = ((ctypes.c_int * 3)(*case[name].tolist()) for name in ("lower", "upper"))
        shape = (lower, upper, ctypes.c_uint32(int(case["channels"])), ctypes.c_uint32(int(case["pixels"])))
        error = driver.cuTensorMapEncodeIm2col(*head, dims, strides, *shape, steps, *tail)
    else:
        box = (ctypes.c_uint32 * 5)(*case["box"].tolist())
        error = driver.cuTensorMapEncodeTiled(*head, dims, strides, box, steps, *tail)
    return ctypes.string_at(aligned, 128) if error == 0 else None


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


def run(binary: str, first: int, out: str) -> None:
    """Run cases from ``first`` on, appending to ``out``; a case that the device faults on ends the process."""
    import cupy

    driver = ctypes.CDLL("libcuda.so.1")
    loaded = cupy.RawModule(path=binary)
    loaded.compile()
    with open(out, "ab") as file:
        for i, case in list(enumerate(cases()))[first:]:
            device = cupy.asarray(tensor_bytes(int(case["seed"]), int(case["size"])))
            assert device.data.ptr % 256 == 0
            raw = encode(driver, case, device.data.ptr)
            if raw is None:
                pickle.dump((i, "refused", b""), file)
                continue
            name = f"{case['operation'].decode()}_{'im2col' if case['im2col'] else 'tile'}_{int(case['rank'])}"
            image, done = cupy.zeros(BUFFER, cupy.uint8), cupy.zeros(2, cupy.uint32)
            numbers = [np.int32(c) for c in case["coordinates"].tolist()] + [np.uint32(o) for o in case["offsets"].tolist()]
            device_map = cupy.asarray(np.frombuffer(raw, np.uint64).copy())
            loaded.get_function(name)((1,), (128,), (device_map, image, done, np.uint32(case["expect"]), *numbers))
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
        source, binary, results = Path(folder, "im2col.ptx"), Path(folder, "im2col.cubin"), Path(folder, "results")
        source.write_text(module())
        subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
        found: dict[int, tuple[object, bytes]] = {}
        while -1 not in found:
            first = max(found, default=-1) + 1
            arguments = ["--run", str(binary), str(first), str(results)]
            subprocess.run([sys.executable, "-m", "tests.hardware.record_im2col", *arguments], check=False)
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
    encoded = pickle.loads(
        subprocess.run([sys.executable, "-m", "tests.hardware.record_im2col", "--wide"], check=True, capture_output=True).stdout
    )
    print("im2col::w maps:", sorted(set(encoded["error"].tolist())))
    listed = cases()
    kept, images, refused = [], [], []
    for i, (state, image) in sorted(found.items()):
        case = np.array(listed[i], CASE)
        if isinstance(state, str):
            print(i, state, case)
            refused.append(case[()])
            continue
        case["done"] = state
        kept.append(case[()])
        images.append(image)
    np.savez_compressed(
        out,
        cases=np.array(kept, CASE),
        refused=np.array(refused, CASE),
        wide=encoded,
        images=np.frombuffer(b"".join(images), np.uint8),
        tools=np.array(tools()),
    )
    print(len(kept), "cases", *tools())


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "--wide":
        import cupy

        cupy.zeros(1)
        sys.stdout.buffer.write(pickle.dumps(wide(ctypes.CDLL("libcuda.so.1"))))
    else:
        main(sys.argv[1])
