"""What two writes that nothing orders have written: a run that watches the first bytes that both write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ptxlab.check.race.undefined.raced import Coordinates, Place
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.result import Writer
from ptxlab.machine.observe.provenance import writers

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay

__all__ = ["Write", "WritePair", "values_text"]

_WORD = 4
"""Bytes that are shown of what is no vector of elements."""


class Write(NamedTuple):
    """An instruction that writes, and the warp that executes or issues it."""

    op: Op
    cta: Coordinates
    warp: int

    def made(self, writer: Writer) -> bool:
        """Whether a write that a run has noted is one of these."""
        return (writer.cta, writer.warp, writer.place.line) == (self.cta, self.warp, self.op.line)


class WritePair(NamedTuple):
    """Two writes to the same bytes: the place of the first one, its offset in the memory that findings name, and their number."""

    place: Place
    inside: int
    size: int
    earlier: Write
    later: Write


def values_text(replay: Replay, launch: Launch, pair: WritePair) -> str:
    """The first element in which the two differ, as each has written it; "" if that is not known."""
    found = writers(replay, *pair.place, pair.size)
    second = [at for at, writer in enumerate(found) if pair.later.made(writer)]
    first = [at for at, writer in enumerate(found) if pair.earlier.made(writer)]
    chosen = next(((max(before), at) for at in second if (before := [each for each in first if each < at])), None)
    if chosen is None and first and second:
        chosen = first[0], second[0]
    if chosen is None:
        return ""
    one, other = (found[at].value for at in chosen)
    if one is None or other is None:
        return ""
    unit = min(_element(launch, write.op) for write in (pair.earlier, pair.later))
    if pair.inside % unit or pair.size % unit:
        unit = 1
    for at in range(0, pair.size, unit):
        values = [value.tobytes()[at : at + unit] for value in (one, other)]
        if values[0] != values[1]:
            earlier, later = (f"{int.from_bytes(value, 'little'):#0{2 + 2 * unit}x}" for value in values)
            return f"{unit} byte{'s' * (unit > 1)} at {pair.inside + at:#x}: earlier {earlier}, later {later}"
    return ""


def _element(launch: Launch, op: Op) -> int:
    native = launch.program.natives.get(op.index)
    return native.bits // 8 if isinstance(native, LaneAccess) else _WORD
