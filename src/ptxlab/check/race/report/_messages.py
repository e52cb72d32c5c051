"""What reports say: the code of two accesses, where they overlap, which order is missing, and what to insert."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import ASYNC_PROXY, TENSOR_SPACE, Kind, Row
from ptxlab.check.race.program.value_flow import allocation_awaited
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, HOW_SHIFT
from ptxlab.diagnostics import ranges
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Access as MemoryEffect
from ptxlab.isa.effects import Alloc, Asynchronous, Completion, Dealloc
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.reports import lane_text
from ptxlab.machine.memory.global_memory import Allocation

__all__ = [
    "MISSING",
    "Access",
    "code_of",
    "completion_of",
    "elements_of",
    "filling_of",
    "fix_of",
    "granules",
    "join_of",
    "lanes_at",
    "overlap",
    "past_of",
    "shortened",
    "where_text",
    "writing_of",
    "written_by",
]

_LONGEST = 120
_MOST_RANGES = 4
"""At most so many ranges are listed."""
_IDENTITY = np.uint64(0xFFFFFF | 0xFF << HOW_SHIFT)
"""The bits of instruction and kind in the second word of an entry."""
_COLUMN_BYTES, _LANE_BYTES = 512, 4

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a conflict, unpacked from an entry of the shadow."""

    slot: int
    clock: int
    op: Op
    kind: Kind
    write: bool
    mask: int

    @property
    def serial(self) -> int:
        """The cluster's number."""
        return self.slot >> CLUSTER_SHIFT

    @property
    def column(self) -> int:
        """The slot's first column in the clocks of its cluster."""
        return self.slot & (1 << CLUSTER_SHIFT) - 1

    @property
    def verb(self) -> str:
        """What it does."""
        if isinstance(self.op.effects, Dealloc):
            return "releases"
        return "writes" if self.write else "reads"


def shortened(text: str) -> str:
    """A line of PTX without its long vectors."""
    text = text.strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def join_of(op: Op, reads: bool, grouped: bool = True) -> str:
    """How to wait for an asynchronous operation, which may have been left out of all groups."""
    completion = completion_of(op)
    if completion is Completion.WGMMA_GROUP:
        return "insert wgmma.commit_group and wgmma.wait_group 0"
    if completion is Completion.COPY_GROUP:
        return "insert cp.async.wait_all" if grouped else "insert cp.async.commit_group and cp.async.wait_group 0, or cp.async.wait_all,"
    return "insert cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0" if reads else "wait on the mbarrier of the copy"


def completion_of(op: Op) -> Completion | None:
    """What completes an asynchronous operation."""
    return op.effects.completion if isinstance(op.effects, Asynchronous) else None


def past_of(access: Access) -> str:
    return {"reads": "reads", "writes": "writes", "releases": "released"}[access.verb]


def _is_map(found: Object, earlier: Access, later: Access) -> bool:
    """Whether one of the two makes a tensor map that the other, a tensor copy, uses."""
    maps = [e for e in (earlier.op.effects, later.op.effects) if isinstance(e, MemoryEffect | Asynchronous) and e.tensor_map]
    return found.proxy_row == Row.ASYNC_GLOBAL and len({type(e) for e in maps}) == 2


def code_of(earlier: Access, later: Access, found: Object, ordered: bool, waited: bool, fences: bool) -> str:
    if fences and earlier.kind in TENSOR_SPACE and later.kind in TENSOR_SPACE:
        return "X115"
    if found.granule == TENSOR_GRANULE and (earlier.kind is Kind.ALLOC or (later.kind is Kind.ALLOC and waited)):
        return "X113"
    if _is_map(found, earlier, later):
        return "X117" if earlier.write else "X118"
    if earlier.kind in (Kind.GENERIC, Kind.SILENT, Kind.STRONG, Kind.COPY) and earlier.write and later.kind in ASYNC_PROXY and ordered:
        return "X102"
    by_kind = {
        Kind.BULK: "X103" if earlier.write else "X104",
        Kind.REDUCE: "X103" if earlier.write else "X104",
        Kind.MMA: "X105" if earlier.write else "X106",
        Kind.CP: "X105" if earlier.write else "X106",
        Kind.CP_4X256B: "X105" if earlier.write else "X106",
        Kind.SHIFT: "X105",
        Kind.ST: "X107",
        Kind.LD: "X108",
        Kind.WGMMA: "X110",
        Kind.COPY: "X111" if earlier.write else "X104",
        Kind.STORE: "X103",
    }
    if earlier.kind in by_kind:
        return by_kind[earlier.kind]
    if later.kind in ASYNC_PROXY:
        return "X112"
    return "X114" if found.proxy_row == Row.ASYNC_GLOBAL else "X101"


