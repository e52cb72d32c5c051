"""The compiled part of the sanitizer that processes the rows which warps have recorded."""

from __future__ import annotations

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race.shadow._clocks_ir import CLOCKS, DONE, PYTHON, SLOT, complete_read_loads, emit_advance, emit_tick, own_clock
from ptxlab.check.race.shadow._mbarriers_ir import emit_mbarrier_functions
from ptxlab.check.race.shadow._spans_ir import AHEAD, emit_prefetch
from ptxlab.check.race.shadow._warpgroups_ir import emit_warpgroup_functions
from ptxlab.check.race.shadow.issue_ir import as_running
from ptxlab.check.race.shadow.shadow_words import (
    ACCESSES_TOO,
    ALL_COPIES,
    BULK_COMMIT,
    BULK_SOURCES,
    BULK_WAIT,
    COMMIT,
    COPY_ACCESS,
    COPY_WAIT,
    HANDLED,
    HOW_SHIFT,
    INIT_FENCE,
    MBARRIER_ARRIVAL,
    MBARRIER_WAIT,
    OP_WORDS,
    PROXY_FENCES,
    READS_TOO,
    TENSOR_COMMIT,
    TENSOR_FENCES,
    TENSOR_WAITS,
    TRANSFER,
    WARPGROUP_COMMIT,
    WARPGROUP_FENCE,
    WARPGROUP_SHARE,
    WARPGROUP_WAIT,
    AgentWord,
    BulkWord,
    OpWord,
    StateWord,
)
from ptxlab.check.race.shadow.transfers import COLUMN_BYTES, TransferWord
from ptxlab.engine.context import Word
from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_drain", "emit_replay"]

_ROW_BYTES = 8 * ROW_WORDS
_STORE, _SILENT = Kind.GENERIC << 1 | 1, Kind.SILENT << 1 | 1


_LANE_BYTES = 4
_SUSPECT = 2
"""The result of ``transfer``, besides `DONE` and `PYTHON`, if something is to be judged before what follows."""


def emit_drain(module: Module) -> None:
    """``i64 drain(state)``: process rows in order (`StateWord.DRAINED`); return the index of a row that Python handles, or ``count``.

    If what a row of a transfer accesses is suspect, return ~ its index: it is recorded, and `TensorMemoryAccesses.recorded` follows.
    """
    _accesses(module)
    _transfer(module)
    _wait(module)
    _copy_wait(module)
    emit_mbarrier_functions(module)
    emit_warpgroup_functions(module)
    _bulk_step(module)
    c = Function(module, "drain", "i64", "ptr state")
    state = c["state"]
    rows, start, count = state.pointer(StateWord.DRAINED), state.word(StateWord.DRAINED + 1), state.word(StateWord.DRAINED + 2)
    ops, agent = state.pointer(StateWord.OPS), state.pointer(StateWord.AGENT)
    own, own_slot = own_clock(state), state.word(StateWord.SLOT) << 32
    with c.loop(count - start) as i:
        index = start + i
        row = rows.at(index * _ROW_BYTES)
        head = row.load("i64")
        op = head & 0xFFFFFFFF
        info = ops.at(op * (8 * OP_WORDS))
        how, size = info.load("i64"), info.load("i64", 1)
        copy = (how & COPY_ACCESS).ne(0)
        size = copy.select(row.load("i64", 1), size)
        who = c.variable("i64", own_slot | own.load("i32").to("i64"))
        with c.when(copy):
            clock = agent.word(AgentWord.COPY_CLOCK)
            agent.set_word(AgentWord.COPIED, clock)
            who.set((agent.word(AgentWord.COPY_SLOT) << 32) | clock)
        with c.when(((how & HANDLED).eq(0) | (how & ACCESSES_TOO).ne(0)) & size.ne(0)):
            c.call("accesses", "void", state, row, who.get(), op, how & (31 | READS_TOO), size)
        with c.when((how & COMMIT).ne(0)):
            _commit_copies(agent)
        python = c.variable("i64", how & HANDLED)
        with c.when((how & TRANSFER).ne(0)):
            outcome = c.call("transfer", "i64", state, row, op, info)
            with c.when(outcome.eq(_SUSPECT)):
                c.ret(~index)
            python.set(outcome)
        with c.when((how & sum(TENSOR_WAITS.values())).ne(0)):
            python.set(c.call("wait", "i64", state, row, how))
        with c.when((how & COPY_WAIT).ne(0)):
            python.set(c.call("copy_wait", "i64", state, info))
        with c.when((how & MBARRIER_WAIT).ne(0)):
            python.set(c.call("mbarrier_wait", "i64", state, row))
        with c.when((how & MBARRIER_ARRIVAL).ne(0)):
            python.set(c.call("mbarrier_arrival", "i64", state, row, info))
        with c.when((how & TENSOR_COMMIT).ne(0)):
            python.set(c.call("tensor_commit", "i64", state, row))
        with c.when((how & INIT_FENCE).ne(0)):
            python.set(agent.word(AgentWord.INIT_FENCED).eq(0).to("i64"))
        with c.when((how & (WARPGROUP_SHARE | WARPGROUP_COMMIT | WARPGROUP_WAIT)).ne(0)):
            python.set(c.call("group_step", "i64", state, info))
        with c.when((how & (BULK_COMMIT | BULK_WAIT)).ne(0)):
            waits = ((how & BULK_WAIT).ne(0) & state.word(StateWord.SUSPECT_COUNT).ne(0)).to("i64")
            with c.when(waits.eq(0)):
                c.call("bulk_step", "void", state, head >> 32, info)
            python.set(waits)
        with c.when((how & WARPGROUP_FENCE).ne(0)):
            python.set(_parted(state, row))
        with c.when((how & sum(TENSOR_FENCES.values())).ne(0)):
            python.set(_tensor_fence(c, state, how))
        fence, suspect = (how & sum(PROXY_FENCES.values())).ne(0), state.word(StateWord.SUSPECT_COUNT).ne(0)
        with c.when(python.get().ne(0) | (fence & suspect)):
            c.ret(index)
        with c.when(fence):
            _proxy_fence(c, state, how)
    c.ret(count)


