"""The compiled functions of the sanitizer for operations of warpgroups: each warp executes its share, the operation follows all of them."""

from __future__ import annotations

from ptxlab.check.model import Component, Row
from ptxlab.check.race.clocks.warpgroup_clock import WARPS, WarpgroupWord
from ptxlab.check.race.shadow._clocks_ir import CLOCKS, DONE, PYTHON, emit_advance
from ptxlab.check.race.shadow.shadow_words import WARPGROUP_COMMIT, WARPGROUP_SHARE, AgentWord, BulkWord, OpWord, StateWord
from ptxlab.engine.context import Word
from ptxlab.native.builder import Module, Value

__all__ = ["emit_warpgroup_functions", "joined_rows"]


def emit_warpgroup_functions(module: Module) -> None:
    """``group_step``, for rows and for Python, and ``group_issue``."""
    _join(module)
    _share(module)
    _commit(module)
    _wait(module)
    _step(module)
    _is_end(module)
    _is_needed(module)
    _issue(module)


def _step(module: Module) -> None:
    """``i64 group_step(state, info)``: the running agent has executed its share, committed a group or waited.

    The result is PYTHON, and nothing has been done, if a suspect is to be judged, or the arrays are too small (`WarpgroupClock.enlarge`).
    """
    c, (state, info) = module.define("i64 group_step(ptr state, ptr info)")
    agent, how = state.pointer(StateWord.AGENT), info.word(OpWord.HOW)
    group, context = agent.pointer(AgentWord.WARPGROUP), agent.pointer(AgentWord.CONTEXT)
    with c.when(group.eq(0) | state.word(StateWord.SUSPECT_COUNT).ne(0)):
        c.ret(PYTHON)
    member = context.word(Word.QUADRANT)
    with c.when((how & WARPGROUP_SHARE).ne(0)):
        c.ret(c.call("group_share", "i64", state, group, member))
    with c.when((how & WARPGROUP_COMMIT).ne(0)):
        c.call("group_commit", "void", group, member)
        c.ret(DONE)
    c.call("group_wait", "void", state, group, member, info.word(OpWord.DETAIL))
    c.ret(DONE)


def _slot_word(group: Value, word: int, member: Value) -> Value:
    """Where a word of a warp is, of which the first one is that of the first warp."""
    return group.at((member + word) << 3)


def joined_rows(state: Value, group: Value, number: Value) -> Value:
    """Where the rows are of the operation with a number."""
    place = number & (group.word(WarpgroupWord.PLACES) - 1)
    return group.pointer(WarpgroupWord.JOINED).at(place * state.word(StateWord.WIDTH) * (4 * len(Row)))


def _join(module: Module) -> None:
    """``void group_join(state, group, number)``: what is before the running agent is before the operation with a number, too."""
    c, (state, group, number) = module.define("void group_join(ptr state, ptr group, i64 number)", internal=True)
    tag = group.pointer(WarpgroupWord.TAGS).at((number & (group.word(WarpgroupWord.PLACES) - 1)) << 3)
    is_known, rows, own = tag.word(0).eq(number), joined_rows(state, group, number), state.pointer(StateWord.ROWS)
    with c.loop((state.word(StateWord.WIDTH) >> 4) * len(Row)) as i:
        place = rows.at(i << 6)
        before = is_known.select(place.load(CLOCKS), c.const(CLOCKS, 0))
        place.store(before.intrinsic("umax", own.at(i << 6).load(CLOCKS)))
    tag.set_word(0, number)
    c.ret()


def _share(module: Module) -> None:
    """``i64 group_share(state, group, member)``; the last share has issued the operation before."""
    c, (state, group, member) = module.define("i64 group_share(ptr state, ptr group, i64 member)", internal=True)
    executed, clock = _slot_word(group, WarpgroupWord.EXECUTED, member), group.word(BulkWord.CLOCK)
    number = executed.word(0) + 1
    with c.when(number.gt(clock)):
        narrow = group.word(WarpgroupWord.WIDTH).ne(state.word(StateWord.WIDTH))
        with c.when(narrow | (number - clock).gt(group.word(WarpgroupWord.PLACES))):
            c.ret(PYTHON)
        c.call("group_join", "void", state, group, number)
    executed.set_word(0, number)
    c.ret(DONE)


def _ring(group: Value, member: Value) -> tuple[Value, Value]:
    """The ring of a warp's groups, and its size."""
    size = group.word(WarpgroupWord.ENDS_SIZE)
    return group.pointer(WarpgroupWord.ENDS).at(member * size << 3), size


def _commit(module: Module) -> None:
    """``void group_commit(group, member)``."""
    c, (group, member) = module.define("void group_commit(ptr group, i64 member)", internal=True)
    (ring, size), committed = _ring(group, member), _slot_word(group, WarpgroupWord.COMMITTED, member)
    count = committed.word(0)
    ring.store(_slot_word(group, WarpgroupWord.EXECUTED, member).word(0), count & (size - 1))
    committed.set_word(0, count + 1)
    c.ret()