MISSING = {
    "X101": "nothing orders the two threads",
    "X102": "no proxy fence stands between",
    "X103": "nothing has waited for the copy",
    "X104": "nothing has waited until the copy has read it",
    "X105": "nothing has waited for its completion",
    "X106": "nothing has waited for its completion",
    "X107": "no tcgen05.wait::st and no order between",
    "X108": "its registers are neither consumed nor awaited",
    "X109": "only its consumed registers order the two",
    "X110": "nothing has waited for it",
    "X111": "nothing has waited for the copy",
    "X112": "nothing orders the two",
    "X113": "nothing orders the two warps",
    "X114": "nothing orders the two threads",
    "X117": "no fence.proxy.tensormap stands between",
    "X118": "nothing has waited for the copy",
    "X115": "a tcgen05.fence is missing between",
}
_THREADS = (
    "synchronise the threads between line {0} and line {1}{2}: bar.sync, or mbarrier.arrive after line {0} and "
    "mbarrier.try_wait before line {1}"
)
_COMMIT = "insert tcgen05.commit after line {0}, and wait on its mbarrier before line {1}"
_LOADED = "insert tcgen05.wait::ld.sync.aligned after line {0}, before the barrier that lets line {1} go on"
_GROUP = "insert cp.async.commit_group and cp.async.wait_group 0 (or cp.async.wait_all) and a barrier between line {0} and line {1}"
_FIXES = {
    "X101": _THREADS,
    "X102": "insert fence.proxy.async after line {0}, before the barrier that lets line {1} go on",
    "X103": "wait with mbarrier.try_wait on the mbarrier of line {0} before line {1}",
    "X104": "insert cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 between line {0} and line {1}, and bar.sync "
    "if another warp writes",
    "X105": _COMMIT,
    "X106": _COMMIT,
    "X107": "insert tcgen05.wait::st.sync.aligned after line {0}, before the threads synchronise",
    "X108": _LOADED,
    "X109": _LOADED,
    "X110": "insert wgmma.commit_group and wgmma.wait_group 0 between line {0} and line {1}, and a barrier if another warp writes",
    "X111": _GROUP,
    "X112": "let the thread of line {0} arrive on a barrier after it, and wait on that barrier before line {1}",
    "X113": "synchronise all warps with a barrier between line {0} and line {1}",
    "X114": _THREADS,
    "X115": "insert tcgen05.fence::before_thread_sync after line {0} before the threads synchronise, and "
    "tcgen05.fence::after_thread_sync before line {1}",
    "X117": "release the map with tensormap.cp_fenceproxy or fence.proxy.tensormap::generic.release after line {0}, and insert "
    "fence.proxy.tensormap::generic.acquire before line {1}",
    "X118": "wait for the copy of line {0} before line {1}: its mbarrier, or cp.async.bulk.wait_group",
}


_BETWEEN_CLUSTERS = "no barrier joins CTAs of different clusters: "
_OWNED = "let one CTA own the element, as {lines} the same index in both CTAs; if both are to add to it, use atom or red"
_PASSED = (
    "let the CTA that writes set a flag after line {write} with st.release.gpu, and the one that reads wait for it with ld.acquire.gpu "
    "before line {read}; or let a CTA read only what it has written itself, or read in a second launch"
)
_CLUSTER = "synchronise the CTAs of the cluster between line {0} and line {1}: barrier.cluster.arrive and barrier.cluster.wait"


