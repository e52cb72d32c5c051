"""Sources, destinations and mbarriers of bulk copies: the address computation and checks that all of them use; and bulk async-groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from functools import partial

from ptxlab._records import dataclass
from ptxlab.descriptors import TENSOR_MAP_BYTES
from ptxlab.isa import context, operations
from ptxlab.isa.address_space import PARAM_WINDOW, SHARED_WINDOW
from ptxlab.isa.bulk._linear_syntax import COMMIT_GROUP, WAIT_GROUP
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import CommitGroup, Completion, WaitGroup
from ptxlab.isa.operands import Addr, Const, Resolved, SymbolAddress, Unused
from ptxlab.isa.operations.tiles import CopiedBytes, CopiedTile

__all__ = [
    "Target",
    "delivered",
    "generic_address",
    "is_parameter",
    "is_shared",
    "lanes",
    "masked",
    "moved",
    "range_at",
    "shared_range",
    "signal_targets",
    "start",
    "targets_of",
    "thread_of",
    "track",
    "used_maps",
    "window_of",
]

Target = tuple[context.Cta, int, context.Mbarrier]
"""A CTA that receives bytes at a shared offset, and the mbarrier that counts them."""


def lanes(warp: context.WarpContext) -> Iterator[int]:
    """Yield the executing lanes in order; each thread issues its own bulk copy, unless compiled code has."""
    mask = warp.take_lanes_left()
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def thread_of(warp: context.WarpContext, lane: int) -> Hashable:
    """A key that identifies the issuing thread."""
    return (warp.cta.ctaid, warp.warp_id, lane)


def start(
    warp: context.WarpContext,
    lane: int,
    perform: Callable[[], None],
    accesses: Callable[[], Iterable[operations.MemoryAccess]] | None = None,
    *maps: context.U8,
    undefined: Callable[[operations.UndefinedBits], None] | None = None,
    tiles: Callable[[], Iterable[CopiedTile]] | None = None,
    bytes_copied: Callable[[], Iterable[CopiedBytes]] | None = None,
    repeated: Callable[[], tuple[operations.MemoryAccess, ...]] | None = None,
) -> operations.AsyncOperation:
    """Issue a copy for one thread; ``maps`` are the tensor maps in memory that it reads. See `ptxlab.isa.operations.AsyncOperation`.

    ``repeated`` returns its accesses to global memory, the same object for all copies of the same bytes.
    """
    made = operations.AsyncOperation(warp.op.opcode, warp.op, warp.cta, perform, thread=thread_of(warp, lane))
    marks = warp.machine.marks
    if marks is not None:
        if repeated is not None:
            marks.mark_once(repeated())
        elif accesses is not None:
            marks.mark(accesses())
        if maps:
            marks.mark(operations.MemoryAccess.of(each, False) for each in maps)
    if accesses is not None and warp.machine.observed:
        made.accesses = partial(_with_maps, accesses, maps) if maps else accesses
        made.undefined, made.tiles, made.bytes_copied = undefined, tiles, bytes_copied
    warp.machine.enqueue(made)
    return made


def _with_maps(
    accesses: Callable[[], Iterable[operations.MemoryAccess]], maps: tuple[context.U8, ...]
) -> Iterator[operations.MemoryAccess]:
    yield from accesses()
    for each in maps:
        yield operations.MemoryAccess.of(each, False)


def used_maps(warp: context.WarpContext, address: int) -> tuple[context.U8, ...]:
    """The tensor map of a copy as bytes of global memory, for observers; empty for a kernel parameter, which never changes."""
    if not (warp.machine.observed or warp.machine.marks) or is_parameter(address) or is_shared(address):
        return ()
    return (warp.machine.global_view(warp, address, TENSOR_MAP_BYTES, False),)


def delivered(targets: list[Target], size: int, *sources: context.U8) -> Iterator[operations.MemoryAccess]:
    """The accesses of a copy to shared memory that completes on mbarriers, for observers."""
    for source in sources:
        yield operations.MemoryAccess.of(source, False)
    for cta, offset, barrier in targets:
        yield operations.MemoryAccess.of(cta.shared[offset : offset + size], True, barrier)


def moved(source: context.U8, *targets: context.U8) -> Iterator[operations.MemoryAccess]:
    """The accesses of a copy that does not complete on an mbarrier, for observers."""
    yield operations.MemoryAccess.of(source, False)
    for target in targets:
        yield operations.MemoryAccess.of(target, True)


def is_parameter(address: int) -> bool:
    """Whether a generic address is in the window of kernel parameters."""
    return PARAM_WINDOW <= address < PARAM_WINDOW + (1 << 32)


def is_shared(address: int) -> bool:
    """Whether a generic address is in the shared window."""
    return SHARED_WINDOW <= address < SHARED_WINDOW + (1 << 32)


def generic_address(warp: context.WarpContext, position: int, lane: int) -> int:
    """The generic address of a bracketed operand; the address of a variable is converted from its state space."""
    operand = warp.op.operands[position]
    return warp.lane_value(operand, 64, lane) + window_of(operand)


def window_of(operand: Resolved) -> int:
    """The generic address at which the state space of a bracketed variable begins; 0 for other operands."""
    base = operand.base if isinstance(operand, Addr) else None
    if isinstance(base, SymbolAddress):
        return {"param": PARAM_WINDOW, "shared": SHARED_WINDOW}.get(base.space, 0)
    return 0


def shared_range(warp: context.WarpContext, position: int, lane: int, size: int, alignment: int, own: bool) -> tuple[context.Cta, int]:
    """The CTA and offset of a shared memory operand of ``size`` bytes; ``own``: it must be the executing CTA's."""
    return range_at(warp, position, warp.lane_value(warp.op.operands[position], 64, lane), size, alignment, own)


