"""The footprint of a launch in L2: the sectors of each allocation that its CTAs read and write, and how many of them share a sector."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.support.compiled import address_of as function_address
from ptxlab.engine.support.footprint import BLOCK_WORDS, HOST_ROW_WORDS, PADDING, ROW_WORDS, SECTOR, Block, RowWord
from ptxlab.isa.operations import MemoryAccess
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.memory.global_memory import DeviceMemory

__all__ = ["Footprint", "FootprintRecorder", "whole_footprint"]

_WORD = 64
"""Bits of a word; the bits of each allocation begin with one, so that they are counted by the word."""
_CLEARED = 1 << 19
"""Bytes of bitmaps that are cleared sooner than new ones are made."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes in the sectors of 32 bytes of an array, or of all of them, that the CTAs which ran have accessed.

    Attributes
    ----------
    name : of the array; empty for all of them together
    size : bytes of the array
    read, written : in different sectors. Each one that is read comes from DRAM at least once, unless it is in L2 before the launch, and
        each one that is written goes there at least once
    either : in sectors that are read or written: what L2 would have to hold
    read_by_ctas, written_by_ctas : the sums over the CTAs of the different sectors of each one; a multicast copy counts once, for the CTA
        that starts it
    """

    name: str
    size: int
    read: int
    written: int
    either: int
    read_by_ctas: int
    written_by_ctas: int

    @property
    def reuse(self) -> float:
        """How many CTAs read a sector that is read, on average; 0 if none is."""
        return self.read_by_ctas / self.read if self.read else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "reuse": round(self.reuse, 4)}


class FootprintRecorder:
    """Keeps the bitmaps of a launch: those of all CTAs together, and of each resident one."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._allocations = memory.live()
        ends = [(a.base + a.size + SECTOR - 1) // SECTOR - a.base // SECTOR + PADDING for a in self._allocations]
        self._bits = [0, *np.cumsum([-(-end // _WORD) * _WORD for end in ends]).tolist()]
        self._rows: NDArray[np.int64] = np.zeros((max(len(ends), 1), ROW_WORDS), np.int64)
        for row, allocation, first in zip(self._rows, self._allocations, self._bits, strict=False):
            row[[RowWord.BASE, RowWord.SIZE, RowWord.FIRST]] = allocation.base, allocation.size, first
        self._hosts: NDArray[np.int64] = np.zeros((len(ends), HOST_ROW_WORDS), np.int64)
        for at, allocation in enumerate(self._allocations):
            self._hosts[at] = address_of(allocation.data), allocation.size, address_of(self._rows[at])
        self._hosts = self._hosts[np.argsort(self._hosts[:, 0])]
        self._spare: list[NDArray[np.uint8]] = []
        self._all = self._bitmaps()
        self._blocks: dict[CtaState, tuple[NDArray[np.int64], NDArray[np.uint8]]] = {}

    def _bitmaps(self) -> NDArray[np.uint8]:
        """Two bitmaps without bits. Large ones take no memory where no bit is set; small ones of CTAs that have ended are used again."""
        size = self._bits[-1] // 8 + PADDING // 8
        if self._spare:
            found = self._spare.pop()
            found[:] = 0
            return found
        memory = mmap.mmap(-1, 2 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return np.frombuffer(memory, np.uint8).reshape(2, size)

    def block(self, cta: CtaState) -> NDArray[np.int64]:
        """The words of a CTA for compiled code."""
        found = self._blocks.get(cta)
        if found is None:
            own, words = self._bitmaps(), np.zeros(BLOCK_WORDS, np.int64)
            for first, bitmaps in ((Block.OWN, own), (Block.ALL, self._all)):
                words[first : first + 2] = address_of(bitmaps[0]), address_of(bitmaps[1])
            words[[Block.ROWS, Block.COUNT, Block.LAST]] = address_of(self._rows), len(self._allocations), address_of(self._rows)
            found = self._blocks[cta] = words, own
        return found[0]

    def ended(self, cta: CtaState) -> None:
        """Forget which sectors a CTA has accessed that has ended."""
        block = self._blocks.pop(cta, None)
        if block is not None and block[1].size <= _CLEARED:
            self._spare.append(block[1])

    def touch(self, cta: CtaState, accesses: Iterable[MemoryAccess]) -> None:
        """Note what an operation accesses of device memory."""
        block, touch = address_of(self.block(cta)), _touch_ranges()
        for access in accesses:
            if not access.write or access.reads:
                touch(block, address_of(self._hosts), len(self._hosts), *access.where, 0)
            if access.write:
                touch(block, address_of(self._hosts), len(self._hosts), *access.where, 1)

    def arrays(self) -> tuple[Footprint, ...]:
        """The footprints of the allocations that were accessed, in the order of their addresses."""
        return tuple(
            Footprint(", ".join(place.name for place in a.arrays) or a.name, a.size, *self._sizes(at))
            for at, a in enumerate(self._allocations)
            if self._rows[at, [RowWord.READ, RowWord.WRITTEN]].any()
        )

    def _sizes(self, at: int) -> list[int]:
        first, end = self._bits[at] // 8, self._bits[at + 1] // 8
        read, written = (bitmap[first:end].view(np.uint64) for bitmap in self._all)
        bits = [int(np.bitwise_count(part).sum()) for part in (read, written, read | written)]
        return [SECTOR * number for number in (*bits, *self._rows[at, [RowWord.READ, RowWord.WRITTEN]].tolist())]


def whole_footprint(arrays: Iterable[Footprint]) -> Footprint:
    """The footprint of several arrays together."""
    rows = [astuple(each)[1:] for each in arrays]
    return Footprint("", *map(sum, zip(*rows, strict=True))) if rows else Footprint("", *(0,) * 6)


@cache
def _touch_ranges() -> Any:
    number = ctypes.c_int64
    return ctypes.PYFUNCTYPE(None, *(number,) * 8)(function_address("touchranges"))
