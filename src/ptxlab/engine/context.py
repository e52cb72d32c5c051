"""The block of 64-bit words that the machine and compiled code share: one for each warp.

Machine and engine see the same words, by name here and by index in LLVM code.
"""

from __future__ import annotations

from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from ptxlab.native import address_of

__all__ = ["BY_CLUSTER", "BY_PARITY", "MAP_ADDRESS", "OF_GROUPS", "OTHERS_FIRST", "OTHERS_TURN_SHIFT", "WORDS", "Context", "Status", "Word"]


@unique
class Word(IntEnum):
    """Index of a word of the context."""

    FRAME = 0
    """in: address of the register file (64-byte aligned)"""
    MASK = 1
    """in/out: the converged lanes that run; those that exit leave it"""
    PC = 2
    """in/out: index of the next op"""
    LIMIT = 3
    """in: stop before a block that starts at or after this op index (the earliest pc of the warp's other converged lanes), and behind a
    service there (`JOINS`)"""
    FUEL = 4
    """in/out: warp-instructions left in this slice (signed)"""
    STATUS = 5
    """out: a `Status`"""
    INFO = 6
    """out: index of the op that ended the run"""
    ACTIVE = 7
    """out: lanes whose guard holds (SERVICE, CONVERGE), or that take the branch (DIVERGE)"""
    TAKEN = 8
    """out, DIVERGE: op index where the ACTIVE lanes continue"""
    NEXT = 9
    """out, DIVERGE: op index where the other lanes continue"""
    EXITED = 10
    """out: lanes that exited in this run"""
    FAULT = 11
    """out, FAULT: a fault code of the engine"""
    FAULT_LANE = 12
    FAULT_ADDRESS = 13
    SHARED = 14
    """in: address of the CTA's shared memory (window offset 0)"""
    SHARED_SIZE = 15
    """in: bytes of it, the reserved ones counted"""
    SHARED_RANK = 16
    """in: %cluster_ctarank << 24"""
    CLUSTER = 17
    """in: address of rows (address, size) of every CTA's shared memory in the cluster, by rank; size 0 for one that has exited"""
    CLUSTER_SIZE = 18
    PARAM = 19
    """in: address of the parameter bytes (param offset PARAM_BASE)"""
    PARAM_SIZE = 20
    ALLOCATIONS = 21
    """in: address of rows (base, size, host address, flags) of all device allocations sorted by base

    Flags bit 0: readable, bit 1: writable; the bits of `MAP_ADDRESS`: address of its access map (`support.access_maps`), if not 0.
    """
    ALLOCATION_COUNT = 22
    LAST_ALLOCATION = 23
    """in/out: row that was hit last"""
    SYMBOLS = 24
    """in: address of the device addresses of the program's global and const symbols"""
    TENSOR = 25
    """in: address of tensor memory, uint32[512][128] by column, lane; 0 if there is none"""
    TENSOR_OWNED = 26
    """in: address of uint8[512]: 1 where the column is allocated by this CTA"""
    QUADRANT = 27
    """in: %warpid % 4"""
    LOCAL = 28
    """in: address of local memory, lane after lane"""
    LOCAL_SIZE = 29
    """in: bytes of local memory of one lane"""
    DEFERRED = 30
    """in: non-zero when non-bulk asynchronous copies wait in PENDING (policies other than eager)"""
    PENDING = 31
    """in: address of rows (shared offset, global address, size | source size << 8 | lane << 16)"""
    PENDING_COUNT = 32
    PENDING_CAPACITY = 33
    LIVE = 34
    """in: lanes of the warp that have not exited, whether they run now or not"""
    CLOCK = 35
    """in: scheduler rounds"""
    EVENTS = 36
    """in: address of the rows in which recorded regions note accesses and fences (`support.event_rows`)"""
    EVENT_COUNT = 37
    EVENT_CAPACITY = 38
    EVENT_DRAIN = 39
    """in: address of ``void drain(context)``, which empties the rows"""
    ADDITIONS = 40
    """in: address of the table that floating-point atomics note additions in (`support.event_rows`); 0 if they are not recorded"""
    AGENT = 41
    """in: 32 times a number that only this warp has"""
    EVENT_SAVED = 42
    """in: address of a buffer for what a store overwrites (recorded regions)"""
    SOURCES = 43
    """in: non-zero where recorded regions note what cp.async reads, too"""

    OBSERVE = 44
    """in: address of ``void observe(context)``, which is called at each event of undefined bits (`Observed`); 0 if there is none"""
    OBSERVE_OP = 45
    """out: the op, and the event above `HOW_SHIFT`"""
    OBSERVE_MASK = 46
    """out: the lanes that have undefined bits"""
    OBSERVE_HOSTS = 47
    """out, of mirrored programs: address of the host addresses of the lanes"""
    MIRRORS = 48
    """in, of mirrored programs: address of the number of mirrors, and of rows (host address, bytes, address of the mirror)"""
    NO_MIRROR = 49
    """in: address of `NO_MIRROR_BYTES` bytes, zeros first"""
    TENSOR_MIRROR = 50
    """in: address of the mirror of tensor memory"""
    OWN_LANES = 51
    """in: non-zero where lane 0 of a tensor memory address is lane 0 for all warps (model ``spec``), not the first one of the warp"""

    COPIED = 52
    """in: address of uint64 for each word of the CTA's shared memory; 0 if it is not recorded

    Those of the other CTAs of the cluster stand before and after them, in the order of their ranks.
    The global address from which cp.async, or a load and a store, brought the word; 0 where that is not known. The halves of a word, and
    its bytes, may come from different places (`ptxlab.engine.word_sources.HALVES_SHIFT`).
    """
    COUNTERS = 53
    """in, of counted programs: address of a row of counters for each op (`support.counters`)"""
    PATTERNS = 54
    """in, of counted programs: address of what the last accesses of each op have cost (`support.counters`)"""
    TRACE = 55
    """in/out, of counted programs: address where the index of the next node is noted, 32 bits each (`support.counters`); 0 if none is"""
    WRITTEN = 56
    """in, of stepped programs: address of uint32 for each register: the lanes in which something has written it"""
    BEFORE_WRITE = 57
    """in: address of ``i64 before_write(address, size)``, which is called at a write to memory whose row in ALLOCATIONS can only be read

    It gives the host address, 0 if the memory cannot be written. 0 if there is no such function.
    """
    FOOTPRINT = 58
    """in, of counted programs: address of what says which sectors of device memory the CTA has accessed (`support.footprint`)"""
    TENSOR_SOURCES = 59
    """in: address of uint64[512][128] by column and lane; 0 if it is not recorded

    The same as `COPIED` for the cells of the CTA's tensor memory that tcgen05.st has written.
    """
    COPIED_BYTES = 60
    """in: address of uint64 for each byte of the CTA's shared memory, where stores of less than words are followed

    From where such stores have brought the bytes of a word. If the word is not made of them, `COPIED` is right, not these.
    """
    LISTED_WORDS = 61
    """in: address of the list of the words whose bytes come from any places (`ptxlab.engine.listed_words`); 0 if none are listed"""

    SERVICES = 62
    """in: address of int64 for each op, the executions of services; 0 if the machine completes all (`ptxlab.engine.direct_services`)"""
    PERMITTED = 63
    """in: address of int64 for each op: above 0 where compiled code may complete it (`ptxlab.engine.direct_services`)

    Above 1 it may block the warp, too.
    """

    EVENT_REPLAY = 64
    """in: address of words, of which the first is the address of ``void replay(context, words)``; 0 if there is none

    It is called when the rows of EVENTS are full, and when execution stops; it empties the rows, or leaves them to the machine.
    """

    PROGRESS = 65
    """in/out: address of int64: a number that grows whenever the launch makes progress"""
    BARRIERS = 66
    """in: address of the barriers of the CTA (`ptxlab.engine.turns.words.BarrierCell`)"""
    FUEL_LEFT = 67
    """in/out: warp-instructions left of the slice that the warp begins its next turn with; 0: a whole slice"""
    LAST_SLICE = 68
    """in/out: the size of its last slice; 0 if it has had none"""
    SEEN_PROGRESS = 69
    """in/out: the progress of the launch when it began that slice"""
    GRANTED = 70
    """in/out: FUEL when execution began"""
    QUEUED = 71
    """in/out: 1 if the warp is among those that can run"""
    REPETITIONS = 72
    """in: address of the table of executions that compiled code repeats (`ptxlab.engine.repetitions`); 0 if it repeats none"""
    REPEATED_IN = 73
    """in: address of two words: the number of the CTA's state that those executions depend on, 0 if it is not known, and their bases"""
    ISSUED = 74
    """in/out: the lanes that have issued operations that a tcgen05.commit tracks"""
    COMMITTERS = 75
    """in: the lanes whose tcgen05.commit compiled code may complete, and above them the number of their .cta_group"""
    BLOCKED_COUNTS = 76
    """in: address of an int64 for the first op, how often the warp has been blocked there by compiled code; 0 if nobody asks"""
    BLOCKED_STRIDE = 77
    """in: the distance in bytes from there to that of the next op"""
    AHEAD = 78
    """out: 1 if compiled code has ended a turn of the warp, so that the machine does not know PC and MASK yet"""
    ARRIVED = 80
    """out: the mbarrier objects on which compiled code has arrived last, or whose transaction bytes it has announced

    `ptxlab.engine.arrivals` says in which bits.
    """

    WARPGROUP = 81
    """in: address of the words of the warp's warpgroup (`ptxlab.engine.warpgroups`); 0 if it has executed no wgmma"""
    AWAITS = 82
    """in/out: the mbarrier object for whose phase the lanes wait: its offset, and `BY_PARITY`; or `OF_GROUPS`; 0 if they wait for none.
    `BY_CLUSTER` if compiled code has blocked them at the barrier of their cluster, until they have waited there once more.

    While a warp runs, it says only why the warp has come to `Status.SERVICE`.
    """
    AWAITED_PHASE = 83
    """in/out: the phase, as the instruction names it; of groups of wgmma the number of their last instruction plus one"""
    AWAITED_RESULT = 84
    """in/out: address of the lane mask that is the result of the wait; 0 if there is none; of groups of wgmma how many may be pending"""
    NEXT_WAITER = 85
    """in/out: address of the context of the next warp that compiled code has blocked for the same object or warpgroup, or at the barrier of
    the same cluster; 0 if it is the last"""
    QUEUE = 86
    """in: address of the words of the queue in which the warp stands when it can run (`ptxlab.engine.turns.words.QueueWord`)"""

    SLICE_REST = 87
    """in: warp-instructions that the slice has beside those in GRANTED, which are fewer where the lanes were not all converged"""

    CLUSTER_LANES = 88
    """in/out: the lanes that have arrived at the barrier of the cluster in an even phase and not waited; the next word: in an odd one"""

    OTHER_LANES = 90
    """in/out: where the lanes go two ways, and compiled code lets them take turns (`ptxlab.engine.turns.lanes`): those that do not run now,
    `OTHERS_FIRST`, and above `OTHERS_TURN_SHIFT` their turn; else 0"""
    OTHER_PC = 91
    """in/out: index of their next op"""
    OTHER_OP = 92
    """in/out: index plus one of the op at which they wait for the others; 0 if they wait at none"""
    USED_BEFORE = 93
    """in/out: warp-instructions that have been executed in this turn before those of GRANTED, where lanes have taken turns"""
    LANE_TURNS = 94
    """in: non-zero where compiled code may let lanes take turns"""
    JOINS = 95
    """in: non-zero where lanes stop behind a service at LIMIT, to join others there; by the letter nothing joins them (model ``spec``)"""

    GRID = 96
    """in: address of the words of the clusters of the launch (`ptxlab.engine.turns.words.GridWord`)"""

    LANES_ACTIVE = 97
    """in/out: where lanes wait that do not run now and compiled code lets the others run (`ptxlab.engine.turns.waiting_lanes`): `ACTIVE` of
    those lanes, of which `AWAITS` speaks, and `OTHER_OP`; else 0"""
    PERMITTED_BESIDE = 98
    """in/out: `PERMITTED` for lanes that run while others of their warp wait: they block nobody; the two change places meanwhile"""

    LANES_DONE = 99
    """out: the lanes for which compiled code has executed the instruction whose handler must be called for the others"""

    OPERANDS_TAKEN = 79
    """in: address of what an observer keeps for the CTA of what its products take; 0 if none does"""


