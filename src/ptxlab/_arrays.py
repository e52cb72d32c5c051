"""What NumPy does only with modules that take long to import."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["distinct", "have_common"]


def distinct(values: ArrayLike) -> NDArray[Any]:
    """The integers of an array in order, each once: `numpy.unique`, whose first call imports masked arrays.

    >>> distinct([[3, 1], [1, 2]])
    array([1, 2, 3])
    """
    found: NDArray[Any] = np.sort(values, axis=None)
    first = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    chosen: NDArray[Any] = found[first]
    return chosen


def have_common(a: ArrayLike, b: ArrayLike) -> bool:
    """Whether some integer stands in both arrays.

    >>> have_common([1, 2, 2], [3, 2]), have_common([1], [])
    (True, False)
    """
    return bool(np.intersect1d(distinct(a), distinct(b), assume_unique=True).size)
