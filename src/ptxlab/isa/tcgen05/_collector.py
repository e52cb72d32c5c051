"""Collector buffers of tcgen05.mma: whether a buffer holds the matrix that an instruction may reuse.

Section "TensorCore 5th Generation Matrix Multiply and accumulate Operations". Reuse is opportunistic: the result never depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import NamedTuple

from ptxlab.isa import context

__all__ = ["Collector", "collect"]


class Collector(NamedTuple):
    """The state of one buffer: its matrix, None if its contents are not valid, and the last instruction that used it."""

    matrix: Hashable | None
    opcode: str
    line: int


def collect(warp: context.WarpContext, buffers: dict[str, Collector], matrix: Hashable, ws: bool) -> None:
    """Update the buffers for one instruction; a finding if it uses a matrix that its buffer does not hold. The default is ::discard."""
    usage, buffer, use = _usage(warp.q.collector, ws)
    held = buffers.get(buffer)
    if use in ("use", "lastuse") and (held is None or held.matrix != matrix):
        _report(warp, usage, "B" if ws else "A", buffer, held)
    buffers[buffer] = Collector(None if use in ("lastuse", "discard") else matrix, warp.op.opcode, warp.op.line)


@cache
def _usage(qualifier: str | None, ws: bool) -> tuple[str, str, str]:
    """The qualifier, its buffer and its operation."""
    usage = qualifier or f"collector::{'b0' if ws else 'a'}::discard"
    _, buffer, use = usage.split("::")
    return usage, buffer, use


def _report(warp: context.WarpContext, usage: str, name: str, buffer: str, held: Collector | None) -> None:
    if held is not None and held.matrix is not None:
        warp.report(
            "T632",
            f".{usage}: collector buffer {buffer} was filled with another matrix {name}, at line {held.line}",
            fix=f"give the descriptors of the instruction that fills the buffer, or .collector::{buffer}::fill",
            details=(("filled by", f"{held.opcode} at line {held.line}"),),
        )
        return
    why = "nothing has filled it" if held is None else f"the instruction at line {held.line} discarded its contents"
    warp.report(
        "T631",
        f".{usage}: collector buffer {buffer} holds no matrix {name}: {why}",
        fix=f"use .collector::{buffer}::fill in the first instruction of the sequence and ::use up to the last, which has ::lastuse",
        details=() if held is None else (("discarded by", f"{held.opcode} at line {held.line}"),),
    )
