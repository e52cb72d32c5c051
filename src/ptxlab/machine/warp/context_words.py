"""What the words of the context say that are the same in all warps of a launch or of a CTA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from ptxlab.engine.context import Word
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import CommitGroup, Completion, CompletionArrival, WaitGroup
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["AT", "fill_cta_words", "fill_launch_words"]

AT = SimpleNamespace(**{word.name: int(word) for word in Word})
"""The words by name, as plain integers: members of an enumeration cost more as indices."""


def fill_launch_words(launch: Launch) -> None:
    """Set the context's words that are the same in all warps of a launch."""
    memory = launch.host_memory
    words = memory.cells
    words[AT.CLUSTER_SIZE] = launch.cluster_size
    words[AT.PARAM] = memory.parameters_address
    words[AT.PARAM_SIZE] = len(memory.parameters)
    words[AT.ALLOCATIONS] = address_of(launch.allocations)
    words[AT.ALLOCATION_COUNT] = launch.allocation_count
    words[AT.BEFORE_WRITE] = 0 if launch.journal is None else launch.journal.address
    words[AT.SERVICES] = launch.scheduler.counted_at
    words[AT.PERMITTED], words[AT.PERMITTED_BESIDE] = memory.permitted_address, memory.permitted_beside_address
    _permit_waits(launch)
    _permit_arrivals(launch)
    words[AT.PROGRESS] = memory.progress_address
    words[AT.GRID] = memory.grid_address
    turns = launch.scheduler.compiled_turns
    words[AT.LANE_TURNS] = turns is not None and turns.waits
    words[AT.REPETITIONS] = _table_of_repetitions(launch)
    words[AT.SYMBOLS] = address_of(launch.symbol_table)
    words[AT.OWN_LANES] = launch.model == "spec"
    words[AT.JOINS] = launch.model != "spec"
    words[AT.OBSERVE] = launch.observations.address


def _table_of_repetitions(launch: Launch) -> int:
    """The address of the table of executions that compiled code repeats; 0 if it repeats none. Observers begin with an empty one."""
    repetitions = launch.host_memory.repetitions
    if repetitions is None or (launch.deferred and launch.scheduler.queues.operations is None):
        return 0
    if launch.observer is not None or (launch.deferred and repetitions.is_full):
        repetitions.clear()
    return repetitions.address


def _permit_waits(launch: Launch) -> None:
    """Let compiled code complete waits, and block the warps."""
    turns = launch.scheduler.compiled_turns
    waits, _, _ = launch.facts.direct
    for op in waits:
        launch.host_memory.permitted[op.index] = 2 if turns is not None and turns.waits else 1
        launch.host_memory.permitted_beside[op.index] = 1


def _permit_arrivals(launch: Launch) -> None:
    """Let compiled code complete arrivals if no observer must see them; groups only where all operations perform at once.

    Commits it completes there, too, and where it issues the operations.

    Waits for groups of wgmma may block the warp.
    """
    observer, permitted = launch.observer, launch.host_memory.permitted
    _, arrivals, groups = launch.facts.direct
    commits = not launch.deferred or (observer is None and launch.scheduler.queues.operations is not None)
    if launch.scheduler.counted_at and (observer is None or all(map(observer.allows_direct_completion, arrivals))):
        for op in arrivals:
            permitted[op.index] = 1 if not isinstance(op.effects, CompletionArrival) else -1 if commits else 0
            launch.host_memory.permitted_beside[op.index] = permitted[op.index]
    turns = launch.scheduler.compiled_turns
    for op in groups if launch.scheduler.counted_at and not launch.deferred else ():
        of_warpgroup = isinstance(op.effects, CommitGroup | WaitGroup) and op.effects.of is Completion.WGMMA_GROUP
        if observer is None or observer.allows_direct_completion(op):
            permitted[op.index] = 2 if of_warpgroup and turns is not None and turns.waits else 1


def fill_cta_words(launch: Launch, cta: CtaState) -> None:
    """Set the context's words that are the same in all warps of a CTA."""
    words = cta.memory.cells
    words[AT.SHARED] = cta.shared_address
    words[AT.QUEUE] = cta.group.queue.address
    words[AT.SHARED_SIZE] = len(cta.shared)
    words[AT.SHARED_RANK] = cta.rank << SHARED_RANK_SHIFT
    words[AT.CLUSTER] = address_of(cta.group.table)
    words[AT.BARRIERS] = cta.memory.barriers_address
    words[AT.REPEATED_IN] = cta.memory.repeated_address
    if launch.uses_tensor_memory:
        words[AT.TENSOR] = cta.tensor_address
        words[AT.TENSOR_OWNED] = address_of(cta.tensor.owned(cta))
