"""A warp: its context, registers and special registers, its groups of converged lanes, and what a service handler reads and changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.context import ASIDE_FIRST, Word
from ptxlab.engine.direct_services import direct_arrivals, direct_groups, direct_services
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.repetitions import NO_STATE, repeatable
from ptxlab.isa.address_space import SHARED_RANK_SHIFT, SHARED_RESERVED
from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.context import MemoryAccess, Wait
from ptxlab.isa.effects import CommitGroup, Completion, CompletionArrival, WaitGroup
from ptxlab.isa.operands import Op, Reg
from ptxlab.machine.warp._registers import ALL_LANES, Registers, lanes_of
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.repetitions import Call
    from ptxlab.isa.context import AsyncOperation
    from ptxlab.isa.tiles import Product
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.frame import Frame

__all__ = [
    "ALL_LANES",
    "CONVERGE",
    "RUN",
    "WAIT",
    "ConvergedLanes",
    "Warp",
    "cta_values",
    "fill_cta_words",
    "fill_launch_words",
    "fill_specials",
    "lanes_of",
    "launch_values",
    "special_registers",
]

RUN, WAIT, CONVERGE = 0, 1, 2
"""The state of a group of converged lanes: it can run; it waits for a `Wait`; it stands at an instruction until other lanes arrive."""

_AT = SimpleNamespace(**{word.name: int(word) for word in Word})
"""The words by name, as plain integers: members of an enumeration cost more as indices."""
_PENDING_COUNT = int(Word.PENDING_COUNT)
_NO_ROWS = np.zeros((0, 3), np.uint64)
_NO_BYTES = np.zeros(0, np.uint8)


def fill_launch_words(launch: Launch) -> None:
    """Set the context's words that are the same in all warps of a launch."""
    memory = launch.host_memory
    words = memory.cells
    words[_AT.CLUSTER_SIZE] = launch.cluster_size
    words[_AT.PARAM] = memory.parameters_address
    words[_AT.PARAM_SIZE] = len(memory.parameters)
    words[_AT.ALLOCATIONS] = address_of(launch.allocations)
    words[_AT.ALLOCATION_COUNT] = launch.allocation_count
    words[_AT.BEFORE_WRITE] = 0 if launch.journal is None else launch.journal.address
    words[_AT.SERVICES] = launch.scheduler.counted_at
    words[_AT.PERMITTED] = memory.permitted_address
    _permit_waits(launch)
    _permit_arrivals(launch)
    words[_AT.PROGRESS] = memory.progress_address
    turns = launch.scheduler.compiled_turns
    words[_AT.TURNS] = 0 if turns is None else turns.address
    words[_AT.MAY_PART] = turns is not None and turns.waits
    words[_AT.REPETITIONS] = _table_of_repetitions(launch)
    words[_AT.SYMBOLS] = address_of(launch.symbol_table)
    words[_AT.OWN_LANES] = launch.model == "spec"
    words[_AT.JOINS] = launch.model != "spec"
    words[_AT.OBSERVE] = launch.observations.address


def _table_of_repetitions(launch: Launch) -> int:
    """The address of the table of executions that compiled code repeats; 0 if it repeats none. Observers begin with an empty one."""
    repetitions = launch.host_memory.repetitions if launch.policy == "eager" else None
    if repetitions is None:
        return 0
    if launch.observer is not None:
        repetitions.clear()
    return repetitions.address


def _permit_waits(launch: Launch) -> None:
    """Let compiled code complete waits, and block the warps."""
    facts, turns = launch.facts, launch.scheduler.compiled_turns
    for op in facts.of(direct_services):
        if op.index not in facts.changed:
            launch.host_memory.permitted[op.index] = 2 if turns is not None and turns.waits else 1


