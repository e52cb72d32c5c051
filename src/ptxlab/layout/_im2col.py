"""The walk of im2col copies over the pixels of a batch of images: sections "im2col mode" and "im2col::w and im2col::w::128 modes"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["im2col_walk", "wide_positions"]

Array = NDArray[np.int64]


def im2col_walk(
    sizes: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    steps: Sequence[int],
    base: Sequence[int],
    positions: Array,
    batch: int = 0,
) -> Array:
    """Which pixels a copy takes: dimension W first, then H, D, and the image.

    Parameters
    ----------
    sizes, lower, upper, steps : of the image for W, H, D: its size, the corners of the bounding box, the traversal strides
    base : where the walk begins
    positions : number of steps of the walk before each pixel of the copy
    batch : the image where it begins

    Returns
    -------
    int64[positions, dimensions of the image + 1]: coordinates without im2col offsets; they may be outside the image

    Examples
    --------
    >>> im2col_walk((4, 3), (-1, -1), (-1, -1), (1, 1), (1, 0), np.arange(5)).tolist()
    [[1, 0, 0], [2, 0, 0], [-1, 1, 0], [0, 1, 0], [1, 1, 0]]
    """
    found = np.empty((len(positions), len(sizes) + 1), np.int64)
    carry = np.asarray(positions, np.int64)
    for d, (size, low, high, step, start) in enumerate(zip(sizes, lower, upper, steps, base, strict=True)):
        last = size - 1 + high
        # The first line goes from the start to the last pixel, the others from the lower corner.
        first = max((last - start) // step + 1, 1)
        line = (last - low) // step + 1
        beyond = carry - first
        found[:, d] = np.where(beyond < 0, start + carry * step, low + beyond % line * step)
        carry = np.where(beyond < 0, 0, 1 + beyond // line)
    found[:, -1] = batch + carry
    return found


def wide_positions(pixels: int, halo: int, fixed: bool) -> Array:
    """The positions of ``im2col::w`` and, if ``fixed``, ``im2col::w::128``.

    The first has ``halo`` more pixels. The second has 128 pixels, then the ``halo`` pixels that follow each group of 32: the first of each
    group, then the second of each, and so on.

    Examples
    --------
    >>> wide_positions(4, 2, False).tolist(), wide_positions(0, 2, True)[128:].tolist()
    ([0, 1, 2, 3, 4, 5], [32, 64, 96, 128, 33, 65, 97, 129])
    """
    if not fixed:
        return np.arange(pixels + halo, dtype=np.int64)
    following = np.arange(halo, dtype=np.int64)[:, None] + 32 * np.arange(1, 5, dtype=np.int64)
    return np.concatenate([np.arange(128, dtype=np.int64), following.ravel()])
