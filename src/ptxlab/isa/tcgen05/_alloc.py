"""tcgen05.alloc, dealloc, relinquish_alloc_permit: section "Tensor Memory Allocation and Management Instructions"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np

from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Alloc, AllocPermitRelease, Dealloc, Supply
from ptxlab.isa.form import Form, form
from ptxlab.isa.kinds import WORDS, Address, Kind, Register
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import Condition, needs
from ptxlab.isa.tcgen05._state import (
    Freed,
    PairRequest,
    State,
    cta_group_of,
    ctas_of_group,
    enter,
    no_peer,
    reallocated,
    repeated_state,
    state_of,
    whole_warp,
)
from ptxlab.isa.tcgen05._syntax import GROUPS, SINCE, SYNC
from ptxlab.tables import TENSOR_MEMORY_COLUMNS

__all__ = ["allocators", "leaks"]

_SECTION = "Tensorcore 5th Generation Instructions: tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit"
_GRANULE = 32
_SIZES = frozenset({32, 64, 128, 256, 512})
_SIZES_TEXT = "32, 64, 128, 256 or 512"

_COUNTS: Mapping[str, Kind] = {
    "nCols": Register(
        WORDS,
        "the number of columns: a 32-bit register or one of 32, 64, 128, 256, 512",
        True,
        True,
        integers=True,
        values=_SIZES.__contains__,
    ),
    "multiple": Register(
        WORDS,
        "the number of columns: a 32-bit register or a multiple of 32",
        True,
        True,
        integers=True,
        values=lambda value: value % _GRANULE == 0 and value % (1 << 32) != 0,
    ),
}
_EXCLUSIVELY: tuple[Condition, Condition, str] = (
    {"exclusive": ("exclusive",)},
    {},
    "the numbers of columns are 32, 64, 128, 256, 512; with .exclusive the assembler takes every multiple of 32",
)
_EXCLUSIVE = needs("9.4", what=".exclusive", when={"exclusive": "exclusive"}, specified=False)


def _allocation(name: str, space: str, operand: str, kind: Kind) -> Form:
    """An allocation or a release of columns."""
    return form(
        name,
        f"{GROUPS}.sync.aligned{space}{{.exclusive}}.b32",
        f"{operand} nCols",
        (f"{operand} multiple", *_EXCLUSIVELY),
        kinds={operand: kind, **_COUNTS},
        section=_SECTION,
        requires=(SINCE, _EXCLUSIVE),
        repeatable=SYNC,
    )


_ALLOC = _allocation("tcgen05.alloc", "{.space=shared::cta}", "dst", Address({"space": (None,)}))
_DEALLOC = _allocation("tcgen05.dealloc", "", "taddr", Register(WORDS, "a tensor-memory address in a 32-bit register", True, True))
_RELINQUISH = form("tcgen05.relinquish_alloc_permit", f"{GROUPS}.sync.aligned", section=_SECTION, requires=SINCE, repeatable=SYNC)


@dataclass(frozen=True, slots=True)
class _Awaited(context.Supplied):
    """Columns that a CTA or CTA pair waits for; ``request`` is the request of a pair."""

    columns: int
    ctas: tuple[context.Cta, ...]
    request: PairRequest | None = None

    @property
    def alone(self) -> bool:
        """Whether the other CTA of the pair has not executed tcgen05.alloc yet."""
        return self.request is not None and len(self.request.columns) < 2

    def describe(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """For the report of a hang: the missing columns, and the CTAs that hold columns."""
        if self.alone:
            ranks = ", ".join(str(c.rank) for c in self.ctas)
            sentence = f"tcgen05.alloc.cta_group::2 of {self.columns} columns waits for the same instruction in the peer CTA"
            return sentence, (("CTA ranks of the pair", ranks),)
        tensors = {id(cta.tensor): cta for cta in self.ctas}.values()
        held = tuple(
            (f"held by CTA {holder.ctaid}", ", ".join(f"columns {s}-{s + n - 1}" for s, n in cta.tensor.allocations_of(holder)))
            for cta in tensors
            for holder in _holders(cta)
        )
        return f"tcgen05.alloc of {self.columns} columns waits until that many columns are free on the SM", held

    @property
    def awaits(self) -> Supply:
        """The effect that ends the wait."""
        return Supply.PAIR_ALLOCATION if self.alone else Supply.COLUMNS

    def supplied_by(self, cta: context.Cta, _warp: int) -> bool:
        """Return whether a warp of this CTA can end the wait: the CTA is the peer, or it holds columns of the SM."""
        if self.alone:
            return cta in self.ctas
        return any(cta in _holders(each) for each in self.ctas)

    def advice(self) -> str:
        """Return the fix for the report of a hang."""
        if self.alone:
            return "let both CTAs of the pair execute tcgen05.alloc.cta_group::2 with the same number of columns"
        others = [str(h.ctaid) for cta in self.ctas for h in _holders(cta) if h not in self.ctas]
        if others:
            return (
                f"let CTA {others[0]} execute tcgen05.dealloc without waiting for this one; or keep the CTAs on different SMs: "
                "request more shared memory, or launch with ptxlab.Device(ctas_per_sm=1)"
            )
        return f"execute tcgen05.dealloc before this allocation, or allocate at most {TENSOR_MEMORY_COLUMNS} columns in total"


def _holders(cta: context.Cta) -> list[context.Cta]:
    """The CTAs that have allocated tensor memory on the SM of a CTA, in order of their first columns."""
    owners = (cta.tensor.owner_of(column) for column in range(0, TENSOR_MEMORY_COLUMNS, _GRANULE))
    return [cast(context.Cta, owner) for owner in dict.fromkeys(owners) if owner is not None]


def _is_pair(q: Qualifiers) -> bool:
    return bool(q.cta_group == "cta_group::2")


@service(_ALLOC, only={"exclusive": None}, outputs=0, effects=lambda q: Alloc(_is_pair(q)))
def alloc(warp: context.WarpContext) -> context.Wait | None:
    """Allocate columns, or wait until they are free, and write their address to shared memory."""
    whole_warp(warp)
    state, group = enter(warp, active=warp.retried is None)
    columns = _columns(warp, 1)
    offset = _destination(warp)
    if warp.retried is None:
        _may_allocate(warp, state, columns)
    cta = warp.cta
    if group == 2:
        return _alloc_pair(warp, state, columns, offset)
    column = cta.tensor.allocate(columns, cta)
    if column is None:
        return context.Wait(
            ready=lambda: next(iter(cta.tensor.candidates(columns)), None) is not None,
            describe=(on := _Awaited(columns, (cta,))).describe,
            retry=True,
            on=on,
        )
    _grant(warp, cta, column, columns, offset)
    return None


def _alloc_pair(warp: context.WarpContext, state: State, columns: int, offset: int) -> context.Wait | None:
    cta = warp.cta
    pair = ctas_of_group(cta, 2)
    leader = state_of(pair[0])
    request = next((r for r in leader.pairs if cta.rank not in r.taken), None)
    if request is None:
        request = PairRequest()
        leader.pairs.append(request)
    request.columns.setdefault(cta.rank, columns)
    if len(request.columns) == 2 and request.column is None:
        other = next(c for c in pair if c is not cta)
        if request.columns[other.rank] != columns:
            warp.fault(
                "T610",
                f"CTA rank {cta.rank} allocates {columns} columns and its peer, rank {other.rank}, {request.columns[other.rank]}",
                fix="let both CTAs of the pair execute tcgen05.alloc.cta_group::2 with the same number of columns",
            )
        request.column = _allocate_both(pair, columns)
    if request.column is None:
        if any(c.exited for c in pair):
            no_peer(warp)
        found = request
        return context.Wait(
            ready=lambda: _may_continue(found, pair, columns),
            describe=(on := _Awaited(columns, pair, found)).describe,
            retry=True,
            on=on,
        )
    request.taken.add(cta.rank)
    if len(request.taken) == 2:
        leader.pairs.remove(request)
    _grant(warp, cta, request.column, columns, offset)
    return None


def _may_continue(request: PairRequest, pair: tuple[context.Cta, ...], columns: int) -> bool:
    """Whether a CTA that waits for a pair's allocation can continue: use it, make it, or report an error."""
    if request.column is not None or any(c.exited for c in pair):
        return True
    return len(request.columns) == 2 and _common(pair, columns) is not None