def _permit_arrivals(launch: Launch) -> None:
    """Let compiled code complete arrivals if no observer must see them; commits and groups only where all operations perform at once.

    Groups of bulk copies are completed only where nothing observes the launch. Waits for groups of wgmma may block the warp.
    """
    observer, facts, permitted = launch.observer, launch.facts, launch.host_memory.permitted
    arrivals, groups = ([op for op in facts.of(find) if op.index not in facts.changed] for find in (direct_arrivals, direct_groups))
    if launch.scheduler.counted_at and (observer is None or all(map(observer.allows_direct_completion, arrivals))):
        for op in arrivals:
            permitted[op.index] = 1 if not isinstance(op.effects, CompletionArrival) else 0 if launch.deferred else -1
    turns = launch.scheduler.compiled_turns
    for op in groups if launch.scheduler.counted_at and not launch.deferred else ():
        of_warpgroup = isinstance(op.effects, CommitGroup | WaitGroup) and op.effects.of is Completion.WGMMA_GROUP
        if observer is None or (of_warpgroup and observer.allows_direct_completion(op)):
            permitted[op.index] = 2 if of_warpgroup and turns is not None and turns.waits else 1


def fill_cta_words(launch: Launch, cta: CtaState) -> None:
    """Set the context's words that are the same in all warps of a CTA."""
    words = cta.memory.cells
    words[_AT.SHARED] = cta.shared_address
    words[_AT.SHARED_SIZE] = len(cta.shared)
    words[_AT.SHARED_RANK] = cta.rank << SHARED_RANK_SHIFT
    words[_AT.CLUSTER] = address_of(cta.group.table)
    words[_AT.BARRIERS] = cta.memory.barriers_address
    words[_AT.REPEATED_IN] = cta.memory.repeated_address
    if launch.uses_tensor_memory:
        words[_AT.TENSOR] = cta.tensor_address
        words[_AT.TENSOR_OWNED] = address_of(cta.tensor.owned(cta))


@dataclass(slots=True, eq=False)
class ConvergedLanes:
    """A group of lanes of one warp that execute together, at one program counter.

    ``op`` is the instruction that the group stands at (``CONVERGE``) or waits in (``WAIT``), and ``active`` the lanes that execute it.
    ``again`` says that the handler must be called (again) before the group continues. ``turn`` grows with every slice used up, so that
    the other groups of the warp run while one spins.
    """

    warp: Warp
    pc: int
    mask: int
    turn: int = 0
    state: int = RUN
    wait: Wait | None = None
    op: int = -1
    active: int = 0
    again: bool = False
    expired: bool = False
    retried: Wait | None = None

    @property
    def instruction(self) -> Op:
        """The instruction that the lanes stand at, wait in, or execute next."""
        ops = self.warp.launch.program.ops
        return ops[self.op if self.state or self.again else min(self.pc, len(ops) - 1)]


