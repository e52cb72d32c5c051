"""Findings about what begins and ends: CTAs, mbarrier objects and their phases."""

from __future__ import annotations

from typing import Any

from ptxlab.check.race.clocks.clocks import Agent
from ptxlab.check.race.clocks.mbarrier_clock import Use
from ptxlab.check.race.report._messages import completion_of, join_of
from ptxlab.check.race.report.pairs import PairFindings
from ptxlab.isa.effects import Completion, MbarrierArrive, MbarrierWait
from ptxlab.isa.operands import Op
from ptxlab.machine.observe.observer import EarlierAccess

__all__ = ["LifetimeFindings"]


class LifetimeFindings(PairFindings):
    """Reports uses of shared memory and of mbarriers before they begin, and after they end."""

    def in_flight_at_exit(self, agent: Agent, op: Op, reads: bool, grouped: bool = True) -> None:
        """An asynchronous operation that nothing has waited for when the CTA exits."""
        bulk_store = reads and completion_of(op) is Completion.BULK_GROUP
        self._launch.reports.add(
            "X119" if bulk_store and self._launch.model == "practice" else "X116",
            f"CTA {agent.cta.describe()} exits while {op.short} at line {op.line} may still "
            + ("read its shared memory" if reads else "write to its shared memory"),
            op=op,
            fix=f"{join_of(op, reads, grouped)} before the threads exit",
            details=(("issued by", agent.describe()),),
            cta=agent.cta,
        )

    def outlived(self, cta: Any, agent: Agent, op: Op) -> None:
        """A CTA exits, and nothing orders an access of another CTA to its shared memory before that."""
        self._launch.reports.add(
            "M407",
            f"{op.short} of CTA {agent.cta.describe()} uses the shared memory of CTA {cta.describe()}, "
            "which may have exited by then: nothing orders the two",
            op=op,
            fix=f"insert barrier.cluster.arrive and barrier.cluster.wait after line {op.line}, before the CTAs of the cluster exit"
            + (
                f"; or let CTA {cta.describe()} wait on its mbarrier for that arrival before it exits"
                if isinstance(op.effects, MbarrierArrive)
                else ""
            ),
            details=(("later", f"CTA {cta.describe()} exits"),),
            cta=agent.cta,
        )

    def overrun(self, barrier: Any, use: Use, op: Op) -> None:
        """Nothing keeps a phase from being complete before a warp has seen that the one before is."""
        by_parity = isinstance(use.op.effects, MbarrierWait) and use.op.effects.parity
        other = f"; or wait with the other parity, if the phase that line {op.line} completes is meant" if by_parity else ""
        self._launch.reports.add(
            "B519",
            f"{use.op.short} waits for a phase of the mbarrier at shared offset {barrier.offset:#x}, and nothing keeps the next phase, "
            f"which {op.short} at line {op.line} completes, from being complete before the wait",
            op=use.op,
            fix=f"after line {use.op.line} arrive on an mbarrier, and wait on that mbarrier before line {op.line}; "
            f"or synchronise the threads with a barrier between the two{other}",
            details=(
                ("waits", use.agent.describe()),
                ("what then happens", "the parity in the wait means the phase after that one, and the wait ends"),
            ),
            cta=use.agent.cta,
        )

    def invalidated_early(self, barrier: Any, agent: Agent, op: Op, use: Use) -> None:
        """mbarrier.inval ends the life of an object that another warp uses, and nothing orders the two."""
        self._add_pair(
            "X101",
            f"{op.short} ends the mbarrier at shared offset {barrier.offset:#x}, which {use.op.short} at line {use.op.line} uses, "
            "and nothing orders the two threads",
            op,
            f"synchronise the threads with a barrier (bar.sync) between line {use.op.line} and line {op.line}",
            agent.cta,
            use.agent.describe(),
            agent.describe(),
            first=EarlierAccess(use.op, use.agent.cta.ctaid, use.agent.warp),
        )

    def arrived_twice(self, barrier: Any, agent: Agent, first: Op, op: Op) -> None:
        """A warp arrives at a barrier of its CTA twice in one phase."""
        self._launch.reports.add(
            "B520",
            f"warp {agent.warp} arrives at barrier {barrier.id} again, as it did at line {first.line}, and the barrier is not yet "
            "complete: it counts as two warps",
            op=op,
            fix=f"arrive once in a phase: drop line {op.line}, give it another barrier, or let the warp wait between line {first.line} and "
            f"line {op.line} for a barrier after barrier {barrier.id}",
            cta=agent.cta,
        )

    def uninitialised(self, barrier: Any, agent: Agent, op: Op, made: Use) -> None:
        """A warp uses an mbarrier object, and nothing orders the use after its initialisation."""
        if (made.op.index, op.index, -1) in self._seen:
            return
        self._seen.add((made.op.index, op.index, -1))
        first, owner = made.op.line, made.agent.cta
        fix = (
            f"insert bar.sync 0{' (barrier.cluster, if other CTAs use it, too)' if len(owner.cluster) > 1 else ''} after line {first}, "
            f"which all threads pass before line {op.line}"
            if owner is agent.cta
            else f"insert fence.mbarrier_init.release.cluster after line {first}, then barrier.cluster.arrive and barrier.cluster.wait, "
            f"all before line {op.line}"
        )
        self._add_pair(
            "X120",
            f"{op.short} uses the mbarrier at shared offset {barrier.offset:#x} of CTA {owner.describe()}, which "
            f"mbarrier.init at line {first} initialises, and nothing orders the two",
            op,
            fix,
            agent.cta,
            f"{made.agent.describe()}: {self._line_text(made.op)}",
            agent.describe(),
            first=EarlierAccess(made.op, made.agent.cta.ctaid, made.agent.warp),
        )
