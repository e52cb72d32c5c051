"""Wrong use of the driver ends in a result and a finding, never in a crash."""

from __future__ import annotations

import ctypes
import mmap
import re
import shutil
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from ptxlab.cuda.building import DRIVER, SOURCES, build
from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import KERNELS, Driver, needs_compiler, number

INVALID_VALUE, INVALID_HANDLE, ILLEGAL_ADDRESS = 1, 400, 700
_ROW = re.compile(r"^(?:STREAM_)?FUNCTION\(\w+, \d+, (\w+), (?:_\w+, )?(\w+), \((.*?)\), \(.*\)\)$", re.MULTILINE)
ROWS = [row for path in sorted((SOURCES / "functions").glob("*.def")) for row in _ROW.findall(path.read_text())]


def _run(program: str) -> subprocess.CompletedProcess[str]:
    prelude = "import ctypes, os, sys\nfrom ptxlab import cuda\ndriver = cuda.install()\nlibrary = ctypes.CDLL('libcuda.so.1')\n"
    return subprocess.run([sys.executable, "-c", prelude + program], capture_output=True, text=True, timeout=120, check=False)


@needs_compiler
def test_every_function_before_cuinit_and_with_nulls() -> None:
    """In a process of its own: a crash would end it."""
    names = [(symbol, needs) for symbol, needs, _ in ROWS if symbol != "cuInit"]
    program = f"""
rows = {names!r}
before = {{needs: set() for _, needs in rows}}
for name, needs in rows:
    if hasattr(library, name):
        before[needs].add(getattr(library, name)(*[None] * 16))
print(sorted(before["DRIVER"]), sorted(before["CONTEXT"]))
assert library.cuInit(0) == 0
print({{getattr(library, name)(*[None] * 16) for name, needs in rows if needs == "CONTEXT" and hasattr(library, name)}})
context = ctypes.c_void_p()
assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert library.cuCtxSetCurrent(context) == 0
for name, needs in rows:
    if hasattr(library, name) and not name.startswith(("cuCtxSetCurrent", "cuDevicePrimaryCtx", "cuCtxPop")):
        getattr(library, name)(*[None] * 16)
print(library.cuCtxSynchronize())
"""
    done = _run(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[3] [3]", "{201}", "0"]


@pytest.mark.parametrize("handle", [1 << 20, 12345, 0xFFFF_FFFF_FFFF_FFF0])
def test_handles_that_are_none(driver: Driver, handle: int) -> None:
    wrong = c_void_p(handle)
    value = c_int()
    assert driver.cuStreamSynchronize(wrong) == INVALID_HANDLE
    assert driver.cuEventRecord(wrong, None) == INVALID_HANDLE
    assert driver.cuEventDestroy_v2(wrong) == INVALID_HANDLE
    assert driver.cuModuleUnload(wrong) == INVALID_HANDLE
    assert driver.cuModuleGetFunction(byref(c_void_p()), wrong, b"k") == INVALID_HANDLE
    assert driver.cuFuncGetAttribute(byref(value), 0, wrong) == INVALID_HANDLE
    assert driver.launch(wrong) == INVALID_HANDLE
    assert driver.launch(driver.function(driver.module(), "empty"), stream=wrong) == INVALID_HANDLE
    assert driver.cuCtxSetCurrent(wrong) == 201


@pytest.mark.parametrize("address", [8, 0x10_0000, (1 << 47) - 4096])
def test_addresses_where_nothing_is(driver: Driver, address: int) -> None:
    place, wrong = driver.allocate(64), c_void_p(address)
    assert driver.cuMemcpyHtoD_v2(place, wrong, c_size_t(64)) == INVALID_VALUE
    assert driver.cuMemcpyDtoH_v2(wrong, place, c_size_t(64)) == INVALID_VALUE
    assert driver.cuMemcpyHtoD_v2(c_uint64(address), byref(place), c_size_t(8)) == INVALID_VALUE
    assert driver.cuModuleLoadData(byref(c_void_p()), wrong) in (INVALID_VALUE, 200)
    function = driver.function(driver.module(), "add_one")
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, wrong, None) == INVALID_VALUE
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (c_void_p * 1)(address), None) == INVALID_VALUE
    assert driver.cuMemHostRegister_v2(wrong, c_size_t(4096), 0) == INVALID_VALUE
    assert driver.cuCtxSynchronize() == 0


