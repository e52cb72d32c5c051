"""What a launch has accessed in device memory, from the shadow of its race check, for checks of the order of launches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.check.model import Kind
from ptxlab.check.race.clocks.releases import access_order
from ptxlab.check.race.shadow.shadow import Object
from ptxlab.check.race.shadow.shadow_words import BEFORE, CLUSTER_SHIFT, HOW_SHIFT
from ptxlab.isa.effects import Fence
from ptxlab.machine.launch.configuration import ORDERS, STRONG, WRITES

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["accessed_ranges"]

_GRANULE = 32
_FULL = 0xFFFF_FFFF
_KIND = 0xF


def accessed_ranges(launch: Launch, watched: Iterable[Object]) -> NDArray[np.uint64]:
    """The bytes of device memory that a launch has accessed: rows of first byte, end, and how (`Outside.accessed`), sorted."""
    of_ops = _strength(launch)
    found: list[NDArray[np.uint64]] = [np.empty((0, 3), np.uint64)]
    for made in watched:
        cells = made.cells
        granules = np.flatnonzero(cells[..., 1].any(axis=1))
        if not granules.size:
            continue
        who, what = cells[granules, :, 0], cells[granules, :, 1]
        bytes_ = what >> np.uint64(24) & np.uint64(_FULL)
        bytes_[who >> np.uint64(32 + CLUSTER_SHIFT) == BEFORE] = 0
        how = (what >> np.uint64(HOW_SHIFT)).astype(np.int64)
        kinds = how >> 1 & _KIND
        strong = (kinds == Kind.STRONG) | (kinds == Kind.NARROW)
        orders = of_ops[(what & np.uint64(0xFF_FFFF)).astype(np.int64) % len(of_ops)]
        ways = how & WRITES | np.where(strong, orders, 0)
        for way in distinct(ways[bytes_ != 0]).tolist():
            masks = np.bitwise_or.reduce(np.where(ways == way, bytes_, np.uint64(0)), axis=1).astype(np.uint32)
            inside = masks != 0
            found.append(_ranges(made.owner.base + granules[inside] * _GRANULE, masks[inside], way))
    ranges = np.concatenate(found)
    return ranges[np.argsort(ranges[:, 0], kind="stable")]


def _strength(launch: Launch) -> NDArray[np.int64]:
    """For each instruction what its accesses are, if they are strong."""
    ops = launch.program.ops
    fenced = any(isinstance(op.effects, Fence) for op in ops)
    return np.array([STRONG | ORDERS * (fenced or access_order(op).synchronises) for op in ops], np.int64)


def _ranges(starts: NDArray[np.int64], masks: NDArray[np.uint32], way: int) -> NDArray[np.uint64]:
    """The ranges of the bytes in masks, each of a granule; those without a gap are joined."""
    full = masks == _FULL
    first, end = starts[full], starts[full] + _GRANULE
    if not full.all():
        bits = np.unpackbits(masks[~full].astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
        edges = np.diff(np.pad(bits, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        rows, at = np.nonzero(edges == 1)
        last_rows, stop = np.nonzero(edges == -1)
        first = np.concatenate([first, starts[~full][rows] + at])
        end = np.concatenate([end, starts[~full][last_rows] + stop])
        order = np.argsort(first, kind="stable")
        first, end = first[order], end[order]
    begins = np.concatenate([[True], first[1:] != end[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    joined = np.empty((int(begins.sum()), 3), np.uint64)
    joined[:, 0], joined[:, 1], joined[:, 2] = first[begins], end[ends], way
    return joined
