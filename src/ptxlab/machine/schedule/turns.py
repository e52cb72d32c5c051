"""What the scheduler shares with compiled code that completes barriers and lets the next warp run (`ptxlab.engine.turns`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.turns.words import (
    MACHINE_ONLY,
    MOST_WARPS,
    BarrierCell,
    ClusterCell,
    QueueWord,
    TurnWord,
    arrivals,
    has_cluster_barriers,
    has_waits,
)
from ptxlab.machine.observe.observer import NO_BARRIER_FUNCTIONS, NO_CLUSTER_FUNCTIONS
from ptxlab.machine.warp.warp import RUN
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import Cluster
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["CompiledTurns", "ReadyWarps", "begin_turns", "turns_of"]

_HEAD, _TAIL = int(QueueWord.HEAD), int(QueueWord.TAIL)
_PC, _MASK = int(Word.PC), int(Word.MASK)
_BLOCKED, _ALL_BLOCKED, _ARRIVED = int(BarrierCell.BLOCKED), int(BarrierCell.ALL_BLOCKED), int(BarrierCell.ARRIVED)


class ReadyWarps:
    """The warps of a queue that can run, in their order, in memory that compiled code shares (`QueueWord.RING`).

    Parameters
    ----------
    words : those of `QueueWord`
    most : how many warps there can be
    warps : those of the launch, by the addresses of their contexts
    """

    __slots__ = ("_mask", "_ring", "_warps", "_words")

    def __init__(self, words: memoryview, most: int, warps: dict[int, Warp]) -> None:
        size = 1 << most.bit_length()
        ring: NDArray[np.int64] = np.zeros(size, np.int64)
        self._words, self._mask = words, size - 1
        self._ring = ring.data
        words[QueueWord.RING], words[QueueWord.RING_MASK] = address_of(ring), self._mask
        self._warps = warps

    def __len__(self) -> int:
        length: int = self._words[_TAIL] - self._words[_HEAD]
        return length

    def __iter__(self) -> Iterator[Warp]:
        for at in range(self._words[_HEAD], self._words[_TAIL]):
            yield self._warps[self._ring[at & self._mask] & ~MACHINE_ONLY]

    def resume(self, address: int) -> None:
        """Add a warp as the last one that compiled code has blocked, by the address of its context."""
        words = self._words
        at = words[_TAIL]
        words[_TAIL] = at + 1
        self._ring[at & self._mask] = address

    def append(self, warp: Warp) -> None:
        """Add a warp as the last one. Compiled code may continue it if it has a single group of lanes."""
        address, groups = warp.context.address, warp.converged
        lanes = groups[0]
        self._warps[address] = warp
        if len(groups) > 1 or lanes.state != RUN or lanes.again:
            address |= MACHINE_ONLY
        else:
            own = warp.words
            own[_PC], own[_MASK] = lanes.pc, lanes.mask
        self.resume(address)

    def remove(self, warp: Warp) -> None:
        """Remove a warp, wherever it stands."""
        others = [each for each in self if each is not warp]
        self._words[_HEAD] = self._words[_TAIL]
        for each in others:
            self.append(each)

    def rotate(self, steps: int) -> None:
        """Move the last warps to the front; if the number is negative, move the first ones to the end."""
        if self:
            words, ring, mask = self._words, self._ring, self._mask
            first = words[_HEAD]
            for _ in range(-steps % len(self)):
                ring[words[_TAIL] & mask] = ring[first & mask]
                first = words[_HEAD] = first + 1
                words[_TAIL] += 1

    def popleft(self) -> Warp:
        """Remove the first warp and return it."""
        words = self._words
        at = words[_HEAD]
        words[_HEAD] = at + 1
        return self._warps[self._ring[at & self._mask] & ~MACHINE_ONLY]

    def keep(self, warp: Warp) -> None:
        """Let only the machine continue a warp."""
        address, ring = warp.context.address, self._ring
        for at in range(self._words[_HEAD], self._words[_TAIL]):
            if ring[at & self._mask] == address:
                ring[at & self._mask] |= MACHINE_ONLY


class CompiledTurns:
    """What compiled code needs to run the warps of one launch.

    Attributes
    ----------
    words : those of `TurnWord`
    address : their host address
    warps : those that have been able to run, by the addresses of their contexts
    most_warps : how many can be resident
    arrivals : by op, how its warp waits at a barrier, or 0 (`ptxlab.engine.turns.words.arrivals`); 0 where it is not the compiled one
    waits : whether compiled code may block warps that wait for phases of mbarrier objects, for groups of wgmma, or at barriers of clusters
    """

    __slots__ = ("_listed", "address", "arrivals", "most_warps", "waits", "warps", "words")

    def __init__(self, launch: Launch, dispatch: int, waits: bool) -> None:
        words: NDArray[np.int64] = np.zeros(TurnWord.END, np.int64)
        resident = min(launch.total_ctas, launch.device.sms * launch.ctas_per_sm)
        self.words, self.address = words.data, address_of(words)
        self.most_warps = resident * launch.warps_per_cta
        self.warps: dict[int, Warp] = {}
        table, changed = launch.facts.of(arrivals), launch.facts.changed
        if changed:
            table = table.copy()
            table[list(changed)] = 0
        words[TurnWord.DISPATCH], words[TurnWord.ARRIVALS] = dispatch, address_of(table)
        words[TurnWord.COUNTS] = launch.host_memory.counts_address
        self.arrivals, self.waits = table.data, waits
        self._listed: NDArray[np.int64] = np.zeros(0, np.int64)

    def queue(self, words: memoryview, most: int) -> ReadyWarps:
        """The warps of a queue, whose words are those of `QueueWord`; so many can be in it."""
        return ReadyWarps(words, most, self.warps)

    def list_queues(self, addresses: list[int]) -> None:
        """Let compiled code choose from queues whose words have these addresses."""
        count = len(addresses)
        if count > len(self._listed):
            self._listed = np.zeros(2 * count, np.int64)
            self.words[TurnWord.QUEUES] = address_of(self._listed)
        self._listed[:count] = addresses
        self.words[TurnWord.QUEUE_COUNT] = count

    @staticmethod
    def ready_of(warp: Warp) -> ReadyWarps:
        """The queue of a warp."""
        ready = warp.cta.group.queue.ready
        assert isinstance(ready, ReadyWarps)
        return ready


def turns_of(launch: Launch, dispatch: int) -> CompiledTurns | None:
    """What compiled code needs for it; None if each warp's turn must be known to the scheduler or to the observer, or nothing is gained.

    ``dispatch`` is the address of the function that runs one warp, 0 if there is none.
    """
    program, observer, queue = launch.program, launch.observer, launch.scheduler.queues.only
    waits = not program.stepped and (observer is None or observer.allows_compiled_waits())
    if (
        (program.stepped if queue is None else not queue.in_order)
        or launch.options.outside is not None
        or not dispatch
        or (observer is not None and not observer.allows_shared_turns())
        or not (launch.facts.of(arrivals).any() or (waits and launch.facts.of(has_waits)))
    ):
        return None
    return CompiledTurns(launch, dispatch, waits)


def begin_turns(launch: Launch, cluster: Cluster) -> None:
    """Tell compiled code of the barriers of a cluster that starts."""
    observer, first, has_barriers = launch.observer, cluster.ctas[0].memory, launch.facts.of(arrivals).any()
    for cta in cluster.ctas:
        cells = cta.memory.barriers
        cells[BarrierCell.LIVE], cells[BarrierCell.CLUSTER] = cta.live_threads, first.barriers_address + 8 * BarrierCell.OF_CLUSTER
        functions = NO_BARRIER_FUNCTIONS if observer is None or not has_barriers else observer.barrier_functions(cta)
        cells[BarrierCell.COMPLETES] = functions is not None
        if functions is not None:
            cells[BarrierCell.MAY_BLOCK], cells[BarrierCell.COMPLETED] = functions
    if launch.facts.of(has_cluster_barriers):
        of_cluster = NO_CLUSTER_FUNCTIONS if observer is None else observer.cluster_functions(cluster)
        cells, turns = cluster.barrier.cells, launch.scheduler.compiled_turns
        if of_cluster is not None and turns is not None and turns.waits:
            cells[ClusterCell.COMPLETES] = 1
            cells[ClusterCell.ARRIVES : ClusterCell.ABOUT + 1] = np.array(of_cluster, np.int64).data


def take_blocked(cells: memoryview, number: int) -> list[int]:
    """Take the warps that compiled code has blocked at a barrier, whose phase the machine counts from now on: their contexts."""
    count, at = cells[_BLOCKED + number], BarrierCell.WAITING + number * MOST_WARPS
    found = cells[at : at + count].tolist()
    cells[_ALL_BLOCKED] -= count
    cells[_BLOCKED + number] = cells[_ARRIVED + number] = 0
    return found
