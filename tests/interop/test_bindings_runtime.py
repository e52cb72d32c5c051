"""``cuda.bindings.runtime`` over the virtual driver, in programs under ``ptxlab exec``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.runtime")
pytestmark = pytest.mark.compiler

MEMORY = """
import ctypes
from cuda.bindings import runtime as rt
ok = rt.cudaError_t.cudaSuccess
assert rt.cudaGetDeviceCount() == (ok, 1)
status, address = rt.cudaMalloc(64)
assert status == ok and isinstance(address, int)
assert rt.cudaGetDevice() == (ok, 0)
assert rt.cudaMemset(address, 0x1FF, 64) == (ok,)
held = ctypes.create_string_buffer(64)
assert rt.cudaMemcpy(ctypes.addressof(held), address, 64, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost) == (ok,)
assert held.raw == b"\\xff" * 64
assert rt.cudaFree(address) == (ok,)
assert rt.cudaDeviceGetAttribute(rt.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0) == (ok, 9)
assert rt.cudaGetErrorName(rt.cudaError_t.cudaErrorInvalidValue) == (ok, b"cudaErrorInvalidValue")
"""
STREAMS = """
from cuda.bindings import runtime as rt
ok = rt.cudaError_t.cudaSuccess
status, stream = rt.cudaStreamCreate()
assert status == ok and isinstance(stream, rt.cudaStream_t)
events = [rt.cudaEventCreate()[1] for _ in range(2)]
assert isinstance(events[0], rt.cudaEvent_t)
assert rt.cudaEventRecord(events[0], stream) == rt.cudaEventRecord(events[1], stream) == (ok,)
assert rt.cudaStreamSynchronize(stream) == rt.cudaDeviceSynchronize() == (ok,)
status, milliseconds = rt.cudaEventElapsedTime(*events)
assert status == ok and milliseconds >= 0
assert rt.cudaEventDestroy(events[0]) == rt.cudaStreamDestroy(stream) == (ok,)
"""
ERRORS = """
from cuda.bindings import runtime as rt
assert rt.cudaMalloc(1 << 60) == (rt.cudaError_t.cudaErrorMemoryAllocation, None)
assert rt.cudaSetDevice(7) == (rt.cudaError_t.cudaErrorInvalidDevice,)
"""


@pytest.mark.parametrize("program", [MEMORY, STREAMS, ERRORS], ids=["memory", "streams", "errors"])
def test_programs(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", "exec", "--target", "sm_90a", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
