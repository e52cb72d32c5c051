"""Sets of integers in arrays, without the modules that NumPy imports for them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ptxlab._arrays import distinct, have_common


@pytest.mark.parametrize("shape", [(0,), (1,), (50,), (5, 7)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint64])
def test_distinct(shape: tuple[int, ...], dtype: type) -> None:
    values = np.random.default_rng(1).integers(0, 20, shape).astype(dtype)
    found, expected = distinct(values), np.unique(values)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_have_common() -> None:
    assert have_common([1, 2, 2, 9], [3, 2])
    assert not have_common([1, 1], [2, 2])
    assert not have_common([], [1])


def test_masked_arrays_are_not_imported() -> None:
    """Their import takes longer than all that the first launch of a process does with sets."""
    code = "import sys; from ptxlab._arrays import *; distinct([1, 1]); have_common([1], [1]); sys.exit('numpy.ma' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
