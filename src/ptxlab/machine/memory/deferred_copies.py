"""Compiled code that performs deferred non-bulk copies (`ptxlab.engine.context.Word.PENDING`)."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ptxlab import native
from ptxlab.native.builder import Module

__all__ = ["copier"]

_ROW_BYTES = 24
_WHOLE = 16


@cache
def copier() -> Any:
    """``copy(shared, rows, first, count, base, end, data)``: perform the copies of rows, in order, from the first one on.

    The arguments are host addresses, numbers of rows, and the global and host addresses of the allocation from which the rows copy. Returns
    the number of the row that copies from elsewhere, which is not performed; ``count`` if there is none. Bytes after the source size become
    zero.
    """
    library = native.compile_or_load(("deferred copies",), ("copy",), _ir, opt=2, light=True)
    return library.function("copy", ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4, ctypes.c_void_p)


def _ir() -> str:
    module = Module()
    c, (shared, rows, first, count, base, end, data) = module.define(
        "i64 copy(ptr shared, ptr rows, i64 first, i64 count, i64 base, i64 end, ptr data)"
    )
    zero = c.const("i8", 0)
    with c.loop(count, start=first) as number:
        row = rows.at(number * _ROW_BYTES)
        address, sizes = row.word(1), row.word(2)
        size, read = sizes & 0xFF, (sizes >> 8) & 0xFF
        with c.when(read.ne(0) & (address.ult(base) | (address + read).ugt(end))):
            c.ret(number)
        target, source = shared.at(row.word(0)), data.at(address - base)
        with c.when(read.eq(_WHOLE) & size.eq(_WHOLE)) as otherwise:
            target.store(source.load(f"<{_WHOLE} x i8>", align=1), align=1)
            otherwise()
            with c.loop(read) as at:
                target.store(source.load("i8", at), at)
            with c.loop(size, start=read) as at:
                target.store(zero, at)
    c.ret(count)
    return module.finish()
