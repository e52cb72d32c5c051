"""What a replay keeps: SMs with their queues, resident CTAs and their warps, and the phases of barriers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field

from ptxlab.isa.effects import Completion
from ptxlab.isa.pipes import Pipe
from ptxlab.profile.model.path import Link
from ptxlab.profile.model.trace import CtaTrace

__all__ = ["PARTITIONS", "Group", "Phase", "ReplayedCta", "ReplayedWarp", "Sm"]

PARTITIONS = 4


@dataclass(slots=True, eq=False)
class Sm:
    """The queues of an SM: the times at which they are free again.

    ``issue`` and ``tensor`` (wgmma) by sub-partition, ``pipes`` by sub-partition and pipe; ``port``: between L2 and the SM; ``copies``: of
    the TMA; ``fifth``: tensor core of tcgen05.
    """

    issue: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    pipes: defaultdict[tuple[int, Pipe], float] = field(default_factory=lambda: defaultdict(float))
    tensor: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    shared: float = 0.0
    port: float = 0.0
    copies: float = 0.0
    fifth: float = 0.0
    copied: bool = False
    """Whether bulk copies have used its shared memory."""
    placed: int = 0
    """Warps that have been placed on its sub-partitions."""


@dataclass(slots=True)
class Phase:
    """A phase of a barrier: the arrivals that are missing, and the last one."""

    missing: int
    time: float = 0.0
    link: Link | None = None
    waiting: list[ReplayedWarp] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Group:
    """A resident cluster: its CTAs by rank, each on an SM of its own, and the phases of all their barriers."""

    phases: dict[Hashable, Phase]
    ctas: list[ReplayedCta] = field(default_factory=list)
    left: int = 0
    """Warps that have not exited."""
    end: float = 0.0
    link: Link | None = None


@dataclass(slots=True, eq=False)
class ReplayedCta:
    """A resident CTA."""

    number: int
    rank: int
    trace: CtaTrace
    group: Group
    sm: Sm


@dataclass(slots=True, eq=False)
class ReplayedWarp:
    """A warp: ``at`` in its nodes, with ``done`` instructions of that; when registers are ready, and why not before."""

    cta: ReplayedCta
    number: int
    nodes: list[int]
    time: float
    part: int
    link: Link
    at: int = 0
    done: int = 0
    ready: dict[int, float] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    uncommitted: dict[Completion | None, float] = field(default_factory=dict)
    groups: dict[Completion | None, list[float]] = field(default_factory=lambda: defaultdict(list))
