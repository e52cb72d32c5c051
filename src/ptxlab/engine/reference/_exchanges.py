"""Exchanges between the lanes of a warp in the NumPy backend: collectives, and which lanes must execute an instruction together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.reference._arithmetic import redux
from ptxlab.engine.reference._lane_accesses import Stop, integers, lanes_in, put_lanes, refuse
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import Collective
from ptxlab.isa.operands import Op, PairOf, Resolved, Unused

if TYPE_CHECKING:
    from ptxlab.engine.reference.warp import Warp

__all__ = ["need_all_lanes", "perform_collective", "shuffled"]


def _converge(warp: Warp, op: Op, mask: int) -> Stop:
    warp.words[Word.ACTIVE], warp.words[Word.INFO], warp.words[Word.PC] = mask, op.index, op.index
    return Stop(Status.CONVERGE)


def need_all_lanes(warp: Warp, op: Op, mask: int) -> None:
    """Stop if live lanes are missing."""
    if mask and warp.word(Word.LIVE) & ~mask:
        raise _converge(warp, op, mask)


def perform_collective(warp: Warp, op: Op, native: Collective, mask: int) -> None:
    """Execute a collective for the lanes of ``mask``."""
    operands = op.operands
    lanes = lanes_in(mask)
    if native.name == "activemask":
        put_lanes(warp, operands[0], dict.fromkeys(lanes, mask))
        return
    members = integers(warp, operands[native.member], 32)
    for lane in lanes:
        refuse(not members[lane] >> lane & 1, warp, op, Fault.NOT_MEMBER, lane, members[lane])
    for lane in lanes:
        if members[lane] & warp.word(Word.LIVE) & ~mask:
            raise _converge(warp, op, mask)
    if native.name == "warpsync":
        return
    first = operands[0].first if isinstance(operands[0], PairOf) else operands[0]
    second: Resolved = operands[0].second if isinstance(operands[0], PairOf) else Unused()
    groups = {lane: members[lane] & mask for lane in lanes}
    result: dict[int, int] = {}
    flags: dict[int, int] = {}
    if native.name == "elect":
        leaders = {lane: (g & -g).bit_length() - 1 for lane, g in groups.items()}
        result, flags = leaders, {lane: int(leader == lane) for lane, leader in leaders.items()}
    elif native.name == "shfl":
        a, b, c = (integers(warp, o, 32) for o in operands[1:4])
        for lane in lanes:
            source, inside = _shfl_source(native.mode, lane, b[lane] & 31, c[lane] >> 8 & 31, c[lane] & 31)
            result[lane], flags[lane] = a[source if inside else lane], int(inside)
    elif native.name == "vote":
        yes = sum(1 << i for i, v in enumerate(warp.bits(operands[1], 1)) if v)
        for lane, group in groups.items():
            agree = yes & group
            modes = {"ballot": agree, "all": agree == group, "any": agree != 0, "uni": agree in (0, group)}
            result[lane] = int(modes[native.mode])
    elif native.name == "match":
        values = integers(warp, operands[1], TYPE_BITS[native.type])
        for lane, group in groups.items():
            same = sum(1 << i for i in lanes_in(group) if values[i] == values[lane])
            flags[lane] = int(same == group)
            result[lane] = same if native.mode == "any" else group if same == group else 0
    else:
        values = integers(warp, operands[1], 32)
        result = {lane: redux(native, [values[i] for i in lanes_in(group)]) for lane, group in groups.items()}
    put_lanes(warp, first, result)
    if flags:
        put_lanes(warp, second, flags)


def shuffled(warp: Warp, op: Op, native: Collective, mask: int) -> NDArray[np.intp]:
    """The lane whose value each lane gets from shfl."""
    b, c = (integers(warp, o, 32) for o in op.operands[2:4])
    found = np.arange(32)
    for lane in lanes_in(mask):
        source, inside = _shfl_source(native.mode, lane, b[lane] & 31, c[lane] >> 8 & 31, c[lane] & 31)
        found[lane] = source if inside else lane
    return found


def _shfl_source(mode: str, lane: int, amount: int, segment: int, limit: int) -> tuple[int, bool]:
    lowest = lane & segment
    highest = lowest | limit & ~segment & 31
    if mode == "up":
        return lane - amount, lane - amount >= highest
    source = {"down": lane + amount, "bfly": lane ^ amount, "idx": lowest | amount & ~segment & 31}[mode]
    return source, source <= highest
