"""A kernel as the rules see it: its instructions by effect, the paths of its threads, and what addresses are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._flow import Flow, flow_of
from ptxlab.check.static.dataflow._graph import behind
from ptxlab.check.static.dataflow._matches import Test
from ptxlab.check.static.dataflow._paths import Paths, never, paths_of
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._unrolled import Execution
from ptxlab.check.static.dataflow._values import Value
from ptxlab.diagnostics import Severity
from ptxlab.engine import Program
from ptxlab.isa import memory
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import (
    Asynchronous,
    ClusterArrive,
    ClusterWait,
    Completion,
    CompletionArrival,
    CtaBarrier,
    MbarrierArrive,
    MbarrierInit,
    MbarrierWait,
    Unit,
)
from ptxlab.isa.native_ops import CopyAsync
from ptxlab.isa.operands import Op

__all__ = ["Kernel", "Report", "Test", "is_product", "is_warpgroup_product", "never", "of_class", "releases", "synchronises"]

_Fact = TypeVar("_Fact")


@dataclass(frozen=True, slots=True)
class Report:
    """A finding of a rule, at an instruction; the severity is that of the code unless it is given."""

    code: str
    op: Op
    message: str
    fix: str
    severity: Severity | None = None


class Kernel:
    """One entry function with all that it calls."""

    def __init__(self, program: Program, target: str) -> None:
        self.program = program
        self.target = target
        self.flow: Flow = flow_of(program)
        self.matches = self.flow.matches
        self._facts: dict[Callable[[Kernel], Any], Any] = {}
        self._continuing: dict[int, NDArray[np.bool_]] = {}

    def fact(self, find: Callable[[Kernel], _Fact]) -> _Fact:
        """What a function finds out about the kernel, for all rules that need it."""
        if find not in self._facts:
            self._facts[find] = find(self)
        found: _Fact = self._facts[find]
        return found

    @cached_property
    def paths(self) -> list[Paths]:
        """The graphs of the classes of threads."""
        return paths_of(self.flow)

    @cached_property
    def _behind(self) -> list[int]:
        """For each block, the blocks that at least one edge leads to, as bits."""
        blocks = self.program.blocks
        return behind([block.successors for block in blocks], [1 << number for number in range(len(blocks))])

    def comes_behind(self, block: int, other: int) -> bool:
        """Whether at least one edge leads from a block to another one, or around to itself."""
        return bool(self._behind[block] >> other & 1)

    @cached_property
    def _reached_sets(self) -> tuple[list[NDArray[np.bool_]], list[int]]:
        """The different sets of threads that reach blocks; for each block the numbers of those that reach it or a later one, as bits."""
        numbers: dict[int, int] = {}
        sets: list[NDArray[np.bool_]] = []
        own: list[int] = []
        for reached in self.flow.reached:
            if reached is not None and id(reached) not in numbers:
                numbers[id(reached)] = len(sets)
                sets.append(reached)
            own.append(0 if reached is None else 1 << numbers[id(reached)])
        later = behind([block.successors for block in self.program.blocks], own)
        return sets, [mine | others for mine, others in zip(own, later, strict=True)]

    def continuing(self, point: Point) -> NDArray[np.bool_]:
        """The threads that reach an instruction, or what follows it in those that do."""
        sets, of_block = self._reached_sets
        bits = of_block[point.block]
        found = self._continuing.get(bits)
        if found is None:
            found = self._continuing[bits] = np.logical_or.reduce([each for number, each in enumerate(sets) if bits >> number & 1])
        return found

    def execution(self) -> Execution:
        """One execution, with the loops turned; those of unknown length only if there are stages of pipelines to follow."""
        copies = any(isinstance(native, CopyAsync) for native in self.program.natives.values())
        return Execution(self.flow, copies or any(_makes_pipelines(point) for point in self.points))

    @cached_property
    def points(self) -> list[Point]:
        """The instructions that some thread may reach, in scheduling order."""
        return [point for _, point in sorted(self.flow.points.items()) if self.reached(point) is not None]

    def reached(self, point: Point) -> NDArray[np.bool_] | None:
        """The threads that may reach an instruction."""
        return self.flow.reached[point.block]

    def executing(self, point: Point) -> NDArray[np.bool_]:
        """The threads that may execute an instruction."""
        reached = self.flow.reached[point.block]
        assert reached is not None
        guard = point.guard
        if guard is None:
            return reached
        if guard.symbol is not None:
            limits = guard.symbol.limits
            return reached if limits is None or not isinstance(guard.data, int) or guard.data else reached & limits
        return np.logical_and(reached, guard.data)

    @cached_property
    def _executed(self) -> frozenset[int]:
        """The indices of the instructions that some thread may execute."""
        return frozenset(point.op.index for point in self.points if point.guard is None or self.executing(point).any())

    def of(self, test: Test) -> list[Point]:
        """The instructions that a test accepts and some thread may execute."""
        executed = self._executed
        return [point for point in self.matches(test) if point.op.index in executed]

    def shared_offsets(self, point: Point, address: Value | None) -> frozenset[int] | None:
        """The offsets in shared memory that an address may have; None if they are not known. The rank of the CTA is left out."""
        low = None if address is None else address.low(SHARED_RANK_SHIFT)
        if low is None:
            return None
        return frozenset({low}) if isinstance(low, int) else frozenset(np.unique(low[self.executing(point)]).tolist())

    @cached_property
    def names_ranks(self) -> bool:
        """Whether the kernel makes addresses in the shared memory of CTAs of the cluster by their ranks."""
        return any(memory.names_rank(op) for op in self.program.ops)

    def arrives_elsewhere(self, point: Point) -> bool:
        """Whether an instruction may arrive on the mbarrier of another CTA."""
        remote = isinstance(point.op.effects, MbarrierArrive) and point.op.q.get("space") == "shared::cluster"
        return self.names_ranks or remote or point.named("ctaMask") is not None

    def repeats(self, wait: Point) -> bool:
        """Whether threads repeat a wait until it succeeds, and do nothing else."""
        blocks = self.program.blocks
        last = self.flow.points.get(blocks[wait.block].stop - 1)
        guard = None if last is None else last.guard
        if guard is None or guard.symbol is None or wait.op.index not in guard.symbol.leaves:
            return False
        for following in blocks[wait.block].successors:
            seen: set[int] = set()
            while following != wait.block and following not in seen and len(blocks[following].successors) == 1:
                seen.add(following)
                (following,) = blocks[following].successors
            if following == wait.block:
                return True
        return False

    @property
    def shared_end(self) -> int:
        """The end of the shared variables; 0 if the launch may add dynamic shared memory."""
        shared = self.program.shared
        dynamic = any(offset >= shared.static_end for offset in shared.variables.values())
        return 0 if dynamic else shared.static_end

    def surely(self, threads: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Those of some threads that every launch has: all if the kernel fixes its block, else those of the first warp."""
        if self.flow.threads.exact:
            return threads
        sure: NDArray[np.bool_] = np.logical_and(threads, self.flow.threads.warp == 0)
        return sure


