"""A digest of the whole state of a launch: equal digests mean equal machines."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.warp.warp import Warp

__all__ = ["digest"]


def digest(execution: Execution) -> str:
    """A digest of memories, registers, barriers, waiting and running lanes, queues of operations and of warps."""
    launch, order = execution.launch, execution.order
    found = hashlib.sha256()

    def add(*values: Any) -> None:
        found.update(repr(values).encode())

    add(execution.point.step, execution.point.event, order.instructions, launch.done_ctas, launch.printed)
    for allocation in launch.device.memory.live():
        add(allocation.base)
        found.update(allocation.data.data)
    for cta in launch.resident:
        _add_cta(found, add, cta)
        for warp in cta.warps:
            _add_warp(found, add, warp)
            found.update(execution.written[warp.context.address].data)
    numbers = execution.numbers
    add([numbers[o] for o in order.pending], [numbers[o] for o in order.signals])
    add([(w.cta.ctaid, w.warp_id) for w in order.ready], [(w.cta.ctaid, w.warp_id) for w in order.held])
    add(sorted(order.frozen), order.alone)
    return found.hexdigest()


def _add_cta(found: Any, add: Any, cta: CtaState) -> None:
    add(cta.ctaid, cta.live_threads, cta.tensor.allocations_of(cta), cta.group.barrier.arrived, cta.group.barrier.phase)
    found.update(cta.shared.data)
    for start, columns in cta.tensor.allocations_of(cta):
        found.update(cta.tensor.words[start : start + columns].data)
    for offset, each in sorted(cta.mbarriers.items()):
        add(offset, each.phase, each.expected, each.pending, each.transactions, len(each.waiters))
    for number, named in sorted(cta.named.items()):
        add(number, named.arrived, named.expected, named.generation, len(named.waiters))


def _add_warp(found: Any, add: Any, warp: Warp) -> None:
    found.update(warp.memory())
    add(warp.warp_id, warp.live, warp.queued, warp.slice)
    for group in warp.converged:
        add(group.pc, group.mask, group.turn, group.state, group.op, group.active, group.again, group.wait is None)
