"""Types of elements that DLPack carries: what an array says is what a reader makes of it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ptxlab.formats.dlpack import DeviceArray, _dtype, dlpack_view

NUMPY = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64"]
ML_DTYPES = [
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e8m0fnu",
]


@pytest.mark.parametrize("dtype", [*map(np.dtype, NUMPY), *(np.dtype(getattr(ml_dtypes, name)) for name in ML_DTYPES)], ids=str)
def test_the_type_of_a_device_array_is_read_back(dtype: np.dtype) -> None:
    assert _dtype(DeviceArray(256, (3, 5), (5 * dtype.itemsize, dtype.itemsize), dtype)._managed.tensor) == dtype


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_has_the_same_codes(name: str) -> None:
    given = np.zeros((2, 3), name)
    mine = DeviceArray(given.ctypes.data, given.shape, given.strides, given.dtype)._managed.tensor
    theirs = dlpack_view(given)
    assert (theirs.dtype, theirs.shape, theirs.strides) == (_dtype(mine), given.shape, given.strides)


@pytest.mark.parametrize("dtype", [np.dtype("M8[s]"), np.dtype("S4"), np.dtype(ml_dtypes.int4), np.dtype([("x", "f4")])], ids=str)
def test_other_types_are_refused(dtype: np.dtype) -> None:
    with pytest.raises(BufferError, match="DLPack has no elements of type"):
        DeviceArray(256, (3,), (dtype.itemsize,), dtype)


def test_an_array_is_on_the_device() -> None:
    found = DeviceArray(256, (3,), (4,), np.dtype("f4"))
    assert found.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError, match="its memory is not the computer's"):
        dlpack_view(found)
