"""Records accesses in the shadow memory; all parts of the sanitizer share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import TENSOR_SPACE, Kind, Row, rule_table
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.clusters import waits_for_grid
from ptxlab.check.race.clocks.releases import access_order
from ptxlab.check.race.clocks.rows import Rows
from ptxlab.check.race.clocks.slots import Slot
from ptxlab.check.race.program.value_flow import constant_sources, dead_loads, sources_change
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.copies_ir import words_of_copy
from ptxlab.check.race.shadow.issue_ir import words_of_issue
from ptxlab.check.race.shadow.shadow import ACCUMULATOR, Shadow
from ptxlab.check.race.shadow.shadow_words import (
    ACCESSES_TOO,
    ALL_COPIES,
    ANNOUNCES,
    ARRIVES_ONCE,
    BULK_COMMIT,
    BULK_SOURCES,
    BULK_WAIT,
    COMMIT,
    COPY_ACCESS,
    COPY_WAIT,
    HANDLED,
    HOW_SHIFT,
    INIT_FENCE,
    LANES_ARRIVE,
    MBARRIER_ARRIVAL,
    MBARRIER_WAIT,
    OP_WORDS,
    PROXY_FENCES,
    READS_TOO,
    TENSOR_COMMIT,
    TENSOR_FENCES,
    TENSOR_WAITS,
    TRANSFER,
    WARPGROUP_COMMIT,
    WARPGROUP_FENCE,
    WARPGROUP_SHARE,
    WARPGROUP_WAIT,
    OpWord,
    StateWord,
)
from ptxlab.check.race.shadow.transfers import columns_of
from ptxlab.engine.direct_services import is_direct, is_direct_arrival
from ptxlab.engine.program import Program
from ptxlab.isa.effects import (
    Asynchronous,
    CommitGroup,
    Completion,
    CompletionArrival,
    Fence,
    Local,
    MbarrierArrive,
    MbarrierInitFence,
    MbarrierWait,
    ProxyFence,
    Scope,
    Space,
    TensorFence,
    TensorWait,
    WaitGroup,
    WgmmaFence,
)
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, MatrixAccess, Native, Nothing, TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.operations import MemoryAccess
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["AccessRecorder", "Handler", "Handlers"]

_ROWS_WORD, _WIDTH_WORD = int(StateWord.ROWS), int(StateWord.WIDTH)
_SUSPECTS_WORD, _TRANSFERRED_WORD = int(StateWord.SUSPECT_COUNT), int(StateWord.TRANSFERRED)
_TENSOR_SPACE = tuple(kind in TENSOR_SPACE for kind in Kind)
_TRANSFERS = tuple(kind in (Kind.LD, Kind.ST) for kind in Kind)
"""By kind of access, whether it is one to tensor memory, and whether by tcgen05.ld or tcgen05.st."""
_KIND_SHIFT = HOW_SHIFT + 1
_GRANULE = 32
"""The most bytes of a granule of shared or global memory."""
_NO_ACCUMULATOR = bytes(ACCUMULATOR.size)

Handler: TypeAlias = "Callable[[Warp, Op], None]"
"""What a complete instruction does to the clocks of the warp that has executed it."""
Handlers: TypeAlias = "dict[type[Any], Callable[[Any], Handler | None]]"
"""By the class of an effect: the handler of one such effect, None where it changes no clock."""


class AccessRecorder:
    """Asks the shadow about accesses and reports the conflicts that it finds; one for each launch."""

    def __init__(self, launch: Launch, shadow: type[Shadow]) -> None:
        self.launch = launch
        undefined, outside = bool(launch.kept), launch.options.outside
        self.watches_sources = undefined or sources_change(launch)
        self.watches_all = undefined or (outside is not None and outside.wants_accesses())
        """Whether every access matters: memory has undefined bits, or what runs beside the launch is told of all."""
        self.unwatched_sources = frozenset() if self.watches_all else constant_sources(launch)
        """The tensor copies of which nothing that they read is written."""
        self._columns = {
            index: columns_of(launch.program.ops[index], native)
            for index, native in launch.program.natives.items()
            if isinstance(native, TensorAccess)
        }
        in_cluster = Scope.CLUSTER if launch.cluster_size > 1 else Scope.CTA
        in_grid = Scope.GPU if launch.total_ctas > launch.cluster_size else in_cluster
        unwatched = frozenset() if launch.facts.of(waits_for_grid) else launch.facts.of(dead_loads)
        self.table = launch.facts.of(_op_table, (in_grid, in_cluster), unwatched, self.watches_sources).copy()
        for index, columns in self._columns.items():
            self.table[index, OpWord.DETAIL] = address_of(columns)
        self.shadow = shadow(self.table, rule_table(launch.model))
        self.findings = Findings(launch, self.shadow)
        self._words = self.shadow.words
        self._header = self.shadow.header
        self.issuers: dict[tuple[int, int], dict[int, None]] = {}
        """By the CTA and the offset of an mbarrier object the warps whose bulk copies it has reported, in any cluster."""
        self.issuing_lanes: dict[int, dict[int, None]] = {}
        """By warp the lanes that have issued such copies."""
        self._loaded: bytes | None = None
        """The header of the running agent (`Agent.header`)."""
        self._accumulator: MemoryAccess | None = None
        """The access of which the shadow has the address (`StateWord.ACCUMULATOR`), if Python has recorded it."""

    def running(self) -> tuple[Warp, Clocks, Agent] | None:
        """The warp that executes, if one does."""
        warp = self.launch.scheduler.current
        return None if warp is None else (warp, *warp.state["race"])

    def load(self, agent: Agent) -> None:
        """Make a warp the running agent of the compiled functions."""
        header = agent.header
        if self._loaded is not header:
            self._loaded = self._header[:] = header

    def record(
        self, clocks: Clocks, agent: Agent, slot: Slot, kind: Kind, op: Op, accesses: Iterable[MemoryAccess], rows: Rows | None = None
    ) -> None:
        """Record the accesses of one operation in one slot; ``rows``: what is ordered before them, if not the rows of the warp."""
        self.load(agent)
        words, record = self._words, self.shadow.access
        if rows is not None:
            words[_ROWS_WORD], words[_WIDTH_WORD] = address_of(rows), rows.shape[1]
            self._loaded = None
        who, what = slot.name << 32 | slot.clock, op.index | kind << _KIND_SHIFT
        tensor = _TENSOR_SPACE[kind]
        for access in accesses:
            write = access.write
            if tensor and write:
                # The same accumulator, written again with nothing in between.
                again, held = ACCUMULATOR.pack(access.name, who, kind), self.shadow.accumulator
                if words[_TRANSFERRED_WORD]:
                    words[_TRANSFERRED_WORD] = 0
                elif held == again:
                    continue
                held[:], self._accumulator = again, access
            elif _TRANSFERS[kind]:
                self.shadow.accumulator[:] = _NO_ACCUMULATOR
            record(access, who, what | _how(access))
        if words[_SUSPECTS_WORD]:
            self.judge(clocks, agent, rows)

    @staticmethod
    def words_of(kind: Kind, op: Op, accesses: tuple[MemoryAccess, ...]) -> NDArray[np.int64]:
        """The words with which compiled code records the accesses of an operation as `record` does."""
        what, tensor = op.index | kind << _KIND_SHIFT, _TENSOR_SPACE[kind]
        return words_of_issue(kind, op.index, [(each, what | _how(each), tensor and each.write) for each in accesses])

    def words_of_copy(self, kind: Kind, op: Op) -> NDArray[np.int64]:
        """The words with which compiled code records what a copy writes and reads as `record` does."""
        reads, effects = op.index | kind << _KIND_SHIFT, op.effects
        reads_sources = isinstance(effects, Asynchronous) and (effects.tensor_map or effects.line is not None)
        watched = reads_sources and op.index not in self.unwatched_sources
        return words_of_copy(op.index, reads | 1 << HOW_SHIFT, reads, watched)

    def judge(self, clocks: Clocks, agent: Agent, rows: Rows | None = None) -> None:
        """Report the conflicts that the shadow has found; ``rows`` as in `record`."""
        if self._words[_SUSPECTS_WORD]:
            self.findings.judge(clocks, agent, self.shadow.suspects(), before=rows)

    def judge_each(self, clocks: Clocks, agent: Agent, accesses: Iterable[MemoryAccess]) -> None:
        """The same for the accesses of one operation, one after the other, in the order in which compiled code has recorded them."""
        if not self._words[_SUSPECTS_WORD]:
            return
        suspects, every = self.shadow.suspects(), list(accesses)
        of: list[int] = []
        for granule in suspects[:, 4].tolist():
            rest = range(of[-1] if of else 0, len(every))
            of.append(next((number for number in rest if _touches(every[number], granule)), rest.start))
        for number in sorted(set(of)):
            self.findings.judge(clocks, agent, suspects[np.array(of) == number])


def _touches(access: MemoryAccess, granule: int) -> bool:
    """Whether an access concerns a granule."""
    starts = access.starts.astype(np.int64)
    return bool(((starts < granule + _GRANULE) & (granule < starts + access.sizes)).any())


def _how(access: MemoryAccess) -> int:
    """What the second word of an entry says of an access beside its kind."""
    return (access.write | (READS_TOO if access.reads else 0)) << HOW_SHIFT


def _op_table(program: Program, reaching: tuple[Scope, Scope], unwatched: frozenset[int], sources: bool) -> NDArray[np.uint64]:
    """`OpWord` for each op, and after them for the rows in which each cp.async says what it reads, and for ends of blocks.

    The result is uint64[3 * ops, word], or uint64[2 * ops, word] without such ends.

    ``reaching``: see `_describe`; ``unwatched``: loads that are not watched; ``sources``: whether to watch what cp.async reads.
    """
    fenced = any(isinstance(op.effects, Fence) for op in program.ops)
    table: NDArray[np.uint64] = np.zeros(((3 if program.noted_ends else 2) * max(len(program.ops), 1), OP_WORDS), np.uint64)
    for index, native in program.natives.items():
        if index in unwatched:
            continue
        how, size = _describe(program.ops[index], native, fenced, reaching)
        depends = isinstance(native, Atomic) and (not native.replaces or _result_is_read(program, index))
        table[index, OpWord.HOW], table[index, OpWord.SIZE] = how | READS_TOO * depends, size
        if sources and isinstance(native, CopyAsync):
            table[len(program.ops) + index, : OpWord.DETAIL] = how & ~1, size
    for op in program.ops:
        if isinstance(op.effects, CommitGroup) and op.effects.of is Completion.COPY_GROUP:
            table[op.index, OpWord.HOW] = COMMIT
        elif op.row.kind == "service" and (of_group := _describe_step(op)) is not None:
            table[op.index, OpWord.HOW], table[op.index, OpWord.DETAIL] = of_group
        elif is_direct_arrival(program, op):
            table[op.index, OpWord.HOW], table[op.index, OpWord.DETAIL] = _describe_arrival(op)
        elif is_direct(program, op) and not isinstance(op.effects, Local):
            table[op.index, OpWord.HOW], table[op.index, OpWord.DETAIL] = _describe_wait(op)
    table[[2 * len(program.ops) + index for index in program.noted_ends], OpWord.HOW] = HANDLED
    return table


def _describe_step(op: Op) -> tuple[int, int] | None:
    """The words `OpWord.HOW` and `OpWord.DETAIL` of a wgmma.mma_async, and of groups of wgmma and of bulk copies."""
    effects = op.effects
    if isinstance(effects, Asynchronous) and effects.completion is Completion.WGMMA_GROUP:
        return HANDLED | WARPGROUP_SHARE, 0
    if not isinstance(effects, CommitGroup | WaitGroup) or effects.of is Completion.COPY_GROUP:
        return None
    of_bulk = effects.of is Completion.BULK_GROUP
    if isinstance(effects, CommitGroup):
        return HANDLED | (BULK_COMMIT if of_bulk else WARPGROUP_COMMIT), 0
    (pending,) = op.operands
    how = BULK_WAIT | (BULK_SOURCES if effects.sources else 0) if of_bulk else WARPGROUP_WAIT
    return HANDLED | how, pending.value & 0xFFFFFFFF if isinstance(pending, Const) else 0


def _describe_wait(op: Op) -> tuple[int, int]:
    """The words `OpWord.HOW` and `OpWord.DETAIL` of a wait that compiled code may complete."""
    if isinstance(op.effects, WaitGroup):
        if op.effects.everything:
            return HANDLED | COPY_WAIT, ALL_COPIES
        (pending,) = op.operands
        assert isinstance(pending, Const)
        return HANDLED | COPY_WAIT, pending.value & 0xFFFFFFFF
    acquires = isinstance(op.effects, MbarrierWait) and not op.effects.order.relaxed
    return HANDLED | MBARRIER_WAIT * acquires, 0


def _describe_arrival(op: Op) -> tuple[int, int]:
    """The same words of an arrival, an expectation or a commit."""
    effects = op.effects
    if isinstance(effects, CompletionArrival):
        return HANDLED | TENSOR_COMMIT, 0
    if isinstance(effects, MbarrierArrive):
        return HANDLED | MBARRIER_ARRIVAL * (not effects.order.relaxed), LANES_ARRIVE if effects.expects else ARRIVES_ONCE
    return HANDLED | MBARRIER_ARRIVAL, ANNOUNCES


def _result_is_read(program: Program, index: int) -> bool:
    """Whether some instruction reads a register that an op writes, or is guarded by it."""
    written = set(program.writes[index])
    guarded = any(op.guard is not None and op.guard.index in written for op in program.ops)
    return guarded or any(not written.isdisjoint(registers) for registers in program.reads)


def _describe(op: Op, native: Native, fenced: bool, reaching: tuple[Scope, Scope]) -> tuple[int, int]:
    """The two words of an op (`OpWord`); ``reaching``: the least scopes that include all threads which reach global and shared memory.

    Section "Morally strong operations": two strong accesses to the same bytes are no race if the scope of each includes the thread of the
    other one. Where a scope includes every thread that can reach the memory, this holds for all pairs. Other accesses are of the kind
    NARROW, and each pair is checked (`Findings`).
    """
    if isinstance(native, LaneAccess | Atomic):
        order, kind = access_order(op), Kind.GENERIC
        if order.strong:
            kind = Kind.NARROW if order.scope < reaching[native.space.startswith("shared")] else Kind.STRONG
        orders = order.strong and (fenced or order.synchronises)
        how = kind << 1 | (isinstance(native, Atomic) or native.write) | (HANDLED | ACCESSES_TOO if orders else 0)
        return how, native.size
    if isinstance(native, MatrixAccess):
        return Kind.GENERIC << 1 | native.write, native.row
    if isinstance(native, CopyAsync):
        return Kind.COPY << 1 | 1 | COPY_ACCESS, native.size
    if isinstance(op.effects, ProxyFence) and op.effects.acquires and op.effects.releases:
        spaces = op.effects.spaces
        return PROXY_FENCES[Row.ASYNC_SHARED] * (Space.SHARED in spaces) | PROXY_FENCES[Row.ASYNC_GLOBAL] * (Space.GLOBAL in spaces), 0
    if isinstance(native, TensorAccess):
        return HANDLED | TRANSFER | (Kind.ST << 1 | 1 if native.write else Kind.LD << 1), 0
    if isinstance(native, Nothing) and op.effects is not None:
        waits = TENSOR_WAITS[op.effects.write] if isinstance(op.effects, TensorWait) and op.aligned else 0
        init_fence = INIT_FENCE * isinstance(op.effects, MbarrierInitFence)
        group_fence = WARPGROUP_FENCE * (isinstance(op.effects, WgmmaFence) and op.aligned)
        tensor_fence = TENSOR_FENCES[op.effects.before] if isinstance(op.effects, TensorFence) else 0
        return HANDLED | waits | init_fence | group_fence | tensor_fence, 0
    return 0, 0