def range_at(warp: context.WarpContext, position: int, address: int, size: int, alignment: int, own: bool) -> tuple[context.Cta, int]:
    """`shared_range` for a given address; ``position`` is only for messages."""
    cta, offset = warp.machine.shared_at(warp, address)
    if own and cta is not warp.cta:
        warp.fault(
            "C903",
            f"operand {position + 1}, address {address:#x}, lies in the shared memory of another CTA",
            fix="give an address of the executing CTA; only .shared::cluster reaches others",
        )
    if offset % alignment:
        warp.fault(
            "C901",
            f"operand {position + 1}, shared memory address {address:#x}, is not a multiple of {alignment}",
            fix=f"align the buffer to {alignment} bytes" + (" (swizzled tiles to their whole pattern)" if alignment == 128 else ""),
        )
    if offset + size > cta.shared.size:
        warp.fault("C903", f"{size} bytes at {address:#x} run past the end of the CTA's shared memory, which has {cta.shared.size} bytes")
    return cta, offset


def masked(warp: context.WarpContext, position: int, lane: int) -> list[context.Cta]:
    """The CTAs in the 16-bit CTA mask of an operand."""
    return ctas_of(warp, warp.lane_value(warp.op.operands[position], 16, lane))


def ctas_of(warp: context.WarpContext, mask: int) -> list[context.Cta]:
    """The CTAs in a CTA mask; a fault unless each exists and has not exited."""
    cluster = warp.cta.cluster
    if mask >> len(cluster) or not mask:
        warp.fault(
            "C905",
            f"the CTA mask {mask:#06x} names CTAs that are not among the {len(cluster)} of the cluster" if mask else "the CTA mask is zero",
            fix="set only bits of CTA ranks in the cluster",
        )
    found = [cta for rank, cta in enumerate(cluster) if mask >> rank & 1]
    gone = [cta.rank for cta in found if cta.exited]
    if gone:
        warp.fault(
            "M407",
            f"the CTA mask {mask:#06x} names CTA rank {gone[0]}, which has exited",
            fix="synchronise the CTAs of the cluster with barrier.cluster before they exit, or let CTA rank "
            f"{gone[0]} wait on its mbarrier until the other CTAs no longer use its shared memory",
        )
    return found


def signal_targets(
    warp: context.WarpContext, lane: int, destination: tuple[context.Cta, int], barrier: int, mask: int, pair: bool
) -> list[Target]:
    """`targets_of` for operands: ``barrier`` and ``mask`` are positions (-1, or an absent operand: no multicast)."""
    operands = warp.op.operands
    address = warp.lane_value(operands[barrier], 64, lane)
    spread = mask >= 0 and not isinstance(operands[mask], Unused)
    return targets_of(warp, destination, address, warp.lane_value(operands[mask], 16, lane) if spread else None, pair)


