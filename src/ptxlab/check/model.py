"""The memory model that the sanitizer checks a launch against, in the order of the specification's sections.

Agents are warps and asynchronous operations. The accesses of an agent are numbered by the clock of a *slot*. A slot has two *components*:
`DONE` counts its accesses that are known to be performed; `EARLY` is a weaker bound that is enough for some pairs of accesses. The vector
clock of a warp has several *rows*, each with an entry for every slot. An access of kind ``k`` may follow an earlier access of kind ``e`` to
the same bytes if the warp's row for this pair has reached the number of the earlier access, in the component for this pair (`rule`).

In ``practice`` the accesses of a warp's threads are ordered, because the threads execute together. In ``spec`` the accesses of different
threads of a warp are checked too (`Lanes`).

The clock of a warp advances through its own waits, through acquire operations on barriers and memory, and through fences (`Clocks`).

Kernel start: the effects of the host and of earlier launches are visible to all proxies. If the launch may start before the previous one
ends, the effects of that one are visible only after griddepcontrol.wait (`GridBefore`). Kernel end: operations that were not waited for may
still use the CTA's shared memory (`Sanitizer.ended`). The constant proxy needs no order: kernels cannot write the constant bank or their
parameters. fence.proxy.alias has no effect: no two addresses of a device refer to the same memory.

Section "Memory Consistency Model for 5th generation of TensorCore operations" and the ISA's chapter "Memory Consistency Model"; where real
compilers rely on less order than the specification requires, the model ``practice`` differs from ``spec``; comments here say where.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.effects import Asynchronous, Completion, Pipe, Proxy, Unit

__all__ = ["ASYNC_PROXY", "TENSOR_PIPES", "TENSOR_SPACE", "Component", "Kind", "Row", "Rule", "kind_of", "rule", "rule_table", "scoped"]


class Kind(IntEnum):
    """Kinds of memory accesses: which unit performs them, and through which proxy."""

    GENERIC = 0
    """ld, st, ldmatrix, stmatrix and other weak accesses of a warp itself"""
    STRONG = 1
    """atom, red, and ld and st with an order: two of them never race"""
    COPY = 2
    """cp.async: performed by an agent of its own, in the generic proxy"""
    BULK = 3
    """cp.async.bulk and tensor copies: the async proxy"""
    REDUCE = 4
    """cp.reduce.async.bulk: as BULK, atomic towards each other and STRONG"""
    WGMMA = 5
    """wgmma.mma_async reading shared memory: the async proxy"""
    MMA = 6
    CP = 7
    """tcgen05.cp of all shapes but CP_4X256B"""
    SHIFT = 8
    LD = 9
    ST = 10
    ALLOC = 11
    """tcgen05.alloc and dealloc: as if they wrote all columns; alloc's store of the address needs no proxy fence in practice"""
    SILENT = 12
    """a weak store of what was there already: in practice it races with no other access, as compilers let all threads store one value"""
    STORE = 13
    """st.async: performed by an agent of its own, in the generic proxy"""
    CP_4X256B = 14
    """tcgen05.cp.4x256b, the only shape that is pipelined with a preceding tcgen05.shift"""
    NARROW = 15
    """as STRONG, with a scope that does not include all threads of the launch; the scopes are compared for each pair"""


_BY_PIPE = {Pipe.MMA: Kind.MMA, Pipe.COPY: Kind.CP, Pipe.COPY_4X256B: Kind.CP_4X256B, Pipe.SHIFT: Kind.SHIFT}


def kind_of(operation: Asynchronous) -> Kind:
    """How an asynchronous operation accesses memory.

    Examples
    --------
    >>> kind_of(Asynchronous(Unit.TMA, Completion.BYTES)).name, kind_of(Asynchronous(Unit.TMA, Completion.BULK_GROUP, atomic=True)).name
    ('BULK', 'REDUCE')
    """
    if operation.pipe is not None:
        return _BY_PIPE[operation.pipe]
    if operation.unit is Unit.WARPGROUP:
        return Kind.WGMMA
    if operation.proxy is Proxy.ASYNC:
        return Kind.REDUCE if operation.atomic else Kind.BULK
    if operation.unit is Unit.COPY:
        return Kind.COPY
    return Kind.STRONG if operation.atomic or operation.completion is Completion.NONE else Kind.STORE


_COPIES = frozenset({Kind.CP, Kind.CP_4X256B})

ASYNC_PROXY = frozenset({Kind.BULK, Kind.REDUCE, Kind.WGMMA, Kind.MMA}) | _COPIES
"""Kinds that reach shared and global memory through the async proxy: section "Shared Memory Accesses"."""

TENSOR_PIPES = frozenset({Kind.MMA, Kind.SHIFT}) | _COPIES
"""Asynchronous instructions whose completion tcgen05.commit tracks: section "mbarrier based completion mechanism"."""

TENSOR_SPACE = TENSOR_PIPES | {Kind.LD, Kind.ST, Kind.ALLOC}

_ATOMIC = frozenset({Kind.STRONG, Kind.REDUCE, Kind.NARROW})
_GENERIC_PROXY = frozenset({Kind.GENERIC, Kind.STRONG, Kind.COPY, Kind.SILENT, Kind.STORE, Kind.NARROW})

_PIPELINES = frozenset(
    {(Kind.MMA, Kind.MMA), (Kind.SHIFT, Kind.MMA), (Kind.SHIFT, Kind.CP_4X256B), (Kind.MMA, Kind.SHIFT)} | {(c, Kind.MMA) for c in _COPIES}
)
"""Pairs that execute in the order of issue: section "Pipelined tcgen05 Instructions".

Their conditions: that the cta_group is the same goes without saying, as a kernel that mixes them is refused (T606). Two tcgen05.mma must
have the same accumulator, which is that both write it (`_pipelined`), and the same shape (`Accumulators`).
"""

