"""The replay of recorded CTAs: warps issue in order, and wait for registers, pipes, memory, barriers and asynchronous operations.

CTAs of a cluster start together, each on an SM of its own; without clusters there is one SM.

Time is a number of cycles. Each resource is a queue that knows when it is free again. The warp that is furthest behind goes on first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from ptxlab.isa.effects import Completion, Unit
from ptxlab.profile.model.costs import Cost, Kind
from ptxlab.profile.model.memory import ALLOCATED, Extent, Touch
from ptxlab.profile.model.parameters import Parameters
from ptxlab.profile.model.path import Link, Span
from ptxlab.profile.model.state import PARTITIONS, Group, Phase, ReplayedCta, ReplayedWarp, Sm
from ptxlab.profile.model.trace import Arrival, CtaTrace, Operation

__all__ = ["Replay"]

_QUEUED = 128.0
"""Cycles of work that wait for a pipe before the warps that issue it wait, too: the assembler mixes instructions of several pipes."""
_SOON = 64.0
"""Cycles after which an access by the same instruction is shown as another one."""
_AHEAD = 8.0
"""Cycles that a warp may be ahead of the others when it goes on."""


class Replay:
    """Executes clusters on as many SMs as each has CTAs, ``resident`` at a time.

    Attributes
    ----------
    ends : when each cluster has ended, in the order of their ends
    warps : how many were replayed
    busy : cycles for which each resource was occupied, of all SMs
    stalls : cycles that warps have waited, by reason
    waits : the same by instruction
    last : the end of the critical path: of the cluster that has ended last
    """

    def __init__(
        self,
        costs: list[Cost],
        stops: dict[int, int],
        known: Parameters,
        traffic: float,
        latency: float,
        extents: dict[int, Extent],
    ) -> None:
        """``stops``: the end of each node; ``traffic``: bytes of global memory in a cycle; ``latency``: of loads from it.

        ``extents``: what instructions of threads access of shared or tensor memory.
        """
        self.costs, self.stops, self.known = costs, stops, known
        self.traffic, self.latency = traffic, latency
        self.ends: list[float] = []
        self.busy: defaultdict[str, float] = defaultdict(float)
        self.stalls: defaultdict[str, float] = defaultdict(float)
        self.waits: defaultdict[int, float] = defaultdict(float)
        self.spans: list[Span] = []
        self.touches: list[Touch] = []
        self.shown_ends: list[float] = []
        self.last: Link | None = None
        self.warps = 0
        self._sms: list[Sm] = []
        self._heap: list[tuple[float, int, ReplayedWarp]] = []
        self._active: list[Group] = []
        self._order = 0
        self._shown = 0
        self._extents = extents
        self._runs: dict[tuple[int, int], int] = {}
        """By CTA and instruction the position of its last touch."""

    def run(self, clusters: list[tuple[CtaTrace, ...]], resident: int, shown: int = 0) -> float:
        """Run clusters with these traces; return when the last one has ended, and memory has taken all that was stored.

        Spans are kept of the first ``shown`` CTAs.
        """
        self._sms = [Sm() for _ in range(max(map(len, clusters)))]
        self._shown = shown
        self.shown_ends = [0.0] * min(shown, sum(map(len, clusters)))
        waiting = list(enumerate(clusters))[::-1]
        size = len(self._sms)
        interval = self.known.cta_interval + (self.known.cluster_interval / size if size > 1 else 0.0)
        last_start = -interval
        self._free: list[tuple[float, int, Link | None]] = [(0.0, -1 - number, None) for number in range(resident)]
        while waiting or self._heap:
            if waiting and self._free:
                free, _, before = heappop(self._free)
                start = last_start = max(last_start + interval, free)
                self._start(*waiting.pop(), free, start, before)
                continue
            if not self._heap and not self._release():
                break
            _, _, warp = heappop(self._heap)
            self._node(warp)
        return self._drained(max(self.ends, default=0.0))

    def _drained(self, end: float) -> float:
        """When the last CTA has ended and all ports are free again."""
        drained = max(sm.port for sm in self._sms)
        if self.last is not None and drained > end:
            span = self.last.span
            self.last = Link(self.last, Span(span.cta, "SM", "stores", span.op, end, drained), self.last.warp)
        return max(end, drained)

    def _release(self) -> bool:
        """Continue warps that wait for phases which warps that were not recorded would complete; whether there are any."""
        for group in self._active:
            for phase in group.phases.values():
                for warp in phase.waiting:
                    self._push(warp)
                phase.waiting.clear()
        return bool(self._heap)

    def _start(self, number: int, traces: tuple[CtaTrace, ...], free: float, start: float, before: Link | None) -> None:
        expected: Counter[Hashable] = Counter()
        for trace in traces:
            expected.update(trace.expected)
        group = Group({phase: Phase(count) for phase, count in expected.items()})
        self._active.append(group)
        for rank, (trace, sm) in enumerate(zip(traces, self._sms, strict=True)):
            cta = ReplayedCta(number * len(traces) + rank, rank, trace, group, sm)
            group.ctas.append(cta)
            for which, warp in trace.warps.items():
                nodes = np.concatenate(warp.nodes).tolist() if warp.nodes else []
                link = Link(before, Span(cta.number, "SM", "start of CTAs", nodes[0] if nodes else 0, free, start), f"warp {which}")
                self._push(ReplayedWarp(cta, which, nodes, start, (sm.placed + which) % PARTITIONS, link))
            sm.placed += len(trace.warps)
            group.left += len(trace.warps)
        self.warps += group.left

    def _push(self, warp: ReplayedWarp) -> None:
        self._order += 1
        heappush(self._heap, (warp.time, self._order, warp))

    # -------------------------------------------------------------------------------------------------------------- warps

    def _node(self, warp: ReplayedWarp) -> None:
        """Execute instructions of a node of a warp, as long as no other warp is further behind."""
        if warp.at >= len(warp.nodes):
            self._exit(warp)
            return
        first = warp.nodes[warp.at]
        place = warp.number, warp.at
        begin, heap = warp.time, self._heap
        for op in range(first + warp.done, self.stops.get(first, first + 1)):
            cost = self.costs[op]
            if self._operands(warp, op, cost) and heap and heap[0][0] < warp.time - _AHEAD:
                self._push(warp)
                return
            if cost.kind != Kind.NOTHING:
                self._execute(warp, op, cost, place)
            warp.done += 1
        if warp.cta.number < self._shown and warp.time > begin:
            self.spans.append(Span(warp.cta.number, f"warp {warp.number}", "run", first, begin, warp.time))
        self._arrive(warp.cta, warp.cta.trace.arrivals.get(place, ()), warp.time, warp.link, self.known.remote_arrival)
        columns = warp.cta.trace.columns.get(place)
        if columns is not None and warp.cta.number < self._shown:
            self.touches.append(Touch(warp.cta.number, columns, ALLOCATED, self.stops.get(first, first + 1) - 1, warp.time, warp.time))
        warp.at += 1
        warp.done = 0
        phase = warp.cta.trace.waits.get(place)
        found = None if phase is None else warp.cta.group.phases.get(phase)
        if found is not None:
            if found.missing > 0:
                found.waiting.append(warp)
                return
            self._released(warp, found, phase)
        self._push(warp)

    def _operands(self, warp: ReplayedWarp, op: int, cost: Cost) -> bool:
        """Wait for the operands of an instruction; whether they were not there."""
        ready = warp.ready
        needed, culprit = 0.0, -1
        for register in cost.reads:
            time = ready.get(register, 0.0)
            if time > needed:
                needed, culprit = time, register
        if cost.kind == Kind.NOTHING:
            for register in cost.writes:
                ready[register] = needed
                if culprit >= 0:
                    warp.reasons[register] = warp.reasons.get(culprit, "dependence")
            return False
        if needed > warp.time:
            self._wait(warp, op, needed, warp.reasons.get(culprit, "dependence"))
            return True
        return False

    def _released(self, warp: ReplayedWarp, phase: Phase, name: Hashable) -> None:
        op = warp.nodes[warp.at - 1]
        of_threads = self.costs[op].kind != Kind.MBARRIER
        overhead = self.known.mbarrier
        if of_threads:
            overhead = self.known.cluster_barrier if name in warp.cta.trace.together and len(self._sms) > 1 else self.known.barrier
        cause = (phase.link, phase.time) if phase.link is not None and phase.time > warp.time else None
        self._wait(warp, op, max(warp.time, phase.time + overhead), "barrier" if of_threads else "mbarrier", cause)

    def _wait(self, warp: ReplayedWarp, op: int, until: float, reason: str, cause: tuple[Link, float] | None = None) -> None:
        """``cause``: what another warp or an operation did up to a time, without which the wait would have ended before."""
        if until > warp.time:
            track = f"warp {warp.number}"
            if cause is not None:
                warp.link = Link(cause[0], Span(warp.cta.number, track, reason, op, cause[1], until), cause[0].warp)
            else:
                warp.link = Link(warp.link, Span(warp.cta.number, track, reason, op, warp.time, until), track)
            self.stalls[reason] += until - warp.time
            self.waits[op] += until - warp.time
            if warp.cta.number < self._shown:
                self.spans.append(Span(warp.cta.number, track, reason, op, warp.time, until))
            warp.time = until

    def _arrive(self, cta: ReplayedCta, arrivals: list[Arrival] | tuple[()], time: float, link: Link, remote: float = 0.0) -> None:
        """``remote``: how much later another CTA sees them."""
        for rank, name in arrivals:
            phase = cta.group.phases[name]
            phase.missing -= 1
            seen = time if rank in (cta.rank, None) else time + remote
            if seen >= phase.time:
                phase.time, phase.link = seen, link
            if phase.missing == 0:
                for warp in phase.waiting:
                    self._released(warp, phase, name)
                    self._push(warp)
                phase.waiting.clear()

    def _exit(self, warp: ReplayedWarp) -> None:
        cta, group = warp.cta, warp.cta.group
        end = max(warp.time, *warp.uncommitted.values(), *(time for group in warp.groups.values() for time in group), 0.0)
        if cta.number < self._shown:
            self.shown_ends[cta.number] = max(self.shown_ends[cta.number], end)
        if end >= group.end:
            op, track = warp.nodes[-1] if warp.nodes else 0, f"warp {warp.number}"
            group.end = end
            group.link = Link(warp.link, Span(cta.number, track, "end of operations", op, warp.time, end), track)
        group.left -= 1
        if not group.left:
            self._active.remove(group)
            self.ends.append(group.end)
            if self.last is None or group.end >= self.last.span.end:
                self.last = group.link
            heappush(self._free, (group.end, len(self.ends), group.link))

    # ------------------------------------------------------------------------------------------------------- instructions

    def _execute(self, warp: ReplayedWarp, op: int, cost: Cost, place: tuple[int, int]) -> None:
        kind = cost.kind
        part, sm = warp.part, warp.cta.sm
        key = part, cost.pipe
        start = max(warp.time, sm.issue[part], sm.pipes[key] - _QUEUED)
        if start > warp.time:
            self.stalls["issue"] += start - warp.time
        sm.issue[part] = start + 1.0
        self.busy["issue"] += 1.0 / PARTITIONS
        reason, done = "dependence", start + cost.latency
        if kind in (Kind.COMPUTE, Kind.FENCE):
            begin = max(start, sm.pipes[key])
            sm.pipes[key] = begin + cost.cycles
            done = begin + cost.latency
            self.busy[cost.pipe.value] += cost.cycles / PARTITIONS
            if kind == Kind.FENCE:
                start += cost.latency
        elif kind == Kind.ROUND_TRIP:
            warp.time = start
            self._wait(warp, op, start + (self.known.fence_beside_copies if sm.copied else cost.latency), "fence")
            start = warp.time
        elif kind in (Kind.SHARED, Kind.GLOBAL, Kind.COPY):
            reason, done = self._memory(warp, cost, start)
        elif kind == Kind.PRODUCT:
            begin = max(start, sm.tensor[part], sm.shared - cost.amount)
            read = cost.shared * self.known.operand_share / PARTITIONS
            sm.shared = max(sm.shared, start) + read
            self.busy["shared memory"] += read
            sm.tensor[part] = begin + cost.amount
            self.busy["tensor core"] += cost.amount / PARTITIONS
            self._issued(warp, cost.completion, begin + cost.amount + self.known.wgmma_latency)
            for number in warp.cta.trace.operations.get(place, ()):
                self._uses(warp.cta, warp.cta.trace.issued[number], "tensor core", op, begin, begin + cost.amount)
            if warp.cta.number < self._shown and part == 0:
                self.spans.append(Span(warp.cta.number, "tensor core", "product", op, begin, begin + cost.amount))
        elif kind == Kind.OPERATION:
            for number in warp.cta.trace.operations.get(place, ()):
                self._operation(warp, op, cost, number, start)
        elif kind == Kind.COMMIT:
            warp.groups[cost.completion].append(warp.uncommitted.pop(cost.completion, start))
        elif kind == Kind.WAIT_GROUP:
            groups = warp.groups[cost.completion]
            over = len(groups) - int(cost.amount)
            if over > 0:
                warp.time = start
                until = max(groups[:over])
                del groups[:over]
                self._wait(warp, op, until, "tensor core" if cost.completion is Completion.WGMMA_GROUP else "copies")
                start = warp.time
        if warp.cta.number < self._shown and op in self._extents:
            self._touch(warp, op, start, done)
        warp.time = max(warp.time, start + 1.0)
        for register in cost.writes:
            warp.ready[register] = done
            warp.reasons[register] = reason

    def _touch(self, warp: ReplayedWarp, op: int, begin: float, end: float) -> None:
        """Note an access of shared or tensor memory by threads; those of one instruction soon after one another are one."""
        key = warp.cta.number, op
        at = self._runs.get(key)
        if at is not None and begin <= self.touches[at].end + _SOON:
            before = self.touches[at]
            self.touches[at] = replace(before, begin=min(before.begin, begin), end=max(before.end, end))
        else:
            self._runs[key] = len(self.touches)
            self.touches.append(Touch(warp.cta.number, self._extents[op], "threads", op, begin, end))

    def _issued(self, warp: ReplayedWarp, completion: Completion | None, done: float) -> None:
        warp.uncommitted[completion] = max(warp.uncommitted.get(completion, 0.0), done)

    def _memory(self, warp: ReplayedWarp, cost: Cost, start: float) -> tuple[str, float]:
        """An access of memory by the threads of a warp: why its registers are waited for, and until when."""
        sm = warp.cta.sm
        begin = max(start, sm.shared)
        sm.shared = begin + cost.cycles
        self.busy["shared memory"] += cost.cycles
        if cost.kind == Kind.SHARED:
            return "shared memory", begin + cost.cycles + cost.latency
        port = max(begin, sm.port)
        sm.port = port + cost.amount / self.traffic
        self.busy["global memory"] += cost.amount / self.traffic
        done = sm.port + self.latency
        if cost.kind == Kind.COPY:
            self._issued(warp, cost.completion, done)
        return "global memory", done

    def _operation(self, warp: ReplayedWarp, op: int, cost: Cost, number: int, start: float) -> None:
        """An asynchronous operation of the TMA or of the tensor core."""
        cta = warp.cta
        operation = cta.trace.issued[number]
        if operation.unit in (Unit.TMA, Unit.STORE):
            begin, done = self._copy(cta, operation, start)
            track = "TMA"
        elif cost.completion is Completion.COPY_GROUP:
            begin, track = start, Unit.COPY.value
            done = max([start, *warp.uncommitted.values(), *warp.groups[cost.completion]])
        else:
            begin, done = self._product(cta, operation, start)
            track = "tensor core"
        if cta.number < self._shown:
            self.spans.append(Span(cta.number, track, "operation", op, begin, done))
        self._uses(cta, operation, track, op, begin, done)
        self._issued(warp, cost.completion, done)
        link = Link(warp.link, Span(cta.number, track, "operation", op, start, done), f"warp {warp.number}")
        self._arrive(cta, cta.trace.completions.get(number, ()), done, link)

    def _uses(self, cta: ReplayedCta, operation: Operation, kind: str, op: int, begin: float, end: float) -> None:
        """Note what an operation accesses of shared and tensor memory."""
        if cta.group.ctas[0].number >= self._shown:
            return
        for rank, extent in operation.extents:
            touched = cta.group.ctas[rank].number
            if touched < self._shown:
                self.touches.append(Touch(touched, extent, kind, op, begin, end))

    def _copy(self, cta: ReplayedCta, operation: Operation, start: float) -> tuple[float, float]:
        """A bulk copy: L2 gives its bytes once, and each SM that gets them takes them."""
        sm, known, copied = cta.sm, self.known, operation.copied
        begin = max(start, sm.copies)
        rate = min(known.copy_bytes, self.traffic)
        port = max(begin, sm.port)
        sm.port = port + copied / self.traffic
        sm.copies = max(begin + known.copy_issue, port + copied / rate)
        self.busy["TMA"] += max(known.copy_issue, copied / known.copy_bytes)
        self.busy["global memory"] += copied / self.traffic
        for other in (cta.group.ctas[rank].sm for rank in operation.ranks):
            other.copied = True
            other.shared = max(other.shared, start) + copied / known.operand_bytes
            self.busy["shared memory"] += copied / known.operand_bytes
            if other is not sm:
                other.port = max(other.port, start) + copied / self.traffic
                self.busy["global memory"] += copied / known.copy_bytes
                port = max(port, other.port - copied / self.traffic)
        return begin, port + copied / rate + known.copy_latency - known.mbarrier + self.latency - known.l2_latency

    def _product(self, cta: ReplayedCta, operation: Operation, start: float) -> tuple[float, float]:
        """A product of tcgen05, of which each CTA that takes part computes its share, or another operation of its pipe."""
        work, sms = operation.work, [cta.group.ctas[rank].sm for rank in operation.ranks] or [cta.sm]
        cycles = 0.0 if work is None else work.operations / self.known.peak(work.rate) / len(sms)
        begin = max(start, *(sm.fifth for sm in sms))
        for sm in sms:
            sm.fifth = begin + cycles
            self.busy["tensor core"] += cycles
        return begin, begin + cycles
