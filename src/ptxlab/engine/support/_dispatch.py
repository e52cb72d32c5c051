"""The loop that goes from region to region without coming back to Python."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.builder import Code, Unit
from ptxlab.engine.llvm.region import CHAIN, COMPILE

__all__ = ["emit_dispatch"]


def emit_dispatch(unit: Unit) -> None:
    """``i32 dispatch(context, table)``: run the region that the table names for PC until the status is not `CHAIN`."""
    c = Code(unit, "dispatch", "i32", [("ptr", "context"), ("ptr", "table")], attributes="nounwind")
    context, table = c.params
    head, known, missing, done = (c.label() for _ in range(4))
    c.jump(head)
    c.place(head)
    region = c.load("ptr", c.at(table, c.word(context, Word.PC) << 3), 8)
    c.branch(region.ne(0), known, missing)
    c.place(known)
    status = c.raw(f"call i32 {region.ref}(ptr {context.ref})", "i32")
    c.branch(status.eq(CHAIN), head, done)
    c.place(missing)
    c.ret(COMPILE)
    c.place(done)
    c.ret(status)
    c.finish()
