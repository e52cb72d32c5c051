"""Splits of a warp: which one runs next, and those that must execute an instruction together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab.isa.operands import PairOf, Reg
from ptxlab.machine.warp.warp import CONVERGE, RUN, Split

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["NO_LIMIT", "choose", "converge"]

NO_LIMIT = (1 << 62) - 1
"""How far a split may go that no other one stands behind."""


def choose(warp: Warp) -> tuple[Split, int] | None:
    """The split that runs next, and the earliest pc of the others behind it; splits at the same pc merge."""
    while True:
        splits = warp.splits
        at: dict[int, Split] = {}
        merged = False
        for split in splits:
            if split.state or split.again:
                continue
            other = at.setdefault(split.pc, split)
            if other is not split:
                other.mask |= split.mask
                other.turn = min(other.turn, split.turn)
                split.mask = 0
                merged = True
        if merged:
            warp.splits = splits = [s for s in splits if s.mask]
        best: Split | None = None
        for split in splits:
            if not split.state and (best is None or (split.turn, split.pc) < (best.turn, best.pc)):
                best = split
        if best is None:
            if converge(warp):
                continue
            return None
        pc = best.pc
        limit = NO_LIMIT
        for split in splits:
            if pc < split.pc < limit:
                limit = split.pc
        return best, limit


def converge(warp: Warp) -> bool:
    """Join splits that stand at the same collective instruction, once no split of the warp can run; True if one can go on now.

    Services go on when all live lanes have arrived. Collectives that name their members go back to the engine after every join; if that
    does not help, those at different places meet here: ``elect.sync`` and ``bar.warp.sync`` with the same membermask.
    """
    moved = False
    groups: dict[tuple[int, bool], Split] = {}
    for split in warp.splits:
        if split.state != CONVERGE:
            continue
        first = groups.setdefault((split.op, split.again), split)
        if first is not split:
            first.mask |= split.mask
            first.active |= split.active
            first.turn = min(first.turn, split.turn)
            split.mask = 0
            if not first.again:
                first.state = RUN
                moved = True
    warp.splits = [s for s in warp.splits if s.mask]
    standing = [s for s in warp.splits if s.state == CONVERGE]
    for split in standing:
        if split.mask == warp.live:
            split.state = RUN
            moved = True
    return moved or _rendezvous(warp, standing)


def _rendezvous(warp: Warp, standing: list[Split]) -> bool:
    """Let collectives at different places meet, by qualifiers and membermask; refuse what can never meet."""
    parties: dict[tuple[str, int], list[Split]] = {}
    for split in standing:
        if split.again:
            continue
        members = _members(warp, split)
        parties.setdefault((warp.launch.program.ops[split.op].opcode, members), []).append(split)
    for (opcode, members), splits in parties.items():
        arrived = 0
        for split in splits:
            arrived |= split.active
        if members & warp.live & ~arrived:
            continue
        base = opcode.split(".")
        if base[0] == "elect":
            _elect(warp, splits, members)
        elif base[:2] != ["bar", "warp"]:
            continue
        for split in splits:
            split.pc = split.op + 1
            split.state = RUN
        return True
    everyone = 0
    for split in standing:
        everyone |= split.mask
    if standing and everyone == warp.live:
        warp.launch.parted(warp, standing)
    return False


def _members(warp: Warp, split: Split) -> int:
    """The membermask of the collective that a split stands at."""
    op = warp.launch.program.ops[split.op]
    position = warp.launch.member_operand(op)
    if position < 0:
        return warp.live
    warp.op, warp.mask = op, split.active
    return warp.lane_value(op.operands[position], 32, warp.one_lane())


def _elect(warp: Warp, splits: list[Split], members: int) -> None:
    """``elect.sync``: the lowest lane of the membermask leads."""
    leader = (members & -members).bit_length() - 1
    for split in splits:
        op = warp.launch.program.ops[split.op]
        warp.op, warp.mask = op, split.active
        pair = op.operands[0]
        value, predicate = (pair.first, pair.second) if isinstance(pair, PairOf) else (pair, None)
        if isinstance(value, Reg):
            warp.write(value, leader)
        if isinstance(predicate, Reg):
            lanes = warp.mask
            warp.mask = lanes & ~(1 << leader)
            if warp.mask:
                warp.write(predicate, 0, 1)
            warp.mask = lanes & (1 << leader)
            if warp.mask:
                warp.write(predicate, 1, 1)
