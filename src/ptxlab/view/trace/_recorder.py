"""The observer of a launch that writes its timeline: a process for each CTA, with a track for each warp.

A warp's track shows when it executes and what it waits for; instants are its service instructions. Below stand the asynchronous
operations of the CTA from issue to completion, and the phases of its barriers from the first arrival on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.isa.effects import unit_of
from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.observe.observer import Observer
from ptxlab.machine.schedule.barriers import ClusterBarrier, MbarrierState, NamedBarrier
from ptxlab.machine.warp.lane_texts import lane_text
from ptxlab.machine.warp.warp import RUN, ConvergedLanes, Warp
from ptxlab.view.trace._file import Process, Rows, Trace, Track

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations.products import Product
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Recorder"]

_WARPS, _OPERATIONS, _BARRIERS = 0, 1_000_000, 2_000_000
"""The order of tracks."""
_ROWS = 1000
"""Tracks of one title that keep their place in the order."""
_lanes = lru_cache(maxsize=4096)(lane_text)


@dataclass(slots=True)
class _Span:
    """Something that has begun and not ended."""

    track: Track
    kind: str
    name: str
    since: int
    args: dict[str, Any]

    def close(self, until: int, **args: Any) -> None:
        self.track.slice(self.kind, self.name, self.since, until, self.args | args)


@dataclass(slots=True)
class _Lane:
    """Converged lanes, their track, and what they are doing."""

    track: Track
    span: _Span | None = None

    def close(self, now: int, **args: Any) -> None:
        if self.span is not None and (self.span.kind != "run" or now > self.span.since):
            self.span.close(now, **args)
        self.span = None


@dataclass(slots=True)
class _Cta:
    """The tracks of a CTA."""

    process: Process
    units: dict[str, Rows] = field(default_factory=dict)
    warps: dict[Warp, tuple[Rows, dict[ConvergedLanes, _Lane]]] = field(default_factory=dict)
    barriers: dict[str, Track] = field(default_factory=dict)
    phases: dict[str, _Span] = field(default_factory=dict)


class Recorder(Observer):
    """Writes the events of one launch to a trace."""

    def __init__(self, trace: Trace, launch: Launch) -> None:
        self.launch = launch
        self.trace = trace
        self._title = f"{trace.launches} {launch.program.name}" if trace.launches > 1 else launch.program.name
        self._left_out = trace.left_out
        self._ctas: dict[CtaState, _Cta] = {}
        self._in_flight: dict[AsyncOperation, tuple[Rows, _Span]] = {}
        self._places: dict[int, dict[str, str]] = {}
        self._lane: _Lane | None = None
        """Of the lanes that execute."""
        self._product: dict[str, Any] = {}
        """What the instruction that executes has multiplied."""
        self._shown = False
        """Whether a wait has shown the service instruction that is complete."""

    def _place(self, op: Op) -> dict[str, str]:
        """Where an instruction stands: in the PTX, that line, and its source line."""
        found = self._places.get(op.index)
        if found is None:
            where, excerpt, source = self.launch.reports.place(op)
            found = {"ptx": str(where), "text": excerpt.strip()} | ({} if source is None else {"source": str(source)})
            self._places[op.index] = found
        return found

    # ------------------------------------------------------------------------------------------------------- life of CTAs

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """A process for each CTA."""
        for cta in ctas:
            name = f"{self._title} CTA {cta.describe()}, cluster {cta.group.index}, SM {cta.sm.index}"
            self._ctas[cta] = _Cta(self.trace.process(name))

    def ended(self, cta: CtaState) -> None:
        """Close all spans of a CTA."""
        self._close(self._ctas.pop(cta), self.launch.scheduler.now(), {"ended": "with the CTA"})

    def _close(self, cta: _Cta, now: int, how: dict[str, str]) -> None:
        for _, lanes in cta.warps.values():
            for lane in lanes.values():
                lane.close(now, **how)
        for span in cta.phases.values():
            span.close(now, **how)

    def finished(self) -> tuple[Diagnostic, ...]:
        """Close what is still under way, and the file."""
        now = self.launch.scheduler.now()
        how = {"ended": "with the launch"}
        for cta in self._ctas.values():
            self._close(cta, now, how)
        for _, span in self._in_flight.values():
            span.close(now, **how)
        options = self.launch.options
        about = {"grid": options.grid, "block": options.block, "cluster": options.cluster, "policy": options.policy, "seed": options.seed}
        about |= {"target": self.launch.target, "CTAs that ended": self.launch.done_ctas}
        return self.trace.finish(self.launch.program.name, now, about, self._left_out)

    # -------------------------------------------------------------------------------------------------------------- warps

    def running(self, warp: Warp, split: ConvergedLanes) -> None:
        """Begin a slice; lanes that have joined others give their tracks back."""
        now = self.launch.scheduler.now()
        held = self._ctas[warp.cta].warps
        if warp not in held:
            held[warp] = Rows(self._ctas[warp.cta].process, f"warp {warp.warp_id}", _WARPS + _ROWS * warp.warp_id), {}
        rows, lanes = held[warp]
        for gone in [s for s in lanes if s not in warp.converged]:
            lanes[gone].close(now)
            rows.free(lanes.pop(gone).track)
        if split not in lanes:
            lanes[split] = _Lane(rows.take())
        self._lane = lane = lanes[split]
        lane.close(now)
        at = split.op if split.again else min(split.pc, len(self.launch.program.ops) - 1)
        lane.span = _Span(lane.track, "run", "run", now, {"lanes": _lanes(split.mask)} | self._place(self.launch.program.ops[at]))

    def stopped(self, warp: Warp, split: ConvergedLanes) -> None:
        """Its slice ends; what it waits for begins."""
        lane = self._lane
        assert lane is not None
        now = self.launch.scheduler.now()
        lane.close(now)
        if split.state != RUN:
            op = self.launch.program.ops[split.op]
            sentence = split.wait.describe()[0] if split.wait is not None else "waits for the other lanes of the warp"
            args = {"waits": sentence, "lanes": _lanes(split.active or split.mask)} | self._place(op)
            lane.span = _Span(lane.track, "wait", op.opcode, now, args)

    def resumed(self, split: ConvergedLanes) -> None:
        """The wait ends."""
        warp = split.warp
        self._ctas[warp.cta].warps[warp][1][split].close(self.launch.scheduler.now())
        self._shown = split.wait is not None and not split.wait.retry

    def serviced(self, warp: Warp, op: Op) -> None:
        """An instant, where no wait shows the instruction."""
        if self._shown:
            self._shown = False
        elif self._lane is not None:
            about = {"lanes": _lanes(warp.mask)} | self._place(op) | self._product
            self._lane.track.instant("service", op.opcode, self.launch.scheduler.now(), about)
        self._product = {}

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """The instruction that will be complete is a product."""
        self._product = _product(details())

    # -------------------------------------------------------------------------------------------- asynchronous operations

    def issued(self, operation: AsyncOperation) -> None:
        """It begins."""
        cta: Any = operation.cta
        held = self._ctas.get(cta)
        if held is None:
            return
        unit = unit_of(operation.op.effects).value
        rows = held.units.get(unit)
        if rows is None:
            rows = held.units[unit] = Rows(held.process, unit, _OPERATIONS + _ROWS * len(held.units))
        warp = self.launch.scheduler.current
        issuer = {} if warp is None else {"issued by": f"CTA {warp.cta.describe()} warp {warp.warp_id}"}
        now = self.launch.scheduler.now()
        about = issuer | self._place(operation.op) | ({} if operation.details is None else _product(operation.details()))
        self._in_flight[operation] = rows, _Span(rows.take(), "asynchronous", operation.op.opcode, now, about)

    def performed(self, operation: AsyncOperation) -> None:
        """It ends."""
        found = self._in_flight.pop(operation, None)
        if found is not None:
            rows, span = found
            span.close(self.launch.scheduler.now())
            rows.free(span.track)

    # ----------------------------------------------------------------------------------------------------------- barriers

    def _cta_of(self, barrier: Any) -> _Cta | None:
        """The CTA whose barrier it is: it belongs to the cluster of the running agent."""
        agent = self.launch.scheduler.performing or self.launch.scheduler.current
        if agent is None:
            return None
        cta: Any = agent.cta
        if isinstance(barrier, MbarrierState):
            cta = cta.group.ctas[barrier.rank]
        elif isinstance(barrier, ClusterBarrier):
            cta = cta.group.ctas[0]
        return self._ctas.get(cta)

    def initialised(self, barrier: Any) -> None:
        """Close the phase of the object that was there before."""
        self._end_phase(barrier, ended="with a new mbarrier.init")

    def arrived(self, barrier: Any) -> None:
        """The first arrival begins a phase."""
        cta, title = self._cta_of(barrier), _title(barrier)
        if cta is None or title in cta.phases:
            return
        track = cta.barriers.get(title)
        if track is None:
            track = cta.barriers[title] = cta.process.track(title, _BARRIERS + len(cta.barriers))
        phase = barrier.generation if isinstance(barrier, NamedBarrier) else barrier.phase
        args = {"phase": phase, "parity": phase & 1} if isinstance(barrier, MbarrierState) else {"phase": phase}
        cta.phases[title] = _Span(track, "barrier", f"phase {phase}", self.launch.scheduler.now(), args)

    def completed(self, barrier: Any) -> None:
        """It ends."""
        self._end_phase(barrier)

    def _end_phase(self, barrier: Any, **args: Any) -> None:
        cta = self._cta_of(barrier)
        span = None if cta is None else cta.phases.pop(_title(barrier), None)
        if span is not None:
            span.close(self.launch.scheduler.now(), **args)


def _product(product: Product) -> dict[str, Any]:
    """A product of matrices: its shape and types, its descriptors, and where D is."""
    about = {"shape": f"{product.m}x{product.n}x{product.k}", "types": f"{product.a} * {product.b} -> {product.d}"}
    facts = {name: ", ".join(f"{key} {value}" for key, value in fields) for name, fields in product.facts()}
    return about | {"adds to D": product.accumulate, "D[0, 0]": str(product.place(0, 0))} | facts


def _title(barrier: MbarrierState | NamedBarrier | ClusterBarrier) -> str:
    if isinstance(barrier, MbarrierState):
        return f"mbarrier {barrier.offset:#x}"
    return f"barrier {barrier.id}" if isinstance(barrier, NamedBarrier) else "barrier.cluster"
