"""The elements of the arrays in device memory: from addresses to ``c[2, 0]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass

__all__ = ["ArrayPlace", "elements_text"]

_MOST = 3
"""At most so many runs of elements are listed."""


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """An array in device memory.

    Attributes
    ----------
    name : what findings call it
    address : of the first element
    dtype, itemsize : the type of the elements, and their bytes
    shape, strides : of each dimension, the strides in bytes
    """

    name: str
    address: int
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} is {self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def contiguous_bytes(self) -> int:
        """The bytes from the first element to the end of the last one, if each of them belongs to one element; else 0.

        Examples
        --------
        >>> [ArrayPlace("c", 0x1000, "float32", 4, (2, 3), strides).contiguous_bytes for strides in ((12, 4), (4, 8), (16, 4))]
        [24, 24, 0]
        """
        size = self.itemsize
        for stride, count in sorted(zip(self.strides, self.shape, strict=True)):
            if stride < 0 or (count != 1 and stride != size):
                return 0
            size *= count
        return size

    def indices(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elements that hold some bytes, as rows [element, dimension], in order and each once; what holds no byte of these is left out.

        Behind the last element the index in the outermost dimension goes on.

        Examples
        --------
        >>> c = ArrayPlace("c", 0x1000, "float32", 4, (2, 3), (12, 4))
        >>> c.indices(np.array([0x1000 + 17, 0x1000 + 24, 0xfff])).tolist()
        [[1, 1], [2, 0]]
        """
        found, held = self.locate(addresses)
        found = found[held]
        return found[np.append(True, (np.diff(found, axis=0) != 0).any(axis=1))] if len(found) else found

    def locate(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The indices of the elements at some addresses, ``[address, dimension]``, and which of the addresses are bytes of elements.

        Examples
        --------
        >>> c = ArrayPlace("c", 0x1000, "float32", 4, (2, 3), (12, 4))
        >>> found, held = c.locate(np.array([0x1000 + 17, 0xfff]))
        >>> found[held].tolist(), held.tolist()
        ([[1, 1]], [True, False])
        """
        dimensions = sorted(range(len(self.shape)), key=lambda d: (-abs(self.strides[d]), d))
        left = addresses - self.address - sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True) if s < 0)
        found: NDArray[np.int64] = np.zeros((len(left), len(self.shape)), np.int64)
        held = (left >= 0) & (0 not in self.shape)
        for d in dimensions:
            step, count = abs(self.strides[d]), self.shape[d]
            if not step or (count == 1 and d != dimensions[0]):
                continue
            at, left = np.divmod(left, step)
            if d != dimensions[0] or self.strides[d] < 0:
                held &= at < count
            found[:, d] = at if self.strides[d] > 0 else count - 1 - at
        return found, held & (left < self.itemsize)

    def holds(self, address: int) -> bool:
        """Whether a byte belongs to an element.

        Examples
        --------
        >>> c = ArrayPlace("c", 0x1000, "float32", 4, (2, 3), (16, 4))
        >>> c.holds(0x1000 + 11), c.holds(0x1000 + 12), c.holds(0x1000 + 16), c.holds(0x1000 + 32)
        (True, False, True, False)
        """
        left = address - self.address - sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True) if s < 0)
        if left < 0 or 0 in self.shape:
            return False
        for step, count in sorted(((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if s and n > 1), reverse=True):
            at, left = divmod(left, step)
            if at >= count:
                return False
        return left < self.itemsize

    def element(self, index: Sequence[int]) -> str:
        """``c[2, 0]``."""
        return f"{self.name}[{', '.join(map(str, index))}]"


def elements_text(arrays: Iterable[ArrayPlace], addresses: Iterable[int]) -> str:
    """The elements that some bytes belong to, in words; "" if they belong to no array.

    Examples
    --------
    >>> c = ArrayPlace("c", 0x1000, "float32", 4, (2, 3), (12, 4))
    >>> elements_text([c], range(0x1000, 0x100c)), elements_text([c], [0x1000, 0x1010])
    ('c[0, 0] to c[0, 2]; c is float32[2, 3]', 'c[0, 0], c[1, 1]; c is float32[2, 3]')
    >>> elements_text([c], [0x1018])
    'c[2, 0], which does not exist; c is float32[2, 3]'
    """
    wanted = np.fromiter(addresses, np.int64)
    beyond: list[tuple[int, str]] = []
    for array in arrays:
        found = array.indices(wanted)
        inside = found[(found < array.shape).all(axis=1)]
        if len(inside):
            return f"{_listed(array, inside)}; {array}"
        if len(found):
            beyond.append((array.address, f"{array.element(found[0].tolist())}, which does not exist; {array}"))
    return max(beyond, key=lambda each: each[0])[1] if beyond else ""


def _listed(array: ArrayPlace, indices: NDArray[np.int64]) -> str:
    """Runs along the last dimension."""
    step = np.zeros(len(array.shape), np.int64)
    step[-1:] = 1
    starts = np.flatnonzero(np.append(True, (np.diff(indices, axis=0) != step).any(axis=1))).tolist()
    texts = []
    for first, stop in zip(starts[:_MOST], [*starts[1:], len(indices)], strict=False):
        one, last = indices[first].tolist(), indices[stop - 1].tolist()
        texts.append(array.element(one) + (f" to {array.element(last)}" if last != one else ""))
    return ", ".join(texts) + (f" and {len(starts) - _MOST} more" if len(starts) > _MOST else "")
