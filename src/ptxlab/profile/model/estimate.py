"""The estimate of a launch: its time, what limits it, and where warps wait."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any

from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.isa.operations.products import Rate
from ptxlab.profile.counters.columns import COLUMNS
from ptxlab.profile.model.costs import costs_of
from ptxlab.profile.model.memory import Held, Touch, held
from ptxlab.profile.model.parameters import Parameters, parameters_of
from ptxlab.profile.model.path import Span, by_cause, critical_path
from ptxlab.profile.model.replay import Replay
from ptxlab.profile.model.roofline import Position, TensorUse
from ptxlab.profile.model.traffic import Sample, traffic_of

__all__ = ["Estimate", "estimate"]

_NAMES = [column.name for column in COLUMNS]
MOST_REPLAYED = 300_000
"""Instructions of warps that are replayed; further CTAs take as long as those before."""
_SATURATED = 0.75
"""A resource that is occupied for so much of the time is called the limit."""


@dataclass(frozen=True)
class Estimate:
    """How long a launch would take.

    Attributes
    ----------
    cycles, nanoseconds : from the end of the kernel before it to its end, memory warm
    limiter : what is occupied for most of the time, or why warps wait
    occupied : of each resource the part of the time of an SM for which it is busy
    waits : the parts of the time of warps that they wait, by reason
    waits_of : the same by instruction
    resident, replayed, ctas : CTAs on an SM at once, CTAs that were replayed, and CTAs of the fullest SM
    position : in the roofline model
    parameters : of the target
    spans : the timeline of the first CTAs
    touches, cta_ends : what is accessed of their shared and tensor memory, and when they end
    path : the critical path of the CTAs that were replayed, in the order of time: what the end has waited for, back to the begin
    """

    cycles: float
    limiter: str
    occupied: dict[str, float]
    waits: dict[str, float]
    waits_of: dict[int, float]
    resident: int
    replayed: int
    ctas: int
    position: Position
    parameters: Parameters
    spans: tuple[Span, ...] = field(repr=False)
    path: tuple[Span, ...] = field(repr=False)
    touches: tuple[Touch, ...] = field(repr=False)
    cta_ends: tuple[float, ...] = field(repr=False)

    @property
    def nanoseconds(self) -> float:
        """The cycles at the clock of the target."""
        return self.cycles / self.parameters.clock

    @property
    def roofline(self) -> dict[str, float]:
        """Cycles that the tensor core, DRAM and L2 would need alone."""
        return self.position.times

    @property
    def fraction_of_peak(self) -> float:
        """The largest roofline by the estimate: 1 would be the peak of that resource."""
        return max(self.roofline.values()) / self.cycles

    @cached_property
    def memory(self) -> tuple[Held, ...]:
        """What the first CTAs hold in shared and in tensor memory, and from when until when."""
        return held(self.touches, self.cta_ends)

    @property
    def path_parts(self) -> dict[tuple[str, str, int], float]:
        """The parts of the critical path by track, kind and instruction, the longest first; an instruction of -1 stands for several."""
        whole = sum(span.end - span.begin for span in self.path) or 1.0
        return {key: cycles / whole for key, cycles in by_cause(self.path).items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "target": self.parameters.target,
            "cycles": round(self.cycles),
            "nanoseconds": round(self.nanoseconds),
            "limiter": self.limiter,
            "fraction_of_peak": round(self.fraction_of_peak, 4),
            "occupied": {name: round(part, 4) for name, part in self.occupied.items()},
            "waits": {name: round(part, 4) for name, part in self.waits.items()},
            "roofline_cycles": {name: round(cycles) for name, cycles in self.roofline.items()},
            "roofline": self.position.as_dict(),
            "critical_path": [[*key, round(part, 4)] for key, part in self.path_parts.items()],
            "ctas": {"resident": self.resident, "replayed": self.replayed, "of the fullest SM": self.ctas},
        }


def estimate(sample: Sample, resident: int) -> Estimate | None:
    """Estimate a launch with so many CTAs on an SM at once; None if no CTA was recorded."""
    launch, recorder = sample.launch, sample.recorder
    known = parameters_of(launch.target)
    clusters = recorder.clusters()
    if not clusters or not resident:
        return None
    size = len(clusters[0])
    ctas = ceil(sample.grid / size / known.clusters(size, launch.device.sms))
    traffic = traffic_of(sample, known, resident, ctas)
    nodes = {node.start: node.stop for node in Nodes(launch.program).nodes}
    costs = costs_of(launch.program, sample.table, recorder.products, known)
    instructions = sum(nodes.get(first, first + 1) - first for trace in clusters[0] for first in trace.nodes())
    most = max(2 * resident, MOST_REPLAYED // max(instructions, 1))
    replayed = min(ctas, most)
    replay = Replay(costs, nodes, known, traffic.rate, traffic.latency, sample.extents)
    end = replay.run([clusters[i % len(clusters)] for i in range(replayed)], min(resident, ctas), shown=2)
    cycles = end
    if ctas > replayed:
        ends = sorted(replay.ends)
        middle = len(ends) // 2
        cycles += (ctas - replayed) * (ends[-1] - ends[middle - 1]) / (len(ends) - middle)
    cycles += known.launch
    end = max(end, 1.0)
    occupied = {name: min(busy / end / size, 1.0) for name, busy in sorted(replay.busy.items(), key=lambda item: -item[1])}
    lifetime = max(end * replay.warps * min(resident, ctas) / max(replayed, 1), 1.0)
    waits = {reason: time / lifetime for reason, time in sorted(replay.stalls.items(), key=lambda item: -item[1])}
    position = Position(_tensor_uses(sample, known), cycles, traffic.from_dram, traffic.moved, traffic.dram_rate, traffic.l2_rate)
    waits_of = {op: time / lifetime for op, time in replay.waits.items()}
    limiter = _limiter(occupied, waits, known.cta_interval * ctas / cycles if cycles else 0.0, bool(traffic.from_dram))
    return Estimate(
        cycles,
        limiter,
        occupied,
        waits,
        waits_of,
        resident,
        replayed,
        ctas,
        position,
        known,
        tuple(replay.spans),
        critical_path(replay.last),
        tuple(replay.touches),
        tuple(replay.shown_ends),
    )


def _tensor_uses(sample: Sample, known: Parameters) -> tuple[TensorUse, ...]:
    """The products of the whole grid by their rates."""
    operations: defaultdict[Rate, float] = defaultdict(float)
    for op, work in sample.recorder.products.items():
        operations[work.rate] += float(sample.table[op, _NAMES.index("tensor_operations")])
    whole = sample.grid / max(sample.launch.done_ctas, 1)
    sms = sample.launch.device.sms
    return tuple(TensorUse(str(rate), number * whole, known.peak(rate) * sms) for rate, number in operations.items())


def _limiter(occupied: dict[str, float], waits: dict[str, float], starts: float, dram: bool) -> str:
    """What is occupied nearly all the time; else what warps wait for most."""
    names = {"global memory": "DRAM bandwidth" if dram else "L2 bandwidth", "issue": "issue slots"}
    fullest = max(occupied, key=lambda name: occupied[name], default="")
    if starts > _SATURATED:
        return "start of CTAs"
    if fullest and occupied[fullest] > _SATURATED:
        return names.get(fullest, fullest)
    most = max(waits, key=lambda name: waits[name], default="")
    return f"latency: {most}" if most else "start of the kernel"
