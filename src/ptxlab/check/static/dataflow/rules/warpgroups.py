"""Rules on the registers of wgmma.mma_async: used while in flight, written without a fence.

A run reports the same: it finds these in the text, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.engine import Program
from ptxlab.machine.warp.pending_registers import Early, early_uses, overwritten_sources, unfenced_values

__all__ = ["RULES"]

_MOST_NAMES = 4
_FINDINGS: tuple[tuple[Callable[[Program], Iterator[Early]], str, str, str], ...] = (
    (
        early_uses,
        "R805",
        "{} uses {} while wgmma.mma_async{} may still write to it",
        "execute wgmma.commit_group, and wgmma.wait_group 0 before the first use of its registers",
    ),
    (
        overwritten_sources,
        "R806",
        "{} writes {} while wgmma.mma_async{} may still read it",
        "execute wgmma.commit_group, and wgmma.wait_group 0 before its registers are written again",
    ),
    (
        unfenced_values,
        "R807",
        "{} uses {}, which other instructions may have written since the last wgmma.fence{}",
        "execute wgmma.fence.sync.aligned after the last write to the registers",
    ),
)


def registers(kernel: Kernel) -> Iterator[Report]:
    """Registers that are used while a product may still write or read them, or written without a fence before a product."""
    program = kernel.program
    for find, code, text, fix in _FINDINGS:
        held: set[frozenset[int]] = set()
        for early in find(program):
            if early.held in held:
                continue
            held.add(early.held)
            names = [program.registers[register].name for register in early.registers]
            listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
            lines = sorted({program.ops[~each].line for each in early.held if each < 0})
            by = f" at line {lines[-1]}" if lines else ""
            yield Report(code, early.op, text.format(early.op.short, listed, by), fix)


RULES = (registers,)