WORDS = 104
BY_PARITY = 1 << 32
"""In `Word.AWAITS`: the phase is named by its parity, not by the opaque state of an arrival."""
OF_GROUPS = 1 << 33
"""In `Word.AWAITS`: the lanes wait for groups of wgmma."""
OTHERS_FIRST = 1 << 32
"""In `Word.OTHER_LANES`: these lanes come first in the order of the warp's converged lanes."""
OTHERS_TURN_SHIFT = 33
"""Above it stands in `Word.OTHER_LANES` by how much the turn of these lanes is greater than that of those that run."""
BY_CLUSTER = 1 << 34
"""The whole of `Word.AWAITS`: the lanes wait at the barrier of their cluster."""
MAP_ADDRESS = -64
"""The bits of the flags of an allocation that are the address of its access map, a multiple of 64."""


class Status(IntEnum):
    """Why compiled code came back."""

    EXIT = 0
    """no lane is left"""
    DIVERGE = 1
    """a branch parted the lanes: ACTIVE go to TAKEN, the rest of MASK to NEXT"""
    YIELD = 2
    """PC has reached LIMIT"""
    SERVICE = 3
    """the handler of op INFO must be called for the lanes ACTIVE; PC is the next op (ops whose guard is false in all lanes are skipped)"""
    FUEL = 4
    """FUEL is used up; execution continues at PC"""
    FAULT = 5
    """op INFO broke a rule: FAULT, FAULT_LANE, FAULT_ADDRESS"""
    CONVERGE = 6
    """op INFO exchanges data with lanes that are not among the converged ones; PC still stands at it"""
    BLOCKED = 7
    """the warp waits at a barrier, for an mbarrier object or for groups of wgmma, and compiled code has ended its turn

    `ptxlab.engine.turns.loop` says how.
    """


class Context:
    """The words of one warp."""

    __slots__ = ("address", "words")

    def __init__(self) -> None:
        self.words: NDArray[np.uint64] = np.zeros(WORDS, np.uint64)
        self.address: int = address_of(self.words)
