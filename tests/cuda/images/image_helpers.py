"""Images of modules that nvcc and ptxas make from one source."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from pathlib import Path

import pytest

from ptxlab.interop import nvcc

SOURCE = """
struct S { char a; int b[3]; double c; };
__device__ int counter[7];
extern "C" __global__ void __launch_bounds__(128, 2) sum(float *p, int n, S s, char c) {
  __shared__ float t[100];
  t[threadIdx.x] = p[n];
  __syncthreads();
  p[0] = t[5] + s.c + c + counter[s.b[1]];
}
extern "C" __global__ void spill(float *p) {
  extern __shared__ int d[];
  int big[100];
  for (int i = 0; i < 100; i++) big[i] = d[i];
  p[0] = big[d[0] & 63];
}
extern "C" __global__ void empty() {}
"""


def compile_image(folder: Path, name: str, *options: str) -> bytes:
    """Return the file that nvcc makes with the options; skip the test without nvcc."""
    try:
        compiler = nvcc.find_nvcc()
    except nvcc.NvccError:
        pytest.skip("needs nvcc")
    source = folder / "source.cu"
    source.write_text(SOURCE)
    output = folder / name
    subprocess.run([str(compiler), *options, "-o", str(output), str(source)], check=True, capture_output=True, timeout=120)
    return output.read_bytes()


class Wrapper:
    """A wrapper of fat binaries as host objects hold it, at an address."""

    def __init__(self, *fat_binaries: bytes, version: int = 1) -> None:
        self._kept = [ctypes.create_string_buffer(raw, len(raw)) for raw in fat_binaries]
        addresses = [ctypes.addressof(buffer) for buffer in self._kept]
        self._list = (ctypes.c_uint64 * len(addresses))(*addresses[1:], 0)
        others = ctypes.addressof(self._list) if version == 2 else 0
        self._wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, version, addresses[0], others), 24)
        self.address = ctypes.addressof(self._wrapper)
