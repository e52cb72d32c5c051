"""What service handlers tell the machine so that compiled code repeats executions of their instructions without them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from ptxlab.isa.address_space import SHARED_RANK_SHIFT

if TYPE_CHECKING:
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["ORDER_BASE", "PendingCopy", "RepeatedByCompiledCode", "place_of", "shared_base"]

ORDER_BASE = 1
"""The index of the base of an execution that is the `AsyncOperation.queue` of its operation."""


def shared_base(cta: int) -> int:
    """The index of the base of a CTA's shared memory, by its number in its group; the base of its tensor memory is the next one."""
    return 1 + 2 * cta


def place_of(place: int) -> tuple[int, int]:
    """The CTA rank and the offset of a place in the shared memory of a cluster, as compiled code notes it; the CTA may have exited."""
    return place >> SHARED_RANK_SHIFT, place & (1 << SHARED_RANK_SHIFT) - 1


class PendingCopy(IntEnum):
    """What compiled code notes of a copy of a box that has not performed, for the machine."""

    PLACE = 0
    BARRIER = 1
    """the places of the box in shared memory, and of the mbarrier object (`place_of`)"""
    COORDINATES = 2
    """as many as the tensor has dimensions"""
    END = COORDINATES + 5


class RepeatedByCompiledCode(Protocol):
    """An execution of a service instruction that compiled code may repeat."""

    @property
    def repeats(self) -> bool:
        """Whether compiled code would repeat this execution of the instruction, if it knew how (`repeat`)."""

    def repeat(
        self,
        operation: AsyncOperation,
        state: Hashable,
        bases: int,
        function: int,
        given: Sequence[int],
        kept: object,
        ask: int = 0,
        again: Callable[[Any, int, Sequence[int]], AsyncOperation] | None = None,
    ) -> None:
        """Let compiled code repeat this execution of the instruction, by one lane, instead of calling the handler.

        It does so for the same values in all registers that the instruction reads, in CTAs whose state is the same: ``state`` says all
        of it that the execution depends on; each change must be told (`Cta.changed`), the exit of a CTA of the cluster is. The machine
        counts the execution, its progress, and the issue of an operation that a tcgen05.commit tracks. ``function`` is the host address
        of ``void function(bases, words)``, which does the rest: ``bases`` are host addresses that belong to the CTA, ``given`` the int64
        words, at most five; ``kept`` must stay alive. ``ask`` is 0 or the host address of ``i64 ask(bases, words)``: compiled code calls
        the handler if its result is not 0. The handler has issued ``operation``. If the launch is observed, whether compiled code repeats
        it is up to the observers.

        Where operations perform later, ``again`` makes the operation of an execution for a lane of a warp; the last argument means nothing.
        Compiled code asks when one performs, and if the result is not 0 the machine performs it. The bases have the queue of the operations
        at `ORDER_BASE`.
        """

    def know_state(self, state: Hashable, bases: int) -> None:
        """Tell the state of the CTA, and its bases, on which executions depend that compiled code repeats (`repeat`)."""

    def join_warpgroup(self, words: int) -> None:
        """Tell compiled code the host address of the words of the warp's warpgroup (`ptxlab.isa.warpgroup_words`)."""

    def state_of_shares(self, state: Hashable, observed: Hashable) -> int:
        """The number of a state for `repeat_share`, which no other state has; 0 if compiled code does not repeat shares in this launch.

        ``observed`` belongs to the state if the launch is observed.
        """

    def repeat_share(self, operation: AsyncOperation, state: int, function: int, given: Sequence[int], kept: object) -> None:
        """Let compiled code repeat the instruction of a warpgroup that this warp has been the last to issue, in each of its warps.

        It does so for the same values in all registers but those of D and A, in warpgroups whose state has this number. ``function`` and
        ``given`` are as for `repeat`, with the bases of the warpgroup; the last words are those of `ptxlab.isa.warpgroup_words.Given`.
        The handler has issued ``operation``; if the launch is observed, whether compiled code repeats it is up to the observers.
        """

    @property
    def repeats_in_any_state(self) -> bool:
        """Whether compiled code would repeat executions of the instruction, by whatever lanes, if it knew how (`repeat_box`)."""

    def repeat_box(
        self,
        lane: int,
        operation: AsyncOperation,
        tensor_map: int,
        words: int,
        kept: object,
        again: Callable[[Any, int, Sequence[int]], AsyncOperation] | None = None,
    ) -> None:
        """Let compiled code copy the boxes of the tensor map at a generic address, instead of calling the handler.

        It does so as long as this is the tensor map and a copy is certain to be legal, by one lane, or where all lanes store the same. The
        registers of ``lane`` name the tensor map. ``words`` is the host address of its `BoxWord`;
        ``kept`` must stay alive. The handler has issued ``operation``; if the launch is observed, whether compiled code copies the boxes
        is up to the observers.

        Where operations perform later, compiled code copies boxes of which ``again`` makes the operation for a lane of a warp, from what
        has been noted of the copy (`PendingCopy`).
        """

    def take_lanes_left(self) -> int:
        """Return the executing lanes for which compiled code has not executed the instruction; it asks once for each execution."""

    def repeat_cancellation(self, operation: AsyncOperation) -> None:
        """Let compiled code cancel clusters, by one lane, instead of calling the handler, where that is certain to be legal.

        The handler has issued ``operation``; if the launch is observed, whether compiled code cancels is up to the observers.
        """

    def permit_commits(self, lane: int, group: int) -> None:
        """Let compiled code complete this instruction, a commit, from now on, and in a lane all those of the same .cta_group.

        The lane has issued operations, and the commit has no finding.
        """
