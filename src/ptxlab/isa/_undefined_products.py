"""Undefined bits through products of matrices: an element of D depends on a row of A, a column of B, and an element of C."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

__all__ = ["product_of"]


def product_of(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], others: bool = False) -> NDArray[Any]:
    """The masks of the elements of D, from those of A [M, K], B [N, K] and C [M, N]; ``others``: all depend on something undefined."""
    open_ = (a != 0).any(axis=-1)[..., :, None] | (b != 0).any(axis=-1)[..., None, :] | (c != 0) | others
    masks: NDArray[Any] = open_ * ~c.dtype.type(0)
    return masks
