"""One launch: its resident clusters, and the machine that service handlers use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.turns.words import BarrierCell, ClusterCell
from ptxlab.machine.launch.arguments import roots_of
from ptxlab.machine.launch.configuration import CTAS_PER_SM, LaunchConfiguration
from ptxlab.machine.launch.cta import Cluster, CtaState
from ptxlab.machine.launch.host_memory import ClusterCount, CtaMemory
from ptxlab.machine.launch.indeterminate import Contents, Observations
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.launch.prepared import Prepared, prepared
from ptxlab.machine.launch.program_facts import facts_of
from ptxlab.machine.launch.reports import Reports
from ptxlab.machine.launch.sms import Sm, Sms
from ptxlab.machine.memory.addressed import AddressedMemory
from ptxlab.machine.memory.journal import Journal
from ptxlab.machine.memory.tensor_memory import TensorMemory
from ptxlab.machine.observe.observer import Observer, Tracing, observer_for, profiler_for
from ptxlab.machine.schedule.barriers import ClusterBarrier
from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.schedule.shared_operations import operations_of
from ptxlab.machine.schedule.turns import begin_turns, turns_of
from ptxlab.machine.warp.context_words import fill_cta_words, fill_launch_words
from ptxlab.machine.warp.special_values import cta_values, fill_specials, launch_values
from ptxlab.machine.warp.warp import ALL_LANES, Warp

if TYPE_CHECKING:
    from ptxlab.engine import Executable
    from ptxlab.engine.program import Program
    from ptxlab.isa.operations.matrices import MatrixOperand
    from ptxlab.machine._device import Device
    from ptxlab.machine.observe.addition_order import Additions
    from ptxlab.machine.warp.frame import Frame
    from ptxlab.machine.workers.worker import Part, Worker
    from ptxlab.ptx import Module

__all__ = ["Launch"]

T = TypeVar("T")

_LIVE, _ALLOCATION_COUNT, _LIVE_THREADS = int(Word.LIVE), int(Word.ALLOCATION_COUNT), int(BarrierCell.LIVE)


class Launch(Prepared, AddressedMemory):
    """The state of one launch; see `ptxlab.isa.Machine`."""

    def __init__(
        self,
        device: Device,
        module: Module,
        program: Program,
        executable: Executable,
        options: LaunchConfiguration,
        parameters: bytes,
        addresses: dict[str, int],
        observe: Callable[[Launch], Observer] | None = None,
        trace: Tracing | None = None,
        scheduler: type[Scheduler] | None = None,
        journal: Journal | None = None,
    ) -> None:
        facts = facts_of(program, executable)
        self.__dict__ = vars(prepared(facts, options)).copy()  # one by one the attributes would take three times as long
        self.device = device
        self.module = module
        self.options = options
        self.facts = facts
        self.target = device.target or module.target
        self.ctas_per_sm = device.ctas_per_sm or CTAS_PER_SM
        self.printed: list[str] = []
        self.print = self.printed.append
        self.resident: list[CtaState] = []
        self._used_cells: list[NDArray[np.uint32]] = []
        self._tensor_cells = partial(self.facts.tensor_cells, self._used_cells)
        self._sms = Sms(device.sms, self.ctas_per_sm, 32 * self.warps_per_cta, self.shared_bytes)
        self.host_memory = facts.launch_memory(len(parameters))
        self.host_memory.begin(parameters, self.deferred)
        self.parameter_bytes = self.host_memory.parameters
        self._progress = self.host_memory.progress
        self._begun_clusters = ClusterCount(self.host_memory.grid, self._order, self.grid_of_clusters, options.cluster)
        self.journal = journal
        """What is overwritten in device memory is kept there."""
        self.allocations = device.memory.rows
        if journal is not None:
            self.allocations, journal.resized = journal.rows, self._count_allocations
        self._globals = addresses
        if addresses:
            self.symbol_addresses = dict(self.symbol_addresses)
            self.symbol_addresses |= {(space, name): at for name, at in addresses.items() for space in ("global", "const")}
        if program.symbols:
            self.symbol_table = np.array([addresses.get(name, 0) for name in program.symbols], np.uint64)
        self.special_values = launch_values(self) if self.specials else {}
        self.additions: Additions | None = None
        if self.adding:
            from ptxlab.machine.observe.addition_order import Additions

            self.additions = Additions(self, self.adding)
        self.before, device.left = device.left, None
        self._contents = Contents(self)
        self._contents.fill_device(device.memory)
        self.kept = device.memory.origins()
        """Where the undefined bits come from that device memory has before the launch."""
        self.profiler = profiler_for(self) if observe is None and options.profile else None
        self.only_checked = observe is None
        """Whether nothing but the checks and what the options ask for observes the launch."""
        self.observer = observer_for(self, self.providers, trace, self.profiler) if observe is None else observe(self)
        self.observed = self.observer is not None
        self.arrivals_together = self.observer is not None and self.observer.takes_arrivals_together()
        self.fetches: list[Any] = [None] * len(program.ops)
        """By instruction: where its operands are (`Registers.fetch`)."""
        self.known: defaultdict[int, dict[Any, Any]] = defaultdict(dict)
        """By instruction: data that its handler keeps for this launch."""
        self.reports = Reports(self)
        self.scheduler = (scheduler or Scheduler)(self, executable.run)
        if scheduler is None and (turns := turns_of(self, executable.dispatch_address)) is not None:
            self.scheduler.share(turns, executable.run_turns(turns.words, turns.address), operations_of(self, turns.warps, executable))
        self._template = executable.template.data
        self.observations = Observations(self)
        self.wake, self.enqueue, self.unperformed = self.scheduler.wake, self.scheduler.issue, self.scheduler.unperformed
        self.take_over_waiters = self.scheduler.take_over_waiters
        self._frames: list[Frame] = []
        self._memories: list[CtaMemory] = []
        fill_launch_words(self)

    @cached_property
    def roots(self) -> bytes:
        """The bytes that hold the addresses with which the kernel begins."""
        return roots_of(self.parameter_bytes.tobytes(), self._globals)

    @property
    def progress(self) -> int:
        """A number that grows whenever the launch makes progress; compiled code counts, too (`Word.PROGRESS`)."""
        return self._progress[0]

    @progress.setter
    def progress(self, value: int) -> None:
        self._progress[0] = value

    @property
    def total_ctas(self) -> int:
        """How many CTAs the launch has, without those of clusters that others have cancelled."""
        return (self._clusters - self._begun_clusters.canceled) * self.cluster_size

    def employ(self, worker: Worker) -> None:
        """Run in a worker process, which must know of cancelled clusters."""
        self.worker = worker
        self._begun_clusters.leave_to_handlers()

    @property
    def allocation_count(self) -> int:
        """How many rows `allocations` has."""
        return len(self.allocations) if self.journal is None else self.journal.count

    def replace_allocations(self, allocations: NDArray[np.uint64]) -> None:
        """Replace the table of allocations for warps that start from now on; no journal is kept."""
        self.allocations, self.journal = allocations, None
        fill_launch_words(self)

    def _count_allocations(self) -> None:
        """Tell all warps how many rows the table of allocations has."""
        count, at = self.allocation_count, _ALLOCATION_COUNT
        self.host_memory.cells[at] = count
        for cta in self.resident:
            cta.memory.cells[at] = count
            for warp in cta.warps:
                warp.words[at] = count

    # --------------------------------------------------------------------------------------------------- residency

    def start_cluster(self, beside: bool = False) -> bool:
        """Start the next cluster if it fits; return whether one has started.

        ``beside``: it shall run beside the resident ones, which do not wait for it.
        """
        if self.resident and self.worker is not None and not beside:
            self.worker.interleaves()
        if self._begun_clusters.next >= self._stop:
            if self._stop == self._clusters or self.worker is not None or beside or not self.resident:
                return False
            self.start_all()  # the resident clusters wait for others
        unit = self._sms.free(self.cluster_size)
        if unit is None:
            if not self.resident:
                raise refuse(
                    "A308",
                    f"a cluster of {self.cluster_size} CTAs does not fit on a device with {self.device.sms} SMs",
                    fix="use a Device with more sms",
                )
            return False
        index = self._order[self._begun_clusters.next]
        self._begun_clusters.next += 1
        self._progress[0] += 1
        self._start(index, unit)
        return True

    @property
    def next_cluster(self) -> int:
        """The position of the cluster that starts next in the order of all."""
        return self._begun_clusters.next

    @property
    def clusters_left(self) -> int:
        """How many clusters have not started."""
        return self._clusters - self._begun_clusters.next

    def start_only(self, count: int) -> None:
        """Start only so many clusters more, unless these wait for others."""
        self._stop = min(self._begun_clusters.next + count, self._clusters)

    def start_all(self) -> None:
        """Start all clusters that are left."""
        self._stop = self._clusters

    def assign(self, clusters: range) -> None:
        """Start only these clusters, by their positions in the order of all."""
        self._begun_clusters.next, self._stop = clusters.start, clusters.stop

    def take_over(self, parts: Iterable[Part]) -> None:
        """Count what workers have done, who have run all clusters that were left."""
        self._begun_clusters.next = self._clusters
        for part in parts:
            self.done_ctas += part.ctas
            self.scheduler.instructions += part.instructions
            self.warps_started += part.warps
            for index, count in enumerate(part.services):
                self.scheduler.services[index] += count

    def cancel_cluster(self) -> tuple[int, int, int] | None:
        """Cancel the next cluster that has not started; return the coordinates of its first CTA, None if all have started."""
        if self.worker is not None:
            self.worker.leave("a cluster cancels others")
        if self._begun_clusters.next >= self._clusters:
            return None
        x, y, z = self._cluster_at(self._order[self._begun_clusters.next])
        self._begun_clusters.next += 1
        self._progress[0] += 1
        self._begun_clusters.canceled += 1
        width, height, depth = self.options.cluster
        return x * width, y * height, z * depth

    def _cluster_at(self, index: int) -> tuple[int, int, int]:
        """Return the coordinates of a cluster in the grid of clusters."""
        across, down, _ = self.grid_of_clusters
        return index % across, index // across % down, index // (across * down)

    def _start(self, index: int, unit: list[Sm]) -> None:
        table = np.zeros((self.cluster_size, 2), np.uint64)
        queue = self.scheduler.queues.of_cluster(index)
        memories = [self._memories.pop() if self._memories else self.facts.memory(self.shared_bytes) for _ in range(self.cluster_size)]
        for memory in memories:
            memory.begin(self.host_memory.cells)
        barrier = ClusterBarrier(self, memories[0].cluster)
        barrier.cells[ClusterCell.LIVE] = self.threads * self.cluster_size
        group = Cluster(index, barrier, table, queue)
        queue.clusters.append(group)
        grid = self.options.grid
        ctas = []
        width, height, _ = self.options.cluster
        left, top, front = (at * size for at, size in zip(self._cluster_at(index), self.options.cluster, strict=True))
        for rank in range(self.cluster_size):
            x, y, z = left + rank % width, top + rank // width % height, front + rank // (width * height)
            sm = unit[rank]
            self._sms.occupy(sm)
            if sm.tensor is None:
                sm.tensor = TensorMemory(self.options.tmem_offset, self._contents.fill, self._tensor_cells)
            cta = CtaState(self, group, rank, (x, y, z), x + grid[0] * (y + grid[1] * z), sm, memories[rank], sm.tensor)
            self._contents.fill(cta.shared)
            table[rank, 0], table[rank, 1] = cta.shared_address, len(cta.shared)
            fill_cta_words(self, cta)
            if self.additions is not None:
                self.additions.forget(cta.shared)
            ctas.append(cta)
        group.ctas = tuple(ctas)
        if self.observer is not None:
            self.observer.started(group.ctas)
        begin_turns(self, group)
        for cta in ctas:
            self.resident.append(cta)
            self._start_warps(cta)

    def _start_warps(self, cta: CtaState) -> None:
        table = cta_values(self, cta) if self.specials else {}
        for index in range(self.warps_per_cta):
            left = self.threads - 32 * index
            mask = ALL_LANES if left >= 32 else (1 << left) - 1
            frame = self._frames.pop() if self._frames else self.facts.frame()
            frame.begin(self._template, cta.memory.cells)
            self._contents.fill_registers(frame.data)
            fill_specials(self, table, index, frame.data)
            warp = Warp(self, cta, index, mask, frame)
            cta.warps.append(warp)
            self.scheduler.enqueue(warp)

    def exited(self, warp: Warp, lanes: int) -> None:
        """Record that lanes of a warp have exited; barriers count only threads that have not."""
        warp.live &= ~lanes
        cta = warp.cta
        self.scheduler.take_over_all(cta)
        gone = lanes.bit_count()
        cta.live_threads -= gone
        cta.memory.barriers[_LIVE_THREADS] = cta.live_threads
        warp.words[_LIVE] = warp.live
        for _, barrier in sorted(cta.named.items()) if cta.named else ():
            if barrier.arrived and barrier.expected is None and barrier.arrived >= cta.live_threads:
                barrier.release()
        cta.group.barrier.exited(warp, lanes)

    def warp_ended(self, warp: Warp) -> None:
        """Record that all threads of a warp have exited; the last warp of a CTA ends it, and the last CTA of a cluster frees the SMs."""
        cta = warp.cta
        self._progress[0] += 1
        if cta.live_threads:
            return
        self.scheduler.finish_operations(cta)
        cta.end()
        self.done_ctas += 1
        self.resident.remove(cta)
        cta.group.table[cta.rank, 1] = 0
        if self.observer is not None:
            self.observer.ended(cta)
        for warp in cta.warps:
            self._frames.append(warp.frame)
            warp.state.clear()
        cta.warps = []
        self.reports.cta_ended(cta)
        if all(other.exited for other in cta.group.ctas):
            cta.group.queue.clusters.remove(cta.group)
            for other in cta.group.ctas:
                self._sms.release(other.sm)
                other.tensor.release(other)
                self._memories.append(other.memory)
            if self.profiler is None:  # a profile makes its estimate when it is asked for it
                for other in cta.group.ctas:
                    other.state.clear()
                cta.group.ctas = ()  # break reference cycles, which only the garbage collector would free
        self.tell_progress(self.done_ctas)

    def tell_progress(self, ended: int) -> None:
        """Tell how many CTAs have ended, if it is more than was told."""
        if ended > self._told:
            self._told = ended
            if self.options.progress is not None:
                self.options.progress(ended, self.total_ctas)

    # ---------------------------------------------------------------------------------------- the machine for handlers

    def advice(self, operand: MatrixOperand, cta: CtaState) -> str:
        """Which descriptor would read a matrix operand that this one cannot read."""
        return "" if self.observer is None else self.observer.advice(operand, cta)

    def of_program(self, find: Callable[[Any], T]) -> T:
        """``find(program)``, which is called once for all launches of the program."""
        return self.facts.of(find)

    def run(self) -> None:
        """Run the launch to its end, from its start or from where it stands."""
        if not self._begun:
            self._begun = True
            self.tell_progress(0)
            if "register" in self.options.checks:
                self.reports.early_uses()
        if self.options.processes > 1:
            from ptxlab.machine.workers.processes import run_clusters

            run_clusters(self)
        else:
            self.run_alone()
        self.finish()

    def run_alone(self) -> None:
        """Run all clusters that have been started in this process."""
        self.scheduler.run()
        self.facts.executed = True

    def forget(self) -> None:
        """Break all reference cycles: what belongs to a launch refers to it, and only the garbage collector would free it."""
        self.facts.frames.extend(self._frames)
        self.facts.memories.extend(self._memories)
        self.facts.tensor_memories.extend(self._used_cells)
        self.facts.launch_memories.append(self.host_memory)
        if self.observer is not None:
            self.observer.forget()
            if (repetitions := self.host_memory.repetitions) is not None:
                repetitions.clear()  # its executions call functions of the observers
        if (turns := self.scheduler.compiled_turns) is not None:
            turns.warps.clear()
        for each in (self.observations, self):
            vars(each).clear()

    def finish(self) -> None:
        """All clusters have ended: report what can be found only now."""
        self.observations.finish()
        if self.additions is not None:
            self.additions.report()
