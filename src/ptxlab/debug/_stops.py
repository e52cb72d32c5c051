"""Breakpoints and watchpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxlab.debug._conditions import Expression
from ptxlab.debug._findings import CheckFinding
from ptxlab.debug._memory import memory_bytes, shared_offset, tensor_words
from ptxlab.debug._points import Author, Change, DebugError, Event, Point, refuse
from ptxlab.debug._registers import one_register, special_values
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Const
from ptxlab.ptx import SourceMap

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.isa.operands import Op
    from ptxlab.machine.warp.warp import Warp

__all__ = ["BREAKPOINT", "KINDS", "Breakpoint", "Stops", "Watchpoint", "calls_breakpoint", "read_value"]

KINDS = ("line", "source", "function", "instruction", "finding")
BREAKPOINT = "pmevent 15"
"""The instruction that ``breakpoint()`` in a kernel becomes: it has no effect on values, and stays where the kernel makes the call."""


def calls_breakpoint(ops: Iterable[Op]) -> bool:
    """Whether a kernel calls ``breakpoint()``."""
    return any(_is_instruction(op, BREAKPOINT) for op in ops)


def _is_instruction(op: Op, wanted: str) -> bool:
    """Whether the opcode begins so; constants behind it are those of the instruction."""
    opcode, *constants = wanted.split()
    given = [str(operand.value) for operand in op.operands if isinstance(operand, Const)]
    return (op.opcode == opcode or op.opcode.startswith(opcode + ".")) and given[: len(constants)] == constants


@dataclass(slots=True, eq=False)
class Breakpoint:
    """A breakpoint.

    Attributes
    ----------
    number : counted from 1, together with the watchpoints
    kind, where : ``"line"`` of the PTX text, ``"source"`` (``file:line``), ``"function"`` (its name), ``"instruction"`` (how its opcode
        begins: ``tcgen05.mma``, and constant operands: ``pmevent 15``), ``"finding"`` (how its code begins: ``M4``)
    condition : must be true in one of the executing lanes
    hits : it stops only when it is hit for this time since the start of the launch, or later
    enabled : whether it stops at all
    """

    number: int
    kind: str
    where: str
    condition: Expression | None = None
    hits: int = 1
    enabled: bool = True


@dataclass(slots=True, eq=False)
class Watchpoint:
    """A watched value: it stops behind what has changed it.

    Attributes
    ----------
    number : counted from 1, together with the breakpoints
    memory : ``"global"``, ``"shared"``, ``"tensor"`` or ``"register"``
    place : address and bytes; first lane, first column, lanes and columns; name of a register and a lane
    cta, warp : the coordinates of the CTA, and the number of the warp
    enabled : whether it stops at all
    """

    number: int
    memory: str
    place: tuple[Any, ...]
    cta: tuple[int, int, int] = (0, 0, 0)
    warp: int = 0
    enabled: bool = True

    def read(self, execution: Execution) -> Any:
        """The value now; None while it does not exist."""
        launch = execution.launch
        cta = next((c for c in launch.resident if c.ctaid == self.cta), None)
        try:
            if self.memory == "global":
                return memory_bytes(launch, "global", self.place[0], self.place[1], None, None, 0).tobytes()
            if cta is None:
                return None
            if self.memory == "shared":
                return memory_bytes(launch, "shared", self.place[0], self.place[1], cta, None, 0).tobytes()
            if self.memory == "tensor":
                return tensor_words(cta, *self.place).tobytes()
        except DebugError:
            return None
        warp = execution.find((self.cta, self.warp))
        name, lane = self.place
        found = None if warp is None else one_register(execution, warp, name, None)
        return None if found is None else found.raw[lane] if found.undefined[lane] == 0 else None

    def lanes(self, author: Author) -> int:
        """The lanes of an instruction that reach the place, as far as its addresses say."""
        native = None if author.op is None or author.warp is None else author.warp.launch.program.natives.get(author.op.index)
        if not isinstance(native, LaneAccess) or self.memory not in ("global", "shared"):
            return 1 << self.place[1] if self.memory == "register" else author.mask
        assert author.warp is not None
        assert author.op is not None
        addresses = [int(a) for a in author.warp.addresses(author.op.operands[native.address])]
        starts = [shared_offset(a) for a in addresses] if self.memory == "shared" else addresses
        first, size = self.place
        reach = sum(1 << lane for lane, at in enumerate(starts) if at < first + size and at + native.size > first)
        return author.mask & reach or author.mask


def read_value(execution: Execution, warp: Warp, op: Op | None, lane: int, name: str) -> Any:
    """A register or special register in a lane; refused if there is none of this name, or if it has no value."""
    found = one_register(execution, warp, name, op)
    if found is None:
        specials = special_values(warp)
        if name not in specials:
            raise refuse("G103", f"the kernel has no register {name}", fix="names are those that the PTX declares, with their %")
        return specials[name][lane]
    if found.undefined[lane]:
        raise refuse("G103", f"{name} has no value in lane {lane} yet: bits {found.undefined[lane]:#x} are undefined")
    return found.value(lane)


@dataclass(slots=True)
class Stops:
    """All breakpoints and watchpoints of a session.

    Attributes
    ----------
    breakpoints, watchpoints : by number
    counts : by breakpoint, how often it has been hit in this execution
    found : what checks find, by the number of the point
    """

    sources: SourceMap
    breakpoints: dict[int, Breakpoint] = field(default_factory=dict)
    watchpoints: dict[int, Watchpoint] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    found: dict[int, list[CheckFinding]] = field(default_factory=dict)
    _seen: dict[int, Any] = field(default_factory=dict)
    _last: int = 0
    _begins: dict[int, list[Breakpoint]] = field(default_factory=dict)

    def number(self) -> int:
        """The number of a new breakpoint or watchpoint."""
        self._last += 1
        return self._last

    def watch(self, watchpoint: Watchpoint, execution: Execution) -> None:
        """Watch a value from now on."""
        self.watchpoints[watchpoint.number] = watchpoint
        self._seen[watchpoint.number] = watchpoint.read(execution)

    @contextmanager
    def set_aside(self, ops: list[Op]) -> Iterator[None]:
        """Leave all out for a while; what is set meanwhile is forgotten."""
        kept = dict(self.breakpoints), dict(self.watchpoints), dict(self.found)
        self._replace(ops, {}, {}, {})
        try:
            yield
        finally:
            self._replace(ops, *kept)

    def _replace(
        self, ops: list[Op], breakpoints: dict[int, Breakpoint], watchpoints: dict[int, Watchpoint], found: dict[int, list[CheckFinding]]
    ) -> None:
        for each in (self.breakpoints, self.watchpoints, self.found):
            each.clear()
        self.breakpoints.update(breakpoints)
        self.watchpoints.update(watchpoints)
        self.found.update(found)
        self.place(ops)

    def can_reach(self, each: Breakpoint, ops: list[Op]) -> bool:
        """Whether a breakpoint can stop anywhere."""
        return each.kind == "finding" or any(self._stands_at(each, op, ops) for op in ops)

    def place(self, ops: list[Op]) -> None:
        """Find the instructions of all breakpoints."""
        self._begins = {}
        for each in self.breakpoints.values():
            for op in ops:
                if self._stands_at(each, op, ops):
                    self._begins.setdefault(op.index, []).append(each)

    def _stands_at(self, each: Breakpoint, op: Op, ops: list[Op]) -> bool:
        if each.kind == "line":
            return each.where == str(op.line)
        if each.kind == "instruction":
            return _is_instruction(op, each.where)
        before = ops[op.index - 1] if op.index else None
        if each.kind == "function":
            here = [name for name, _ in op.calls]
            return here[-1:] == [each.where] and (before is None or op.calls != before.calls) and self._first(op, ops)
        if each.kind == "source":
            return self.is_at(op, each.where) and (before is None or not self.is_at(before, each.where) or before.calls != op.calls)
        return False

    @staticmethod
    def _first(op: Op, ops: list[Op]) -> bool:
        """Whether an instruction is the first of its function's body, of one call."""
        return op.index == min(o.index for o in ops if o.calls == op.calls)

    @property
    def places(self) -> frozenset[int]:
        """The instructions at which a breakpoint may stop."""
        return frozenset(self._begins)

    @property
    def watching(self) -> bool:
        """Whether some value is watched."""
        return any(watch.enabled for watch in self.watchpoints.values())

    def is_at(self, op: Op, where: str) -> bool:
        """Whether an instruction belongs to a line of the source, ``file:line``; the file may be given without its folder."""
        name, _, line = where.rpartition(":")
        source = self.sources.at(op.line)
        return source is not None and str(source.line) == line and name in (source.file, PurePath(source.file).name)

    def changed(self, execution: Execution, author: Author) -> list[Change]:
        """Which watched values have changed since the last call."""
        found = []
        for number, watch in self.watchpoints.items():
            value = watch.read(execution)
            before = self._seen.get(number)
            self._seen[number] = value
            if value != before and value is not None and (before is not None or watch.memory == "register") and watch.enabled:
                found.append(Change(number, before, value, author))
        return found

    def findings(self, point: Point) -> list[Diagnostic]:
        """What is found at a point."""
        own = [] if point.finding is None else [point.finding]
        return own + [each.finding for each in self.found.get(point.step, ())]

    def hit(self, execution: Execution, point: Point) -> list[Breakpoint]:
        """The breakpoints that stop at a point; counts their hits."""
        if point.again:
            return []
        codes = [finding.code for finding in self.findings(point)]
        reached = [b for b in self.breakpoints.values() if b.kind == "finding" and any(code.startswith(b.where) for code in codes)]
        if point.event is Event.INSTRUCTION and point.mask:
            assert point.op is not None
            reached += self._begins.get(point.op.index, [])
        found = []
        for each in reached:
            if each.enabled and self._holds(execution, each, point):
                self.counts[each.number] = self.counts.get(each.number, 0) + 1
                if self.counts[each.number] >= each.hits:
                    found.append(each)
        return found

    def _holds(self, execution: Execution, each: Breakpoint, point: Point) -> bool:
        if each.condition is None:
            return True
        return point.warp is not None and bool(self.lanes(execution, each.condition, point))

    def lanes(self, execution: Execution, condition: Expression, point: Point) -> int:
        """The executing lanes in which a condition is true; it is not where a register has no value."""
        warp = point.warp
        assert warp is not None
        specials = special_values(warp)
        values = {name: one_register(execution, warp, name, point.op) for name in condition.registers}
        found = 0
        for lane in np.flatnonzero([point.mask >> lane & 1 for lane in range(32)]).tolist():
            if any(v is not None and v.undefined[lane] for v in values.values()):
                continue

            def read(name: str, lane: int = lane) -> Any:
                register = values[name]
                return specials[name][lane] if register is None else register.value(lane)

            if condition.value(read):
                found |= 1 << lane
        return found
