"""Strong accesses and who they include: section "Morally strong operations".

Two strong accesses to the same bytes are no race if the scope of each includes the thread of the other one. Where every thread that can
reach the memory is in an access's scope there is nothing to ask; the other ones are of the kind NARROW, and their pairs are asked here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ptxlab.check.model import Kind
from ptxlab.check.race.clocks.releases import Scope, order_of

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Reach", "excluded", "lines_of", "reach_of", "strong_kind", "widening"]


class Reach(NamedTuple):
    """The least scope that includes all threads of a launch which can reach global memory, and a CTA's shared memory."""

    of_global: Scope
    of_shared: Scope


def reach_of(launch: Launch) -> Reach:
    """How far the memory of a launch reaches."""
    shared = Scope.CLUSTER if launch.cluster_size > 1 else Scope.CTA
    return Reach(Scope.GPU if launch.total_ctas > launch.cluster_size else shared, shared)


def strong_kind(opcode: str, space: str, reach: Reach) -> Kind:
    """The kind of a strong access."""
    wanted = reach.of_shared if space.startswith("shared") else reach.of_global
    return Kind.NARROW if order_of(opcode).scope < wanted else Kind.STRONG


def excluded(apart: Scope, *ops: Op) -> list[Op]:
    """Of two strong accesses by threads that only the scope ``apart`` includes both of, those whose scope is too small."""
    return [op for op in ops if order_of(op.opcode).scope < apart]


def lines_of(ops: list[Op]) -> str:
    """The lines of one or two instructions."""
    lines = sorted({op.line for op in ops})
    return f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} and {lines[1]}"


def widening(apart: Scope, ops: list[Op]) -> str:
    """How to let the scopes include both threads."""
    return f"widen the scope of {lines_of(ops)} to .{apart.name.lower()}" + (", or .sys" if apart is Scope.GPU else "")
