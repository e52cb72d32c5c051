"""Asynchronous operations: their accesses when they are issued, and what their completion will release."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.model import TENSOR_PIPES, Component, Kind, Row, kind_of, rule
from ptxlab.check.race._barriers import PendingCompletion
from ptxlab.check.race._groups import WgmmaGroups
from ptxlab.check.race._recorder import AccessRecorder
from ptxlab.check.race._tensor_memory import HELD, LOADS, TensorMemoryAccesses
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.releases import Releases
from ptxlab.check.race.clocks.slots import BulkSlot, Slot
from ptxlab.check.race.shadow.copies_ir import note_equal_writes
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Shadow
from ptxlab.check.race.shadow.shadow_words import CLUSTER_SHIFT, CONCURRENT, HOW_SHIFT, StateWord
from ptxlab.isa.effects import Asynchronous, BoxForm, Completion, CompletionArrival, Unit
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import AsyncOperation, MemoryAccess, PlacedRanges
from ptxlab.machine.observe.observer import ObservedRepetition
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Operations"]

Accesses = tuple[MemoryAccess, ...]
_Ranges: TypeAlias = "tuple[MemoryAccess | PlacedRanges, ...]"
_Handler: TypeAlias = "Callable[[Warp, Clocks, Agent, AsyncOperation, Accesses], None]"
_EARLY, _ISSUED_WORD = int(Component.EARLY), int(StateWord.ISSUED)
_UNIT = 64
"""Bytes of the 16 lanes of a column that accumulators consist of."""
_ROWS_AND_COLUMNS = 0x1F7E_0000
"""M and N in an instruction descriptor of any kind."""
_SLOT = (1 << CLUSTER_SHIFT) - 1
_WRITE = (Kind.MMA << 1 | 1) << HOW_SHIFT


@cache
def _numbered(model: str) -> list[Kind]:
    """The kinds of operations of which two are not pipelined: each has a number, so that one can be found to follow another."""
    return [kind for kind in TENSOR_PIPES if rule(kind, True, kind, True, model).component is Component.DONE]


@dataclass(frozen=True, slots=True)
class _Form:
    """How operations of an instruction are handled: the kind of their accesses, and whether each has a number of its own."""

    handler: _Handler
    kind: Kind = Kind.GENERIC
    numbered: bool = False


class Operations:
    """Handles the issue of asynchronous operations, by what completes them; one for each launch."""

    def __init__(self, recorder: AccessRecorder, tensor_memory: TensorMemoryAccesses, wgmma: WgmmaGroups, releases: Releases) -> None:
        self._recorder = recorder
        self._releases = releases
        self._tensor_memory = tensor_memory
        model = recorder.launch.model
        self._accumulators = _Accumulators(recorder.shadow) if model == "spec" else None
        self._numbered = _numbered(model)
        self._forms: dict[int, _Form] = {}
        """By instruction."""
        self._issues: dict[tuple[int, _Ranges], NDArray[np.int64]] = {}
        """By instruction and ranges: the words for compiled code that issues it again. The ranges stay: their addresses name them."""
        self._repeated_copies: dict[int, NDArray[np.int64]] = {}
        """By instruction: the words for compiled code that copies again."""
        self._by_completion: dict[Completion, _Handler] = {
            Completion.COMMIT: self._pipe_operation,
            Completion.WGMMA_GROUP: wgmma.issue,
            Completion.NONE: self._strong_store,
            Completion.BYTES: self._copy,
            Completion.BULK_GROUP: self._copy,
        }
        self._arrivals: dict[Completion, _Handler] = {Completion.COMMIT: self._commit, Completion.COPY_GROUP: self._copies_arrive}

    def issued(self, operation: AsyncOperation) -> None:
        """An operation is issued: its accesses follow whatever is ordered before its issuer."""
        warp = self._recorder.launch.scheduler.current
        if warp is None:
            return
        clocks, agent = warp.state["race"]
        index = operation.op.index
        self._consume(clocks, agent, index)
        form = self._forms.get(index) or self._form(operation.op)
        accesses = () if operation.accesses is None else operation.accesses()
        form.handler(warp, clocks, agent, operation, accesses if type(accesses) is tuple else tuple(accesses))

    def _form(self, op: Op) -> _Form:
        """How an instruction is handled, found once."""
        effects = op.effects
        if isinstance(effects, Asynchronous):
            kind = kind_of(effects)
            form = _Form(self._by_completion[effects.completion], kind, kind in self._numbered)
        else:
            form = _Form(self._arrivals[effects.of] if isinstance(effects, CompletionArrival) else _untracked)
        self._forms[op.index] = form
        return form

    # ------------------------------------------------------------------------------------------------- operations of tcgen05

    def _pipe_operation(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: Accesses) -> None:
        op, lane, words = operation.op, _lane(operation), self._recorder.shadow.words
        if words[_ISSUED_WORD]:  # compiled code has recorded the accesses
            words[_ISSUED_WORD] = 0
            self._recorder.judge(clocks, agent)
            return
        form, slot = self._forms[op.index], agent.pipes.get(lane) or self._pipe(clocks, agent, lane)
        if form.numbered:
            self._renumber(agent, slot)
        self._recorder.record(clocks, agent, slot, form.kind, op, accesses)
        if self._accumulators is not None and form.kind is Kind.MMA:
            name, who = self._accumulators.name(warp, op, _of(operation).variant, lane), slot.name << 32 | slot.clock
            for access in accesses:
                suspect = self._accumulators.write(access, name, who, op, agent.rows) if access.write else None
                if suspect is not None:
                    self._recorder.findings.judge(clocks, agent, suspect)

    def _pipe(self, clocks: Clocks, agent: Agent, lane: int) -> Slot:
        """The slot of a thread's operations on tensor memory, made on first use."""
        slot = agent.pipes.get(lane)
        if slot is None:
            slot = clocks.pipe(agent, lane)
            self._renumber(agent, slot)
        return slot

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        """How compiled code issues an operation again that `issued` has handled; None if it cannot."""
        op, (issue, issued, *copied) = operation.op, self._recorder.shadow.repeated
        form = self._forms.get(op.index)
        if not issue or form is None or self._accumulators is not None:
            return None
        if form.handler == self._copy:
            return self._repeated_copy(operation, form.kind, *copied)
        accesses = None if operation.accesses is None else operation.accesses()
        of_group = isinstance(op.effects, Asynchronous) and op.effects.unit is Unit.WARPGROUP
        if not (of_group or form.handler == self._pipe_operation) or form.numbered or type(accesses) is not tuple:
            return None
        ranges = tuple([each.placed or each for each in accesses])
        found = self._issues.get((op.index, ranges))
        if found is None:
            found = self._issues[op.index, ranges] = self._recorder.words_of(form.kind, op, accesses)
        return ObservedRepetition(record=((issued if of_group else issue, address_of(found)),), kept=(found, accesses))

    def _repeated_copy(self, operation: AsyncOperation, kind: Kind, copied: int, stored: int) -> ObservedRepetition | None:
        """The same for a copy; None unless its group or an mbarrier of each CTA that receives it completes it."""
        op = operation.op
        of_group, completion = _of(operation).completion is Completion.BULK_GROUP, operation.agent
        if completion is None or not (of_group or completion.slots):
            return None
        found = self._repeated_copies.get(op.index)
        if found is None:
            found = self._repeated_copies[op.index] = self._recorder.words_of_copy(kind, op)
        note_equal_writes(found, lambda what: _of(operation).atomic or self._recorder.findings.knows_equal_writes(what))
        return ObservedRepetition(record=((stored if of_group else copied, address_of(found)),), kept=found)

    def _renumber(self, agent: Agent, slot: Slot) -> None:
        """Let the thread's operations on tensor memory that follow have the next number, as issued ones."""
        slot.clock = clock = slot.clock + 1
        agent.tensor[slot.number + _EARLY] = clock

    def _commit(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: Accesses) -> None:
        operation.agent = self._committed(clocks, agent, _lane(operation))

    def _committed(self, clocks: Clocks, agent: Agent, lane: int) -> PendingCompletion:
        """Operations between two commits have one number if they execute in the order of issue: only commits complete them."""
        slot = self._pipe(clocks, agent, lane)
        completion = _completion_of(clocks, agent, slot)
        self._renumber(agent, slot)
        return completion

    def commit(self, warp: Warp) -> PendingCompletion:
        """Compiled code has performed the commit of one lane; `Barriers.performed` follows."""
        clocks, agent = warp.state["race"]
        self._consume(clocks, agent, warp.op.index)
        return self._committed(clocks, agent, warp.mask.bit_length() - 1)

    def _consume(self, clocks: Clocks, agent: Agent, index: int) -> None:
        """An instruction may have read registers of tcgen05.ld."""
        transfers = agent.transfers
        if transfers is not None and (transfers[HELD] or transfers[LOADS]):
            self._tensor_memory.consume(clocks, agent, index)

    # ---------------------------------------------------------------------------------------------------------------- copies

    def _copies_arrive(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: Accesses) -> None:
        slot = clocks.copies(agent)
        slot.advance()
        operation.agent = _completion_of(clocks, agent, slot)

    def _strong_store(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: Accesses) -> None:
        """Nothing reports the completion: it is a strong access of the thread, which releases what was done before the issue."""
        effects = _of(operation)
        hosts = [host for access in accesses for host in access.starts.tolist()]
        self._releases.access(clocks, agent, effects.order, hosts, reads=effects.atomic, writes=True)
        self._recorder.record(clocks, agent, agent.main, Kind.STRONG, operation.op, accesses)

    def _copy(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: Accesses) -> None:
        """A copy has one slot for what each mbarrier reports, and one for all else."""
        op, lane, ops, words = operation.op, _lane(operation), self._recorder.launch.program.ops, self._recorder.shadow.words
        kind = self._forms[op.index].kind
        slots: dict[int, BulkSlot] = {}
        for access in accesses:
            barrier: Any = access.signal
            if barrier is not None and id(barrier) not in slots:
                slots[id(barrier)] = clocks.bulk(agent, barrier, ops)
                self._recorder.issuers.setdefault((barrier.rank, barrier.offset), {})[agent.index] = None
                self._recorder.issuing_lanes.setdefault(agent.index, {})[lane] = None
        first = clocks.bulk_reads(agent, lane, ops) if slots else clocks.bulk_group(agent, lane, ops)
        is_recorded = words[_ISSUED_WORD] > 0  # compiled code has numbered the copy, and recorded its accesses
        words[_ISSUED_WORD] -= is_recorded
        first.clock += not is_recorded
        operation.agent = completion = _pending_completion(clocks, agent)
        for key, slot in slots.items():
            slot.clock += not is_recorded
            completion.slots[key] = slot, slot.clock
            if len(slots) == 1:
                completion.covers(slot, slot.clock)
        if slots:
            completion.covers(first, first.clock)
        elif not is_recorded:
            first.keep(_digest(self._recorder.shadow, accesses))
        if is_recorded:
            box = _of(operation).box
            if box is not None and box.form is not BoxForm.BOX:
                self._recorder.judge_each(clocks, agent, accesses)
            else:
                self._recorder.judge(clocks, agent)
            return
        unwatched = op.index in self._recorder.unwatched_sources
        for access in accesses:
            if unwatched and not access.write:
                continue
            whose: Slot = first if access.signal is None else slots[id(access.signal)]
            whose.op = op
            self._recorder.record(clocks, agent, whose, kind, op, (access,))