class Warp(Registers):
    """One warp of a resident CTA; it is also the `ptxlab.isa.WarpContext` of the service that it executes."""

    __slots__ = (
        "context",
        "converged",
        "converged_mask",
        "cta",
        "expired",
        "live",
        "local",
        "machine",
        "q",
        "retried",
        "spun",
        "state",
        "threads",
        "warp_id",
        "words",
    )  # fmt: skip

    q: Qualifiers

    def __init__(self, launch: Launch, cta: CtaState, index: int, mask: int, frame: Frame) -> None:
        super().__init__(launch, cta.rank << SHARED_RANK_SHIFT, frame)
        self.machine = launch
        self.cta = cta
        self.warp_id = index
        self.threads = mask
        self.live = mask
        self.converged_mask = 0
        self.converged = [ConvergedLanes(self, 0, mask)]
        self.spun = False
        self.expired = False
        self.retried: Wait | None = None
        self.local: NDArray[np.uint8] | None = None
        self.state: dict[Hashable, Any] = {}
        self.context, self.words = frame.context, frame.words
        self._fill_context()

    def _fill_context(self) -> None:
        words, launch = self.words, self.launch
        words[_AT.QUADRANT] = self.warp_id % 4
        words[_AT.LIVE] = self.live
        words[_AT.SEEN_PROGRESS] = -1
        if launch.additions is not None:
            launch.warps_started += 1
            words[_AT.ADDITIONS] = address_of(launch.additions.table)
            words[_AT.AGENT] = 32 * launch.warps_started
        if launch.program.local_bytes:
            self.local = local = np.zeros(launch.program.local_bytes * 32, np.uint8)
            words[_AT.LOCAL] = address_of(local)
            words[_AT.LOCAL_SIZE] = launch.program.local_bytes
        if launch.deferred:
            pending = np.zeros((launch.pending_capacity, 3), np.uint64)
            self.state["cp.async rows"] = pending
            words[_AT.DEFERRED] = 1
            words[_AT.PENDING] = address_of(pending)
            words[_AT.PENDING_CAPACITY] = len(pending)
        if launch.observer is not None:
            launch.observer.fill(self)

    def catch_up(self) -> None:
        """Take over where the warp stands, whose last turn compiled code has ended."""
        words, (lanes,) = self.words, self.converged
        lanes.pc, lanes.mask, words[_AT.AHEAD] = words[_AT.PC], words[_AT.MASK], 0

    def part(self) -> None:
        """Take over the lanes that do not run, where compiled code lets lanes take turns."""
        words, (lanes,) = self.words, self.converged
        aside, words[_AT.ASIDE] = words[_AT.ASIDE], 0
        others = ConvergedLanes(self, words[_AT.ASIDE_PC], aside & ALL_LANES, lanes.turn)
        op = words[_AT.ASIDE_OP]
        if op:
            others.state, others.op, others.active = CONVERGE, op - 1, others.mask
        self.converged = [others, lanes] if aside & ASIDE_FIRST else [lanes, others]

    @property
    def known(self) -> dict[Any, Any]:
        """Data that the handler of the instruction keeps for this launch."""
        return self.launch.known[self.op.index]

    @property
    def issued(self) -> int:
        """Lanes that have issued operations that a tcgen05.commit tracks."""
        lanes: int = self.words[_AT.ISSUED]
        return lanes

    @issued.setter
    def issued(self, lanes: int) -> None:
        self.words[_AT.ISSUED] = lanes

    @property
    def repeats(self) -> bool:
        """Whether compiled code would repeat this execution of the instruction; see `ptxlab.isa.WarpContext`."""
        if not self.words[_AT.REPETITIONS] or self.mask & (self.mask - 1):
            return False
        index, facts = self.op.index, self.launch.facts
        return index in facts.of(repeatable) and index not in facts.changed

    def repeat(
        self, operation: AsyncOperation, state: Hashable, bases: int, function: int, given: Sequence[int], kept: object, ask: int = 0
    ) -> None:
        """Let compiled code repeat this execution of the instruction; see `ptxlab.isa.WarpContext`."""
        if self._repeat(operation, state, function, given, kept, ask):
            self.know_state(state, bases)

    def know_state(self, state: Hashable, bases: int) -> None:
        """Tell the state of the CTA; see `ptxlab.isa.WarpContext`."""
        found = self.launch.host_memory.repetitions
        if found is not None:
            self.cta.memory.repeated[0], self.cta.memory.repeated[1] = found.known(state), bases

    def repeat_box(self, operation: AsyncOperation, tensor_map: int, words: int, kept: object) -> None:
        """Let compiled code copy the boxes of a tensor map; see `ptxlab.isa.WarpContext`."""
        self._repeat(operation, None, words, (tensor_map,), kept)

    def _repeat(
        self, operation: AsyncOperation, state: Hashable | None, function: int, given: Sequence[int], kept: object, ask: int = 0
    ) -> bool:
        """Enter an execution with the calls for observers; False if an observer has none."""
        found = self.launch.host_memory.repetitions
        assert found is not None
        return self._enter(operation, NO_STATE if state is None else found.number(state), self.one_lane(), function, given, kept, ask)

    def _enter(
        self, operation: AsyncOperation, state: int, lane: int, function: int, given: Sequence[int], kept: object, ask: int = 0
    ) -> bool:
        """The same for a state with a number, and the values of registers in a lane."""
        calls: tuple[Call, ...] = ()
        observer, found = self.launch.observer, self.launch.host_memory.repetitions
        assert found is not None
        if observer is not None:
            observed = observer.repetition(operation)
            if observed is None:
                return False
            calls, kept = (*observed.ask, *observed.record, *observed.note), (kept, observed.kept)
        values = [self.lane_value(Reg(index), 64, lane) for index in self.launch.facts.of(repeatable)[self.op.index]]
        found.add(self.op.index, state, values, function, given, kept, calls, ask)
        return True

    def join_warpgroup(self, words: int) -> None:
        """Tell compiled code the words of the warp's warpgroup; see `ptxlab.isa.WarpContext`."""
        self.words[_AT.WARPGROUP] = words

    def state_of_shares(self, state: Hashable, observed: Hashable) -> int:
        """The number of a state for `repeat_share`; see `ptxlab.isa.WarpContext`."""
        launch, words = self.launch, self.words
        found = launch.host_memory.repetitions
        if found is None or not words[_AT.REPETITIONS] or not words[_AT.SERVICES] or launch.early_results:
            return NO_STATE
        return found.number(state if launch.observer is None else (state, observed))

    def repeat_share(self, operation: AsyncOperation, state: int, function: int, given: Sequence[int], kept: object) -> None:
        """Let compiled code repeat this share of the warpgroup's instruction; see `ptxlab.isa.WarpContext`."""
        index, facts = self.op.index, self.launch.facts
        if index in facts.of(repeatable) and index not in facts.changed:
            self._enter(operation, state, 0, function, given, kept)

    def local_memory(self, lane: int) -> NDArray[np.uint8]:
        """The local memory of a thread."""
        size = self.launch.program.local_bytes
        return _NO_BYTES if self.local is None else self.local[lane * size : (lane + 1) * size]

    def take_copies(self) -> NDArray[np.uint64]:
        """Remove the deferred copies of the executing lanes from the warp's buffer and return them."""
        count = self.words[_PENDING_COUNT]
        if not count:
            return _NO_ROWS
        rows: NDArray[np.uint64] = self.state["cp.async rows"]
        lanes = rows[:count, 2] >> np.uint64(16) & np.uint64(31)
        mine = (np.uint64(self.mask) >> lanes & np.uint64(1)).astype(bool)
        taken: NDArray[np.uint64] = rows[:count][mine]
        kept = rows[:count][~mine]
        rows[: len(kept)] = kept
        self.words[_PENDING_COUNT] = len(kept)
        return taken

    # --------------------------------------------------------------------------------------------------------- findings

    def spin(self) -> None:
        """Shorten the slice: the warp polls."""
        self.spun = True

    def access(self, *accesses: MemoryAccess) -> None:
        """Report to the observer the bytes that the instruction itself reads or writes, and mark them in a worker process."""
        if self.launch.observer is not None:
            self.launch.observer.accessed(self, accesses)
        if self.launch.marks is not None:
            self.launch.marks.mark(accesses)

    def multiplied(self, details: Callable[[], Product]) -> None:
        """Report to the observer the product that the instruction has computed."""
        if self.launch.observer is not None:
            self.launch.observer.multiplied(self, details)

    def report(self, code: str, message: str, **fields: Any) -> None:
        """Add a finding at this instruction; the launch continues."""
        self.launch.reports.add(code, message, op=self.op, warp=self, mask=self.mask, **fields)

    def retract(self, code: str) -> None:
        """Leave out the finding with a code at this instruction."""
        self.launch.reports.retracted.add((code, self.op.index, 0))

    def permit_commits(self, lane: int, group: int) -> None:
        """Let compiled code complete the instruction, a commit, from now on, and in a lane all those of the same .cta_group."""
        permitted, index, words = self.launch.host_memory.permitted, self.op.index, self.words
        if permitted[index]:
            permitted[index] = 1
            words[_AT.COMMITTERS] = group << 32 | words[_AT.COMMITTERS] & ALL_LANES | 1 << lane

    def memory(self) -> bytes:
        """A copy of the registers and the local memory."""
        local = self.local
        registers = self.frame.data.tobytes()
        return registers if local is None else registers + local.tobytes()


