"""The loop that goes from region to region without coming back to Python."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.region import CHAIN, COMPILE
from ptxlab.native.builder import Function, Module

__all__ = ["emit_dispatch"]


def emit_dispatch(module: Module) -> None:
    """``i32 dispatch(context, table)``: run the region that the table names for PC until the status is not `CHAIN`."""
    c = Function(module, "dispatch", "i32", "ptr context, ptr table")
    context, table = c.parameters
    head, known, missing, done = (c.label() for _ in range(4))
    c.jump(head)
    c.begin(head)
    region = table.load("ptr", context.word(Word.PC))
    c.branch(region.ne(0), known, missing)
    c.begin(known)
    status = c.call(region, "i32", context)
    c.branch(status.eq(CHAIN), head, done)
    c.begin(missing)
    c.ret(COMPILE)
    c.begin(done)
    c.ret(status)
