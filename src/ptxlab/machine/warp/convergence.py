"""Divergence and convergence of a warp: which lanes run next, and which must execute an instruction together."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np

from ptxlab.engine.turns.words import NO_LIMIT
from ptxlab.isa.native_ops import Collective
from ptxlab.isa.operands import PairOf, Reg
from ptxlab.machine.warp.warp import CONVERGE, RUN, ConvergedLanes

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["choose", "converge"]


def choose(warp: Warp) -> tuple[ConvergedLanes, int] | None:
    """Return the group of converged lanes that runs next, and where it stops so that the next group can join; groups at one pc join."""
    while True:
        groups = warp.converged
        at: dict[int, ConvergedLanes] = {}
        merged = False
        for group in groups:
            if group.state or group.again:
                continue
            other = at.setdefault(group.pc, group)
            if other is not group:
                other.mask |= group.mask
                other.turn = min(other.turn, group.turn)
                group.mask = 0
                merged = True
        if merged:
            warp.converged = groups = [s for s in groups if s.mask]
        best: ConvergedLanes | None = None
        for group in groups:
            if not group.state and (best is None or (group.turn, group.pc) < (best.turn, best.pc)):
                best = group
        if best is None:
            if converge(warp):
                continue
            return None
        pc = best.pc
        limit = NO_LIMIT
        for group in groups:
            if pc < group.pc < limit:
                limit = group.pc
        return best, limit


def converge(warp: Warp) -> bool:
    """Join groups that stand at the same collective instruction; return whether one of them can continue.

    Called when no group of the warp can run. A service instruction continues when all live lanes stand at it. A collective with a
    membermask is executed again by the engine after every join. If that does not help, ``elect.sync`` and ``bar.warp.sync`` at
    different places synchronise when their membermasks are equal.
    """
    moved = False
    standing_at: dict[tuple[int, bool], ConvergedLanes] = {}
    for group in warp.converged:
        if group.state != CONVERGE:
            continue
        first = standing_at.setdefault((group.op, group.again), group)
        if first is not group:
            first.mask |= group.mask
            first.active |= group.active
            first.turn = min(first.turn, group.turn)
            group.mask = 0
            if not first.again:
                first.state = RUN
                moved = True
    warp.converged = [s for s in warp.converged if s.mask]
    standing = [s for s in warp.converged if s.state == CONVERGE]
    for group in standing:
        if group.mask == warp.live:
            group.state = RUN
            moved = True
    return moved or _rendezvous(warp, standing)


def _rendezvous(warp: Warp, standing: list[ConvergedLanes]) -> bool:
    """Synchronise collectives at different places that have the same qualifiers and membermask; report what can never converge."""
    program = warp.launch.program
    parties: dict[tuple[str, int], list[ConvergedLanes]] = {}
    for group in standing:
        collective = program.natives.get(group.op)
        if not group.again and isinstance(collective, Collective) and collective.anywhere:
            op = warp.op = program.ops[group.op]
            warp.mask = group.active
            members = warp.lane_value(op.operands[collective.member], 32, warp.one_lane())
            parties.setdefault((op.opcode, members), []).append(group)
    for (_, members), groups in parties.items():
        if members & warp.live & ~reduce(or_, (group.active for group in groups)):
            continue
        for group in groups:
            _elect(warp, group, members)
            group.pc = group.op + 1
            group.state = RUN
        return True
    if standing and reduce(or_, (group.mask for group in standing)) == warp.live:
        warp.launch.reports.parted(warp, standing)
    return False


def _elect(warp: Warp, group: ConvergedLanes, members: int) -> None:
    """Write the destinations of ``elect.sync``: the lowest lane of the membermask is the leader."""
    leader = (members & -members).bit_length() - 1
    warp.op, warp.mask = warp.launch.program.ops[group.op], group.active
    for pair in warp.op.operands[: warp.op.row.outputs]:
        value, predicate = (pair.first, pair.second) if isinstance(pair, PairOf) else (pair, None)
        if isinstance(value, Reg):
            warp.write(value, leader)
        if isinstance(predicate, Reg):
            warp.write(predicate, np.arange(32) == leader, 1)
