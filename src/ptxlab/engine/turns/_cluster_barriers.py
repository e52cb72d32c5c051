"""Compiled code counts arrivals at the barrier of a cluster, and blocks and continues warps there (`ClusterCell`).

It does what `ptxlab.machine.schedule.barriers.ClusterBarrier` does, for all lanes of a warp together.
"""

from __future__ import annotations

from ptxlab.engine.context import BY_CLUSTER, Status, Word
from ptxlab.engine.turns.emission import count_service, end_turn, resume_waiters
from ptxlab.engine.turns.words import RELAXED, ClusterCell, TurnWord
from ptxlab.native.builder import Function, Value

__all__ = ["emit_cluster_arrival", "emit_cluster_wait"]


def emit_cluster_arrival(c: Function, warp: Value, words: Value, cluster: Value, arrival: Value) -> None:
    """All lanes of a warp arrive; the function returns where the machine must handle the arrival."""
    op, lanes, phase, arrived_lanes = warp.word(Word.INFO), warp.word(Word.ACTIVE), cluster.word(ClusterCell.PHASE), _arrived(warp)
    arrived = cluster.word(ClusterCell.ARRIVED) + lanes.intrinsic("ctpop")
    is_last = arrived.uge(cluster.word(ClusterCell.LIVE))
    with c.when((lanes & arrived_lanes).ne(0) | (is_last & cluster.word(ClusterCell.AWAITED).ne(0))):
        c.ret(Status.SERVICE)
    arrives, about = cluster.pointer(ClusterCell.ARRIVES), cluster.pointer(ClusterCell.ABOUT)
    with c.when(arrives.ne(0)), c.when(c.call(arrives, "i32", warp, about, arrival & RELAXED).eq(0)):
        c.ret(Status.SERVICE)
    count_service(words, op)
    words.set_word(TurnWord.ARRIVED, words.word(TurnWord.ARRIVED) + 1)
    own = (phase & 1) + Word.CLUSTER_LANES
    warp.store(warp.load("i64", own) | lanes, own)
    with c.when(is_last) as otherwise:
        completed = cluster.pointer(ClusterCell.COMPLETED)
        with c.when(completed.ne(0)):
            c.call(completed, "void", about)
        resume_waiters(c, cluster.at(8 * ClusterCell.WAITERS), lambda _: c.const("i1", 1))
        cluster.set_words({ClusterCell.ARRIVED: 0, ClusterCell.PHASE: phase + 1})
        otherwise()
        cluster.set_word(ClusterCell.ARRIVED, arrived)


def emit_cluster_wait(c: Function, warp: Value, words: Value, cluster: Value) -> Value:
    """All lanes of a warp wait. Whether it is blocked; the function returns where the machine must handle the wait."""
    op, lanes, phase = warp.word(Word.INFO), warp.word(Word.ACTIVE), cluster.word(ClusterCell.PHASE)
    with c.when((lanes & ~_arrived(warp)).ne(0)):
        c.ret(Status.SERVICE)
    count_service(words, op)
    own = (phase & 1) + Word.CLUSTER_LANES
    is_blocked = (warp.load("i64", own) & lanes).ne(0)
    with c.when(is_blocked) as otherwise:
        first = cluster.pointer(ClusterCell.WAITERS)
        with c.when(first.ne(0)) as no_other:
            cluster.pointer(ClusterCell.LAST_WAITER).store(warp, Word.NEXT_WAITER)
            no_other()
            cluster.store(warp, ClusterCell.WAITERS)
        cluster.store(warp, ClusterCell.LAST_WAITER)
        warp.set_words({Word.NEXT_WAITER: 0, Word.AWAITS: BY_CLUSTER})
        end_turn(c, warp, words)
        otherwise()
        passes = cluster.pointer(ClusterCell.PASSES)
        with c.when(passes.ne(0)):
            c.call(passes, "void", warp, cluster.pointer(ClusterCell.ABOUT))
        before = own ^ 1
        warp.store(warp.load("i64", before) & ~lanes, before)
    return is_blocked


def _arrived(warp: Value) -> Value:
    """The lanes that have arrived and not waited."""
    return warp.word(Word.CLUSTER_LANES) | warp.word(Word.CLUSTER_LANES + 1)
