"""Findings about reads of memory that nothing has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ptxlab.check.race.program.value_flow import allocation_awaited
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Alloc, Asynchronous, Completion, TensorTransfer
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["code_of_unwritten", "report_unwritten_read"]


def code_of_unwritten(tensor: bool) -> str:
    """The code of a read of tensor memory, or of shared memory, that nothing has written."""
    return "T614" if tensor else "M411"


def report_unwritten_read(launch: Launch, reader: Op, cta: Any, tensor: bool, where: str, who: str, written: Sequence[str] = ()) -> None:
    """Memory of the SM starts with whatever the last kernel left there.

    ``where`` and ``who`` are the bytes and the lanes, ``written`` what has been written of tensor memory, as text.
    """
    launch.reports.add(
        code_of_unwritten(tensor),
        f"{reader.short} reads {where}, which nothing has written",
        op=reader,
        fix=_filling_of(reader, bool(written)) if tensor else _writing_of(launch.program, reader, cta),
        details=(("reader", who), *(("written", text) for text in written)),
        cta=cta,
    )


def _filling_of(reader: Op, written: bool) -> str:
    """What to do about a read of tensor memory that nothing has written; ``written``: whether something else there has been."""
    if not isinstance(reader.effects, TensorTransfer):
        return "let the first tcgen05.mma of the accumulator have enable-input-d false, or fill the columns with tcgen05.st"
    if written:
        return f"let line {reader.line} read the columns and lanes that were written: its address, its shape and the warp decide"
    return f"write the columns before line {reader.line}, with tcgen05.mma, tcgen05.cp or tcgen05.st"


def _writing_of(program: Program, reader: Op, cta: Any) -> str:
    """What to do about a read of shared memory that nothing has written."""
    alloc = allocation_awaited(program, reader, cta)
    if alloc is not None:
        pair = ", or barrier.cluster for both CTAs of the pair" if isinstance(alloc.effects, Alloc) and alloc.effects.pair else ""
        return (
            f"synchronise the warps with a barrier (bar.sync{pair}) between tcgen05.alloc at line {alloc.line} and this read of its address"
        )
    copied = any(isinstance(op.effects, Asynchronous) and op.effects.completion is Completion.BYTES for op in program.ops)
    awaited = ", or wait on the mbarrier of the copy that brings them" if copied else ""
    barrier = "barrier.cluster" if isinstance(reader.effects, Asynchronous) and reader.effects.pair else "a barrier"
    return (
        f"write the bytes before they are read, with {barrier} between if others write them{awaited}; "
        "a fresh CTA's shared memory holds what the last one left there"
    )
