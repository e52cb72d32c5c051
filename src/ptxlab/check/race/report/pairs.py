"""What all findings about two accesses have: who executes them, and their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxlab.check.model import ASYNC_PROXY, TENSOR_PIPES
from ptxlab.check.race.clocks.clusters import Clusters
from ptxlab.check.race.report._messages import Access, shortened
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.diagnostics import Place as SourcePlace
from ptxlab.isa.operands import Op
from ptxlab.machine.observe.observer import EarlierAccess

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["PairFindings"]


class PairFindings:
    """Reports findings about two accesses."""

    def __init__(self, launch: Launch, shadow: Shadow) -> None:
        self._launch = launch
        self._shadow = shadow
        self._seen: set[tuple[int, int, int]] = set()
        """The pairs of instructions of which there is a finding."""
        self.clusters = Clusters()

    def _add_pair(
        self,
        code: str,
        message: str,
        op: Op,
        fix: str,
        cta: Any,
        earlier: str,
        later: str,
        order: str = "none",
        source: SourcePlace | None = None,
        elements: tuple[tuple[str, str], ...] = (),
        first: EarlierAccess | None = None,
        **keys: Any,
    ) -> None:
        """Add a finding about two accesses; ``op`` is the later one, ``first`` the earlier one, ``source`` its place in the source."""
        details = [("earlier", earlier), ("later", later), ("order that exists", order)]
        if source is not None:
            details.insert(1, ("earlier, in the source", f"{source.file}:{source.line}"))
        self._launch.reports.add(code, message, op=op, fix=fix, details=[*elements, *details], cta=cta, earlier=first, **keys)

    def _line_text(self, op: Op) -> str:
        return f"line {op.line}: {shortened(self._launch.reports.place(op)[1])}"

    def _earlier(self, access: Access) -> EarlierAccess | None:
        """An access as the earlier one of a finding; None if its warp is not known any more."""
        warp = self.clusters.warp(access.serial, access.column // 2)
        return None if warp is None else EarlierAccess(access.op, *warp)

    def _agent_text(self, access: Access, lanes: str = "") -> str:
        text = self.clusters.owner(access.serial, access.column // 2)
        if text is None:
            return access.op.short
        text = f"lanes {lanes} of {text}" if lanes else text
        return f"{access.op.short} issued by {text}" if access.kind in ASYNC_PROXY or access.kind in TENSOR_PIPES else text