def test_memory_that_is_freed_twice(driver: Driver, found: Session) -> None:
    address = driver.allocate(64)
    assert driver.cuMemFree_v2(c_uint64(address.value + 8)) == INVALID_VALUE
    driver.call("cuMemFree_v2", address)
    assert driver.cuMemFree_v2(address) == INVALID_VALUE
    assert driver.cuMemFree_v2(c_uint64(0)) == 0
    assert [d.code for d in found.diagnostics] == ["I504", "I504"]
    inside, twice = (d.message for d in found.diagnostics)
    assert inside.startswith(f"cuMemFree of {address.value + 8:#x}, which is not the start of an allocation: cuMemAlloc #")
    assert twice.startswith(f"cuMemFree of {address.value:#x}, which was freed before: cuMemAlloc #")


def test_a_kernel_that_uses_freed_memory(driver: Driver, found: Session) -> None:
    address = driver.to_device(np.zeros(4, np.uint32))
    function = driver.function(driver.module(), "add_one")
    assert driver.launch(function, address) == 0
    driver.call("cuMemFree_v2", address)
    assert driver.launch(function, address) == 0
    assert driver.cuCtxSynchronize() == ILLEGAL_ADDRESS
    assert driver.launch(function, address) == ILLEGAL_ADDRESS
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "M403"
    assert any(what == "launched at" for what, _ in diagnostic.details)
    driver.call("cuDevicePrimaryCtxReset_v2", 0)
    driver.context()
    driver.call("cuCtxSynchronize")


@pytest.mark.parametrize(
    ("shape", "result", "text"),
    [
        ({"grid": 0}, 1, "the grid has no CTA"),
        ({"block": 1025}, 1, "a CTA has 1 to 1024 threads, in z at most 64"),
        ({"shared": 60000}, 1, "more dynamic shared memory than attribute 8"),
    ],
)
def test_launches_that_are_refused(driver: Driver, found: Session, shape: dict[str, int], result: int, text: str) -> None:
    assert driver.launch(driver.function(driver.module(), "empty"), **shape) == result
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "I505"
    assert text in diagnostic.message
    assert driver.cuCtxSynchronize() == 0


@needs_compiler
def test_a_process_with_another_driver(tmp_path: Path) -> None:
    other = shutil.copy(build(DRIVER), tmp_path)
    program = f"import ctypes\nctypes.CDLL({str(other)!r})\nfrom ptxlab import cuda\ncuda.install()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert any(line.endswith("error[I513]: the process has loaded another CUDA driver") for line in lines)
    assert any(
        line.startswith("fix: call ptxlab.cuda.install() before the first import of a package that loads a driver") for line in lines
    )


@needs_compiler
def test_calls_after_the_end_and_after_fork() -> None:
    done = _run("""
count = ctypes.c_int()
assert library.cuInit(0) == 0
pid = os.fork()
if not pid:
    os._exit(10 * library.cuInit(0) + library.cuDeviceGetCount(ctypes.byref(count)))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
driver.library.ptxlab_shut_down()
print(library.cuDeviceGetCount(ctypes.byref(count)), library.cuInit(0))
text = ctypes.c_char_p()
released = [library.cuMemFree_v2(None), library.cuMemFreeAsync(None, None)]
released += [library.cuStreamDestroy_v2(None), library.cuMemPoolDestroy(None)]
assert released == [0] * 4, "objects of Python end after the driver"
print(library.cuModuleUnload(None), library.cuLibraryUnload(None), library.cuGetErrorString(4, ctypes.byref(text)), text.value.decode())
""")
    assert (done.returncode, done.stdout.splitlines()) == (0, ["33", "4 4", "0 0 0 driver shutting down"]), done.stderr


