"""What is known of the order of two accesses: scopes that leave a thread out, and what a thread has acquired."""

from __future__ import annotations

import numpy as np

from ptxlab.check.model import TENSOR_PIPES, Component, Kind, Row, scoped
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.releases import access_order
from ptxlab.check.race.report._messages import Access
from ptxlab.check.race.shadow.shadow_words import HOW_SHIFT
from ptxlab.engine.program import Program
from ptxlab.isa.effects import ClusterArrive, CtaBarrier, MbarrierArrive, Scope
from ptxlab.isa.operands import Op

__all__ = ["acquired", "apart", "is_acquired", "narrow_scopes", "synchronised_between"]


def apart(clocks: Clocks, earlier: Access, later: Access) -> Scope:
    """The least scope that includes the threads of two accesses."""
    if earlier.serial != later.serial:
        return Scope.GPU
    one, other = (clocks.owners[access.column // 2][0] for access in (earlier, later))
    return Scope.CTA if one is not None and other is not None and one.cta is other.cta else Scope.CLUSTER


def narrow_scopes(clocks: Clocks, held: int, earlier: Access, what: int, later: Access) -> list[Op] | None:
    """Of two strong accesses, those whose scope leaves the other's thread out; None if scopes do not matter."""
    if not scoped(*(Kind(entry >> HOW_SHIFT + 1 & 15) for entry in (held, what))):
        return None
    return [op for op in (earlier.op, later.op) if access_order(op).scope < apart(clocks, earlier, later)]


def is_acquired(agent: Agent, earlier: Access) -> bool:
    rows = agent.foreign.get(earlier.serial)
    return rows is not None and earlier.column < rows.shape[1] and bool(rows[Row.EXECUTION, earlier.column] >= earlier.clock)


def acquired(agent: Agent, earlier: Access) -> bool:
    """Whether only tcgen05.fence is missing."""
    columns = earlier.column + np.array(list(Component) if earlier.kind in TENSOR_PIPES else [Component.DONE])
    return bool((agent.rows[[Row.ACQUIRED, Row.EXECUTION]][:, columns] >= earlier.clock).any())


def synchronised_between(program: Program, earlier: Op, later: Op) -> bool:
    """Whether threads arrive at a barrier on each path from an instruction to another one."""
    block = next(number for number, block in enumerate(program.blocks) if block.start <= earlier.index < block.stop)
    work, seen = [(block, earlier.index + 1)], set[int]()
    while work:
        number, at = work.pop()
        for op in program.ops[at : program.blocks[number].stop]:
            if op is later:
                return False
            if isinstance(op.effects, CtaBarrier | ClusterArrive | MbarrierArrive):
                break
        else:
            new = set(program.blocks[number].successors) - seen
            seen |= new
            work += [(to, program.blocks[to].start) for to in new]
    return True
