"""Strong accesses and the threads that their scopes include: section "Morally strong operations".

Two strong accesses to the same bytes are no race if the scope of each includes the thread of the other one. Where a scope includes every
thread that can reach the memory, this holds for all pairs; other accesses are of the kind NARROW, and each pair is checked here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ptxlab.check.model import Kind
from ptxlab.isa.effects import WEAK, Access, Asynchronous, Order, Scope

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Reach", "access_order", "excluded", "lines_of", "reach_of", "strong_kind", "widening"]


class Reach(NamedTuple):
    """The least scope that includes all threads of a launch which can reach global memory, and a CTA's shared memory."""

    of_global: Scope
    of_shared: Scope


def reach_of(launch: Launch) -> Reach:
    """How far the memory of a launch reaches."""
    shared = Scope.CLUSTER if launch.cluster_size > 1 else Scope.CTA
    return Reach(Scope.GPU if launch.total_ctas > launch.cluster_size else shared, shared)


def access_order(op: Op) -> Order:
    """The order of an instruction's accesses."""
    return op.effects.order if isinstance(op.effects, Access | Asynchronous) else WEAK


def strong_kind(order: Order, space: str, reach: Reach) -> Kind:
    """The kind of a strong access."""
    wanted = reach.of_shared if space.startswith("shared") else reach.of_global
    return Kind.NARROW if order.scope < wanted else Kind.STRONG


def excluded(apart: Scope, *ops: Op) -> list[Op]:
    """Of two strong accesses by threads that only the scope ``apart`` includes both of, those whose scope is too small."""
    return [op for op in ops if access_order(op).scope < apart]


def lines_of(ops: list[Op]) -> str:
    """The lines of one or two instructions."""
    lines = sorted({op.line for op in ops})
    return f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} and {lines[1]}"


def widening(apart: Scope, ops: list[Op]) -> str:
    """How to let the scopes include both threads."""
    return f"widen the scope of {lines_of(ops)} to .{apart.name.lower()}" + (", or .sys" if apart is Scope.GPU else "")