def fix_of(code: str, earlier: Access, later: Access, waited: bool, joined: str = "CTA") -> str:
    """What to insert between two accesses.

    ``waited``: the warp of the earlier one has itself waited for it. ``joined``: what both are in, ``CTA``, ``cluster`` or ``grid``.
    """
    text, more = _FIXES[code], ""
    if code in ("X101", "X114") and joined != "CTA":
        text = _CLUSTER if joined == "cluster" else _BETWEEN_CLUSTERS + (_OWNED if earlier.write == later.write else _PASSED)
        write, read = (earlier, later) if earlier.write else (later, earlier)
        one, other = earlier.op.line, later.op.line
        lines = f"line {one} computes" if one == other else f"line {one} and line {other} compute"
        return text.format(one, other, lines=lines, write=write.op.line, read=read.op.line)
    if waited and code in ("X107", "X108"):
        text, more = _THREADS, f", after tcgen05.wait::{'st' if code == 'X107' else 'ld'}"
    elif code == "X103" and completion_of(earlier.op) is Completion.BULK_GROUP:
        text = "insert cp.async.bulk.commit_group and cp.async.bulk.wait_group 0 between line {0} and line {1}"
    elif code == "X104" and earlier.kind is Kind.COPY:
        text = _GROUP
    return text.format(earlier.op.line, later.op.line, more)


# ----------------------------------------------------------------------------------------------- where two accesses overlap


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
    return np.unique((places[:, None] + np.arange(32, dtype=np.uint64) * np.uint64(unit))[chosen])


def where_text(found: Object, places: Words, masks: Words) -> str:
    """The part of an object that granules and masks select, in words: bytes, or columns and lanes."""
    inside = (places >= found.start) & (places < found.start + found.data.nbytes)
    addresses = _addresses(places[inside], masks[inside], 1 << found.granule[1]) - np.uint64(found.start)
    if found.granule == TENSOR_GRANULE:
        return _tensor_text(addresses)
    owner: Any = found.owner
    if hasattr(owner, "ctaid"):
        return f"shared memory bytes {_byte_text(addresses)} of CTA {owner.describe()}"
    return f"bytes {_byte_text(addresses)} of {owner.name}"


def elements_of(found: Object, places: Words, masks: Words) -> tuple[tuple[str, str], ...]:
    """The elements of global memory that granules and masks select, as details of a finding."""
    if not isinstance(found.owner, Allocation):
        return ()
    inside = (places >= found.start) & (places < found.start + found.data.nbytes)
    offsets = _addresses(places[inside], masks[inside], 1) - np.uint64(found.start)
    return found.owner.elements((offsets + np.uint64(found.owner.base)).tolist())


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


def filling_of(reader: Access, written: bool) -> str:
    """What to do about a read of tensor memory that nothing has written; ``written``: whether something else there has been."""
    if reader.kind is not Kind.LD:
        return "let the first tcgen05.mma of the accumulator have enable-input-d false, or fill the columns with tcgen05.st"
    if written:
        return f"let line {reader.op.line} read the columns and lanes that were written: its address, its shape and the warp decide"
    return f"write the columns before line {reader.op.line}, with tcgen05.mma, tcgen05.cp or tcgen05.st"


def writing_of(program: Program, reader: Op, cta: Any) -> str:
    """What to do about a read of shared memory that nothing has written."""
    alloc = allocation_awaited(program, reader, cta)
    if alloc is not None:
        pair = ", or barrier.cluster for both CTAs of the pair" if isinstance(alloc.effects, Alloc) and alloc.effects.pair else ""
        return (
            f"synchronise the warps with a barrier (bar.sync{pair}) between tcgen05.alloc at line {alloc.line} and this read of its address"
        )
    copied = any(completion_of(op) is Completion.BYTES for op in program.ops)
    awaited = ", or wait on the mbarrier of the copy that brings them" if copied else ""
    barrier = "barrier.cluster" if isinstance(reader.effects, Asynchronous) and reader.effects.pair else "a barrier"
    return (
        f"write the bytes before they are read, with {barrier} between if others write them{awaited}; "
        "a fresh CTA's shared memory holds what the last one left there"
    )
