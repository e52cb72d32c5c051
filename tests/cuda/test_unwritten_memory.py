"""Memory of the driver that nothing has written: what reads it is a finding, with the place that allocated it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

import numpy as np
import pytest

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop.session import Session, Settings
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = [pytest.mark.compiler, needs_compiler]

SIZE = c_size_t(64)
COPY = """.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
  .reg .b32 %r<4>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
  ld.global.b32 %r2, [%rd1]; st.global.b32 [%rd2], %r2; ret;
}
"""
POINTER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry follow(.param .u64 table) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>; .reg .pred %p;
  ld.param.u64 %rd1, [table]; ld.global.b32 %r1, [%rd1]; setp.eq.u32 %p, %r1, 5; @%p st.global.b32 [%rd1+4], 7; ret;
}
"""


@pytest.fixture
def current(driver: Driver) -> Driver:
    """The driver with a context."""
    driver.context()
    return driver


def read(driver: Driver, at: c_uint64, size: int = 64) -> None:
    """Copy memory to the host."""
    driver.call("cuMemcpyDtoH_v2", ctypes.create_string_buffer(size), at, c_size_t(size))


def findings(driver: Driver, found: Session) -> list[Diagnostic]:
    """What has been found when all work has ended."""
    driver.call("cuCtxSynchronize")
    driver.own.bridge.memory.update()
    return found.diagnostics


def line_of(text: str) -> str:
    """The place in this file that ends with a comment."""
    with open(__file__) as file:
        (found,) = [i for i, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}")]
    return f"{__file__}:{found}"


def test_a_copy_to_the_host(current: Driver, found: Session) -> None:
    at = c_uint64()
    current.cuMemAlloc_v2(byref(at), SIZE)  # the allocation
    current.cuMemcpyDtoH_v2(ctypes.create_string_buffer(64), at, SIZE)  # the copy
    (diagnostic,) = findings(current, found)
    assert (diagnostic.code, diagnostic.severity) == ("M412", "warning")
    assert "the host reads cuMemAlloc #" in diagnostic.message
    details = dict(diagnostic.details)
    assert (details["called at"], details["allocated at"]) == (line_of("the copy"), line_of("the allocation"))


def test_memory_of_a_pool(current: Driver, found: Session) -> None:
    """It is unwritten after each allocation, also where it was written before."""
    stream, at = current.stream(), c_uint64()
    for _ in range(2):
        current.call("cuMemAllocAsync", byref(at), SIZE, stream)
        current.call("cuMemsetD8Async", at, c_uint8(1), c_size_t(32), stream)
        current.call("cuStreamSynchronize", stream)
        read(current, at, 32)
        assert not findings(current, found)
        current.call("cuMemFreeAsync", at, stream)
    current.cuMemAllocAsync(byref(at), SIZE, stream)  # of a pool
    current.call("cuStreamSynchronize", stream)
    read(current, at)
    (diagnostic,) = findings(current, found)
    assert "the host reads cuMemAllocAsync #" in diagnostic.message
    assert dict(diagnostic.details)["allocated at"] == line_of("of a pool")


WRITES: dict[str, Callable[[Driver, c_uint64, c_uint64], None]] = {
    "a fill": lambda driver, at, other: driver.call("cuMemsetD8_v2", at, c_uint8(1), SIZE),
    "a fill of a stream": lambda driver, at, other: driver.call("cuMemsetD32Async", at, c_uint32(1), c_size_t(16), driver.stream()),
    "rows": lambda driver, at, other: driver.call("cuMemsetD2D8_v2", at, c_size_t(16), c_uint8(1), c_size_t(16), c_size_t(4)),
    "a copy of the host": lambda driver, at, other: driver.call("cuMemcpyHtoD_v2", at, ctypes.create_string_buffer(64), SIZE),
    "a copy on the device": lambda driver, at, other: driver.call("cuMemcpyDtoD_v2", at, other, SIZE),
    "a kernel": lambda driver, at, other: copy(driver, other, at, 16),
}


def copy(driver: Driver, source: c_uint64, to: c_uint64, words: int) -> None:
    """Let a kernel copy words."""
    assert driver.launch(driver.function(driver.module(COPY), "copy"), source, to, block=words) == 0


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_writes_memory(current: Driver, found: Session, write: Callable[[Driver, c_uint64, c_uint64], None]) -> None:
    at, other = current.allocate(64), current.allocate(64)
    current.call("cuMemsetD8_v2", other, c_uint8(1), SIZE)
    write(current, at, other)
    current.call("cuCtxSynchronize")
    read(current, at)
    assert not findings(current, found)


