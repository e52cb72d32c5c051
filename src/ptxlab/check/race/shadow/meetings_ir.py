"""The compiled part of the sanitizer that handles arrivals and waits at the barrier of a cluster (`ClusterClock`).

It does what `Barriers` does for those that compiled code completes (`ptxlab.engine.turns.ClusterCell`).
"""

from __future__ import annotations

from functools import cache

from ptxlab import native
from ptxlab.check.model import Row
from ptxlab.check.race.clocks.cluster_clock import ClusterWord
from ptxlab.check.race.clocks.joins import running_agent
from ptxlab.check.race.shadow._clocks_ir import CLOCKS, emit_tick
from ptxlab.check.race.shadow.shadow_ir import AgentWord, StateWord
from ptxlab.engine.context import Word
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.native.builder import Function, Module, Value

__all__ = ["cluster_functions"]

_CARRIED = Row.TENSOR + 1
"""The rows that synchronisation objects carry."""
_EXPORTS = "arrives", "completed", "passes"
_CHUNK = 64
"""Bytes that are joined at a time."""


def cluster_functions() -> tuple[int, int, int]:
    """The addresses of the functions for `ptxlab.engine.turns.ClusterCell`."""
    arrives, completed, passes = map(_library().address, _EXPORTS)
    return arrives, completed, passes


@cache
def _library() -> native.Library:
    """The functions, compiled or from the cache."""
    return native.compile_ir(_ir(), _EXPORTS, opt=1, light=True)


def _ir() -> str:
    module = Module()
    _arrives(module)
    _completed(module)
    _passes(module)
    return module.text()


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
    agent = running_agent(c, context)
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