def _of(operation: AsyncOperation) -> Asynchronous:
    effects = operation.op.effects
    assert isinstance(effects, Asynchronous)
    return effects


def _lane(operation: AsyncOperation) -> int:
    thread = operation.thread
    return thread[-1] if type(thread) is tuple else 0


def _pending_completion(clocks: Clocks, agent: Agent) -> PendingCompletion:
    """The completion of an operation releases what was ordered before its issuer, but not the issuer's own accesses."""
    rows = clocks.released_rows(agent).copy()
    rows[:, agent.main.number] = 0
    return PendingCompletion(agent, rows)


def _untracked(warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: Accesses) -> None:
    """Nothing tracks the completion of the operation, which signals nothing."""


def _completion_of(clocks: Clocks, agent: Agent, slot: Slot) -> PendingCompletion:
    """That of an operation which arrives on mbarriers when all operations of a slot are complete."""
    completion = _pending_completion(clocks, agent)
    completion.slots[0] = slot, slot.clock
    completion.covers(slot, slot.clock)
    return completion


def _digest(shadow: Shadow, accesses: Iterable[MemoryAccess]) -> int:
    """A digest of what a copy reads and where it writes it: two copies that are equal in both do not conflict."""
    digest = 0
    for access in accesses:
        if access.write:
            digest = shadow.digest(digest, access.starts)
        else:
            for start, size in zip(access.starts.tolist(), np.broadcast_to(access.sizes, access.starts.shape).tolist(), strict=True):
                read = ctypes.string_at(start, size)
                digest = shadow.digest(digest, np.frombuffer(read + bytes(-size % 8), np.uint64))
    return digest


