"""Tensor memory (T6xx) and descriptors used at run time (D70x, D71x)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_ALLOCATION = "Tensor Memory Allocation and Management Instructions"
_COMBINATIONS = "Valid Combinations of Type-Size, Major-ness and Swizzling"
_COMMIT = "TensorCore 5th Generation Async Synchronization Operations"
_MMA = "TensorCore 5th Generation Matrix Multiply and accumulate Operations"

CODES = (
    CodeInfo("T601", "error", "tcgen05.alloc or dealloc with a number of columns that is not allowed", _ALLOCATION),
    CodeInfo("T602", "error", "tcgen05.alloc after tcgen05.relinquish_alloc_permit", _ALLOCATION),
    CodeInfo("T603", "error", "tcgen05.alloc writes its address outside the CTA's shared memory", _ALLOCATION),
    CodeInfo("T604", "error", "tcgen05.dealloc of something that is not allocated so", _ALLOCATION),
    CodeInfo("T605", "error", "tensor memory is still allocated when the CTA exits", _ALLOCATION),
    CodeInfo("T606", "error", "tcgen05 instructions with different .cta_group in one kernel", "Issue Granularity"),
    CodeInfo("T607", "error", "a tensor memory operand outside the columns that the CTA has allocated", _ALLOCATION),
    CodeInfo("T608", "warning", "a tcgen05.alloc of more columns than the one before", _ALLOCATION),
    CodeInfo("T609", "error", "a .cta_group::2 instruction without an active peer CTA", "CTA Pair"),
    CodeInfo("T610", "error", "the two CTAs of a pair allocate different numbers of columns", _ALLOCATION),
    CodeInfo("T611", "error", "a tensor memory address with a lane that the operation does not allow", "Data Path Layout Organization"),
    CodeInfo("T613", "error", "tcgen05.ld or st with a vector of the wrong length", "Tensor Memory and Register Load/Store Instructions"),
    CodeInfo("T612", "error", "tcgen05.dealloc while tcgen05 operations are in flight", _ALLOCATION),
    CodeInfo("T631", "error", "a collector buffer is used without a valid fill", _MMA),
    CodeInfo("T632", "error", "a collector buffer is used with another matrix than the one that fills it", _MMA),
    CodeInfo("T633", "warning", "a tcgen05.commit that has nothing to track", _COMMIT),
    CodeInfo("D701", "error", "the instruction descriptor is not legal for the instruction", "Instruction descriptor"),
    CodeInfo("D702", "error", "the shared memory descriptor is not legal", "Shared memory descriptor"),
    CodeInfo("D703", "error", "a matrix shape that the kind does not support", "Matrix Shape"),
    CodeInfo("D704", "error", "a matrix operand reaches outside shared memory", "Shared memory descriptor"),
    CodeInfo("D705", "error", "a swizzling mode that the operand does not support", _COMBINATIONS),
    CodeInfo("D707", "error", "sparsity metadata that selects no elements", "Sparsity selector"),
    CodeInfo("D708", "error", "scale factors that differ between the groups of 32 lanes", "Block Scaling"),
    CodeInfo("D706", "error", "an operand of tcgen05.mma outside its range", _MMA),
)