def emit_replay(module: Module, quick: bool) -> None:
    """``void replay(context, agent)``: process the rows of the warp that has run (`Word.EVENT_REPLAY`, `AgentWord`).

    It leaves them to Python where Python handles one (`StateWord.REPLAYED`), or at once if it has left them before, if the table of
    objects is not complete, or if ``quick`` functions have processed enough rows.
    """
    c = Function(module, "replay", "void", "ptr context, ptr agent")
    context, agent = c.parameters
    state, count = agent.pointer(AgentWord.STATE), context.word(Word.EVENT_COUNT)
    with c.when(state.word(StateWord.READY).eq(0) | state.word(StateWord.REPLAYED).ne(0)):
        c.ret()
    if quick:
        left = state.pointer(StateWord.QUICK_ROWS)
        rest = left.load("i64") - count
        left.store(rest)
        with c.when(rest.lt(0)):
            c.ret()
    with as_running(state, agent):
        for at, value in enumerate((context.word(Word.EVENTS), c.const("i64", 0), count)):
            state.set_word(StateWord.DRAINED + at, value)
        stopped = c.call("drain", "i64", state)
    with c.when(stopped.eq(count) & state.word(StateWord.SUSPECT_COUNT).eq(0)) as otherwise:
        context.set_word(Word.EVENT_COUNT, 0)
        otherwise()
        state.set_word(StateWord.REPLAYED, 1)
        state.set_word(StateWord.STOPPED, stopped)
    c.ret()


def _proxy_fence(c: Function, state: Value, how: Value) -> None:
    """The same as `Clocks.proxy_fence`."""
    for row, bit in PROXY_FENCES.items():
        with c.when((how & bit).ne(0)):
            _join(c, state, row, Row.EXECUTION)
    emit_tick(state)


def _tensor_fence(c: Function, state: Value, how: Value) -> Value:
    """The same as `Clocks.before_thread_sync` and `Clocks.after_thread_sync`; not 0, and nothing is done, if accesses are suspect."""
    suspect = state.word(StateWord.SUSPECT_COUNT)
    for before, row, other in ((True, Row.RELEASED, Row.TENSOR), (False, Row.TENSOR, Row.ACQUIRED)):
        with c.when(suspect.eq(0) & (how & TENSOR_FENCES[before]).ne(0)):
            _join(c, state, row, other)
    return suspect


def _join(c: Function, state: Value, row: int, other: int) -> None:
    """Raise a row of the running agent's clock to another one."""
    rows, width = state.pointer(StateWord.ROWS), state.word(StateWord.WIDTH)
    with c.loop(width >> 4) as i:
        place, known = (rows.at(width * (4 * each) + (i << 6)) for each in (row, other))
        place.store(known.load(CLOCKS).intrinsic("umax", place.load(CLOCKS)))