def _common(pair: tuple[context.Cta, ...], columns: int) -> int | None:
    first, second = pair
    if first.tensor is second.tensor:
        return next(iter(first.tensor.candidates(columns)), None)
    free = set(second.tensor.candidates(columns))
    return next((c for c in first.tensor.candidates(columns) if c in free), None)


def _allocate_both(pair: tuple[context.Cta, ...], columns: int) -> int | None:
    column = _common(pair, columns)
    if column is not None:
        for cta in pair:
            cta.tensor.allocate(columns, cta, column)
    return column


def _grant(warp: context.WarpContext, cta: context.Cta, column: int, columns: int, offset: int) -> None:
    state = state_of(cta)
    state.smallest = min(state.smallest, columns)
    state.grants[column] = warp.op
    reallocated(cta)
    if not warp.machine.observed:
        cta_group = cta_group_of(cta, state.group)
        warp.know_state(repeated_state(warp, cta_group), cta_group.bases)
    cta.shared[offset : offset + 4] = np.frombuffer(column.to_bytes(4, "little"), np.uint8)
    warp.machine.progress += 1


def _columns(warp: context.WarpContext, position: int) -> int:
    columns = warp.uniform(position)
    if columns not in _SIZES:
        warp.fault("T601", f"nCols is {columns}; it must be a power of two from 32 to 512", fix=f"allocate {_SIZES_TEXT} columns")
    return columns


