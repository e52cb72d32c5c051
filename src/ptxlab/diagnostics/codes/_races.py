"""The race sanitizer."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_PIPES = "mbarrier based completion mechanism"
_WAIT = "tcgen05.wait instruction based completion mechanism"
_COPIES = "Data Movement and Conversion Instructions: Asynchronous copy"
_GENERAL = "Memory Consistency Model"

CODES = (
    CodeInfo("X101", "error", "two threads access the same shared memory and nothing orders them", _GENERAL),
    CodeInfo("X102", "error", "the async proxy reads or overwrites what a thread wrote, without a proxy fence", "Shared Memory Accesses"),
    CodeInfo("X103", "error", "what an asynchronous copy writes is used before the copy is complete", _COPIES),
    CodeInfo("X104", "error", "the source of an asynchronous copy is overwritten before it has been read", _COPIES),
    CodeInfo("X105", "error", "what a tcgen05 operation writes is used before the operation is complete", _PIPES),
    CodeInfo("X106", "error", "an operand of a tcgen05 operation is overwritten before the operation is complete", _PIPES),
    CodeInfo("X107", "error", "what tcgen05.st writes is used before tcgen05.wait::st", _WAIT),
    CodeInfo("X108", "error", "columns are overwritten that tcgen05.ld may still read", _WAIT),
    CodeInfo("X109", "note", "columns are overwritten whose tcgen05.ld only its consumed registers order", _WAIT),
    CodeInfo("X110", "error", "shared memory is overwritten that wgmma.mma_async may still read", "Asynchronous wgmma Instructions"),
    CodeInfo("X111", "error", "what cp.async writes is used before it is complete", _COPIES),
    CodeInfo("X112", "error", "an asynchronous operation overwrites what a thread may still read or write", _GENERAL),
    CodeInfo(
        "X113",
        "error",
        "tensor memory is used by a warp that nothing orders with its allocation or release",
        "Tensor Memory Allocation and Management Instructions",
    ),
    CodeInfo("X114", "error", "two threads access the same global memory and nothing orders them", _GENERAL),
    CodeInfo("M411", "error", "shared memory is read that nothing has written", "Shared State Space"),
    CodeInfo("T614", "error", "tensor memory is read that nothing has written", "Tensor Memory"),
    CodeInfo(
        "X117", "error", "a tensor map is used after a change without a proxy fence", "Parallel Synchronization: fence.proxy.tensormap"
    ),
    CodeInfo(
        "X118",
        "error",
        "a tensor map is changed while a copy may still use it",
        "Data Movement and Conversion Instructions: tensormap.replace",
    ),
    CodeInfo("X119", "note", "a CTA exits before its bulk stores are known to have read shared memory", _COPIES),
    CodeInfo("X116", "error", "a CTA exits while an asynchronous copy may still use its shared memory", _COPIES),
    CodeInfo(
        "B519",
        "error",
        "nothing keeps a phase of an mbarrier from being over before a thread has seen the one before",
        "Parallel Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait",
    ),
    CodeInfo(
        "B520",
        "error",
        "a warp arrives at a barrier again before its last arrival there is complete",
        "Parallel Synchronization and Communication Instructions: bar, barrier",
    ),
    CodeInfo(
        "X120",
        "error",
        "an mbarrier is used by a thread that nothing orders with its initialisation",
        "Parallel Synchronization and Communication Instructions: mbarrier.init",
    ),
    CodeInfo(
        "X121",
        "error",
        "a dependent grid uses, before griddepcontrol.wait, what the grid before uses",
        "Parallel Synchronization and Communication Instructions: griddepcontrol",
    ),
    CodeInfo(
        "X122",
        "error",
        "two strong accesses of different CTAs, and the scope of one does not include the thread of the other",
        "Memory Consistency Model: Morally strong operations",
    ),
    CodeInfo("X115", "error", "tcgen05 operations of two threads are ordered only if tcgen05.fence stands between them", _MODEL),
)
