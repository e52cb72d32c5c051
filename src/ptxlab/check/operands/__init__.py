"""Whether the operands of matrix instructions are images of what was copied to shared memory.

Observed are the boxes that tensor copies place there (`ptxlab.isa.operations.tiles`), the words that cp.async copies or that threads load
and store, whose sources compiled code notes (`ptxlab.engine.context.Word.COPIED`), bytes of bulk copies, and scale factors that tcgen05.cp
moves on. What anything else writes is not known, and an operand that contains such bytes is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxlab.check.operands._observer import OperandCheck
    from ptxlab.engine.program import Program
    from ptxlab.machine.launch.launch import Launch

__all__ = ["concerns", "observe", "warm"]


def concerns(program: Program) -> bool:
    """Whether the program has an instruction that the observer looks at."""
    from ptxlab.machine.launch.program_facts import multiplies

    return multiplies(program)


def observe(launch: Launch) -> OperandCheck:
    """The observer of a launch."""
    from ptxlab.check.operands._observer import OperandCheck

    return OperandCheck(launch)


def warm() -> None:
    """There is nothing to compile."""