def _destination(warp: context.WarpContext) -> int:
    address = warp.uniform_address(0)
    owner, offset = warp.machine.shared_at(warp, address)
    if owner is not warp.cta or offset % 4 or offset + 4 > owner.shared.size:
        warp.fault(
            "T603",
            f"the destination {address:#x} is not an aligned 4-byte word in the shared memory of the executing CTA",
            fix="give an address of the CTA's own shared memory, a multiple of 4",
        )
    return offset


def _may_allocate(warp: context.WarpContext, state: State, columns: int) -> None:
    if not state.permit:
        warp.fault(
            "T602",
            f"tcgen05.alloc in CTA {warp.cta.ctaid} after one of its threads executed tcgen05.relinquish_alloc_permit",
            fix="execute tcgen05.relinquish_alloc_permit after the last tcgen05.alloc",
        )
    if columns > state.smallest:
        warp.report(
            "T608",
            f"{columns} columns are allocated after an allocation of {state.smallest}: the sizes must not grow",
            fix="allocate the largest range first",
        )


@service(_DEALLOC, only={"exclusive": None}, outputs=0, effects=lambda q: Dealloc(_is_pair(q)))
def dealloc(warp: context.WarpContext) -> None:
    """Free columns. Each CTA of a pair frees its own half of a pair's allocation, and may exit before the other one does so."""
    whole_warp(warp)
    _, group = enter(warp, active=False)
    columns = _columns(warp, 1)
    address = warp.uniform(0)
    _nothing_in_flight(warp)
    lane, column = address >> 16, address & 0xFFFF
    wrong = f"lane {lane} is not 0" if lane else warp.cta.tensor.deallocate(column, columns, warp.cta)
    if wrong is not None:
        held = ", ".join(f"{n} columns at column {s}" for s, n in warp.cta.tensor.allocations_of(warp.cta)) or "nothing"
        warp.fault(
            "T604",
            f"tcgen05.dealloc of {columns} columns at {address:#x}: {wrong}",
            fix="give the address that tcgen05.alloc wrote and the same number of columns, once",
            details=(("allocated by this CTA", held),),
        )
    gone = state_of(warp.cta).freed
    gone.pop(column, None)
    gone[column] = Freed(columns, warp.op, warp.warp_id)
    for cta in ctas_of_group(warp.cta, group):
        reallocated(cta)
    warp.machine.progress += 1


def _nothing_in_flight(warp: context.WarpContext) -> None:
    cta_group = state_of(warp.cta).cta_group
    pending = () if cta_group is None else warp.machine.unperformed(warp.cta, cta_group.queue)
    if pending:
        warp.fault(
            "T612",
            f"tcgen05.dealloc while {pending[0].name} at line {pending[0].op.line} may not be complete",
            fix="let the issuing thread execute tcgen05.commit, and wait on its mbarrier before tcgen05.dealloc",
            details=(("operations in flight", str(len(pending))),),
        )


@service(_RELINQUISH, outputs=0, effects=AllocPermitRelease())
def relinquish_alloc_permit(warp: context.WarpContext) -> None:
    """Give up the right to allocate."""
    whole_warp(warp)
    state, _ = enter(warp, active=False)
    state.permit = False


def allocators(cta: context.Cta) -> frozenset[int]:
    """The op indices of the tcgen05.alloc that a CTA has executed."""
    state: State | None = cta.state.get("tcgen05")
    return frozenset() if state is None else frozenset(op.index for op in state.grants.values())


def leaks(cta: context.Cta) -> Iterator[tuple[Op | None, str, str, str]]:
    """Allocations that the CTA has not freed when it exits, as (instruction that allocated it, code, message, fix)."""
    state: State | None = cta.state.get("tcgen05")
    if state is None:
        return
    grants = state.grants
    for column, columns in cta.tensor.allocations_of(cta):
        yield (
            grants.get(column),
            "T605",
            f"CTA {cta.ctaid} exits with {columns} columns of tensor memory allocated at column {column}",
            f"execute tcgen05.dealloc with {column:#x} and {columns} before the kernel ends",
        )
