"""Copies that bring more bytes than ``expect_tx`` announces: the phase of their mbarrier is over before they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxlab.check.race.clocks.clocks import Agent
from ptxlab.check.race.report._messages import Access

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Unannounced", "unannounced"]


class Unannounced(NamedTuple):
    """The bytes that the copies on an mbarrier bring beyond those announced, and the line of a wait that was over too early for them."""

    bytes: int
    line: int


def unannounced(launch: Launch, owner: Agent, copy: Access) -> Unannounced | None:
    """What is not announced of the copies on the mbarrier of a copy of ``owner``; None if all is, or if nothing has waited for it."""
    barrier = _mbarrier_of(owner, copy)
    waits = [] if barrier is None or barrier.clock is None else barrier.clock.waits()
    if not waits:
        return None
    to_come = sum(_bytes_on(barrier, operation) for operation in launch.scheduler.pending)
    missing = to_come - barrier.transactions
    return Unannounced(missing, waits[0].op.line) if missing > 0 else None


def _mbarrier_of(owner: Agent, copy: Access) -> Any:
    """The mbarrier that a copy completes on, if there is one."""
    for what, slot in owner.slots.items():
        if slot.number == copy.column and isinstance(what, tuple) and what[0] == "bulk":
            return owner.cta.cluster[what[1]].live_mbarrier(what[2])
    return None


def _bytes_on(barrier: Any, operation: Any) -> int:
    """The bytes that an operation under way brings on an mbarrier."""
    if operation.agent is None or id(barrier) not in operation.agent.slots:
        return 0
    accesses = (a for a in operation.accesses() if a.write and a.signal is barrier)
    return sum(int(np.broadcast_to(a.sizes, a.starts.shape).sum(dtype=np.int64)) for a in accesses)
