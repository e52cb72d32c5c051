"""The observer that counts: compiled code counts into a table, and this adds what asynchronous operations and waits show."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import Program
from ptxlab.engine.support.counters import COUNTER_WORDS, EXTENT_LIMIT, PATTERN_WORDS, Counter
from ptxlab.isa.context import Cta
from ptxlab.isa.effects import (
    Alloc,
    Asynchronous,
    ClusterWait,
    CommitGroup,
    Completion,
    CtaBarrier,
    Dealloc,
    Local,
    MbarrierWait,
    Unit,
    WaitGroup,
)
from ptxlab.isa.native_ops import Atomic, CopyAsync, TensorAccess
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.machine.observe.observer import NO_BARRIER_FUNCTIONS, BarrierFunctions, ClusterFunctions, Profiling
from ptxlab.machine.warp.warp import WAIT, ConvergedLanes, Warp
from ptxlab.native import BoundedCache, address_of
from ptxlab.profile._profile import ProductCounts, Profile
from ptxlab.profile.counters.columns import COLUMNS, COMPILED
from ptxlab.profile.counters.footprint import FootprintRecorder, whole_footprint
from ptxlab.profile.counters.roles import roles_of
from ptxlab.profile.counters.wavefronts import copy_wavefronts, operand_wavefronts
from ptxlab.profile.model.memory import SHARED, TENSOR, Extent
from ptxlab.profile.model.trace import TraceRecorder
from ptxlab.profile.model.traffic import Sample

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations.products import Product
    from ptxlab.machine.launch.cta import Cluster, CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["CountingObserver"]

_NAMES = [column.name for column in COLUMNS]
_COPIES, _TO_SHARED, _FROM_SHARED, _SAVED, _COPY_WAVEFRONTS = map(
    _NAMES.index, ("copies", "bytes_to_shared", "bytes_from_shared", "multicast_saved", "copy_wavefronts")
)
_PRODUCTS, _OPERATIONS, _OPERAND_WAVEFRONTS, _TENSOR_BYTES = map(
    _NAMES.index, ("products", "tensor_operations", "operand_wavefronts", "tensor_memory_bytes")
)
_AT_BARRIER, _AT_MBARRIER, _ELSEWHERE = map(_NAMES.index, ("barrier_waits", "mbarrier_waits", "other_waits"))
_EXECUTIONS, _THREADS, _SHARED_REQUESTS = map(COMPILED.index, (Counter.EXECUTIONS, Counter.THREADS, Counter.SHARED_REQUESTS))
_COPYING = (Unit.TMA, Unit.STORE)
_REGISTER_BYTES = 32 * 4
"""Of a 32-bit register of all lanes."""


class CountingObserver(Profiling):
    """Counts what one launch executes, by warp number and instruction."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        shape = launch.warps_per_cta, len(launch.program.ops)
        self._compiled: NDArray[np.uint64] = np.zeros((*shape, COUNTER_WORDS), np.uint64)
        self._patterns: NDArray[np.uint64] = np.zeros((shape[1], PATTERN_WORDS), np.uint64)
        self._observed: NDArray[np.int64] = np.zeros((*shape, len(COLUMNS)), np.int64)
        self._products: Tally[tuple[str, str, tuple[int, int, int]]] = Tally()
        self._started: NDArray[np.bool_] = np.zeros(shape, bool)
        """The asynchronous operations that each warp has started; a false guard does not count."""
        self._tensor_columns = 0
        self._allocations: dict[CtaState, set[tuple[int, int]]] = {}
        self._waits = [_wait_column(op) for op in launch.program.ops]
        self._retrying: set[ConvergedLanes] = set()
        self._shared_parts = BoundedCache[tuple[int, int, int], tuple[int, int, MemoryAccess]](4096)
        """By the arrays of accesses, which stay alive here, and the shared memory of a CTA: `_shared_part`."""
        self._recorder = TraceRecorder(launch)
        self._footprint = FootprintRecorder(launch.device.memory)

    def fill(self, warp: Warp) -> None:
        """Give a warp the rows of its number, and the patterns that all warps share."""
        warp.words[Word.COUNTERS] = address_of(self._compiled[warp.warp_id])
        warp.words[Word.PATTERNS] = address_of(self._patterns)
        warp.words[Word.FOOTPRINT] = address_of(self._footprint.block(warp.cta))
        self._recorder.fill(warp)

        if warp.words[Word.TRACE]:
            warp.words[Word.SERVICES] = 0  # the time model has each wait of a recorded warp
        else:
            warp.words[Word.BLOCKED_COUNTS] = address_of(self._observed[warp.warp_id, :, _AT_BARRIER])
            warp.words[Word.BLOCKED_STRIDE] = self._observed.strides[1]

    def allows_direct_completion(self, op: Op) -> bool:
        """Compiled code counts what it completes, but arrivals and other groups than those of cp.async belong to the time model."""
        effects = op.effects
        of_copies = isinstance(effects, CommitGroup | WaitGroup) and effects.of is Completion.COPY_GROUP
        return isinstance(effects, MbarrierWait | Local) or of_copies

    def allows_shared_turns(self) -> bool:
        """Compiled code counts waits at barriers of CTAs that are not recorded."""
        return True

    def barrier_functions(self, cta: CtaState) -> BarrierFunctions | None:
        return None if self._recorder.records(cta) else NO_BARRIER_FUNCTIONS

    def cluster_functions(self, cluster: Cluster) -> ClusterFunctions | None:
        return None

    def ended(self, cta: CtaState) -> None:
        """Forget what only resident CTAs need."""
        self._footprint.ended(cta)
        self._allocations.pop(cta, None)

    # -------------------------------------------------------------------------------------------------------------- waits

    def stopped(self, warp: Warp, split: ConvergedLanes) -> None:
        """Count a wait; an instruction that is executed again after a wait is still the same one."""
        self._recorder.read(warp)
        if split in self._retrying:
            self._retrying.discard(split)
        elif split.state == WAIT:
            self._observed[warp.warp_id, split.op, self._waits[split.op]] += 1

    def resumed(self, split: ConvergedLanes) -> None:
        """Note that the instruction will be executed again."""
        if split.wait is not None and split.wait.retry:
            self._retrying.add(split)

    def arrived(self, barrier: Any) -> None:
        """Note for the time model who arrives at a barrier."""
        self._recorder.arrived(barrier)

    def acquired(self, barrier: Any) -> None:
        """Note for the time model who has waited for a phase."""
        self._recorder.acquired(barrier)

    # ------------------------------------------------------------------------------------------- asynchronous operations

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        """Only allocations of tensor memory matter, waits of clusters, and who starts asynchronous operations."""
        if isinstance(op.effects, Asynchronous):
            return self._has_started
        if isinstance(op.effects, ClusterWait):
            return self._met
        return self._allocated if isinstance(op.effects, Alloc | Dealloc) else None

    def _has_started(self, warp: Warp, op: Op) -> None:
        self._started[warp.warp_id, op.index] = True

    def _met(self, warp: Warp, op: Op) -> None:
        self._recorder.met(warp)

    def _allocated(self, warp: Warp, op: Op) -> None:
        held, before = set(warp.cta.tensor.allocations_of(warp.cta)), self._allocations.get(warp.cta, set())
        for allocation in held ^ before:
            self._recorder.has_columns(warp, allocation, allocation in held)
        self._allocations[warp.cta] = held
        self._tensor_columns = max(self._tensor_columns, sum(columns for _, columns in held))

    def issued(self, operation: AsyncOperation) -> None:
        """Count the bytes of a copy, or a product."""
        effects = operation.op.effects
        warp = self.launch.scheduler.current
        if warp is None or not isinstance(effects, Asynchronous):
            self._recorder.issued(operation, 0)
            return
        copied, accesses = 0, None
        self._read_operands(warp, operation)
        if operation.details is not None:
            self._multiplied(warp, operation.op, operation.details())
        elif effects.unit in _COPYING and operation.accesses is not None:
            row = self._observed[warp.warp_id, operation.op.index]
            row[_COPIES] += 1
            accesses = tuple(operation.accesses())
            copied = self._copied(warp, row, operation, accesses)
        self._recorder.issued(operation, copied, accesses)

    def _copied(self, warp: Warp, row: NDArray[np.int64], operation: AsyncOperation, accesses: tuple[MemoryAccess, ...]) -> int:
        """Count the bytes of a copy; returns those that it reads or writes in global memory."""
        written: list[int] = []
        read = 0
        self._footprint.touch(warp.cta, accesses)
        for access in accesses:
            for cta in operation.cta.cluster:
                number, wavefronts = self._shared_part(access, cta)
                if number and access.write:
                    written.append(number)
                read += 0 if access.write else number
                row[_TO_SHARED if access.write else _FROM_SHARED] += number
                row[_COPY_WAVEFRONTS] += wavefronts
        if written:
            row[_SAVED] += sum(written) - max(written)
        return max(written, default=read)

    def _shared_part(self, access: MemoryAccess, cta: Cta) -> tuple[int, int]:
        """The bytes of an access in the shared memory of a CTA, and its wavefronts; found once for an access that is repeated."""
        key = id(access.starts), id(access.sizes), cta.shared_address
        found = self._shared_parts.get(key)
        if found is None:
            number = _bytes_in(access, cta.shared_address, len(cta.shared))
            wavefronts = copy_wavefronts(access, cta.shared_address, len(cta.shared)) if number else 0
            found = self._shared_parts[key] = number, wavefronts, access
        return found[0], found[1]

    def _read_operands(self, warp: Warp, operation: AsyncOperation) -> None:
        """Count the wavefronts of what an operation reads in shared memory as matrix operands, in each CTA of its own."""
        row = self._observed[warp.warp_id, operation.op.index]
        if operation.product is not None:
            product = operation.product()
            row[_OPERAND_WAVEFRONTS] += len(product.ctas) * sum(map(operand_wavefronts, product.operands))
        if operation.tensor_copy is not None:
            copy = operation.tensor_copy()
            row[_OPERAND_WAVEFRONTS] += len(copy.ctas) * operand_wavefronts(copy.source)

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        """Note which sectors of device memory a service instruction accesses."""
        self._footprint.touch(warp.cta, accesses)

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """Count the product of an mma of one warp."""
        product = details()
        self._recorder.multiplied(warp.op, product)
        self._multiplied(warp, warp.op, product)

    def _multiplied(self, warp: Warp, op: Op, product: Product) -> None:
        shape = product.m, product.n, product.k
        row = self._observed[warp.warp_id, op.index]
        row[_PRODUCTS] += 1
        row[_OPERATIONS] += 2 * product.m * product.n * product.k
        self._products[op.opcode, f"{product.a} * {product.b} -> {product.d}", shape] += 1

    # ------------------------------------------------------------------------------------------------------------ results

    def profile(self) -> Profile:
        """The counters in one table, by role."""
        program = self.launch.program
        table = self._observed.copy()
        table[..., : len(COMPILED)] = self._compiled[..., list(COMPILED)]
        _spread(program, table)
        for index, native in program.natives.items():
            if isinstance(native, TensorAccess):
                registers = len(flatten(program.ops[index].operands[native.value]))
                table[:, index, _TENSOR_BYTES] = table[:, index, _EXECUTIONS] * registers * _REGISTER_BYTES
        started = self._started | (table[..., _SHARED_REQUESTS] > 0)
        roles = roles_of(program, table[..., _EXECUTIONS] > 0, started)
        products = tuple(ProductCounts(*key, count) for key, count in self._products.items())
        by_role = np.array([table[list(role.warps)].sum(axis=0) for role in roles]).reshape(len(roles), *table.shape[1:])
        grid = prod(self.launch.options.grid)
        arrays = self._footprint.arrays()
        everything = self.launch.done_ctas == grid
        held = whole_footprint(arrays).either if everything else int(self.launch.device.memory.rows[:, 1].sum())
        sample = Sample(self.launch, self._recorder, table.sum(axis=0), grid, held, self._extents())
        return Profile.of(self.launch, roles, by_role, products, self._tensor_columns, arrays, sample)

    def _extents(self) -> dict[int, Extent]:
        """By instruction of threads what it accesses of shared or tensor memory, in all CTAs."""
        found: dict[int, Extent] = {}
        below, ends = (self._compiled[..., counter].max(axis=0) for counter in (Counter.EXTENT_BELOW, Counter.EXTENT_END))
        for index in np.flatnonzero(ends).tolist():
            native = self.launch.program.natives[index]
            space = TENSOR if isinstance(native, TensorAccess) else SHARED
            writes = isinstance(native, Atomic | CopyAsync) or bool(getattr(native, "write", False))
            found[index] = Extent(space, EXTENT_LIMIT - int(below[index]), int(ends[index]), writes)
        return found


def _wait_column(op: Op) -> int:
    """The column that counts the waits of an instruction."""
    if isinstance(op.effects, CtaBarrier | ClusterWait):
        return _AT_BARRIER
    return _AT_MBARRIER if isinstance(op.effects, MbarrierWait) else _ELSEWHERE


def _spread(program: Program, table: NDArray[np.int64]) -> None:
    """Copy the executions of each node to all its ops."""
    nodes = Nodes(program).nodes
    starts = np.repeat([node.start for node in nodes], [node.stop - node.start for node in nodes])
    for column in (_EXECUTIONS, _THREADS):
        table[..., column] = table[:, starts, column]


def _bytes_in(access: MemoryAccess, start: int, size: int) -> int:
    """How many bytes of an access lie in a part of host memory, in which its ranges lie whole or not at all."""
    inside = (access.starts >= np.uint64(start)) & (access.starts < np.uint64(start + size))
    return int(np.broadcast_to(access.sizes, access.starts.shape)[inside].sum())
