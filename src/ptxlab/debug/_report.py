"""Where and why a launch stands still, as a session returns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptxlab import ptx
from ptxlab.debug._points import Change, Event, Position

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.debug._stops import Breakpoint, Stops
    from ptxlab.diagnostics import Diagnostic

__all__ = ["Stop", "WatchHit", "describe"]


@dataclass(frozen=True, slots=True)
class WatchHit:
    """A watched value has changed.

    Attributes
    ----------
    watchpoint : its number
    before, after : the value, bytes of memory as hexadecimal text
    writer : what has changed it: opcode, PTX line, CTA, warp and lanes, or the number of an asynchronous operation
    """

    watchpoint: int
    before: Any
    after: Any
    writer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why the launch stands still.

    Attributes
    ----------
    reason : ``"step"``, ``"breakpoint"``, ``"watchpoint"``, ``"finding"``, ``"blocked"``, ``"exited"`` (the chosen thread), ``"chosen"``,
        ``"start"``, ``"position"``, ``"earlier access"``, ``"interrupted"`` or ``"ended"``
    position : to come back to
    event : what happens next: see `Event`
    cta, warp, lanes : who executes next, if it is an instruction
    line, text : of the PTX text
    source, function : where that is in the source, and in which function
    breakpoints : those that are hit
    changes : of watched values
    finding : that has been made
    operation : the number of the asynchronous operation that performs next
    """

    reason: str
    position: Position
    event: str
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lanes: int = 0
    line: int = 0
    text: str = ""
    source: str | None = None
    function: str = ""
    breakpoints: tuple[int, ...] = ()
    changes: tuple[WatchHit, ...] = ()
    finding: Diagnostic | None = None
    operation: int | None = None

    def as_text(self) -> str:
        """The stop in a few lines."""
        numbers = "".join(f" {number}" for number in self.breakpoints)
        lines = [f"{self.reason}{numbers}, point {self.position.step}"]
        for change in self.changes:
            writer = ", ".join(f"{name} {value}" for name, value in change.writer.items()) or "the start of a CTA"
            lines.append(f"  watchpoint {change.watchpoint}: {change.before} -> {change.after}, written by {writer}")
        if self.operation is not None:
            lines.append(f"  operation {self.operation} is about to perform")
        elif self.warp is not None:
            lines.append(f"  CTA {self.cta} warp {self.warp} lanes {self.lanes:#x}")
        if self.line:
            lines.append(f"  {self.line} | {self.text.strip()}")
        if self.source is not None:
            lines.append(f"  source: {self.source}")
        return "\n".join(lines if self.finding is None else [*lines, str(self.finding)])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found["position"] = self.position.as_dict()
        found["lanes"] = hex(self.lanes)
        found["changes"] = [{name: getattr(c, name) for name in c.__slots__} for c in self.changes]
        found["finding"] = None if self.finding is None else self.finding.as_dict()
        return {name: value for name, value in found.items() if value not in (None, (), [], "")}


def describe(execution: Execution, stops: Stops, hits: list[Breakpoint], position: Position, reason: str) -> Stop:
    """The stop at the point where an execution stands; ``reason`` holds unless something else has stopped it."""
    point, launch = execution.point, execution.launch
    op, warp = point.op, point.warp
    findings = stops.findings(point)
    if point.event is Event.ENDED:
        reason = "ended"
    elif point.interrupted:
        reason = "interrupted"
    elif hits:
        reason = "breakpoint"
    elif point.changes:
        reason = "watchpoint"
    elif findings and reason in ("step", "ended"):
        reason = "finding"
    elif reason == "ended" or (reason == "step" and point.event in (Event.FINDING, Event.BLOCKED)):
        reason = point.event.value
    source = None if op is None else stops.sources.at(op.line)
    return Stop(
        reason,
        position,
        point.event.value,
        None if warp is None else warp.cta.ctaid,
        None if warp is None else warp.warp_id,
        point.mask,
        0 if op is None else op.line,
        "" if op is None else ptx.line_text(launch.module, op.line),
        None if source is None else str(source),
        "" if op is None else op.calls[-1][0] if op.calls else launch.program.name,
        tuple(each.number for each in hits),
        tuple(_change(change, stops) for change in point.changes),
        findings[0] if findings else None,
        None if point.operation is None else execution.numbers[point.operation],
    )


def _change(change: Change, stops: Stops) -> WatchHit:
    author = change.author
    writer: dict[str, Any] = {}
    if author.op is not None:
        writer |= {"opcode": author.op.opcode, "line": author.op.line}
    if author.operation is not None:
        writer |= {"operation": author.number, "cta": author.operation.cta.ctaid}
    if author.warp is not None:
        lanes = stops.watchpoints[change.watchpoint].lanes(author)
        writer |= {"cta": author.warp.cta.ctaid, "warp": author.warp.warp_id, "lanes": hex(lanes)}
    return WatchHit(change.watchpoint, _plain(change.before), _plain(change.after), writer)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
