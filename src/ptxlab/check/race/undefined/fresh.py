"""Shared and tensor memory that nothing has written: the reads of it in the second run, and the findings about them.

The first run sees the first read of each byte. Nothing may depend on that one, but on a later one.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.check.race.report.places import bytes_text
from ptxlab.check.race.report.unwritten import code_of_unwritten, report_unwritten_read
from ptxlab.check.race.undefined.mirrors import WatchedMemory
from ptxlab.isa.effects import Asynchronous
from ptxlab.isa.native_ops import Atomic, LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.warp.lane_texts import lane_text

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["FreshReads"]

_CELL = 4
"""Bytes of a lane and a column of tensor memory."""


@dataclass(slots=True, eq=False)
class _Read:
    """What an op reads that nothing has written: the bytes of the first memory in which it does, and who does it there."""

    op: Op
    warp: Warp
    lanes: int
    owner: Any
    bytes: NDArray[np.bool_]


@dataclass(slots=True, eq=False)
class FreshReads:
    """The reads of shared and tensor memory that nothing has written."""

    _reads: dict[tuple[str, int], _Read] = field(default_factory=dict)

    def note(self, op: Op, warp: Warp, lanes: int, held: WatchedMemory, bytes_: NDArray[np.intp]) -> None:
        """An op has read some such bytes."""
        key = code_of_unwritten(not hasattr(held.owner, "ctaid")), op.index
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = _Read(op, warp, lanes, held.owner, np.zeros(held.data.nbytes, np.bool_))
        if read.owner is held.owner:
            read.bytes[bytes_] = True

    def report(self, launch: Launch, used: Mapping[int, Op], known: Container[tuple[str, int]]) -> dict[tuple[str, int], Op]:
        """Report reads whose value is used, if no finding that stays is about the same bytes.

        Parameters
        ----------
        used : by the ops that have read undefined bits on which something depends, what uses them
        known : the findings of the first run

        Returns
        -------
        by the key of each new finding, what uses the value
        """
        reported: dict[str, NDArray[np.bool_]] = {}
        found: dict[tuple[str, int], Op] = {}
        for first in (True, False):
            for (code, index), read in self._reads.items():
                if index not in used or ((code, index) in known) is not first:
                    continue
                others = reported.setdefault(code, np.zeros_like(read.bytes))
                new = np.flatnonzero(read.bytes & ~others)
                others |= read.bytes
                if new.size and not first:
                    found[code, index] = used[index]
                    self._report(launch, code, read, new)
        return found

    def _report(self, launch: Launch, code: str, read: _Read, bytes_: NDArray[np.intp]) -> None:
        tensor = code == code_of_unwritten(True)
        offsets = (distinct(bytes_ // _CELL * _CELL) if tensor else bytes_).astype(np.uint64)
        cta = read.warp.cta
        who = f"warp {read.warp.warp_id} of CTA {cta.describe()}"
        if isinstance(launch.program.natives.get(read.op.index), LaneAccess | Atomic):
            who = f"lanes {lane_text(read.lanes)} of {who}"
        elif tensor or isinstance(read.op.effects, Asynchronous):
            who = f"{read.op.short} issued by {who}"
        report_unwritten_read(launch, read.op, cta, tensor, bytes_text(None if tensor else read.owner, offsets), who)