def test_values_of_streams_write_memory(current: Driver, found: Session) -> None:
    at = current.allocate(64)
    current.call("cuStreamWriteValue32_v2", current.stream(), at, c_uint32(1), 0)
    current.call("cuCtxSynchronize")
    read(current, at, 4)
    assert not findings(current, found)
    read(current, at, 8)
    assert [d.code for d in findings(current, found)] == ["M412"]


def test_bits_that_copies_on_the_device_and_kernels_pass_on(current: Driver, found: Session) -> None:
    first, second, third = (current.allocate(64) for _ in range(3))
    current.call("cuMemcpyDtoD_v2", second, first, SIZE)
    copy(current, second, third, 16)
    assert not findings(current, found), "nobody has used them"
    read(current, third)
    (diagnostic,) = findings(current, found)
    assert "origin" in dict(diagnostic.details) or "cuMemAlloc" in diagnostic.message


def test_a_kernel_that_decides_by_them(current: Driver, found: Session) -> None:
    table = current.allocate(64)
    assert current.launch(current.function(current.module(POINTER), "follow"), table) == 0
    (diagnostic,) = findings(current, found)
    assert (diagnostic.code, diagnostic.severity) == ("M412", "error")
    assert "cuMemAlloc #" in diagnostic.message


WAIT_AND_COPY = """.version 8.0
.target sm_90
.address_size 64
.visible .entry wait_and_copy(.param .u64 flag, .param .u64 from, .param .u64 to) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [from]; ld.param.u64 %rd3, [to];
WAIT: ld.acquire.sys.global.b32 %r1, [%rd1]; setp.eq.u32 %p, %r1, 0; @%p bra WAIT;
  ld.global.b32 %r2, [%rd2]; setp.eq.u32 %p, %r2, 5; @%p st.global.b32 [%rd3], %r2; ret;
}
"""


def test_memory_that_is_written_while_a_kernel_waits(current: Driver, found: Session) -> None:
    flag = current.to_device(np.zeros(1, np.uint32))
    source, to = current.allocate(64), current.allocate(64)
    waiting = current.function(current.module(WAIT_AND_COPY), "wait_and_copy")
    assert current.launch(waiting, flag, source, to, stream=current.stream()) == 0
    other = current.stream()
    current.call("cuMemsetD32Async", source, c_uint32(5), c_size_t(16), other)
    current.call("cuStreamWriteValue32_v2", other, flag, c_uint32(1), 0)
    current.call("cuCtxSynchronize")
    assert not [d for d in findings(current, found) if d.code == "M412"]
    read(current, to, 4)
    assert not [d for d in findings(current, found) if d.code == "M412"]


def test_part_of_an_allocation(current: Driver, found: Session) -> None:
    at = current.allocate(64)
    current.call("cuMemsetD8_v2", at, c_uint8(1), c_size_t(60))
    read(current, at, 60)
    assert not findings(current, found)
    read(current, at, 61)
    assert [d.code for d in findings(current, found)] == ["M412"]


@pytest.mark.parametrize("function", ["cuMemHostAlloc", "cuMemAllocManaged"])
def test_memory_that_the_host_may_write_counts_as_written(current: Driver, found: Session, function: str) -> None:
    at = c_void_p()
    current.call(function, byref(at), SIZE, 1)
    copy(current, c_uint64(at.value or 0), to := current.allocate(64), 16)
    read(current, to)
    assert not findings(current, found)


def test_large_memory_is_not_followed(current: Driver, found: Session) -> None:
    read(current, current.allocate((16 << 20) + 1))
    assert not findings(current, found)


def test_nothing_is_known_when_too_many_changes_wait(current: Driver, found: Session) -> None:
    at, other = current.allocate(64), current.allocate(64)
    for _ in range((1 << 16) + 2):
        current.cuMemsetD8_v2(other, c_uint8(1), SIZE)
    read(current, at)
    assert not findings(current, found)


@pytest.mark.parametrize(
    ("options", "follows"),
    [
        ({}, True),
        ({"skip_kernels": ("a",)}, False),
        ({"launches": (1, 2)}, False),
        ({"limit_ctas": 3}, False),
        ({"only": [(0, 0, 0)]}, False),
        ({"check": "none"}, False),
        ({"undefined": "zero"}, False),
    ],
)
def test_settings_under_which_memory_is_followed(options: dict[str, object], follows: bool) -> None:
    assert Settings(**options).follows_memory is follows  # type: ignore[arg-type]


def test_host_code_that_writes_memory_of_the_device(current: Driver, found: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current.own, "_host_writes", False)
    at = current.allocate(64)
    current.own.host_writes()
    read(current, at)
    assert not findings(current, found)
    monkeypatch.undo()
    current.own._follow(found)
