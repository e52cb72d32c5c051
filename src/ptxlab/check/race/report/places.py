"""Where accesses reach memory: the bytes in which two of them overlap, as text, and the lanes that access them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.check.model import Kind
from ptxlab.check.race.report._messages import Access
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object
from ptxlab.check.race.shadow.shadow_words import HOW_SHIFT
from ptxlab.check.race.shadow.transfers import COLUMN_BYTES
from ptxlab.diagnostics import ranges
from ptxlab.machine.memory.global_memory import Allocation
from ptxlab.machine.warp.lane_texts import lane_text

__all__ = ["Words", "bytes_text", "elements_of", "granules", "lanes_at", "overlap", "where_text", "written_by"]

_MOST_RANGES = 4
"""At most so many ranges are listed."""
_IDENTITY = np.uint64(0xFFFFFF | 0xFF << HOW_SHIFT)
"""The bits of instruction and kind in the second word of an entry."""
_LANE_BYTES = 4

Words = NDArray[np.uint64]


def overlap(suspects: Words, row: int) -> tuple[Words, Words]:
    """The granules of all suspects for the same two accesses as suspect ``row``, and the bits of each granule that both access."""
    one = suspects[row]
    same = (suspects[:, [0, 2, 5]] == one[[0, 2, 5]]).all(axis=1) & (((suspects[:, [1, 3]] ^ one[[1, 3]]) & _IDENTITY) == 0).all(axis=1)
    found = suspects[same]
    return found[:, 4], found[:, 1] >> np.uint64(24) & found[:, 3] >> np.uint64(24) & np.uint64(0xFFFFFFFF)


def granules(found: Object, addresses: set[int]) -> tuple[Words, Words]:
    """The granules that hold some bytes of an object's memory, and the bits of these bytes."""
    masks: dict[int, int] = {}
    for address in addresses:
        granule, byte = divmod(address - found.start, 1 << found.granule[0])
        masks[granule] = masks.get(granule, 0) | 1 << byte
    places = [found.start + (granule << found.granule[0]) for granule in masks]
    return np.array(places, np.uint64), np.array(list(masks.values()), np.uint64)


def _addresses(places: Words, masks: Words, unit: int) -> Words:
    """The addresses of the units of memory that masks select, sorted."""
    chosen = (masks[:, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)).astype(bool)
    return distinct((places[:, None] + np.arange(32, dtype=np.uint64) * np.uint64(unit))[chosen])


def where_text(found: Object, places: Words, masks: Words) -> str:
    """The part of an object that granules and masks select, in words: bytes, or columns and lanes."""
    inside = (places >= found.start) & (places < found.start + found.data.nbytes)
    addresses = _addresses(places[inside], masks[inside], 1 << found.granule[1]) - np.uint64(found.start)
    return bytes_text(None if found.granule == TENSOR_GRANULE else found.owner, addresses)


def elements_of(found: Object, places: Words, masks: Words) -> tuple[tuple[str, str], ...]:
    """The elements of global memory that granules and masks select, as details of a finding."""
    if not isinstance(found.owner, Allocation):
        return ()
    inside = (places >= found.start) & (places < found.start + found.data.nbytes)
    offsets = _addresses(places[inside], masks[inside], 1) - np.uint64(found.start)
    return found.owner.elements((offsets + np.uint64(found.owner.base)).tolist())


def written_by(found: Object, unpack: Callable[[int, int], Access]) -> list[tuple[Access, str]]:
    """The last writes to tensor memory, and which part of it; ``unpack`` makes an access of the two words of an entry."""
    entries = np.concatenate([found.cells, found.further], axis=1)
    parts: dict[tuple[int, int], tuple[Access, list[tuple[int, int]]]] = {}
    for granule, entry in np.argwhere(entries[:, :, 1] != 0).tolist():
        who, what = entries[granule, entry].tolist()
        access = unpack(who, what)
        if access.write and access.kind is not Kind.ALLOC:
            parts.setdefault((access.slot, access.op.index), (access, []))[1].append((granule, access.mask))
    step = 1 << found.granule[0]
    listed = []
    for access, held in list(parts.values())[:_MOST_RANGES]:
        places = np.array([found.start + granule * step for granule, _ in held], np.uint64)
        listed.append((access, where_text(found, places, np.array([mask for _, mask in held], np.uint64))))
    return listed


def bytes_text(owner: Any, offsets: Words) -> str:
    """Bytes of the shared memory of a CTA, of an allocation, or of tensor memory (None), in words; ``offsets`` are sorted."""
    if owner is None:
        return _tensor_text(offsets)
    if hasattr(owner, "ctaid"):
        return f"shared memory bytes {_byte_text(offsets)} of CTA {owner.describe()}"
    return f"bytes {_byte_text(offsets)} of {owner.name}"


def _tensor_text(offsets: Words) -> str:
    lanes: dict[int, list[int]] = {}
    for column, lane in zip((offsets // COLUMN_BYTES).tolist(), (offsets % COLUMN_BYTES // _LANE_BYTES).tolist(), strict=True):
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
    return (
        between.join(parts)
        if len(parts) <= _MOST_RANGES
        else f"{between.join(parts[: _MOST_RANGES - 1])} and {len(parts) - _MOST_RANGES + 1} more"
    )


def lanes_at(rows: Words, op: int, size: int, places: Words, masks: Words) -> str:
    """The lanes that access bytes which granules and masks select, according to recorded rows; "" if no row tells."""
    addresses = _addresses(places, masks, 1)
    reaching = 0
    for row in rows[(rows[:, 0] & np.uint64(0xFFFFFFFF)) == op]:
        hosts = row[2:34]
        at = np.searchsorted(addresses, hosts)
        hit = (at < len(addresses)) & (addresses[np.minimum(at, len(addresses) - 1)] < hosts + np.uint64(size))
        reaching |= int(row[0] >> np.uint64(32)) & int(sum(1 << lane for lane in np.flatnonzero(hit).tolist()))
    return lane_text(reaching) if size and reaching else ""
