"""CUDA arrays: descriptors, copies of rows and of boxes to and from them, and what is refused."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler
INVALID_VALUE, INVALID_HANDLE = 1, 400
HOST, DEVICE, ARRAY = 1, 2, 3
UNSIGNED_8, FLOAT = 1, 0x20
_SIDE = (
    ("x", c_size_t),
    ("y", c_size_t),
    ("z", c_size_t),
    ("level", c_size_t),
    ("type", c_uint32),
    ("host", c_void_p),
    ("device", c_uint64),
    ("array", c_void_p),
    ("context", c_void_p),
    ("pitch", c_size_t),
    ("height", c_size_t),
)


class Descriptor(ctypes.Structure):
    """``CUDA_ARRAY3D_DESCRIPTOR``."""

    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_int),
        ("channels", c_uint32),
        ("flags", c_uint32),
    )


class Box(ctypes.Structure):
    """``CUDA_MEMCPY3D``."""

    _fields_ = (
        *((f"from_{name}", kind) for name, kind in _SIDE),
        *((f"to_{name}", kind) for name, kind in _SIDE),
        ("bytes", c_size_t),
        ("rows", c_size_t),
        ("slices", c_size_t),
    )


def array(driver: Driver, width: int, height: int, depth: int = 0, kind: int = FLOAT, channels: int = 1) -> c_void_p:
    made = c_void_p()
    driver.context()
    driver.call("cuArray3DCreate_v2", byref(made), byref(Descriptor(width, height, depth, kind, channels)))
    return made


def pointer(values: Any) -> c_void_p:
    return c_void_p(values.ctypes.data)


def test_bytes_in_a_row(driver: Driver, found: Session) -> None:
    made, second = array(driver, 16, 0, kind=UNSIGNED_8), array(driver, 4, 4, kind=UNSIGNED_8)
    values, back = np.arange(16, dtype=np.uint8), np.zeros(16, np.uint8)
    driver.call("cuMemcpyHtoA_v2", made, c_size_t(0), pointer(values), c_size_t(16))
    driver.call("cuMemcpyAtoA_v2", second, c_size_t(4), made, c_size_t(0), c_size_t(12))
    driver.call("cuMemcpyAtoA_v2", second, c_size_t(0), made, c_size_t(12), c_size_t(4))
    memory = driver.allocate(16)
    driver.call("cuMemcpyAtoD_v2", memory, second, c_size_t(0), c_size_t(16))
    assert driver.from_device(memory, back).tolist() == [12, 13, 14, 15, *range(12)]
    driver.call("cuMemcpyDtoA_v2", made, c_size_t(8), memory, c_size_t(8))
    stream = driver.stream()
    driver.call("cuCtxSynchronize")
    driver.call("cuMemcpyAtoHAsync_v2", pointer(back), made, c_size_t(0), c_size_t(16), stream)
    driver.call("cuStreamSynchronize", stream)
    assert back.tolist() == [*range(8), 12, 13, 14, 15, 0, 1, 2, 3]
    assert driver.cuMemcpyAtoH_v2(pointer(back), made, c_size_t(8), c_size_t(9)) == INVALID_VALUE
    assert found.ok


def test_boxes(driver: Driver, found: Session) -> None:
    """A box of the host to a place in an array of three dimensions, and the whole array to device memory with a pitch."""
    made = array(driver, 4, 3, 2)
    size = c_size_t(4 * 3 * 2 * 4)
    driver.call("cuMemcpyHtoA_v2", made, c_size_t(0), pointer(np.zeros((2, 3, 4), np.float32)), size)
    box = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2)
    copy = Box(
        from_type=HOST, from_host=box.ctypes.data, from_pitch=8, from_height=2, to_type=ARRAY, to_array=made, bytes=8, rows=2, slices=1
    )
    copy.to_x, copy.to_y, copy.to_z = 4, 1, 1
    driver.call("cuMemcpy3D_v2", byref(copy))
    expected = np.zeros((2, 3, 4), np.float32)
    expected[1, 1:3, 1:3] = box[0]
    memory = driver.allocate(2 * 3 * 32)
    out = Box(from_type=ARRAY, from_array=made, to_type=DEVICE, to_device=memory, to_pitch=32, to_height=3, bytes=16, rows=3, slices=2)
    driver.call("cuMemsetD8_v2", memory, ctypes.c_uint8(0), c_size_t(2 * 3 * 32))
    driver.call("cuMemcpy3D_v2", byref(out))
    got = driver.from_device(memory, np.zeros((2, 3, 8), np.float32))
    np.testing.assert_array_equal(got[:, :, :4], expected)
    copy.to_x = 12
    assert driver.cuMemcpy3D_v2(byref(copy)) == INVALID_VALUE
    assert found.ok


def test_descriptors(driver: Driver) -> None:
    made, found = array(driver, 5, 7, channels=4), Descriptor()
    driver.call("cuArray3DGetDescriptor_v2", byref(found), made)
    assert (found.width, found.height, found.depth, found.format, found.channels, found.flags) == (5, 7, 0, FLOAT, 4, 0)
    driver.call("cuArrayDestroy", made)
    assert driver.cuArrayDestroy(made) == INVALID_HANDLE
    assert driver.cuArray3DGetDescriptor_v2(byref(found), made) == INVALID_HANDLE
    assert driver.cuMemcpyHtoA_v2(made, c_size_t(0), pointer(np.zeros(4)), c_size_t(4)) == INVALID_VALUE


@pytest.mark.parametrize("wrong", [{"width": 0}, {"format": 0x55}, {"channels": 3}, {"flags": 1 << 20}, {"height": 0, "depth": 4}])
def test_what_is_no_array(driver: Driver, wrong: dict[str, int]) -> None:
    made = c_void_p()
    driver.context()
    wanted = {"width": 4, "height": 4, "depth": 0, "format": FLOAT, "channels": 1, "flags": 0} | wrong
    assert driver.cuArray3DCreate_v2(byref(made), byref(Descriptor(*wanted.values()))) == INVALID_VALUE