_IN_PRACTICE = _PIPELINES | {(earlier, later) for earlier in _COPIES | {Kind.MMA} for later in _COPIES} | {(Kind.ST, Kind.ST)}
"""Real kernels rely on more: they write columns twice with tcgen05.st, copy the scale factors of the next step over those that a
tcgen05.mma of the same thread reads, and let a tcgen05.mma overwrite what an earlier one reads as its matrix A, in whatever shape. Nobody
relies on more of tcgen05.shift.
"""


class Component(IntEnum):
    """The components of a slot."""

    DONE = 0
    """performed"""
    EARLY = 1
    """issued (tcgen05 pipes and st), read (bulk copies' sources), or all destination registers consumed (tcgen05.ld)"""


class Row(IntEnum):
    """The rows of a warp's vector clock, each for a class of pairs of accesses."""

    EXECUTION = 0
    """all accesses but those of the other rows"""
    ASYNC_SHARED = 1
    """generic writes to shared memory that an access through the async proxy may follow"""
    ASYNC_GLOBAL = 2
    """the same for global memory"""
    TENSOR = 3
    """tcgen05 accesses that a tcgen05 access may follow"""
    ASYNC_RELEASED = 4
    """spec: accesses that a fence of the generic and the async proxy has released, for a fence of these proxies that acquires"""
    RELEASED = 5
    """spec: the part of TENSOR that the warp's next release publishes"""
    ACQUIRED = 6
    """spec: joined into TENSOR by the next tcgen05.fence::after_thread_sync"""


class Rule(NamedTuple):
    """How an access may follow an earlier one to the same bytes."""

    conflict: bool
    """whether they may not be concurrent at all"""
    component: Component
    row: Row
    formal: bool = False
    """whether ``spec`` requires `Component.DONE` where ``practice`` uses `component`"""
    equal: bool = False
    """whether both write the same bits: no conflict, but a note if nothing orders them"""


def rule(earlier: Kind, wrote: bool, later: Kind, writes: bool, model: str = "practice") -> Rule:
    """What the order of two accesses needs.

    Examples
    --------
    >>> rule(Kind.GENERIC, True, Kind.MMA, False).row.name
    'ASYNC_SHARED'
    >>> rule(Kind.MMA, True, Kind.LD, False).component.name, rule(Kind.CP, True, Kind.MMA, False).component.name
    ('DONE', 'EARLY')
    """
    conflict = (wrote or writes) and (not (earlier in _ATOMIC and later in _ATOMIC) or scoped(earlier, later))
    equal = False
    if later is Kind.SILENT and earlier in (Kind.GENERIC, Kind.SILENT) and model == "practice":
        conflict, equal = False, wrote and writes
    row = Row.EXECUTION
    if earlier in TENSOR_SPACE and later in TENSOR_SPACE:
        # Section "Specialized Inter-thread Synchronization for tcgen05 instructions".
        row = Row.TENSOR
    elif wrote and earlier in _GENERIC_PROXY and later in ASYNC_PROXY:
        # Only writes need a proxy fence: what was read is read when the reader synchronises.
        row = Row.ASYNC_SHARED
    component, formal = Component.DONE, False
    if (earlier, later) in _IN_PRACTICE if model == "practice" else _pipelined(earlier, wrote, later, writes):
        component = Component.EARLY
    elif earlier is Kind.LD and later in TENSOR_SPACE and model == "practice":
        # Section "Register dependencies, same thread": consumed registers order the value; the letter asks for wait::ld.
        component, formal = Component.EARLY, True
    elif earlier in (Kind.BULK, Kind.REDUCE) and not wrote:
        # cp.async.bulk.wait_group.read
        component = Component.EARLY
    return Rule(conflict, component, row, formal, equal)


def _pipelined(earlier: Kind, wrote: bool, later: Kind, writes: bool) -> bool:
    # An mma that reads what another one wrote, or overwrites what it reads, has another accumulator.
    return (earlier, later) in _PIPELINES and ((earlier, later) != (Kind.MMA, Kind.MMA) or (wrote and writes))


def scoped(earlier: Kind, later: Kind) -> bool:
    """Whether the scopes of two accesses decide if they may be concurrent: section "Morally strong operations"."""
    return earlier in _ATOMIC and later in _ATOMIC and Kind.NARROW in (earlier, later)


@cache
def rule_table(model: str) -> NDArray[np.uint8]:
    """`rule` for all pairs as a table for compiled code: uint8[1024].

    The index is (kind << 1 | write) of the earlier access << 5 | the same of the later one. Bits: 0 component, 1-2 row, 3 formal, 4 equal,
    6 whether whatever conflicts with the earlier one conflicts with the later one, too (not if `scoped`, where both stay), 7 conflict.
    """
    table: NDArray[np.uint8] = np.zeros(1024, np.uint8)
    for earlier, wrote, later, writes in product(Kind, (False, True), Kind, (False, True)):
        found = rule(earlier, wrote, later, writes, model)
        index = (earlier << 1 | wrote) << 5 | later << 1 | writes
        table[index] = found.component | found.row << 1 | found.formal << 3 | found.equal << 4 | found.conflict << 7
    conflicts = (table >> 7).reshape(32, 32).astype(bool)
    covers = ~(conflicts[:, None] & ~conflicts[None, :]).any(axis=2)
    covers &= ~np.array([[scoped(Kind(one >> 1), Kind(other >> 1)) for other in range(32)] for one in range(32)])
    table |= covers.reshape(-1).astype(np.uint8) << 6
    return table
