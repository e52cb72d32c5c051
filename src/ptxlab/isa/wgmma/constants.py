"""What is wrong with wgmma.mma_async whose descriptors are known from the text: the checks of the run, without a launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.isa import context
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.operands import Op
from ptxlab.isa.wgmma._plan import placed_operand

__all__ = ["faults"]


def faults(op: Op, values: Mapping[str, int], target: str, shared_end: int) -> Iterator[context.Misuse]:
    """The mistakes in descriptors of known values; ``shared_end`` is the end of shared memory, 0 if it is not known."""
    for name, what in (("a-desc", "A"), ("b-desc", "B")):
        if name not in values:
            continue
        raw = values[name]
        findings = WgmmaDescriptor.decode(raw).findings()
        if findings:
            first = findings[0]
            fix = first.fix or f"correct {first.field}"
            yield context.Misuse(first.code, f"the matrix descriptor {raw:#018x} of {what} is not legal: {first.message}", fix=fix)
            continue
        low, high = placed_operand(op, what, raw).bounds
        if low < SHARED_RESERVED or (shared_end and high > shared_end):
            message = f"{what} reads shared memory from {low:#x} to {high - 1:#x}; the CTA has {SHARED_RESERVED:#x} to {shared_end - 1:#x}"
            fix = "check start address, leading and stride dimension byte offset of the descriptor (each holds bytes >> 4)"
            yield context.Misuse("D704", message, fix=fix)
