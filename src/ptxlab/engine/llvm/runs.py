"""Runs of inline ops: each becomes a few loops over the vectors of a warp's lanes."""

from __future__ import annotations

from ptxlab.engine.llvm._pieces import pieces
from ptxlab.engine.llvm.segment import Segment
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
