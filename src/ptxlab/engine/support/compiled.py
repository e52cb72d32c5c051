"""The compiled support functions: each is compiled when first needed, by itself, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ptxlab import native
from ptxlab.engine import pending_products
from ptxlab.engine.arrivals import emit_arrive, emit_may_arrive
from ptxlab.engine.cancellations import emit_cancel
from ptxlab.engine.commits import emit_commit
from ptxlab.engine.context import Word
from ptxlab.engine.copies.boxes import LOAD, REDUCE, STORE, Box, emit_box_load, emit_box_store
from ptxlab.engine.copies.lines import LINE_LOAD, LINE_REDUCE, LINE_STORE, emit_line_load, emit_line_store
from ptxlab.engine.copies.pixels import Pixels
from ptxlab.engine.copies.rows import FourRows
from ptxlab.engine.llvm.function_runs import emit_for_run
from ptxlab.engine.llvm.region import CHAIN, COMPILE
from ptxlab.engine.llvm.vocabulary import emit_shared
from ptxlab.engine.support._atomics import emit_atomic
from ptxlab.engine.support._copies import emit_copies
from ptxlab.engine.support._lanes import emit_lanes, emit_matrix, emit_undecided
from ptxlab.engine.support._loaded_values import (
    emit_cells_stored_from,
    emit_columns_stored_from,
    emit_elements_loaded,
    emit_elements_stored_from,
    emit_loaded_from,
    emit_matrix_loaded,
    emit_rows_stored_from,
    emit_stored_from,
    emit_words_loaded,
)
from ptxlab.engine.support._quick import OFTEN, SYMBOLS, QuickFunction, add_counting, emit_is_called_often, optimise_all, optimise_often
from ptxlab.engine.support._tensor_memory import emit_tensor
from ptxlab.engine.support.accesses import emit_addresses, emit_mark_ranges, emit_move
from ptxlab.engine.support.counters import emit_count
from ptxlab.engine.support.event_rows import emit_observe, emit_record, emit_replay, emit_save, emit_unchanged
from ptxlab.engine.support.footprint import emit_touch_ranges
from ptxlab.engine.support.mirrors import emit_defined, emit_mirrors, emit_moved
from ptxlab.engine.support.reductions import emit_note_additions
from ptxlab.engine.turns.lanes import emit_switch_lanes
from ptxlab.engine.turns.loop import emit_turns
from ptxlab.engine.warpgroups import emit_commit_group, emit_issue, emit_wait_group
from ptxlab.native.builder import Module

__all__ = ["OFTEN", "address_of", "optimise_all", "optimise_often"]


@cache
def address_of(name: str) -> int:
    """The address of a compiled function by its name, which says what it does and for which types.

    Most are compiled without optimisation at first, in a fifth of the time, unless the cache has the optimised ones.
    """
    if name.split("_")[0] in _AT_ONCE or native.OBJECTS.read(native.object_key(*_request(name))) is not None:
        return _optimised(name)

    def load(symbols: dict[str, int]) -> native.Library:
        return native.compile_or_load((*_request(name), "quick"), [name], lambda: _ir(name, quick=True), opt=0, symbols=symbols)

    return QuickFunction(name, load, _optimised, "dispatch" if name == "turns" else "").address


@cache
def _optimised(name: str) -> int:
    light = name.split("_")[0] in _LIGHT
    return native.compile_or_load(_request(name), [name], lambda: _ir(name), opt=2, light=light, symbols=SYMBOLS).address(name)


def _request(name: str) -> tuple[str, str]:
    return "support", name


def _ir(name: str, quick: bool = False) -> str:
    module = Module()
    first, *rest = name.split("_")
    emit: Emit = _EMIT.get(first, lambda module, name, rest: emit_move(module, name))
    emit(module, name, rest)
    if quick:
        add_counting(module, name)
    return module.finish()


def _emit_load(kind: type[Box], module: Module, name: str, rest: list[str]) -> None:
    emit_box_load(module, kind, rest[0] == "cluster", rest[1] == "pair", rest[2] == "multicast")


def _emit_store(kind: type[Box], module: Module, name: str, rest: list[str]) -> None:
    emit_box_store(module, kind, *rest)


_COPIED: tuple[type[Box], ...] = Box, FourRows, Pixels
_AT_ONCE = ("lanes", "run")
"""What is optimised at once: arithmetic in vector registers."""
_LIGHT = ("dispatch", "turns", *_AT_ONCE)
"""What gains nothing from most of the optimisation passes."""
Emit = Callable[[Module, str, list[str]], None]
_EMIT: dict[str, Emit] = {
    "lanes": lambda module, name, rest: emit_shared(module, name, rest[0], int(rest[1])),
    "run": lambda module, name, rest: emit_for_run(module, name, rest[0], int(rest[1])),
    "dispatch": lambda module, name, rest: _emit_dispatch(module),
    "turns": lambda module, name, rest: _emit_turns(module),
    **dict.fromkeys(
        ("shfl", "vote", "match", "redux", "elect", "members", "together"),
        lambda module, name, rest: emit_lanes(module, name.split("_")[0], rest),
    ),
    "undecided": lambda module, name, rest: emit_undecided(module, name, rest[0]),
    "tensor": lambda module, name, rest: emit_tensor(module, rest[1], write=rest[0] == "st", pack=rest[-1] == "pack"),
    "atomic": lambda module, name, rest: emit_atomic(module, name),
    **dict.fromkeys(("ldmatrix", "stmatrix"), lambda module, name, rest: emit_matrix(module, name)),
    **dict.fromkeys(("copy", "drain"), lambda module, name, rest: emit_copies(module, rest[-1] if rest else "")),
    "loadedfrom": lambda module, name, rest: emit_loaded_from(module, rest[0]),
    "elementsloaded": lambda module, name, rest: emit_elements_loaded(module, int(rest[0]), _in_bytes(rest)),
    "wordsloaded": lambda module, name, rest: emit_words_loaded(module, _in_bytes(rest)),
    "rowsloaded": lambda module, name, rest: emit_matrix_loaded(module, False, _in_bytes(rest)),
    "columnsloaded": lambda module, name, rest: emit_matrix_loaded(module, True, _in_bytes(rest)),
    "cellsstoredfrom": lambda module, name, rest: emit_cells_stored_from(module, int(rest[0]), rest[1], pack=rest[-1] == "pack"),
    "storedfrom": lambda module, name, rest: emit_stored_from(module, int(rest[0])),
    "elementsstoredfrom": lambda module, name, rest: emit_elements_stored_from(module, *map(int, rest)),
    "rowsstoredfrom": lambda module, name, rest: emit_rows_stored_from(module, int(rest[0])),
    "columnsstoredfrom": lambda module, name, rest: emit_columns_stored_from(module, int(rest[0])),
    "markranges": lambda module, name, rest: emit_mark_ranges(module),
    "record": lambda module, name, rest: emit_record(module),
    "mirrors": lambda module, name, rest: emit_mirrors(module),
    "defined": lambda module, name, rest: emit_defined(module),
    "moved": lambda module, name, rest: emit_moved(module),
    "observe": lambda module, name, rest: emit_observe(module),
    "save": lambda module, name, rest: emit_save(module),
    "unchanged": lambda module, name, rest: emit_unchanged(module),
    "count": lambda module, name, rest: emit_count(module, rest[0], rest[1], int(rest[2]), *rest[3:]),
    "touchranges": lambda module, name, rest: emit_touch_ranges(module),
    "resolve": lambda module, name, rest: emit_addresses(module, *rest),
    "arrive": lambda module, name, rest: emit_arrive(module, rest[0]),
    "mayarrive": lambda module, name, rest: emit_may_arrive(module),
    **{kind.form.value + LOAD: partial(_emit_load, kind) for kind in _COPIED},
    **{kind.form.value + STORE: partial(_emit_store, kind) for kind in _COPIED},
    Box.form.value + REDUCE: partial(_emit_store, Box),
    LINE_STORE: lambda module, name, rest: emit_line_store(module, masked=bool(rest)),
    LINE_REDUCE: lambda module, name, rest: emit_line_store(module, rest[0]),
    LINE_LOAD: lambda module, name, rest: emit_line_load(
        module, rest[0] == "shared", rest[1] == "cluster", rest[2] == "multicast", "".join(rest[3:])
    ),
    "noteadditions": lambda module, name, rest: emit_note_additions(module),
    "cancel": lambda module, name, rest: emit_cancel(module, rest[0] == "cluster"),
    "commit": lambda module, name, rest: emit_commit(module, rest[0] == "pair", rest[1] == "multicast"),
    "issuepending": lambda module, name, rest: pending_products.emit_issue(module),
    "groupissue": lambda module, name, rest: emit_issue(module),
    "groupcommit": lambda module, name, rest: emit_commit_group(module),
    "groupwait": lambda module, name, rest: emit_wait_group(module),
}
"""First part of a function's name -> the emitter of its code; all other functions move data between memory and rows."""


