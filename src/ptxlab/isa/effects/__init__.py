"""The effects of an instruction beyond its registers: memory order, synchronisation, asynchronous operations.

A row of the catalogue gives ``effects=``: an instance of one of the classes below, or a function of what its pattern matched (`Qualifiers`)
that returns one. The race checker, the deadlock report, the trace and provenance read `ptxlab.isa.operands.Op.effects` and dispatch on its
class; none of them looks at the text of an opcode. So an instruction whose effects are among these classes needs nothing outside its own
module.
"""

from __future__ import annotations

from ptxlab.isa.effects._asynchronous import (
    GROUP_INSTRUCTIONS,
    Asynchronous,
    BoxForm,
    BoxOperands,
    CommitGroup,
    Completion,
    CompletionArrival,
    LineOperands,
    Pipe,
    TensorTransfer,
    TensorWait,
    Unit,
    WaitGroup,
    unit_of,
)
from ptxlab.isa.effects._effect import LOCAL, Effect, Effects, Extract, Local, Supply, resolve
from ptxlab.isa.effects._memory_order import SCOPES, WEAK, Access, Order, Proxy, Scope, Space, order_of
from ptxlab.isa.effects._resources import Alloc, AllocPermitRelease, Dealloc, GridLaunch, GridWait, RegisterPool
from ptxlab.isa.effects._synchronization import (
    ClusterArrive,
    ClusterWait,
    CtaBarrier,
    Fence,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    MbarrierInval,
    MbarrierTransactions,
    MbarrierWait,
    ProxyFence,
    TensorFence,
    TensorMapFence,
    WgmmaFence,
)

__all__ = [
    "GROUP_INSTRUCTIONS",
    "LOCAL",
    "SCOPES",
    "WEAK",
    "Access",
    "Alloc",
    "AllocPermitRelease",
    "Asynchronous",
    "BoxForm",
    "BoxOperands",
    "ClusterArrive",
    "ClusterWait",
    "CommitGroup",
    "Completion",
    "CompletionArrival",
    "CtaBarrier",
    "Dealloc",
    "Effect",
    "Effects",
    "Extract",
    "Fence",
    "GridLaunch",
    "GridWait",
    "LineOperands",
    "Local",
    "MbarrierArrive",
    "MbarrierInit",
    "MbarrierInitFence",
    "MbarrierInval",
    "MbarrierTransactions",
    "MbarrierWait",
    "Order",
    "Pipe",
    "Proxy",
    "ProxyFence",
    "RegisterPool",
    "Scope",
    "Space",
    "Supply",
    "TensorFence",
    "TensorMapFence",
    "TensorTransfer",
    "TensorWait",
    "Unit",
    "WaitGroup",
    "WgmmaFence",
    "order_of",
    "resolve",
    "unit_of",
]
