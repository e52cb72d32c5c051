"""Record what Triton's kernels for sm_90a compute on a GPU: ``python -m tests.hardware record kernels_sm90``.

Needs an sm_90a device, cupy (for device memory), ptxas and ml_dtypes; the package is imported from ``src``.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware.suite._tools import ASSEMBLE, tools, version_9_0

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS.parent / "src")]
case_module = importlib.import_module("tests.end_to_end.triton.case_helpers")
CASES = importlib.import_module("tests.end_to_end.triton_sm90.cases").CASES
SHARED_BYTES_ATTRIBUTE = 8
WHOLE = 1 << 15
"""Outputs up to so many bytes are kept whole, of others the first rows."""


def assemble(folder: Path, name: str) -> Path:
    source, binary = folder / f"{name}.ptx", folder / f"{name}.cubin"
    source.write_text(version_9_0((case_module.SM90 / f"{name}.ptx").read_text()))
    subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
    return binary


class Device:
    """Launches through the driver."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        cupy.zeros(1)
        self.driver = ctypes.CDLL("libcuda.so.1")

    def check(self, error: int) -> None:
        if error:
            raise RuntimeError(f"CUDA error {error}")

    def function(self, binary: Path, entry: str, shared: int) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), binary.read_bytes()))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()))
        self.check(self.driver.cuFuncSetAttribute(function, SHARED_BYTES_ATTRIBUTE, shared))
        return function

    def upload(self, array: Any) -> Any:
        return self.cupy.asarray(np.ascontiguousarray(array).view(np.uint8).reshape(-1))

    def run(self, case: Any, function: ctypes.c_void_p) -> dict[str, Any]:
        """The outputs of one case."""
        held: dict[int, Any] = {}
        packed = []
        for parameter, argument in zip(case_module.kernel(case.name).parameters, [*case.args, *case.scratch()], strict=True):
            if isinstance(argument, np.ndarray):
                device = held.setdefault(id(argument), self.upload(argument))
                raw = int(device.data.ptr).to_bytes(8, "little")
            elif argument is None:
                raw = bytes(8)
            elif hasattr(argument, "encode"):
                device = held.setdefault(id(argument.base), self.upload(argument.base))
                raw = argument.encode(int(device.data.ptr))
            elif isinstance(argument, float):
                raw = np.float32(argument).tobytes()
            else:
                raw = int(argument).to_bytes(parameter.size, "little", signed=True)
            packed.append(ctypes.create_string_buffer(raw, parameter.size))
        pointers = (ctypes.c_void_p * len(packed))(*(ctypes.addressof(p) for p in packed))
        g = case.geometry()
        self.check(self.driver.cuLaunchKernel(function, *g["grid"], *g["block"], g["shared_bytes"], None, pointers, None))
        self.cupy.cuda.Device().synchronize()
        found = {}
        for name, array in case.outputs.items():
            bases = [b for b in held if b == id(array)] or [id(a.base) for a in case.args if hasattr(a, "encode") and same(a.base, array)]
            found[name] = held[bases[0]].get().view(array.dtype).reshape(array.shape)
        return found


def same(one: Any, other: Any) -> bool:
    return bool(np.shares_memory(one, other))


def main(out: str) -> None:
    device = Device()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(16) as pool:
        binaries = dict(zip(CASES, pool.map(lambda name: assemble(Path(folder), name), CASES), strict=True))
        for name, family in CASES.items():
            info = case_module.info_of(name)
            function = device.function(binaries[name], info["entry"], info["shared_bytes"])
            for size in family.sizes:
                case = family(size)
                for output, array in device.run(case, function).items():
                    key = f"{name}/{size}/{output}"
                    raw = np.ascontiguousarray(array).view(np.uint8)
                    found[f"{key}/sha256"] = np.frombuffer(hashlib.sha256(raw.tobytes()).digest(), np.uint8)
                    rows = raw.reshape(array.shape[0], -1)
                    found[f"{key}/rows"] = rows if rows.nbytes <= WHOLE else rows[:: max(len(rows) // 4, 1)]
                    wanted = case.expected.get(output)
                    bits = None if wanted is None or wanted.bits is None else bool((wanted.bits.view(np.uint8) == raw).all())
                    print(key, "bits as expected:", bits)
    found["tools"] = np.array(tools())
    np.savez_compressed(out, **found)
    print(*tools(), Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
