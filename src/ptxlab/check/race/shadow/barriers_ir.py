"""The compiled part of the sanitizer that handles barriers of CTAs and of clusters which compiled code completes.

It does what `Barriers` does for the others (`ptxlab.engine.turns.words.BarrierCell`, `ptxlab.engine.turns.words.ClusterCell`).
"""

from __future__ import annotations

from functools import cache

from ptxlab import native
from ptxlab.check.model import Row
from ptxlab.check.race.clocks.cluster_clock import ClusterWord
from ptxlab.check.race.shadow._clocks_ir import CLOCKS, complete_read_loads, emit_tick
from ptxlab.check.race.shadow.shadow_words import AgentWord, StateWord
from ptxlab.engine.context import Word
from ptxlab.engine.turns.words import MOST_WARPS
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.native.builder import Function, Module, Value

__all__ = ["barrier_functions", "cluster_functions"]

_CARRIED = Row.TENSOR + 1
"""The rows that synchronisation objects carry."""
_OF_CTA, _OF_CLUSTER = ("may_block", "joins"), ("arrives", "completed", "passes")
_CHUNK = 64
"""Bytes that are joined at a time."""


def barrier_functions() -> tuple[int, int]:
    """The addresses of the functions for `ptxlab.engine.turns.words.BarrierCell`."""
    may_block, joins = map(_library().address, _OF_CTA)
    return may_block, joins


def cluster_functions() -> tuple[int, int, int]:
    """The addresses of the functions for `ptxlab.engine.turns.words.ClusterCell`."""
    arrives, completed, passes = map(_library().address, _OF_CLUSTER)
    return arrives, completed, passes


@cache
def _library() -> native.Library:
    """The functions, compiled or from the cache."""
    return native.compile_ir(_ir(), (*_OF_CTA, *_OF_CLUSTER), opt=1, light=True)


def _ir() -> str:
    module = Module()
    _may_block(module)
    _joins(module)
    _arrives(module)
    _completed(module)
    _passes(module)
    return module.finish()


def _running_agent(c: Function, context: Value) -> Value:
    """The words of a warp (`AgentWord`); the function returns 0 if Python must process rows or loads from tensor memory first."""
    agent = context.pointer(Word.EVENT_REPLAY)
    with c.when(agent.eq(0)):
        c.ret(0)
    complete_read_loads(c, _header(agent), agent.pointer(AgentWord.TRANSFERS), context.word(Word.INFO), 0)
    return agent


def _may_block(module: Module) -> None:
    """``i32 may_block(context)``: whether nothing but a join follows from the arrival of a warp at a barrier of its CTA."""
    c, (context,) = module.define("i32 may_block(ptr context)")
    _running_agent(c, context)
    c.ret(1)


def _joins(module: Module) -> None:
    """``void joins(waiting, blocked, last)``: join the clocks of warps that have arrived at a barrier of their CTA, and advance each."""
    c, (waiting, blocked, last) = module.define("void joins(ptr waiting, i64 blocked, ptr last)")
    own = _header(last.pointer(Word.EVENT_REPLAY))
    rows, others = own.pointer(StateWord.ROWS), c.stack(f"[{MOST_WARPS} x ptr]")
    with c.loop(blocked) as i:
        others.store(_header(waiting.load("ptr", i).pointer(Word.EVENT_REPLAY)).pointer(StateWord.ROWS), i)
    with c.loop(own.word(StateWord.WIDTH) * (4 * _CARRIED), _CHUNK, entered=True) as at:
        latest = c.variable(CLOCKS, rows.at(at).load(CLOCKS))
        with c.loop(blocked) as i:
            latest.set(latest.get().intrinsic("umax", others.load("ptr", i).at(at).load(CLOCKS)))
        rows.at(at).store(latest.get())
        with c.loop(blocked) as i:
            others.load("ptr", i).at(at).store(latest.get())
    emit_tick(own)
    with c.loop(blocked) as i:
        emit_tick(_header(waiting.load("ptr", i).pointer(Word.EVENT_REPLAY)))
    c.ret()


def _header(agent: Value) -> Value:
    """Words of an agent that stand as those of the state do which say who runs, from `StateWord.ROWS` on."""
    return agent.at(8 * AgentWord.HEADER)


def _join(c: Function, target: Value, source: Value, first: Value | int, size: Value) -> None:
    """Join some bytes of rows, from ``first`` on."""
    with c.loop(size, _CHUNK, start=first, entered=True) as at:
        place = target.at(at)
        place.store(place.load(CLOCKS).intrinsic("umax", source.at(at).load(CLOCKS)))


def _arrives(module: Module) -> None:
    """``i32 arrives(context, about, relaxed)``: a warp releases what it has done; 0, and nothing is done, if Python must handle it.

    A relaxed arrival releases what a fence has released, and the order of execution alone.
    """
    c, (context, about, relaxed) = module.define("i32 arrives(ptr context, ptr about, i64 relaxed)")
    agent = _running_agent(c, context)
    state = _header(agent)
    rows, row, gathered = state.pointer(StateWord.ROWS), state.word(StateWord.WIDTH) << 2, about.pointer(ClusterWord.GATHERED)
    with c.when(relaxed.ne(0)) as otherwise:
        fenced = agent.pointer(AgentWord.FENCED)
        with c.when(fenced.ne(0)):
            with c.when(agent.word(AgentWord.FENCED_WIDTH).ne(state.word(StateWord.WIDTH))):
                c.ret(0)
            _join(c, gathered, fenced, 0, row * _CARRIED)
        _join(c, gathered, rows, row * Row.TENSOR, row * _CARRIED)
        _join(c, about.pointer(ClusterWord.SEEN), rows.at(row * Row.EXECUTION), 0, row)
        otherwise()
        _join(c, gathered, rows, 0, row * _CARRIED)
    emit_tick(state)
    c.ret(1)


def _completed(module: Module) -> None:
    """``void completed(about)``: the phase is over."""
    c, (about,) = module.define("void completed(ptr about)")
    gathered, done = about.word(ClusterWord.GATHERED), about.word(ClusterWord.DONE)
    about.set_words({ClusterWord.GATHERED: done, ClusterWord.DONE: gathered})
    with c.loop(about.word(ClusterWord.SIZE), _CHUNK, entered=True) as at:
        about.pointer(ClusterWord.GATHERED).at(at).store(c.const(CLOCKS, 0))
    c.ret()


def _passes(module: Module) -> None:
    """``void passes(context, about)``: a warp acquires what has been released, and sees the relaxed arrivals."""
    c, (context, about) = module.define("void passes(ptr context, ptr about)")
    state = _header(context.pointer(Word.EVENT_REPLAY))
    row, seen = state.word(StateWord.WIDTH) << 2, about.pointer(ClusterWord.SEEN)
    _join(c, state.pointer(StateWord.ROWS), about.pointer(ClusterWord.DONE), 0, row * _CARRIED)
    own = seen.at(row * ((context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT) + 1))
    _join(c, own, seen, 0, row)
    c.ret()
