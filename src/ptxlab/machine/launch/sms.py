"""The SMs on which the clusters of a launch run, and which of them can hold another cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab._records import dataclass
from ptxlab.machine.launch.configuration import SHARED_PER_SM, THREADS_PER_SM

if TYPE_CHECKING:
    from ptxlab.machine.memory.tensor_memory import TensorMemory

__all__ = ["Sm", "Sms"]


@dataclass(slots=True, eq=False)
class Sm:
    """One SM: the resources that its CTAs share."""

    index: int
    ctas: int = 0
    threads_used: int = 0
    shared_used: int = 0
    tensor: TensorMemory | None = None


class Sms:
    """The SMs of a device for CTAs that are alike.

    Parameters
    ----------
    count : SMs of the device
    ctas : CTAs that an SM holds at once
    threads, shared_bytes : what each CTA occupies
    """

    def __init__(self, count: int, ctas: int, threads: int, shared_bytes: int) -> None:
        self._count, self._ctas, self._threads, self._shared_bytes = count, ctas, threads, shared_bytes
        self._used: list[Sm] = []
        """Those that have had a CTA, and their neighbours."""

    def free(self, size: int) -> list[Sm] | None:
        """Choose SMs for the CTAs of a cluster: one for each CTA, neighbouring ones, those with the fewest CTAs."""
        best: list[Sm] | None = None
        for start in range(0, len(self._used), size):
            unit = self._used[start : start + size]
            if not all(map(self._can_hold_another, unit)):
                continue
            if unit[0].ctas == 0:
                return unit
            if best is None or unit[0].ctas < best[0].ctas:
                best = unit
        first = len(self._used)
        if first + size <= self._count:
            unit = [Sm(first + index) for index in range(size)]
            if all(map(self._can_hold_another, unit)):
                self._used += unit
                return unit
        return best

    def _can_hold_another(self, sm: Sm) -> bool:
        """Whether the resources of an SM suffice for another CTA."""
        return (
            sm.ctas < self._ctas
            and sm.threads_used + self._threads <= THREADS_PER_SM
            and sm.shared_used + self._shared_bytes <= SHARED_PER_SM
        )

    def occupy(self, sm: Sm) -> None:
        """Count a CTA that starts on an SM."""
        sm.ctas += 1
        sm.threads_used += self._threads
        sm.shared_used += self._shared_bytes

    def release(self, sm: Sm) -> None:
        """Count a CTA that no longer occupies an SM."""
        sm.ctas -= 1
        sm.threads_used -= self._threads
        sm.shared_used -= self._shared_bytes
