"""Collector buffers of tcgen05.mma: whether what an instruction may reuse is there.

Section "TensorCore 5th Generation Matrix Multiply and accumulate Operations". Reuse is opportunistic, so that values never depend on it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import NamedTuple

from ptxlab.isa import context

__all__ = ["Collector", "collect"]


class Collector(NamedTuple):
    """What is known of one buffer: the matrix that a fill left there, None if nothing is valid; and the instruction that made it so."""

    matrix: Hashable | None
    opcode: str
    line: int


def collect(warp: context.WarpContext, buffers: dict[str, Collector], matrix: Hashable, ws: bool) -> None:
    """Follow one instruction; a finding where it uses what is not there. Without a qualifier it discards."""
    usage, buffer, use = _usage(warp.q.collector, ws)
    held = buffers.get(buffer)
    if use in ("use", "lastuse") and (held is None or held.matrix != matrix):
        _report(warp, usage, "B" if ws else "A", buffer, held)
    buffers[buffer] = Collector(None if use in ("lastuse", "discard") else matrix, warp.op.opcode, warp.op.line)


@cache
def _usage(qualifier: str | None, ws: bool) -> tuple[str, str, str]:
    """The qualifier, its buffer and what it does."""
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
    why = "nothing has filled it" if held is None else f"line {held.line} has let its contents be discarded"
    warp.report(
        "T631",
        f".{usage}: collector buffer {buffer} holds no matrix {name}: {why}",
        fix=f"use .collector::{buffer}::fill in the first instruction of the sequence and ::use up to the last, which has ::lastuse",
        details=() if held is None else (("discarded by", f"{held.opcode} at line {held.line}"),),
    )
