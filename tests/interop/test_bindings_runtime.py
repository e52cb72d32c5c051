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
UNLOADED_WITHOUT_CONTEXT = """
from cuda.bindings import driver, runtime as rt
assert rt.cudaLibraryUnload(rt.cudaLibrary_t(0)) != (rt.cudaError_t.cudaSuccess,)
driver.cuInit(0)
status, context = driver.cuCtxGetCurrent()
assert status == 0 and int(context) == 0
assert driver.cuDevicePrimaryCtxGetState(0)[2] == 0
"""
ERRORS = """
from cuda.bindings import runtime as rt
assert rt.cudaMalloc(1 << 60) == (rt.cudaError_t.cudaErrorMemoryAllocation, None)
assert rt.cudaSetDevice(7) == (rt.cudaError_t.cudaErrorInvalidDevice,)
"""


UNLOADED = """
import numpy as np
from cuda.bindings import driver
PTX = b'''.version 8.7
.target sm_90a
.address_size 64
.global .b32 value[4] = {7, 7, 7, 7};
.visible .entry k(.param .u64 out) {
    .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p1;
    ld.param.u64 %rd1, [out];
    mov.u32 %r2, 0;
LOOP:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 200000;
    @%p1 bra LOOP;
    mov.u64 %rd2, value;
    ld.global.u32 %r1, [%rd2];
    st.global.u32 [%rd1], %r1;
    ret;
}'''
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
module = driver.cuModuleLoadData(PTX)[1]
kernel = driver.cuModuleGetFunction(module, b"k")[1]
out = driver.cuMemAlloc(4)[1]
pointer = np.array([int(out)], np.uint64)
arguments = np.array([pointer.ctypes.data], np.uint64)
assert int(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments.ctypes.data, 0)[0]) == 0
assert int(driver.cuModuleUnload(module)[0]) == 0
found = np.zeros(1, np.uint32)
assert int(driver.cuMemcpyDtoH(found.ctypes.data, out, 4)[0]) == 0
assert found[0] == 7
"""


PROGRAMS = {
    "memory": MEMORY,
    "streams": STREAMS,
    "errors": ERRORS,
    "unloaded without a context": UNLOADED_WITHOUT_CONTEXT,
    "unloaded before the end": UNLOADED,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", "exec", "--target", "sm_90a", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