@cache
def of_class(*effects: type) -> Test:
    """A test for instructions with an effect of one of these classes."""

    def test(point: Point) -> bool:
        return isinstance(point.op.effects, effects)

    return test


def releases(point: Point) -> bool:
    """Whether an instruction may tell other threads that something is done."""
    return isinstance(point.op.effects, CtaBarrier | ClusterArrive | MbarrierArrive)


def synchronises(point: Point) -> bool:
    """Whether an instruction waits for other threads."""
    effect = point.op.effects
    if effect is None:
        return point.joins_warp
    return isinstance(effect, ClusterWait | MbarrierWait) or (isinstance(effect, CtaBarrier) and effect.waits)


def _makes_pipelines(point: Point) -> bool:
    """Whether an instruction is a product, or makes an mbarrier."""
    effect = point.op.effects
    return isinstance(effect, MbarrierInit) or (isinstance(effect, Asynchronous) and effect.unit in (Unit.TENSOR_CORE, Unit.WARPGROUP))


def is_product(point: Point) -> bool:
    """Whether an instruction is an asynchronous operation of the tensor cores on tensor memory."""
    effect = point.op.effects
    return isinstance(effect, Asynchronous) and effect.unit is Unit.TENSOR_CORE


def is_warpgroup_product(point: Point) -> bool:
    """Whether an instruction is an asynchronous product of a warpgroup, of which ``wgmma.commit_group`` makes groups."""
    effect = point.op.effects
    return isinstance(effect, Asynchronous) and effect.completion is Completion.WGMMA_GROUP


def mbarrier_operand(point: Point) -> Value | None:
    """The address of the mbarrier of an instruction."""
    for name in ("mbar", "mbarrier", "addr"):
        found = point.named(name)
        if found is not None:
            return found
    return None


def is_supplier(point: Point) -> bool:
    """Whether an instruction arrives on an mbarrier, or completes bytes there."""
    effect = point.op.effects
    if isinstance(effect, Asynchronous):
        return effect.completion is Completion.BYTES
    return isinstance(effect, MbarrierArrive | CompletionArrival)


def common(points: Iterable[Point]) -> str:
    """The lines of some instructions, for a message."""
    return ", ".join(str(line) for line in sorted({point.op.line for point in points}))