@dataclass(slots=True, eq=False)
class _Accumulators:
    """The accumulator that each cell belongs to, and who wrote it last.

    Under spec, two tcgen05.mma that write the same cells are a pipeline only if they have the same accumulator and shape.
    """

    _shadow: Shadow
    _names: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _held: dict[int, NDArray[np.uint64]] = field(default_factory=dict)

    def name(self, warp: Any, op: Op, variant: str, lane: int) -> int:
        """A number for the accumulator, the shape and the variant of an instruction that the warp executes."""
        at = {name: i for i, (name, _) in enumerate(op.row.operands)}
        address = warp.lane_value(op.operands[at["d-tmem"]], 32, lane)
        shape = warp.lane_value(op.operands[at["idesc"]], 32, lane) & _ROWS_AND_COLUMNS
        return self._names.setdefault((address, shape, variant), len(self._names) + 1)

    def write(self, access: MemoryAccess, name: int, who: int, op: Op, rows: NDArray[np.uint32]) -> NDArray[np.uint64] | None:
        """Note that ``who`` writes cells; an incomplete write of another accumulator there, as a row of suspects."""
        suspect, places = None, _units(access)
        while len(places):
            found = self._shadow.find(int(places[0]))
            assert found is not None
            inside = (places >= found.start) & (places < found.start + found.data.nbytes)
            units = (places[inside] - found.start) // _UNIT
            places = places[~inside]
            held = self._held.setdefault(id(found), np.zeros((found.data.nbytes // _UNIT, 3), np.uint64))
            for unit in units[(held[units, 0] != 0) & (held[units, 0] != name)].tolist():
                _, whose, what = held[unit].tolist()
                slot, clock = whose >> 32, whose & 0xFFFFFFFF
                if slot >> CLUSTER_SHIFT == who >> 32 >> CLUSTER_SHIFT and rows[Row.TENSOR, (slot & _SLOT) + Component.DONE] < clock:
                    mask = 0xFFFF << unit % 2 * 16 << 24
                    place = found.start + (unit // 2 << TENSOR_GRANULE[0])
                    suspect = np.array([[whose, what | mask | _WRITE, who, op.index | mask | _WRITE, place, CONCURRENT]], np.uint64)
                    break
            held[units] = name, who, op.index
        return suspect


def _units(access: MemoryAccess) -> NDArray[np.int64]:
    """The host address of each unit."""
    counts = -(-np.broadcast_to(access.sizes, access.starts.shape).astype(np.int64) // _UNIT)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places: NDArray[np.int64] = np.repeat(access.starts.astype(np.int64), counts) + _UNIT * within
    return places
