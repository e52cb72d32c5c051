"""Barriers and mbarriers (B5xx)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_MBARRIER = "Parallel Synchronization and Communication Instructions: mbarrier"
_BARRIER = "Parallel Synchronization and Communication Instructions: bar, barrier"
_CLUSTER = "Parallel Synchronization and Communication Instructions: barrier.cluster"

CODES = (
    CodeInfo("B501", "error", "the address of an mbarrier object is not a multiple of 8", _MBARRIER),
    CodeInfo("B502", "error", "the address of an mbarrier object is not in the shared memory that it must be in", _MBARRIER),
    CodeInfo("B503", "error", "an mbarrier that was never initialised", f"{_MBARRIER}.init"),
    CodeInfo("B504", "error", "an mbarrier count outside its range", _MBARRIER),
    CodeInfo("B505", "error", "more arrivals on an mbarrier than are pending", f"{_MBARRIER}.arrive"),
    CodeInfo("B506", "error", "the transaction count of an mbarrier leaves its range", f"{_MBARRIER}.expect_tx"),
    CodeInfo("B507", "error", "there is no barrier of this number", _BARRIER),
    CodeInfo("B508", "error", "a thread count that a barrier cannot have", _BARRIER),
    CodeInfo("B509", "error", "different thread counts meet at one barrier", _BARRIER),
    CodeInfo("B510", "error", "more threads arrive at a barrier than it expects", _BARRIER),
    CodeInfo("B511", "error", "a thread arrives twice at the cluster barrier without waiting in between", _CLUSTER),
    CodeInfo("B512", "error", "a thread waits at the cluster barrier without having arrived", _CLUSTER),
    CodeInfo("B513", "error", "a register count that setmaxnreg cannot set", "Miscellaneous Instructions: setmaxnreg"),
    CodeInfo("B514", "error", "an mbarrier is used after mbarrier.inval", f"{_MBARRIER}.inval"),
    CodeInfo("B515", "error", "the memory of an mbarrier object was overwritten", _MBARRIER),
    CodeInfo("B516", "warning", "mbarrier.init of an mbarrier object that is in use", f"{_MBARRIER}.init"),
    CodeInfo("B517", "error", "the predicate of an instruction with .aligned differs between the threads of a warp", _BARRIER),
    CodeInfo("B518", "note", "setmaxnreg without a known number of registers", "Miscellaneous Instructions: setmaxnreg"),
)