def _transfer(module: Module) -> None:
    """``i64 transfer(state, row, op, info)``: record a tcgen05.ld or tcgen05.st, as `TensorMemoryAccesses.record` does.

    The result is PYTHON if nothing has been recorded, _SUSPECT if something is to be judged before what follows.
    """
    c = Function(module, "transfer", "i64", "ptr state, ptr row, i64 op, ptr info", internal=True)
    state, row, op, info = c.parameters
    transfers, how = state.pointer(StateWord.AGENT).pointer(AgentWord.TRANSFERS), info.load("i64")
    write = (how & 1).ne(0)
    loads = transfers.word(TransferWord.LOADS)
    own = transfers.at(write.select(c.const("i64", 8 * TransferWord.STORE_SLOT), 8 * TransferWord.LOAD_SLOT))
    slot = own.load("i64")
    full = ~write & loads.uge(TransferWord.MOST)
    with c.when(slot.eq(0) | full | state.word(StateWord.SUSPECT_COUNT).ne(0)):
        c.ret(PYTHON)
    with c.when(write):  # it may have read the registers of loads
        complete_read_loads(c, state, transfers, op, PYTHON)
    clock = own.load("i64", 1) + 1
    own.store(clock, 1)
    with c.when(~write):
        place = transfers.at((loads << 4) + 8 * (TransferWord.LOADS + 1))
        place.store(op)
        place.store(clock, 1)
        transfers.set_word(TransferWord.LOADS, loads + 1)
    state.set_word(StateWord.TRANSFERRED, 1)
    address, table = row.load("i64", 1), info.pointer(OpWord.DETAIL)
    count, size = table.load("i64"), table.load("i64", 1)
    first = transfers.word(TransferWord.BASE) + (address & 0xFFFF) * COLUMN_BYTES + ((address >> 16) & 31) * _LANE_BYTES
    who, what = (slot << 32) | clock, op | ((how & 31) << HOW_SHIFT)
    with c.loop(count) as i:
        ahead = i + AHEAD
        emit_prefetch(state, first + table.load("i64", ahead.ult(count).select(ahead, 0) + 2))
        c.call("span", "void", state, first + table.load("i64", i + 2), size, who, what)
    with c.when(state.word(StateWord.SUSPECT_COUNT).ne(0)):
        c.ret(_SUSPECT)
    with c.when(write):
        number = slot & SLOT
        issued = state.pointer(StateWord.ROWS).at((state.word(StateWord.WIDTH) * Row.TENSOR + number + Component.EARLY) << 2)
        issued.store(clock.to("i32"))
    c.ret(DONE)


def _parted(state: Value, row: Value) -> Value:
    """Not 0 if some threads of the warp do not execute an aligned instruction, or if there is already such an instruction."""
    context = state.pointer(StateWord.AGENT).pointer(AgentWord.CONTEXT)
    missing = context.word(Word.LIVE) & ~context.word(Word.EXITED) & ~(row.load("i64") >> 32)
    return missing | state.word(StateWord.PARTED)


def _wait(module: Module) -> None:
    """``i64 wait(state, row, how)``: a tcgen05.wait, as `wait_for_transfers` does; PYTHON if nothing has been done."""
    c = Function(module, "wait", "i64", "ptr state, ptr row, i64 how", internal=True)
    state, row, how = c.parameters
    transfers = state.pointer(StateWord.AGENT).pointer(AgentWord.TRANSFERS)
    write = (how & TENSOR_WAITS[True]).ne(0)
    suspects = state.word(StateWord.SUSPECT_COUNT)
    with c.when((_parted(state, row) | suspects | write.select(0, transfers.word(TransferWord.HELD))).ne(0)):
        c.ret(PYTHON)
    own = transfers.at(write.select(c.const("i64", 8 * TransferWord.STORE_SLOT), 8 * TransferWord.LOAD_SLOT))
    slot, clock = own.load("i64"), own.load("i64", 1).to("i32")
    with c.when(slot.ne(0)):
        for component in Component:
            emit_advance(state, slot, component, clock)
    with c.when(~write):
        transfers.set_word(TransferWord.LOADS, 0)
    c.ret(DONE)


def _commit_copies(agent: Value) -> None:
    """The cp.async of an agent that follow are of another group."""
    for word in (AgentWord.COPY_CLOCK, AgentWord.COPY_GROUPS):
        agent.set_word(word, agent.word(word) + 1)


def _copy_wait(module: Module) -> None:
    """``i64 copy_wait(state, info)``: a cp.async.wait_group or cp.async.wait_all, as its handler does; PYTHON if nothing has been done."""
    c = Function(module, "copy_wait", "i64", "ptr state, ptr info", internal=True)
    state, info = c.parameters
    agent = state.pointer(StateWord.AGENT)
    everything = info.word(OpWord.DETAIL).eq(ALL_COPIES)
    pending = everything.select(0, info.word(OpWord.DETAIL))
    too_many = ~everything & pending.uge(agent.word(AgentWord.COPY_GROUPS))
    with c.when(too_many | agent.word(AgentWord.COPY_SLOT).eq(0) | state.word(StateWord.SUSPECT_COUNT).ne(0)):
        c.ret(PYTHON)
    with c.when(everything):
        _commit_copies(agent)
    clock = agent.word(AgentWord.COPY_CLOCK) - 1 - pending
    emit_advance(state, agent.word(AgentWord.COPY_SLOT), Component.DONE, clock.to("i32"))
    c.ret(DONE)


