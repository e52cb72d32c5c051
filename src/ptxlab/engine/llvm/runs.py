"""Runs of inline ops: each becomes a few loops over the vectors of a warp's lanes."""

from __future__ import annotations

from itertools import pairwise

from ptxlab.engine.llvm._pieces import needed_by, pieces
from ptxlab.engine.llvm.function_runs import call_for_run
from ptxlab.engine.llvm.segment.segment import Segment
from ptxlab.engine.lowering.repeated_ops import distinct_registers, repeated_runs
from ptxlab.engine.program import Program
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.native.builder import Function, Value

__all__ = ["emit_moved_notes", "emit_segment"]


def emit_segment(
    code: Function, program: Program, width: int, context: Value, frame: Value, ops: list[Op], live: frozenset[int] | set[int]
) -> None:
    """Emit a run of inline ops; ``live``: the registers that are needed after it."""
    if not any(op.row.kind == "pure" or not isinstance(program.natives[op.index], Nothing) for op in ops):
        return
    for part, needed, repeated in _parts(program, ops, live):
        if repeated:
            _emit_repeated(code, program, width, context, frame, part)
        else:
            _emit_straight(code, program, width, context, frame, part, needed)


def _parts(program: Program, ops: list[Op], live: frozenset[int] | set[int]) -> list[tuple[list[Op], set[int], bool]]:
    """The runs of equal ops and what stands between them, with the registers that are needed after each."""
    cuts = [cut for start, stop in repeated_runs(ops, program.registers) if _has_rows(program, ops[start:stop]) for cut in (start, stop)]
    found: list[tuple[list[Op], set[int], bool]] = []
    needed = set(live)
    for start, stop in reversed(list(pairwise([0, *cuts, len(ops)]))):
        if start < stop:
            part = ops[start:stop]
            found.append((part, needed, start in cuts[::2]))
            needed = needed.union(*(needed_by(program, op) for op in part))
    return found[::-1]


def _has_rows(program: Program, ops: list[Op]) -> bool:
    """Whether compiled code only moves values between rows of the frame: it follows neither undefined bits nor where values come from."""
    if program.stepped or any(op.index in program.loaded.moves for op in ops):
        return False
    infos = (program.registers[r] for op in ops for r in distinct_registers(op))
    return all(info.offset >= 0 and info.shadow < 0 for info in infos)


def _emit_repeated(code: Function, program: Program, width: int, context: Value, frame: Value, ops: list[Op]) -> None:
    """Emit a run of equal ops: the code of the first one, which takes the rows of its registers from tables."""
    first, lanes = ops[0], 2 * width
    if call_for_run(code, program, context, frame, ops, lanes):
        return
    columns = list(zip(*map(distinct_registers, ops), strict=True))
    with code.loop(32 // lanes, entered=True) as index, code.loop(len(ops), entered=True) as number:
        segment = Segment(code, program, lanes, context, frame, index)
        for registers in columns:
            offsets = [program.registers[r].offset for r in registers]
            if len(set(offsets)) > 1:
                segment.places[registers[0]] = code.constants("i64", offsets).load("i64", number)
        segment.emit(first)
        segment.flush(set(segment.dirty))


def _emit_straight(code: Function, program: Program, width: int, context: Value, frame: Value, ops: list[Op], live: set[int]) -> None:
    for piece, needed, lanes in pieces(program, ops, live, width):
        with code.loop(32 // lanes, entered=True) as index:
            segment = Segment(code, program, lanes, context, frame, index)
            # A call writes vectors to the stack; AVX-512 has stores with masks, which write them to the frame instead.
            at_once = width == 16 and lanes == 32
            last = _last_uses(program, piece) if at_once else {}
            for place, op in enumerate(piece):
                segment.emit(op)
                if at_once:
                    segment.write_back([register for register in segment.dirty if last[register] <= place], needed)
                segment.divide()
            segment.flush(needed)


def _last_uses(program: Program, ops: list[Op]) -> dict[int, int]:
    """For each register that ops read or write the place of the last of them."""
    return {r: place for place, op in enumerate(ops) for r in (*program.reads[op.index], *program.writes[op.index])}


def emit_moved_notes(code: Function, program: Program, width: int, context: Value, frame: Value, op: Op) -> None:
    """Note what an op that is no part of a run has moved to registers with rows of their own."""
    if op.index in program.loaded.moves:
        with code.loop(32 // width, entered=True) as index:
            segment = Segment(code, program, width, context, frame, index)
            segment.note(op, None if op.guard is None else segment.read(op.guard, "pred"))
