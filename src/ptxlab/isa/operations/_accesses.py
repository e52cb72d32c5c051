"""The bytes that operations read and write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.isa.context import Mbarrier

__all__ = ["AccessMarks", "MemoryAccess", "PlacedRanges"]


@lru_cache(maxsize=256)
def _rows_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The byte offsets of the rows of an array whose last axis is contiguous, and the size of each."""
    offsets = np.zeros(1, np.uint64)
    for count, stride in zip(shape[:-1], strides[:-1], strict=True):
        offsets = (offsets[:, None] + (np.arange(count) * stride).astype(np.uint64)).reshape(-1)
    sizes = np.array([shape[-1] * itemsize], np.uint32)
    for each in (offsets, sizes):
        each.setflags(write=False)
    return offsets, sizes


class MemoryAccess:
    """Byte ranges that an operation reads or writes in shared, global or tensor memory, as ranges of host memory.

    ``starts`` are host addresses. ``sizes`` are byte counts: one for each range, or one for all. ``signal`` is the mbarrier on which this
    access completes, or None if it completes in another way. ``reads``: the written bytes are also read first (an accumulator). ``where``
    is for compiled code: the addresses of the two arrays, the distance from one size to the next, and the number of ranges. ``placed``
    says where the ranges are in the memories of a CTA group, if that is known.
    """

    __slots__ = ("placed", "reads", "signal", "sizes", "starts", "where", "write")

    def __init__(
        self,
        starts: NDArray[np.uint64],
        sizes: NDArray[np.uint32],
        write: bool,
        signal: Mbarrier | None = None,
        reads: bool = False,
        placed: PlacedRanges | None = None,
    ) -> None:
        self.starts = starts
        self.sizes = sizes
        self.write = write
        self.signal = signal
        self.reads = reads
        self.placed = placed
        self.where = address_of(starts), address_of(sizes), 4 if len(sizes) > 1 else 0, len(starts)

    @property
    def name(self) -> int:
        """What identifies the ranges among all accesses of one thread to tensor memory."""
        return self.where[0] if self.placed is None else self.placed.name

    @classmethod
    def of(cls, memory: NDArray[Any], write: bool, signal: Mbarrier | None = None) -> MemoryAccess:
        """All bytes of an array whose last axis is contiguous."""
        address = address_of(memory)
        if memory.flags.c_contiguous:
            return cls(np.array([address], np.uint64), np.array([memory.nbytes], np.uint32), write, signal)
        offsets, sizes = _rows_of(memory.shape, memory.strides, memory.itemsize)
        return cls(offsets + np.uint64(address), sizes, write, signal)

    def signalled(self, signal: Mbarrier) -> MemoryAccess:
        """Return an access to the same bytes that completes on an mbarrier."""
        made = MemoryAccess.__new__(MemoryAccess)
        made.starts, made.sizes, made.where = self.starts, self.sizes, self.where
        made.write, made.reads, made.signal, made.placed = self.write, self.reads, signal, self.placed
        return made

    @classmethod
    def together(cls, accesses: Iterable[MemoryAccess]) -> tuple[MemoryAccess, ...]:
        """Merge accesses into at most one read and one write; their mbarriers are dropped."""
        found = list(accesses)
        made = []
        for write in (False, True):
            parts = [t for t in found if t.write is write]
            if parts:
                sizes = [np.broadcast_to(t.sizes, t.starts.shape) for t in parts]
                starts = np.concatenate([t.starts for t in parts])
                made.append(cls(starts, np.concatenate(sizes), write, reads=any(t.reads for t in parts)))
        return tuple(made)


class PlacedRanges:
    """The ranges of an access in the memories of a CTA group: those of an equal access of another group are in its memories.

    Parameters
    ----------
    memories, starts : of each range the number of the memory, and the offset of the first byte there
    sizes, write, reads : as of `MemoryAccess`

    Attributes
    ----------
    name : a number that other ranges do not have
    where : for compiled code: of each run of ranges in one memory the number of the memory, and `MemoryAccess.where`, whose starts are the
        offsets
    """

    __slots__ = ("_memories", "_reads", "_sizes", "_starts", "_write", "name", "where")

    def __init__(
        self, memories: NDArray[np.int64], starts: NDArray[np.uint64], sizes: NDArray[np.uint32], write: bool, reads: bool
    ) -> None:
        self._memories, self._starts, self._sizes, self._write, self._reads = memories, starts, sizes, write, reads
        self.name, step = address_of(starts), 4 if len(sizes) > 1 else 0
        cuts = (np.flatnonzero(np.diff(memories)) + 1).tolist()
        self.where = [
            (memories.item(first), self.name + 8 * first, address_of(sizes) + step * first, step, end - first)
            for first, end in zip([0, *cuts], [*cuts, len(starts)], strict=True)
        ]

    def within(self, bases: Sequence[int]) -> MemoryAccess:
        """The access of a CTA group whose memories begin at these host addresses."""
        first = np.array(bases, np.uint64)[self._memories]
        return MemoryAccess(first + self._starts, self._sizes, self._write, reads=self._reads, placed=self)


class AccessMarks(Protocol):
    """What marks in a worker process which bytes of device memory its clusters have accessed; compiled code marks its own accesses."""

    def mark(self, accesses: Iterable[MemoryAccess]) -> None:
        """Mark accesses; those to other memory than device memory are left out."""

    def mark_once(self, accesses: tuple[MemoryAccess, ...]) -> None:
        """Mark accesses that an operation repeats, given as the same object each time."""