def _bulk_step(module: Module) -> None:
    """``void bulk_step(state, lanes, info)``: lanes of the running agent commit groups of bulk copies, or wait for them."""
    c, (state, lanes, info) = module.define("void bulk_step(ptr state, i64 lanes, ptr info)")
    agent, how, pending = state.pointer(StateWord.AGENT), info.word(OpWord.HOW), info.word(OpWord.DETAIL)
    for kind in (AgentWord.BULK_READS, AgentWord.BULK_GROUPS):
        table = agent.pointer(kind)
        with c.when(table.ne(0)), c.each_bit(lanes) as lane:
            slot = table.at(lane * (8 * BulkWord.END))
            name, count, size, ends = *map(slot.word, (BulkWord.NAME, BulkWord.COMMITTED, BulkWord.ENDS_SIZE)), slot.pointer(BulkWord.ENDS)
            with c.when(name.ne(0)), c.when((how & BULK_COMMIT).ne(0)) as otherwise:
                ends.store(slot.word(BulkWord.CLOCK), count & (size - 1))
                slot.set_word(BulkWord.COMMITTED, count + 1)
                otherwise()
                with c.when(count.ugt(pending) & pending.ult(size)):
                    number = ends.load("i64", (count - 1 - pending) & (size - 1)).to("i32")
                    emit_advance(state, name, Component.EARLY, number)
                    with c.when((how & BULK_SOURCES).eq(0)):
                        emit_advance(state, name, Component.DONE, number)
    c.ret()


def _accesses(module: Module) -> None:
    """``void accesses(state, row, who, op, how, size)``: record the accesses of a row; contiguous ones are one range."""
    c = Function(module, "accesses", "void", "ptr state, ptr row, i64 who, i64 op, i64 how, i64 size", internal=True)
    state, row, who, op, how, size = c.parameters
    lanes, silent = row.load("i64") >> 32, row.load("i64", 1)
    with c.when(lanes.eq(0xFFFFFFFF) & (how.ne(_STORE) | silent.eq(0))):
        first, length = _block(c, row, size)
        with c.when(length.ne(0)):
            c.call("span", "void", state, first, length, who, op | (how << HOW_SHIFT))
            c.ret()
    _each_lane(c, state, row, (who, op, how, size), lanes, silent)


def _block(c: Function, row: Value, size: Value) -> tuple[Value, Value]:
    """The address and the size of the bytes that 32 lanes access, in any order, if they are contiguous; otherwise the size is 0."""
    addresses = row.load("<32 x i64>", 2)
    first = addresses.reduce("umin")
    offsets = addresses - first
    reach = offsets.reduce("or")
    places = offsets >> size.lowest_bit()
    bits = (c.const("<32 x i64>", 1) << (places & 63)).reduce("or")
    regular = (size & (size - 1)).eq(0) & (reach & (size - 1)).eq(0) & reach.ult(size << 6) & (bits & (bits + 1)).eq(0)
    return first, regular.select(bits.intrinsic("ctpop") * size, 0)


def _each_lane(c: Function, state: Value, row: Value, access: tuple[Value, Value, Value, Value], lanes: Value, silent: Value) -> None:
    """The accesses of a row lane by lane."""
    who, op, how, size = access
    begin, length, kind = (c.variable("i64", 0) for _ in range(3))

    def end_range() -> None:
        known = length.get()
        with c.when(known.ne(0)):
            c.call("span", "void", state, begin.get(), known, who, kind.get())

    with c.each_bit(lanes.to("i32")) as lane:
        is_silent = how.eq(_STORE) & ((silent >> lane) & 1).ne(0)
        what = op | (is_silent.select(_SILENT, how) << HOW_SHIFT)
        address = row.at(16).load("i64", lane)
        first, known = begin.get(), length.get()
        # Swizzles exchange neighbouring addresses.
        below, above = (address + size).eq(first), address.eq(first + known)
        with c.when(~(below | above) | what.ne(kind.get())):
            end_range()
            length.set(0)
            kind.set(what)
        begin.set((above & length.get().ne(0)).select(first, address))
        length.set(length.get() + size)
    end_range()
