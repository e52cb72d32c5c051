"""Compiled code that notes from where deferred copies of threads bring words."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ptxlab import native
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.native.builder import Module

__all__ = ["noter"]

_ROW_BYTES = 24
_WORD_SHIFT, _CHUNK_SHIFT = 2, 4


@cache
def noter() -> Any:
    """``note(rows, count, sources, boxed)``: note the sources of the words that rows copy, in chunks which tensor copies have not brought.

    The arguments are host addresses: of rows of `ptxlab.engine.context.Word.PENDING`, and of what `ptxlab.check.operands.words.check.Words`
    keeps.
    """
    library = native.compile_or_load(("sources of deferred copies",), ("note",), _ir, opt=1, light=True)
    return library.function("note", None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 2)


def _ir() -> str:
    module = Module()
    c, (rows, count, sources, boxed) = module.define("void note(ptr rows, i64 count, ptr sources, ptr boxed)")
    with c.loop(count) as number:
        row = rows.at(number * _ROW_BYTES)
        offset, address, sizes = row.word(0), row.word(1), row.word(2)
        size, read = sizes & 0xFF, (sizes >> 8) & 0xFF
        boxed.store(c.const("i8", 0), offset >> _CHUNK_SHIFT)
        with c.loop(size >> _WORD_SHIFT) as word:
            at = word << _WORD_SHIFT
            source = at.ult(read).select(address + at, c.const("i64", NO_SOURCE))
            sources.store(source, (offset + at) >> _WORD_SHIFT)
    c.ret()
    return module.finish()
