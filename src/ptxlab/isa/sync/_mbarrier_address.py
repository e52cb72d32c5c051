"""The mbarrier objects that the executing lanes address."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.context import Cta, Mbarrier, Misuse, WarpContext
from ptxlab.isa.operands import Op

__all__ = ["RANK_SHIFT", "locate", "mbarrier_at", "missing_mbarrier", "targets"]

RANK_SHIFT = 24
_OFFSET = (1 << RANK_SHIFT) - 1


def missing_mbarrier(offset: int, size: int, *, overwritten: bool, invalidated: Op | None, rank: int, alone: bool) -> Misuse:
    """The error for an address without a valid mbarrier object, with the reason."""
    where = f"shared offset {offset:#x} of CTA rank {rank}"
    barrier = "a barrier" if alone else "a barrier (barrier.cluster, if another CTA uses it)"
    if offset & 7:
        return Misuse("B501", f"an mbarrier object must be aligned to 8 bytes, {where} is not")
    if offset + 8 > size:
        return Misuse("B502", f"{where} lies outside shared memory ({size} bytes)")
    if overwritten:
        return Misuse(
            "B515",
            f"the mbarrier object at {where} was overwritten by an ordinary store or a copy",
            fix=f"synchronise the threads that use it with {barrier} before the memory is used for something else, and use mbarrier.inval "
            "there",
        )
    if invalidated is not None:
        return Misuse(
            "B514",
            f"the mbarrier object at {where} was invalidated",
            fix=f"synchronise the threads that use it with {barrier} before mbarrier.inval at line {invalidated.line}, or initialise it "
            "again",
        )
    return Misuse(
        "B503",
        f"there is no mbarrier object at {where}: it was never initialised",
        fix=f"execute mbarrier.init, and {barrier}, before the first use",
    )


def locate(warp: WarpContext, address: int) -> tuple[Cta, int]:
    """The CTA and offset of an address, checked against the instruction's state space."""
    cta, offset = warp.machine.shared_at(warp, address)
    if cta is not warp.cta and "shared::cluster" not in warp.op.opcode:
        raise Misuse(
            "B502",
            f"the address {address:#x} is in the shared memory of CTA rank {cta.rank}, but {warp.op.opcode} reaches only that "
            "of its own CTA",
            fix="only arrive, expect_tx and complete_tx with .shared::cluster work on another CTA's mbarrier",
        )
    if offset & 7:
        raise Misuse("B501", f"an mbarrier object must be aligned to 8 bytes, shared offset {offset:#x} is not")
    if offset < SHARED_RESERVED or offset + 8 > len(cta.shared):
        raise Misuse("B502", f"shared offset {offset:#x} lies outside shared memory ({len(cta.shared)} bytes)")
    return cta, offset


def mbarrier_at(warp: WarpContext, address: int) -> Mbarrier:
    """The mbarrier object at an address."""
    cta = warp.cta
    if address >> RANK_SHIFT == cta.rank:
        return cta.mbarrier(warp, address & _OFFSET)
    cta, offset = locate(warp, address)
    return cta.mbarrier(warp, offset)


def targets(warp: WarpContext, position: int) -> Iterator[tuple[int, int]]:
    """Yield the distinct addresses of the executing lanes, in lane order, each with the mask of its lanes."""
    address = warp.common_address(position)
    if address is not None:
        yield address, warp.mask
        return
    found: dict[int, int] = {}
    values = warp.addresses(position)
    for lane in warp.lanes().tolist():
        at = int(values[lane])
        found[at] = found.get(at, 0) | 1 << lane
    yield from found.items()
