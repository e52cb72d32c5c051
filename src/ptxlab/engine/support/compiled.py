"""The compiled helpers: each is compiled when first needed, by itself, and kept on disk."""

from __future__ import annotations

import re
from functools import cache

from ptxlab import native
from ptxlab.native.builder import Module

__all__ = ["address_of"]

_LIBRARIES: list[native.Library] = []


@cache
def address_of(helper: str) -> int:
    """The address of a helper."""
    key = native.object_key("helper", helper)
    library = native.load_cached(key, [helper])
    if library is None:
        module = Module()
        _emit(module, helper)
        library = native.compile_ir(module.text(), [helper], opt=2, key=key)
    _LIBRARIES.append(library)
    return library.address(helper)


def _emit(module: Module, helper: str) -> None:
    first, *rest = helper.split("_")
    if first == "dispatch":
        from ptxlab.engine.support._dispatch import emit_dispatch

        emit_dispatch(module)
    elif first in ("shfl", "vote", "match", "redux", "elect", "members", "together"):
        from ptxlab.engine.support._lanes import emit_lanes

        emit_lanes(module, first, rest)
    elif first == "tensor":
        from ptxlab.engine.support._tensor_memory import emit_tensor

        emit_tensor(module, rest[1], write=rest[0] == "st", pack=rest[-1] == "pack")
    elif first == "atomic":
        from ptxlab.engine.support._atomics import emit_atomic

        emit_atomic(module, helper)
    elif first in ("ldmatrix", "stmatrix"):
        from ptxlab.engine.support._matrices import emit_matrix

        emit_matrix(module, first == "stmatrix", rest[0].removesuffix("t"), transposed=rest[0].endswith("t"))
    elif first in ("copy", "drain"):
        from ptxlab.engine.support._copies import emit_copies

        emit_copies(module, rest[-1] if rest else "")
    elif first in ("record", "save", "unchanged"):
        from ptxlab.engine.support import event_rows as recording

        {"record": recording.emit_record, "save": recording.emit_save, "unchanged": recording.emit_unchanged}[first](module)
    elif first == "resolve":
        from ptxlab.engine.support.accesses import emit_addresses

        emit_addresses(module, *rest)
    else:
        from ptxlab.engine.support.accesses import emit_move

        moved = _MOVE.fullmatch(helper)
        assert moved is not None, helper
        kind, memory, register, signed, count = moved.groups()
        emit_move(module, kind == "store", int(memory), int(register), bool(signed), 0 if count == "n" else int(count))


_MOVE = re.compile(r"(load|store)(\d+)(?:to|from)(\d+)(s?)x(\w+)")
