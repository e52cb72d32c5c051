"""A second run that finds out whether values without definition are used: those read from memory that nothing has written, in a race, or
from registers in flight.

The first run follows no undefined bits of memory, which costs nothing, and finds reads of such values. If there are any, the launch is run
again, with a mirror of all memory that holds the undefined bits. What such a read gives is undefined there. If no branch, address,
descriptor or barrier, no atomic and no store to global memory depends on it, the finding is dropped: the read has no effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

from ptxlab._records import dataclass
from ptxlab.check.race.report.values import WritePair, values_text
from ptxlab.check.race.undefined.device_memory import DeviceMemoryUse, is_unwritten, keep, report_unwritten, roots
from ptxlab.check.race.undefined.observer import UndefinedBitsObserver
from ptxlab.check.race.undefined.raced import Raced
from ptxlab.engine.lowering.frame import mirrored
from ptxlab.isa.operands import Op
from ptxlab.machine.observe.observer import Uses

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay

__all__ = ["ConditionalFindings"]

_MOST_PAIRS = 2
"""For at most so many pairs of writes a run finds out what they have written."""


@dataclass(slots=True)
class ConditionalFindings:
    """Findings that hold only if a value is used.

    Attributes
    ----------
    readers : by the key of a finding in the reports, the ops that read such values
    certain : keys of findings that hold in any case
    writes : by the key of a finding about two writes, what each of them is
    raced : the bytes that ops read in a race
    device : the undefined bytes of device memory that the first run reads and writes
    """

    readers: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    certain: set[tuple[str, int]] = field(default_factory=set)
    writes: dict[tuple[str, int], WritePair] = field(default_factory=dict)
    raced: Raced = field(default_factory=Raced)
    device: DeviceMemoryUse = field(default_factory=DeviceMemoryUse)

    @property
    def open(self) -> dict[tuple[str, int], set[int]]:
        """The findings that a second run decides, each with the ops that read the values."""
        return {key: readers for key, readers in self.readers.items() if key not in self.certain}

    def unsettled(self, launch: Launch) -> bool:
        """Whether the first run has read or kept values that a second one must follow."""
        return bool(self.open) or launch.observations.kept or self.device.read

    def uses(self, replay: Callable[[], Replay], launch: Launch, completed: bool) -> Uses:
        """What uses the values, by the key of a finding: None if nothing does. Nothing is said of findings that the run does not decide.

        ``launch`` is the first run. What it has lost by way of shared memory, the second one reports. If a finding has ended the first run,
        a value counts as used if something used it until then, or if the finding is about an operation that has read it.
        """
        for key, pair in islice(self.writes.items(), _MOST_PAIRS):
            values = values_text(replay(), launch, pair)
            if values:
                launch.reports.detail(*key, "values", values)
        open_ = self.open
        in_flight = launch.reports.in_flight
        if not in_flight and not self.unsettled(launch):
            self.device.settle()
            return {}
        outside = launch.options.outside
        if outside is not None and outside.overlapped():  # what the launch has read may have been written meanwhile
            replay().memory.forget_mirrors()
        program = mirrored(launch.program, self.raced.ops)
        followed = launch.observations.followed
        result, observer = replay().observe(lambda again: UndefinedBitsObserver(again, self.raced, followed), program)
        if not completed or not result.completed or observer.raised is not None:
            launch.device.memory.forget_mirrors()
            if completed or observer.raised is not None:
                return {}
            observer.ended_by_finding()
            return {key: _first(observer.used(left=True), readers) for key, readers in open_.items()}
        for origin, use in observer.static_uses():
            if not is_unwritten(launch, (origin,)):
                launch.observations.report(use, origin)
        used, left = observer.used(), observer.used(left=True)
        report_unwritten(launch, observer.unwritten_reads, used, self.readers)
        later = observer.fresh_reads.report(launch, left, self.readers)
        keep(launch, observer.device_memory(), lambda origin: roots(launch, observer.sources(origin)))
        found = {key: _first(used if key[0] == "M412" else left, readers) for key, readers in open_.items()}
        return found | later | {key: _first(observer.used_in_flight(), operations) for key, operations in in_flight.items()}


def _first(used: Mapping[int, Op], ops: Iterable[int]) -> Op | None:
    """What uses a value of the first of some ops."""
    return next((used[op] for op in sorted(ops) if op in used), None)