@needs_compiler
def test_a_process_that_ends_without_waiting_has_its_findings() -> None:
    done = _run(f"""
from tests.cuda.driver_helpers import KERNELS
context, module, function = (ctypes.c_void_p() for _ in range(3))
assert library.cuInit(0) == 0
assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert library.cuCtxSetCurrent(context) == 0
assert library.cuModuleLoadData(ctypes.byref(module), {KERNELS.encode()!r}) == 0
assert library.cuModuleGetFunction(ctypes.byref(function), module, b"add_one") == 0
nothing = ctypes.c_uint64(4096)
assert library.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (ctypes.c_void_p * 1)(ctypes.addressof(nothing)), None) == 0
""")
    assert done.returncode == 0
    assert "error[M401]" in done.stderr


def _resident() -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def test_memory_is_not_left_behind(driver: Driver) -> None:
    def round_() -> None:
        context = c_void_p()
        driver.call("cuCtxCreate_v2", byref(context), 0, 0)
        for _ in range(20):
            driver.call("cuMemsetD8_v2", driver.allocate(1 << 20), ctypes.c_ubyte(1), c_size_t(1 << 20))
            driver.call("cuEventRecord", driver.event(), driver.stream())
        driver.call("cuCtxDestroy_v2", context)

    round_()
    before = _resident()
    for _ in range(10):
        round_()
    assert _resident() - before < 10_000


def test_ten_thousand_calls_leave_no_threads(driver: Driver) -> None:
    at, stream = driver.to_device(np.zeros(4, np.uint32)), driver.stream()
    for _ in range(10_000):
        driver.call("cuMemsetD32Async", at, number(1), c_size_t(4), stream)
    driver.call("cuStreamSynchronize", stream)
    assert len(list(Path("/proc/self/task").iterdir())) < 100


def test_the_kernels_of_the_tests_are_valid() -> None:
    import ptxlab

    assert [d.code for d in ptxlab.lint(KERNELS, target="sm_90a")] == []


SUM = """.version 8.0
.target sm_90
.address_size 64
.visible .entry sums(.param .u64 out, .param .u64 a, .param .u8 empty[1], .param .u64 b) {
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [a];
  ld.param.u64 %rd3, [b];
  add.s64 %rd4, %rd2, %rd3;
  st.global.u64 [%rd1], %rd4;
  ret;
}
"""


@needs_compiler
@pytest.mark.parametrize(
    ("at", "result"), [(2048, 0), (mmap.PAGESIZE - 8, 0), (mmap.PAGESIZE - 4, INVALID_VALUE), (mmap.PAGESIZE, INVALID_VALUE)]
)
def test_values_of_parameters_behind_readable_ones(driver: Driver, at: int, result: int) -> None:
    """Three values on one page, and one at its end, over it, or on the next page, which cannot be read."""
    driver.context()
    sums = driver.function(driver.module(SUM), "sums")
    out = driver.allocate(8)
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [c_void_p, c_size_t, c_int]
    for offset, value in ((0, out.value), (8, 30), (24, 0)):
        c_uint64.from_address(start + offset).value = value
    if not result:
        c_uint64.from_address(start + at).value = 12
    assert libc.mprotect(start + mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
    try:
        pointers = (c_void_p * 4)(*(start + offset for offset in (0, 8, 24, at)))
        assert driver.library.cuLaunchKernel(sums, 1, 1, 1, 1, 1, 1, 0, None, pointers, None) == result
        if not result:
            found = c_uint64()
            driver.call("cuMemcpyDtoH_v2", byref(found), out, c_size_t(8))
            assert found.value == 42
    finally:
        assert libc.mprotect(start + mmap.PAGESIZE, mmap.PAGESIZE, 3) == 0
