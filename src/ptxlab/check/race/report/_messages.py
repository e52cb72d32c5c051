"""What reports say: the code of two accesses, which order is missing, and what to insert."""

from __future__ import annotations

from ptxlab._records import dataclass
from ptxlab.check.model import ASYNC_PROXY, TENSOR_SPACE, Kind, Row
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object
from ptxlab.check.race.shadow.shadow_words import CLUSTER_SHIFT
from ptxlab.isa.effects import Access as MemoryEffect
from ptxlab.isa.effects import Asynchronous, Completion, Dealloc
from ptxlab.isa.operands import Op

__all__ = [
    "MISSING",
    "Access",
    "code_of",
    "completion_of",
    "fix_of",
    "join_of",
    "past_of",
    "shortened",
]

_LONGEST = 120


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
    "X102": "insert fence.proxy.async after {2}line {0}, before the barrier that lets line {1} go on",
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
_REUSED = (
    "wait with mbarrier.try_wait before line {1} until what line {0} has brought has been read, on an mbarrier on which the readers "
    "arrive: tcgen05.commit behind tcgen05.mma, else mbarrier.arrive"
)
_CLUSTER = "synchronise the CTAs of the cluster between line {0} and line {1}: barrier.cluster.arrive and barrier.cluster.wait"


def fix_of(code: str, earlier: Access, later: Access, waited: bool, joined: str = "CTA", barrier: bool = True) -> str:
    """What to insert between two accesses.

    ``waited``: the warp of the earlier one has itself waited for it. ``joined``: what both are in, ``CTA``, ``cluster`` or ``grid``.
    ``barrier``: whether threads synchronise between the two.
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
    elif code == "X102":
        text = text if barrier else "insert fence.proxy.async after {2}line {0}, in the same threads, before line {1}"
        more = "the wait for " if earlier.kind is Kind.COPY else ""
    elif code == "X103" and earlier.kind is later.kind is Kind.BULK and later.write:
        text = _REUSED
    elif code == "X103" and completion_of(earlier.op) is Completion.BULK_GROUP:
        text = "insert cp.async.bulk.commit_group and cp.async.bulk.wait_group 0 between line {0} and line {1}"
    elif code == "X104" and earlier.kind is Kind.COPY:
        text = _GROUP
    return text.format(earlier.op.line, later.op.line, more)
