"""Where two accesses meet, in words: all bytes, or columns and lanes, and the lanes of the warp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object
from ptxlab.check.race.shadow.shadow_ir import HOW_SHIFT
from ptxlab.diagnostics import ranges
from ptxlab.machine.launch.reports import lane_text

__all__ = ["granules", "lanes_at", "overlap", "where_text"]

_MOST = 4
"""Ranges that are written out."""
_IDENTITY = np.uint64(0xFFFFFF | 0xFF << HOW_SHIFT)
"""Instruction and kind of an entry, without its mask."""
_COLUMN_BYTES, _LANE_BYTES = 512, 4

Words = NDArray[np.uint64]


def overlap(suspects: Words, row: int) -> tuple[Words, Words]:
    """The granules, and the masks of what is shared there, of all suspects for the two accesses of one."""
    one = suspects[row]
    same = (suspects[:, [0, 2, 5]] == one[[0, 2, 5]]).all(axis=1) & (((suspects[:, [1, 3]] ^ one[[1, 3]]) & _IDENTITY) == 0).all(axis=1)
    found = suspects[same]
    return found[:, 4], found[:, 1] >> np.uint64(24) & found[:, 3] >> np.uint64(24) & np.uint64(0xFFFFFFFF)


def granules(found: Object, addresses: set[int]) -> tuple[Words, Words]:
    """The granules, and their masks, of bytes of an object's memory."""
    masks: dict[int, int] = {}
    for address in addresses:
        granule, byte = divmod(address - found.start, 1 << found.granule[0])
        masks[granule] = masks.get(granule, 0) | 1 << byte
    places = [found.start + (granule << found.granule[0]) for granule in masks]
    return np.array(places, np.uint64), np.array(list(masks.values()), np.uint64)


def _addresses(places: Words, masks: Words, unit: int) -> Words:
    """The addresses of the units of memory that masks select, in rising order."""
    chosen = (masks[:, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)).astype(bool)
    return np.unique((places[:, None] + np.arange(32, dtype=np.uint64) * np.uint64(unit))[chosen])


def where_text(found: Object, places: Words, masks: Words) -> str:
    """The part of an object that granules and masks select."""
    inside = (places >= found.start) & (places < found.start + found.data.nbytes)
    addresses = _addresses(places[inside], masks[inside], 1 << found.granule[1]) - np.uint64(found.start)
    if found.granule == TENSOR_GRANULE:
        return _tensor_text(addresses)
    owner: Any = found.owner
    if hasattr(owner, "ctaid"):
        return f"shared memory bytes {_byte_text(addresses)} of CTA {owner.describe()}"
    return f"bytes {_byte_text(addresses)} of {owner.name}"


def _tensor_text(offsets: Words) -> str:
    lanes: dict[int, list[int]] = {}
    for column, lane in zip((offsets // _COLUMN_BYTES).tolist(), (offsets % _COLUMN_BYTES // _LANE_BYTES).tolist(), strict=True):
        lanes.setdefault(column, []).append(lane)
    columns: dict[tuple[str, ...], list[int]] = {}
    for column, held in lanes.items():
        columns.setdefault(tuple(ranges(held)), []).append(column)
    parts = [f"column{'s' * (len(c) > 1)} {_some(ranges(c))}, lanes {_some(list(text))}" for text, c in columns.items()]
    return f"tensor memory {_some(parts, '; ')}"


def _byte_text(offsets: Words) -> str:
    gaps = np.flatnonzero(np.diff(offsets) != 1)
    firsts, lasts = offsets[np.concatenate([[0], gaps + 1])], offsets[np.concatenate([gaps, [len(offsets) - 1]])]
    return _some([f"{first:#x}-{last:#x}" for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)])


def _some(parts: list[str], between: str = ", ") -> str:
    return between.join(parts) if len(parts) <= _MOST else f"{between.join(parts[: _MOST - 1])} and {len(parts) - _MOST + 1} more"


def lanes_at(rows: Words, op: int, size: int, places: Words, masks: Words) -> str:
    """The lanes whose accesses, as recorded rows, reach bytes that granules and masks select; "" where no row tells."""
    addresses = _addresses(places, masks, 1)
    reaching = 0
    for row in rows[(rows[:, 0] & np.uint64(0xFFFFFFFF)) == op]:
        hosts = row[2:34]
        at = np.searchsorted(addresses, hosts)
        hit = (at < len(addresses)) & (addresses[np.minimum(at, len(addresses) - 1)] < hosts + np.uint64(size))
        reaching |= int(row[0] >> np.uint64(32)) & int(sum(1 << lane for lane in np.flatnonzero(hit).tolist()))
    return lane_text(reaching) if size and reaching else ""
