"""The race sanitizer: happens-before over shared, global and tensor memory (`ptxlab.check.model` is what it checks against)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxlab.check.race._sanitizer import Sanitizer
    from ptxlab.engine.program import Program
    from ptxlab.machine.launch.launch import Launch

__all__ = ["concerns", "observe", "warm"]


def concerns(program: Program) -> bool:
    """Whether the program has an instruction that the observer looks at."""
    from ptxlab.machine.launch.program_facts import only_computes

    return not only_computes(program)


def observe(launch: Launch) -> Sanitizer:
    """The observer of a launch."""
    from ptxlab.check.race._sanitizer import Sanitizer

    return Sanitizer(launch)


def warm() -> None:
    """Compile the sanitizer's functions into the cache."""
    from ptxlab.check.race.clocks.joins import join_warps_function
    from ptxlab.check.race.clocks.mbarrier_clock import late_waits_function
    from ptxlab.check.race.shadow.barriers_ir import barrier_functions
    from ptxlab.check.race.shadow.shadow import shadow_functions

    shadow_functions()
    join_warps_function()
    late_waits_function()
    barrier_functions()
