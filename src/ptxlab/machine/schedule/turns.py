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

_HEAD, _TAIL = int(TurnWord.HEAD), int(TurnWord.TAIL)
_PC, _MASK = int(Word.PC), int(Word.MASK)
_BLOCKED, _ALL_BLOCKED, _ARRIVED = int(BarrierCell.BLOCKED), int(BarrierCell.ALL_BLOCKED), int(BarrierCell.ARRIVED)


class ReadyWarps:
    """The warps that can run, in their order, in memory that compiled code shares (`TurnWord.RING`).

    Parameters
    ----------
    words : those of `TurnWord`
    most : how many warps there can be
    """

    __slots__ = ("_mask", "_ring", "_warps", "_words")

    def __init__(self, words: memoryview, most: int) -> None:
        size = 1 << most.bit_length()
        ring: NDArray[np.int64] = np.zeros(size, np.int64)
        self._words, self._mask = words, size - 1
        self._ring = ring.data
        words[TurnWord.RING], words[TurnWord.RING_MASK] = address_of(ring), self._mask
        self._warps: dict[int, Warp] = {}

    def __len__(self) -> int:
        length: int = self._words[_TAIL] - self._words[_HEAD]
        return length

    def __iter__(self) -> Iterator[Warp]:
        for at in range(self._words[_HEAD], self._words[_TAIL]):
            yield self._warps[self._ring[at & self._mask] & ~MACHINE_ONLY]

    def append(self, warp: Warp) -> None:
        """Add a warp as the last one. Compiled code may continue it if it has a single group of lanes."""
        words, address, groups = self._words, warp.context.address, warp.converged
        at, lanes = words[_TAIL], groups[0]
        words[_TAIL] = at + 1
        self._warps[address] = warp
        if len(groups) > 1 or lanes.state != RUN or lanes.again:
            address |= MACHINE_ONLY
        else:
            own = warp.words
            own[_PC], own[_MASK] = lanes.pc, lanes.mask
        self._ring[at & self._mask] = address

    def remove(self, warp: Warp) -> None:
        """Remove a warp, wherever it stands."""
        others = [each for each in self if each is not warp]
        self._words[_HEAD] = self._words[_TAIL]
        for each in others:
            self.append(each)

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

    def of(self, address: int) -> Warp:
        """The warp whose context has this address."""
        return self._warps[address]


class CompiledTurns:
    """What compiled code needs to run the warps of one launch.

    Attributes
    ----------
    words : those of `TurnWord`
    address : their host address
    ready : the warps that can run
    arrivals : by op, how its warp waits at a barrier, or 0 (`ptxlab.engine.turns.words.arrivals`); 0 where it is not the compiled one
    waits : whether compiled code may block warps that wait for phases of mbarrier objects, for groups of wgmma, or at barriers of clusters
    """

    __slots__ = ("address", "arrivals", "ready", "waits", "words")

    def __init__(self, launch: Launch, dispatch: int, waits: bool) -> None:
        words: NDArray[np.int64] = np.zeros(TurnWord.END, np.int64)
        resident = min(launch.total_ctas, launch.device.sms * launch.ctas_per_sm)
        self.words, self.address = words.data, address_of(words)
        self.ready = ReadyWarps(self.words, resident * launch.warps_per_cta)
        table, changed = launch.facts.of(arrivals), launch.facts.changed
        if changed:
            table = table.copy()
            table[list(changed)] = 0
        words[TurnWord.DISPATCH], words[TurnWord.ARRIVALS] = dispatch, address_of(table)
        words[TurnWord.COUNTS] = launch.host_memory.counts_address
        self.arrivals, self.waits = table.data, waits


def turns_of(launch: Launch, dispatch: int) -> CompiledTurns | None:
    """What compiled code needs for it; None if each warp's turn must be known to the scheduler or to the observer, or nothing is gained.

    ``dispatch`` is the address of the function that runs one warp, 0 if there is none.
    """
    observer, queue = launch.observer, launch.scheduler.queues.only
    waits = not launch.program.stepped and (observer is None or observer.allows_compiled_waits())
    if (
        queue is None
        or not queue.in_order
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
