"""Waits and fences with ``.aligned`` that compiled code executes: whether all threads of the warp do.

Parts of a warp may execute it one after the other, as behind a loop that they leave at different times. Those that have not executed it
when the CTA ends, or when another part executes it again, never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab.engine.context import Word
from ptxlab.machine.warp.warp import ConvergedLanes

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Aligned"]


class Aligned:
    """The instructions that a part of a warp has executed."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._parts: dict[tuple[Warp, int], tuple[Op, int, int]] = {}
        """By warp and op index: the instruction, the lanes that have executed it, and those that have to."""

    def executed(self, warp: Warp, op: Op, lanes: int) -> None:
        """Some lanes of a warp have executed an instruction."""
        wanted = warp.live & ~warp.words[int(Word.EXITED)]
        key = warp, op.index
        held = self._parts.pop(key, None)
        if held is not None:
            _, done, wanted = held
            if done & lanes:
                self._report(warp, *held)
            lanes |= done
        if wanted & ~lanes:
            self._parts[key] = op, lanes, wanted

    def ended(self, cta: CtaState) -> None:
        """The CTA has exited: what is incomplete stays so."""
        for (warp, _), part in self._parts.items():
            if warp.cta is cta:
                self._report(warp, *part)

    def _report(self, warp: Warp, op: Op, done: int, wanted: int) -> None:
        if op.guard is None:
            split = ConvergedLanes(warp, op.index, done)
            split.op = op.index
            self._launch.reports.parted(warp, [split])
        warp.op, warp.mask, warp.converged_mask = op, done, wanted
        self._launch.reports.partial(warp)