def _in_bytes(rest: list[str]) -> bool:
    return rest[-1:] == ["bytes"]


def _emit_turns(module: Module) -> None:
    emit_wait_group(module, internal=True)
    emit_turns(module)


def _emit_dispatch(module: Module) -> None:
    """``i32 dispatch(context, table)``: run the region that the table names for PC until it stops, and replay its rows.

    `COMPILE` means that there is no region, or that quick functions are to be optimised.
    """
    emit_switch_lanes(module)
    c, (context, table) = module.define("i32 dispatch(ptr context, ptr table)")
    with c.when(emit_is_called_often(c)):
        c.ret(COMPILE)
    head, known, missing, stopped, done = (c.label() for _ in range(5))
    c.jump(head)
    c.begin(head)
    region = table.load("ptr", context.word(Word.PC))
    c.branch(region.ne(0), known, missing)
    c.begin(known)
    status = c.call(region, "i32", context)
    c.branch(status.eq(CHAIN), head, stopped)
    c.begin(missing)
    c.ret(COMPILE)
    c.begin(stopped)
    with c.when(context.word(Word.EVENT_COUNT).ne(0)):
        emit_replay(c, context)
    c.branch(c.call("switchlanes", "i1", context, status), head, done)
    c.begin(done)
    c.ret(status)
