"""The virtual driver through ctypes, as a program sees it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import cuda
from ptxlab.cuda.building import compiler
from ptxlab.interop.session import Session, Settings

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")

_HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
VECTOR_ADD = """
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
  .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r5, [n];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
  setp.ge.u32 %p1, %r4, %r5; @%p1 ret;
  mul.wide.u32 %rd4, %r4, 4; add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4; add.u64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd7], %f3; ret;
}
"""
ADD_ONE = """
.visible .entry add_one(.param .u64 at) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at]; ld.global.b32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.b32 [%rd1], %r2; ret;
}
"""
WAIT_FOR = """
.visible .entry wait_for(.param .u64 flag, .param .u32 value) {
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag]; ld.param.u32 %r2, [value];
WAIT:
  ld.acquire.sys.global.b32 %r1, [%rd1];
  setp.ne.u32 %p1, %r1, %r2;
  @%p1 bra WAIT;
  ret;
}
"""
SIGNAL = """
.visible .entry signal(.param .u64 flag, .param .u32 value) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag]; ld.param.u32 %r1, [value]; st.release.sys.global.b32 [%rd1], %r1; ret;
}
"""
EMPTY = ".visible .entry empty() { ret; }\n"
VARIABLE = """
.global .align 4 .b32 counter = 7;
.visible .entry read_counter(.param .u64 to) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to]; ld.global.b32 %r1, [counter]; st.global.b32 [%rd1], %r1; ret;
}
"""
KERNELS = _HEADER + VECTOR_ADD + ADD_ONE + WAIT_FOR + SIGNAL + EMPTY + VARIABLE


class DriverError(Exception):
    """A result that is not CUDA_SUCCESS."""


_session = [Session(Settings(target="sm_90a", keep_going=True), report=lambda _: None)]
"""The last one counts; the first one is there between tests, and at the end of the process."""


def session() -> Session:
    """The session of the running test."""
    return _session[-1]


@contextmanager
def own_session() -> Iterator[Session]:
    """A session whose findings are not printed."""
    made = Session(Settings(target="sm_90a", keep_going=True), report=lambda _: None)
    _session.append(made)
    try:
        yield made
    finally:
        _session.remove(made)


class Driver:
    """The functions of the driver: ``driver.cuInit(0)`` returns the result as a number; `call` raises."""

    def __init__(self) -> None:
        self.own = cuda.install(session)
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        result = getattr(self.library, name)(*arguments)
        if result:
            raise DriverError(f"{name}: {result}")

    def context(self) -> c_void_p:
        """Initialise the driver, and make the primary context of device 0 current."""
        self.call("cuInit", 0)
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        return context

    def allocate(self, size: int) -> c_uint64:
        """Allocate device memory."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address

    def to_device(self, array: NDArray[Any]) -> c_uint64:
        """Allocate device memory and copy an array there."""
        address = self.allocate(array.nbytes)
        self.call("cuMemcpyHtoD_v2", address, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
        return address

    def from_device(self, address: c_uint64, like: NDArray[Any]) -> NDArray[Any]:
        """Copy device memory to a new array."""
        made = np.zeros_like(like)
        self.call("cuMemcpyDtoH_v2", c_void_p(made.ctypes.data), address, c_size_t(made.nbytes))
        return made

    def module(self, text: str = KERNELS) -> c_void_p:
        """Load PTX."""
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), text.encode())
        return module

    def function(self, module: c_void_p, name: str) -> c_void_p:
        """A kernel of a module."""
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, name.encode())
        return function

    def launch(self, function: c_void_p, *arguments: Any, grid: int = 1, block: int = 1, shared: int = 0, stream: Any = None) -> int:
        """Launch a kernel with arguments of ctypes; return the result."""
        pointers = (c_void_p * max(len(arguments), 1))(*(ctypes.addressof(a) for a in arguments))
        return int(self.library.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, pointers, None))

    def stream(self, flags: int = 1) -> c_void_p:
        """A new stream, by default one that does not synchronise with the default stream."""
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), flags)
        return stream

    def event(self, flags: int = 0) -> c_void_p:
        """A new event."""
        event = c_void_p()
        self.call("cuEventCreate", byref(event), flags)
        return event


def number(value: int) -> c_uint32:
    """A 32-bit argument."""
    return c_uint32(value)


def out_int() -> c_int:
    """Where a function stores an int."""
    return c_int(-77)