def targets_of(warp: context.WarpContext, destination: tuple[context.Cta, int], barrier: int, mask: int | None, pair: bool) -> list[Target]:
    """The receiving CTAs, each with the offset of the bytes and the mbarrier that counts them.

    ``barrier`` is an address, ``mask`` a CTA mask (None: no multicast), ``pair`` is .cta_group::2. Without .cta_group::2 the mbarrier is at
    the same offset in each receiving CTA. With it, the mbarrier is in the CTA of the receiver's pair whose rank has the same parity as the
    CTA of ``barrier``. Section "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
    """
    cta, offset = destination
    home, at = warp.machine.shared_at(warp, barrier)
    if at % 8:
        warp.fault("C901", f"the mbarrier address {barrier:#x} is not a multiple of 8")
    if mask is None:
        allowed = home.rank // 2 == cta.rank // 2 if pair else home is cta
        if not allowed:
            warp.fault(
                "C904",
                f"the mbarrier is in CTA rank {home.rank}, but the bytes go to CTA rank {cta.rank}",
                fix="name an mbarrier in the destination CTA" + (" or its peer" if pair else "; .cta_group::2 may signal the peer CTA"),
            )
        return [(cta, offset, home.mbarrier(warp, at))]
    cluster = cta.cluster
    receivers = ctas_of(warp, mask)
    signalled = [cluster[(c.rank & ~1) | (home.rank & 1)] if pair else c for c in receivers]
    return [(c, offset, s.mbarrier(warp, at)) for c, s in zip(receivers, signalled, strict=True)]


_KEY = "bulk groups"


@dataclass(slots=True)
class _Thread:
    """The uncommitted operations of one thread, and its committed groups that may be pending, oldest first."""

    open: list[operations.AsyncOperation] = field(default_factory=list)
    groups: list[list[operations.AsyncOperation]] = field(default_factory=list)


def track(warp: context.WarpContext, lane: int, operation: operations.AsyncOperation) -> None:
    """Add an operation to the thread's next bulk group, unless it is complete already."""
    if not operation.done:
        threads: dict[int, _Thread] = warp.state.setdefault(_KEY, {})
        threads.setdefault(lane, _Thread()).open.append(operation)


@service(COMMIT_GROUP, outputs=0, effects=CommitGroup(Completion.BULK_GROUP))
def commit_group(warp: context.WarpContext) -> None:
    """Commit each executing thread's uncommitted operations to a new group, which may be empty."""
    threads: dict[int, _Thread] | None = warp.state.get(_KEY)
    if not threads:
        return
    for lane, thread in threads.items():
        if warp.mask >> lane & 1:
            thread.groups.append(thread.open)
            thread.open = []


@service(WAIT_GROUP, outputs=0, effects=lambda q: WaitGroup(Completion.BULK_GROUP, sources=q.read))
def wait_group(warp: context.WarpContext) -> context.Wait | None:
    """Wait until at most ``count`` of each thread's newest groups are pending."""
    threads: dict[int, _Thread] | None = warp.state.get(_KEY)
    if not threads:
        return None
    operand = warp.op.operands[0]
    count = operand.value & 0xFFFFFFFF if isinstance(operand, Const) else warp.uniform(operand)
    awaited: list[operations.AsyncOperation] = []
    for lane, thread in list(threads.items()):
        if not warp.mask >> lane & 1:
            continue
        groups = thread.groups
        while groups and all(o.done for o in groups[0]):
            del groups[0]
        awaited += [o for group in groups[: max(len(groups) - count, 0)] for o in group if not o.done]
        if not groups and not thread.open:
            del threads[lane]
    if not awaited:
        return None
    opcode = warp.op.opcode
    return context.Wait(
        ready=lambda: all(o.done for o in awaited),
        describe=lambda: (
            f"{opcode} {count} waits for bulk copies of its thread",
            (("pending", ", ".join(f"{o.name} at line {o.op.line}" for o in awaited if not o.done)),),
        ),
    )
