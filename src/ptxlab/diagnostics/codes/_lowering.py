"""Lowering, and faults of compiled code."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_OPERANDS = "Instruction Operands"

CODES = (
    CodeInfo("U201", "error", "an instruction that ptxlab knows but does not execute yet", "Instruction Set"),
    CodeInfo("U202", "error", "an unknown instruction or modifier", "Instruction Set"),
    CodeInfo("U203", "error", "an undeclared register", "Identifiers"),
    CodeInfo("U204", "error", "an undeclared label", "Labels and Function Names as Operands"),
    CodeInfo("U205", "error", "an undeclared variable", "Identifiers"),
    CodeInfo("U206", "error", "an operand of the wrong type or width", "Operand Type Information"),
    CodeInfo("U207", "error", "the wrong number of operands", _OPERANDS),
    CodeInfo("U208", "error", "a guard that is not a predicate register", "Predicated Execution"),
    CodeInfo("U210", "error", "a function without a body", "Kernel and Function Directives"),
    CodeInfo("R802", "error", "an undefined register decides an address, a branch or a descriptor", "Register State Space"),
    CodeInfo("R803", "error", "a thread that is not in its own membermask", "Data Movement and Conversion Instructions: shfl.sync"),
    CodeInfo("R804", "error", "the index of an indexed branch is too large", "Control Flow Instructions: brx.idx"),
    CodeInfo("M408", "error", "access outside local memory", "Local State Space"),
    CodeInfo("M409", "error", "access outside the kernel parameters", "Parameter State Space"),
    CodeInfo("T621", "error", "access to tensor memory that is not allocated", "Tensor Memory Allocation and Management Instructions"),
    CodeInfo("T622", "error", "access beyond the columns of tensor memory", "Tensor Memory Addressing"),
    CodeInfo("T623", "error", "access to lanes that belong to another warp", "Tensor Memory and Register Load/Store Instructions"),
    CodeInfo("T624", "error", "a tensor-memory address that differs between threads", "Tensor Memory and Register Load/Store Instructions"),
    CodeInfo("T625", "error", "a target without tensor memory", "Tensor Memory"),
    CodeInfo("T626", "error", "a warp that is not whole accesses tensor memory", "Tensor Memory and Register Load/Store Instructions"),
)