# ------------------------------------------------------------------------------------------------------ special registers

_SHARED_UNIT = 128
"""Granularity in bytes of shared memory allocation (section "Special Registers: %total_smem_size")."""
_NOT_SET = frozenset({f"%envreg{i}" for i in range(32) if i not in (1, 2)} | {f"%pm{i}{half}" for i in range(8) for half in ("", "_64")})
"""Registers that are for the driver and for tools to set: 0."""

_LANE = np.arange(32, dtype=np.uint64)
_BIT = np.uint64(1) << _LANE
_LANE_VALUES: dict[str, NDArray[np.uint64]] = {
    "%laneid": _LANE,
    "%lanemask_eq": _BIT,
    "%lanemask_lt": _BIT - np.uint64(1),
    "%lanemask_le": (_BIT << np.uint64(1)) - np.uint64(1),
    "%lanemask_gt": ~((_BIT << np.uint64(1)) - np.uint64(1)) & np.uint64(ALL_LANES),
    "%lanemask_ge": ~(_BIT - np.uint64(1)) & np.uint64(ALL_LANES),
}


def _axes(name: str, values: tuple[int, ...]) -> dict[str, int]:
    return {f"{name}.{axis}": value for axis, value in zip("xyz", values, strict=True)}


def launch_values(launch: Launch) -> dict[str, int]:
    """Special registers that are the same in the whole launch."""
    o = launch.options
    shared = -(-(launch.shared_bytes - SHARED_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    return {
        **_axes("%ntid", o.block),
        **_axes("%nctaid", o.grid),
        **_axes("%nclusterid", launch.grid_of_clusters),
        **_axes("%cluster_nctaid", o.cluster),
        "%cluster_nctarank": launch.cluster_size,
        "%is_explicit_cluster": int(o.explicit_cluster),
        "%nwarpid": launch.warps_per_cta,
        "%nsmid": launch.device.sms,
        "%gridid": launch.device.launches,
        "%dynamic_smem_size": o.shared_bytes,
        "%total_smem_size": shared,
        "%aggr_smem_size": shared + SHARED_RESERVED,
        "%reserved_smem_offset_begin": 0,
        "%reserved_smem_offset_end": SHARED_RESERVED,
        "%reserved_smem_offset_cap": SHARED_RESERVED,
        "%reserved_smem_offset_0": 0,
        "%reserved_smem_offset_1": 0,
        "%current_graph_exec": 0,
        "%envreg1": o.grid_workspace >> 32,
        "%envreg2": o.grid_workspace & 0xFFFFFFFF,
    }


def cta_values(launch: Launch, cta: CtaState) -> dict[str, int]:
    """Special registers that are the same in a CTA."""
    c = launch.options.cluster
    inner = tuple(i % n for i, n in zip(cta.ctaid, c, strict=True))
    outer = tuple(i // n for i, n in zip(cta.ctaid, c, strict=True))
    return {
        **_axes("%ctaid", cta.ctaid),
        **_axes("%cluster_ctaid", inner),
        **_axes("%clusterid", outer),
        "%cluster_ctarank": cta.rank,
        "%smid": cta.sm.index,
    }


@lru_cache(maxsize=1024)
def _warp_value(name: str, block: tuple[int, int, int], warp: int) -> Any:
    """A special register that differs between the warps of a CTA or between their lanes."""
    if name in _LANE_VALUES:
        return _LANE_VALUES[name]
    x, y, _ = block
    thread = _LANE + np.uint64(warp * 32)
    return {"%warpid": warp, "%tid.x": thread % x, "%tid.y": thread // x % y, "%tid.z": thread // (x * y)}[name]


def special_registers(warp: Warp) -> dict[str, NDArray[np.uint64]]:
    """The special registers of a warp by name, in all lanes, whether the program reads them or not; without clocks and counters."""
    launch = warp.launch
    shared = launch_values(launch) | cta_values(launch, warp.cta)
    own = {name: _warp_value(name, launch.options.block, warp.warp_id) for name in (*_axes("%tid", (0, 0, 0)), "%warpid", *_LANE_VALUES)}
    return {name: np.broadcast_to(np.asarray(value, np.uint64), 32) for name, value in (own | shared).items()}


def fill_specials(launch: Launch, cta_table: dict[str, int], warp: int, frame: NDArray[np.uint8]) -> None:
    """Write the special registers that the program reads into a warp's frame; the engine itself takes clocks from the context."""
    for name, offset, bits in launch.specials:
        if name in CLOCKS:
            continue
        value: Any = 0 if name in _NOT_SET else cta_table.get(name, launch.special_values.get(name))
        if value is None:
            value = _warp_value(name, launch.options.block, warp)
        if bits == 1:
            frame[offset : offset + 4].view(np.uint32)[0] = ALL_LANES if value else 0
        elif bits <= 16:
            frame[offset : offset + 64].view(np.uint16)[:] = value
        elif bits == 32:
            frame[offset : offset + 128].view(np.uint32)[:] = value
        else:
            frame[offset : offset + 256].view(np.uint64)[:] = value
