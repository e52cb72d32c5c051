"""Loads whose value becomes a tensor memory address: what they read is the word that tcgen05.alloc writes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ptxlab.engine.program import Program
from ptxlab.isa.effects import Alloc, Asynchronous, Dealloc, TensorTransfer
from ptxlab.isa.native_ops import Collective, LaneAccess
from ptxlab.isa.operands import Addr, Op, Reg
from ptxlab.isa.tcgen05 import allocators

__all__ = ["allocation_awaited"]

_SHARED = ("shared", "shared::cta", "generic")


def allocation_awaited(program: Program, load: Op, cta: Any) -> Op | None:
    """The tcgen05.alloc that a CTA has not executed yet, if a load's value becomes a tensor memory address."""
    done = allocators(cta)
    left = [op for op in program.ops if isinstance(op.effects, Alloc) and op.index not in done]
    return left[0] if left and load.index in _address_loads(program) else None


def _addresses(op: Op) -> list[int]:
    """The registers of an instruction's tensor memory addresses."""
    effects = op.effects
    if isinstance(effects, Dealloc):
        return [operand.index for operand in op.operands[:1] if isinstance(operand, Reg)]
    if not isinstance(effects, TensorTransfer) and not (isinstance(effects, Asynchronous) and effects.pipe is not None):
        return []
    return [operand.base.index for operand in op.operands if isinstance(operand, Addr) and isinstance(operand.base, Reg)]


def _address_loads(program: Program) -> set[int]:
    """Loads of shared memory that an address is computed from."""
    writers: dict[int, list[Op]] = defaultdict(list)
    for op in program.ops:
        for register in program.writes[op.index]:
            writers[register].append(op)
    work = [register for op in program.ops for register in _addresses(op)]
    seen, found = set(work), set()
    while work:
        for op in writers[work.pop()]:
            native = program.natives.get(op.index)
            if isinstance(native, LaneAccess) and not native.write and native.space in _SHARED:
                found.add(op.index)
            elif op.row.kind == "pure" or isinstance(native, Collective):
                new = set(program.reads[op.index]) - seen
                seen |= new
                work += new
    return found
