"""Rules on the registers of wgmma.mma_async: used while in flight, written without a fence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxlab.check.static.dataflow._flow import Point
from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, WaitGroup, WgmmaFence
from ptxlab.isa.operands import Group, Op, Reg

__all__ = ["RULES"]

_MOST = 64
_Held = dict[int, tuple[int, int]]
"""For each register the instruction that uses it, and the number of groups committed since, at least."""


@dataclass(slots=True)
class _State:
    """Registers that products in flight write and read, and those written since the last fence, by the instruction that wrote them."""

    written: _Held = field(default_factory=dict)
    read: _Held = field(default_factory=dict)
    unfenced: dict[int, int] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.written), dict(self.read), dict(self.unfenced))

    def join(self, other: _State) -> bool:
        """Add what holds on another path; whether this is new."""
        changed = False
        for held, more in ((self.written, other.written), (self.read, other.read)):
            for register, now in more.items():
                before = held.get(register)
                if before is None or now[1] < before[1]:
                    held[register] = now
                    changed = True
        for register, by in other.unfenced.items():
            if register not in self.unfenced:
                self.unfenced[register] = by
                changed = True
        return changed


def _is_product(op: Op) -> bool:
    return isinstance(op.effects, Asynchronous) and op.effects.completion is Completion.WGMMA_GROUP


def registers(kernel: Kernel) -> Iterator[Report]:
    """Registers that are used while a product may still write or read them, or written without a fence before a product."""
    program = kernel.program
    if not any(_is_product(point.op) for point in kernel.points):
        return
    used = {r for op in program.ops if _is_product(op) for r in (*program.writes[op.index], *_fragments(kernel, op))}
    entering: list[_State | None] = [None] * len(program.blocks)
    entering[0] = _State()
    found: dict[tuple[str, int], Report] = {}
    work = [0]
    while work:
        block = work.pop()
        before = entering[block]
        assert before is not None
        state = before.copy()
        for index in range(program.blocks[block].start, program.blocks[block].stop):
            _step(kernel, program.ops[index], state, used, found)
        for following in program.blocks[block].successors:
            old = entering[following]
            if old is None:
                entering[following] = state.copy()
                work.append(following)
            elif old.join(state):
                work.append(following)
    yield from found.values()


def _fragments(kernel: Kernel, op: Op) -> list[int]:
    """The registers of A."""
    at = dict(zip([name for name, _ in op.row.operands], op.operands, strict=False))
    given = at.get("a")
    return [item.index for item in given.items if isinstance(item, Reg)] if isinstance(given, Group) else []


def _step(kernel: Kernel, op: Op, state: _State, used: set[int], found: dict[tuple[str, int], Report]) -> None:
    effect, program = op.effects, kernel.program
    if _is_product(op):
        fragments = _fragments(kernel, op)
        late = next((r for r in (*fragments, *program.writes[op.index]) if r in state.unfenced), None)
        if late is not None:
            line = program.ops[state.unfenced[late]].line
            message = f"{program.registers[late].name} is written at line {line}, and no wgmma.fence stands between"
            found.setdefault(
                ("R807", op.line), Report("R807", op, message, "execute wgmma.fence.sync.aligned before the first wgmma.mma_async")
            )
        state.read.update((register, (op.index, 0)) for register in fragments)
        state.written.update((register, (op.index, 0)) for register in program.writes[op.index])
    elif isinstance(effect, WgmmaFence):
        state.unfenced.clear()
    elif isinstance(effect, CommitGroup) and effect.of is Completion.WGMMA_GROUP:
        for held in (state.written, state.read):
            held.update((register, (by, min(count + 1, _MOST))) for register, (by, count) in held.items())
    elif isinstance(effect, WaitGroup) and effect.of is Completion.WGMMA_GROUP:
        _wait(kernel.flow.points.get(op.index), state)
    else:
        _use(kernel, op, state, found)
        state.unfenced.update((register, op.index) for register in program.writes[op.index] if register in used)


def _wait(point: Point | None, state: _State) -> None:
    left = None if point is None else point.named("N")
    most = 0 if left is None or left.constant is None else left.constant
    for held in (state.written, state.read):
        for register in [register for register, (_, count) in held.items() if count > most]:
            del held[register]


def _use(kernel: Kernel, op: Op, state: _State, found: dict[tuple[str, int], Report]) -> None:
    program = kernel.program
    for register in (*program.reads[op.index], *program.writes[op.index]) if state.written else ():
        if register in state.written:
            by = program.ops[state.written[register][0]]
            verb = "read" if register in program.reads[op.index] else "written"
            message = f"{program.registers[register].name} is {verb} while {by.short} at line {by.line} may still write to it"
            fix = "execute wgmma.commit_group, and wgmma.wait_group 0 before the first use of its registers"
            found.setdefault(("R805", by.line), Report("R805", op, message, fix))
    for register in program.writes[op.index] if state.read else ():
        if register in state.read:
            by = program.ops[state.read[register][0]]
            message = f"{program.registers[register].name} is written while {by.short} at line {by.line} may still read it"
            fix = "execute wgmma.commit_group, and wgmma.wait_group 0 before its registers are written again"
            found.setdefault(("R806", by.line), Report("R806", op, message, fix))


RULES = (registers,)