def _wait(module: Module) -> None:
    """``void group_wait(state, group, member, pending)``: all groups but the newest ``pending`` are complete.

    A complete operation implies that each warp of the warpgroup has executed its share; it does not release their accesses.
    """
    c, (state, group, member, pending) = module.define("void group_wait(ptr state, ptr group, i64 member, i64 pending)", internal=True)
    ring, size = _ring(group, member)
    stop = _slot_word(group, WarpgroupWord.COMMITTED, member).word(0) - pending
    with c.when(stop.le(0) | pending.uge(size)):
        c.ret()
    number = ring.load("i64", (stop - 1) & (size - 1))
    emit_advance(state, group.word(BulkWord.NAME), Component.DONE, number.to("i32"))
    first, mask, warps = group.word(WarpgroupWord.FIRST), group.word(WarpgroupWord.PLACES) - 1, group.word(WarpgroupWord.CLUSTER_WARPS)
    with c.loop(group.word(WarpgroupWord.LAST) - first) as i:
        place = (first + i) & mask
        with c.when(group.pointer(WarpgroupWord.NUMBERS).load("i64", place).eq(number)):
            reached = group.pointer(WarpgroupWord.REACHED).at(place * warps << 2)
            with c.loop(warps) as warp:
                known = _early_clock(state.pointer(StateWord.ROWS), warp)
                known.store(known.load("i32").intrinsic("umax", reached.load("i32", warp)))
    c.ret()


def _early_clock(rows: Value, warp: Value) -> Value:
    """Where rows have the early clock of a warp of the cluster: the slots before those of the warps are that of the grid before."""
    return rows.at(((warp + 1) * len(Component) + Component.EARLY) << 2)


def _is_end(module: Module) -> None:
    """``i64 group_is_end(group, number)``: whether a warp may still wait for a group whose last operation has this number."""
    c, (group, number) = module.define("i64 group_is_end(ptr group, i64 number)", internal=True)
    with c.loop(WARPS) as member:
        (ring, size), count = _ring(group, member), _slot_word(group, WarpgroupWord.COMMITTED, member).word(0)
        with c.loop(count.lt(size).select(count, size)) as i, c.when(ring.load("i64", i).eq(number)):
            c.ret(1)
    c.ret(0)


def _is_needed(module: Module) -> None:
    """``i64 group_is_needed(group, number)``: whether a warp may still wait for a group whose last operation is not after this one."""
    c, (group, number) = module.define("i64 group_is_needed(ptr group, i64 number)", internal=True)
    with c.loop(WARPS) as member:
        (ring, size), count = _ring(group, member), _slot_word(group, WarpgroupWord.COMMITTED, member).word(0)
        oldest = c.variable("i64", _slot_word(group, WarpgroupWord.EXECUTED, member).word(0))
        with c.when(count.ne(0)):
            oldest.set(ring.load("i64", count.gt(size).select(count, 0) & (size - 1)))
        with c.when(oldest.get().le(number)):
            c.ret(1)
    c.ret(0)


def _issue(module: Module) -> None:
    """``i64 group_issue(state, op)``: the running agent executes the last share, which issues the next operation.

    What is before all of them is kept for the newest one (`joined_rows`). The result is PYTHON as that of ``group_step`` is.
    """
    c, (state, op) = module.define("i64 group_issue(ptr state, i64 op)")
    group = state.pointer(StateWord.AGENT).pointer(AgentWord.WARPGROUP)
    with c.when(group.eq(0)):
        c.ret(PYTHON)
    with c.when(group.word(WarpgroupWord.WIDTH).ne(state.word(StateWord.WIDTH))):
        c.ret(PYTHON)
    number, places = group.word(BulkWord.CLOCK) + 1, group.word(WarpgroupWord.PLACES)
    numbers, first, last = group.pointer(WarpgroupWord.NUMBERS), group.word(WarpgroupWord.FIRST), group.word(WarpgroupWord.LAST)
    at = c.variable("i64", last)
    is_newest = last.gt(first) & numbers.load("i64", (last - 1) & (places - 1)).eq(number - 1)
    with c.when(is_newest), c.when(c.call("group_is_end", "i64", group, number - 1).eq(0)):
        at.set(last - 1)
    place = at.get()
    with c.when((place - first).eq(places)):
        with c.when(c.call("group_is_needed", "i64", group, numbers.load("i64", first & (places - 1))).ne(0)):
            c.ret(PYTHON)
        group.set_word(WarpgroupWord.FIRST, first + 1)
    c.call("group_join", "void", state, group, number)
    place, warps, rows = at.get() & (places - 1), group.word(WarpgroupWord.CLUSTER_WARPS), joined_rows(state, group, number)
    reached = group.pointer(WarpgroupWord.REACHED).at(place * warps << 2)
    with c.loop(warps) as warp:
        reached.store(_early_clock(rows, warp).load("i32"), warp)
    numbers.store(number, place)
    group.set_words({WarpgroupWord.LAST: at.get() + 1, BulkWord.CLOCK: number, BulkWord.OP: op})
    c.ret(DONE)
