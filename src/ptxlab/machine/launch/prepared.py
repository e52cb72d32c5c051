"""What a launch begins with that depends on its program and its options only."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from ptxlab.machine.launch.configuration import LaunchConfiguration, shared_bytes
from ptxlab.machine.launch.program_facts import ProgramFacts, uses_tensor_memory
from ptxlab.machine.observe.observer import concerned
from ptxlab.machine.warp.pending_registers import early_uses, lends_registers

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.isa.operands import Op
    from ptxlab.machine.workers.accesses import AccessMaps
    from ptxlab.machine.workers.worker import Worker

__all__ = ["Prepared", "prepared"]

_PENDING_ROWS = 4096
_NO_SYMBOLS = np.zeros(1, np.uint64)


class Prepared:
    """The attributes of `Launch` with the values with which each launch begins that has the same program and the same options.

    It does not refer to the options: they may hold objects of the program.
    """

    def __init__(self, facts: ProgramFacts, options: LaunchConfiguration) -> None:
        self.program = facts.program
        self.policy = options.policy
        self.model = options.model
        self.early_results = options.policy == "eager" and facts.of(lends_registers) and bool(facts.each_of(early_uses))
        self.deferred = options.policy != "eager"
        self.pending_capacity = _PENDING_ROWS
        self.barrier_arrivals = 0
        self.registers = options.registers
        self.threads = options.threads
        self.warps_per_cta = -(-self.threads // 32)
        self.cluster_size = options.cluster_size
        self.shared_bytes = facts.of(shared_bytes, options.shared_bytes)
        self.grid_of_clusters = options.grid_of_clusters
        self._order = options.order
        self._begun = False
        self._clusters = self._stop = len(self._order)
        self.done_ctas = 0
        self._told = -1
        self.uses_tensor_memory = facts.of(uses_tensor_memory)
        warps = self._clusters * self.cluster_size * self.warps_per_cta
        self.budget = options.max_instructions if options.max_instructions is not None else 20_000_000 + 2_000_000 * warps
        self.symbol_addresses = facts.of(_own_addresses)
        """Addresses of variables by state space and name, for `Warp.symbol`, which adds offsets."""
        self.symbol_table = _NO_SYMBOLS
        self.adding: tuple[Op, ...] = ()
        """The instructions whose additions of floats are watched."""
        if "memory" in options.checks:
            from ptxlab.machine.observe.addition_order import additions

            self.adding = facts.of(additions)
        self.providers = facts.of(concerned, options.checks)
        """What gives the observers that the checks need."""
        self.register_offsets, self.register_shadows = facts.register_offsets, facts.register_shadows
        self.register_widths, self.specials = facts.register_widths, facts.specials
        self.handlers, self.together = facts.handlers, facts.together
        self.warps_started = 0
        self.worker: Worker | None = None
        """In a worker process: what this is."""
        self.marks: AccessMaps | None = None
        """In a worker process: what it has accessed in device memory."""
        self.clipped = False
        """Whether an operation writes bytes that it does not declare: a store of a tensor map up to the end of an allocation."""
        self.workers, self.why_alone = 1, ""
        """How many processes have run clusters; if only one of several, the reason."""


def _own_addresses(program: Program) -> dict[tuple[str, str], int]:
    """The addresses of the variables and parameters that belong to a CTA or a thread, in their state spaces."""
    found = {("shared", name): 0 for name in program.shared.variables}
    found |= {("param", parameter.name): 0 for parameter in program.parameters}
    return found | {("local", name): 0 for name in program.local_variables}


def prepared(facts: ProgramFacts, options: LaunchConfiguration) -> Prepared:
    """What launches of a program with these options begin with; that of the last options is kept.

    Raises
    ------
    LaunchError
        if the kernel needs more memory than there is
    """
    found = facts.prepared
    if found is None or found[0]() is not options:
        found = facts.prepared = ref(options), Prepared(facts, options)
    return found[1]
