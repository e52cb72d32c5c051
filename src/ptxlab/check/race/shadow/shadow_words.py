"""The words of the tables that compiled code of the race check reads and writes, and the bits of their instructions."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from ptxlab.check.model import Row

__all__ = [
    "ACCESSES_TOO",
    "AGENT_HEADER",
    "ALL_COPIES",
    "ANNOUNCES",
    "ARRIVES_ONCE",
    "BEFORE",
    "BULK_COMMIT",
    "BULK_SOURCES",
    "BULK_WAIT",
    "CLUSTER_SHIFT",
    "COMMIT",
    "CONCURRENT",
    "COPY_ACCESS",
    "COPY_WAIT",
    "DIGESTS",
    "EQUAL",
    "FORMAL",
    "HANDLED",
    "HOW_SHIFT",
    "INIT_FENCE",
    "LANES_ARRIVE",
    "MBARRIER_ARRIVAL",
    "MBARRIER_WAIT",
    "MEMOS",
    "NEAR",
    "OBJECT_WORDS",
    "OP_WORDS",
    "PAIR",
    "PROXY_FENCES",
    "READS_TOO",
    "RECENT_CELLS",
    "REPORTED_WORDS",
    "SUSPECT_WORDS",
    "TENSOR_COMMIT",
    "TENSOR_FENCES",
    "TENSOR_WAITS",
    "TRANSFER",
    "UNWRITTEN",
    "WARPGROUP_COMMIT",
    "WARPGROUP_FENCE",
    "WARPGROUP_SHARE",
    "WARPGROUP_WAIT",
    "AgentWord",
    "BulkWord",
    "MemoWord",
    "OpWord",
    "PipeWord",
    "StateWord",
]

CLUSTER_SHIFT = 12
"""A slot's number is the cluster's << 12 | its number in the cluster."""
BEFORE = 0
"""The cluster number of the grid before. All clusters have a clock for its slot 0."""
HOW_SHIFT = 56
"""The position of kind and write in the second word of an entry."""
OBJECT_WORDS = 7
"""Host address, bytes, address of the cells, entries of a cell | granule shift << 8 | mask unit shift << 16, row of the async proxy, the
address of the masks of what has been written (0 where all memory starts with a value), and that of the cells' further entries."""
NEAR = 4
"""Entries of a cell that are contiguous, in one cache line. Few cells need the further ones, which are stored elsewhere."""
PAIR = 0xFFFFFF | 31 << HOW_SHIFT
"""Instruction and kind of an entry."""
SUSPECT_WORDS = 6
"""The earlier entry, the later one, the granule's host address, and what is wrong: `CONCURRENT`, `FORMAL`, `UNWRITTEN` or `EQUAL`."""
REPORTED_WORDS = 3
"""`PAIR` of the earlier entry and of the later one, and what is wrong."""
CONCURRENT, FORMAL, UNWRITTEN, EQUAL = range(4)
COPY_ACCESS, HANDLED, ACCESSES_TOO = 0x100, 0x10000, 0x20000
"""An access of cp.async; a row that Python handles; such a row that is an access, too."""
READS_TOO = 0x20
"""A bit after kind and write: the access reads the bytes before it writes them."""
PROXY_FENCES = {Row.ASYNC_SHARED: 0x40000, Row.ASYNC_GLOBAL: 0x80000}
"""The bits of a fence.proxy.async, by the row that it raises to the row of execution. Python handles it if accesses before are suspect."""
TENSOR_FENCES = {True: 0x200000000, False: 0x400000000}
"""The bits of tcgen05.fence::before_thread_sync and ::after_thread_sync. Python handles them if accesses before are suspect."""
BULK_COMMIT, BULK_WAIT, BULK_SOURCES = 0x800000000, 0x1000000000, 0x2000000000
"""cp.async.bulk.commit_group, cp.async.bulk.wait_group, and with ``.read``. Python handles the waits if accesses before are suspect."""
DIGESTS = 256
"""Bulk copies of one lane of which the digests are kept."""
TRANSFER = 0x100000
"""tcgen05.ld and tcgen05.st."""
TENSOR_WAITS = {False: 0x200000, True: 0x400000}
"""tcgen05.wait, of loads and of stores."""
COMMIT = 0x800000
"""cp.async.commit_group: the copies that follow have the next number."""
COPY_WAIT = 0x1000000
"""cp.async.wait_group and cp.async.wait_all.

Python handles it if accesses before are suspect, or if the groups do not have consecutive numbers.
"""
ALL_COPIES = (1 << 64) - 1
"""What cp.async.wait_all has as the number of groups that it leaves pending (`OpWord.DETAIL`): it waits for what is in no group, too."""
MBARRIER_WAIT = 0x2000000
"""A wait for a phase of an mbarrier object. Python handles those of warps whose uses the initialisation is not ordered before."""
MBARRIER_ARRIVAL, TENSOR_COMMIT = 0x4000000, 0x8000000
"""Arrivals on an mbarrier object, or announcements of bytes, and tcgen05.commit. Python handles the same ones as of waits."""
INIT_FENCE = 0x100000000
"""fence.mbarrier_init. Python handles it if the warp has initialised mbarrier objects since the one before."""
WARPGROUP_SHARE, WARPGROUP_COMMIT, WARPGROUP_WAIT = 0x10000000, 0x20000000, 0x40000000
"""A warp's share of a wgmma.mma_async, wgmma.commit_group and wgmma.wait_group."""
WARPGROUP_FENCE = 0x80000000
"""wgmma.fence, which does nothing. Python handles it if some threads do not execute it, or an aligned instruction before."""
ARRIVES_ONCE, LANES_ARRIVE, ANNOUNCES = range(3)
"""What a warp does with an mbarrier object (`OpWord.DETAIL`)."""
OP_WORDS = 3
MEMOS = 16
RECENT_CELLS = 4
"""A row of a tile has so many cells, which other instructions access each."""


class OpWord(IntEnum):
    """The words of an instruction in the table of ops."""

    HOW = 0
    """kind << 1 | write, `READS_TOO`; bit 8: `COPY_ACCESS`; bit 16: `HANDLED`; bit 17: `ACCESSES_TOO`; bits 18, 19:
    `PROXY_FENCES`; bit 20: `TRANSFER`; bits 21, 22: `TENSOR_WAITS`, which Python handles only if there is something to report; bit 23:
    `COMMIT`; bits 24 to 27: `COPY_WAIT`, `MBARRIER_WAIT`, `MBARRIER_ARRIVAL` and `TENSOR_COMMIT`; bits 28 to 31: those of warpgroups; bit
    32: `INIT_FENCE`; bits 33, 34: `TENSOR_FENCES`; bits 35 to 37: `BULK_COMMIT`, `BULK_WAIT` and `BULK_SOURCES`"""
    SIZE = 1
    DETAIL = 2
    """of a transfer, the address of the number of columns, the bytes of each, and their distances from the first one in bytes; of a
    wait_group of cp.async, cp.async.bulk or wgmma, the number of groups that it leaves pending, or `ALL_COPIES`; of an arrival,
    `ARRIVES_ONCE`, `LANES_ARRIVE` or `ANNOUNCES`"""


class StateWord(IntEnum):
    """The words of the state that the compiled functions share."""

    ROWS = 0
    """the clock of the running agent, uint32[row][slot component]"""
    WIDTH = 1
    CLUSTER = 2
    SLOT = 3
    AGENT = 4
    """the address of the words of the running agent (`AgentWord`)"""
    READY = 5
    """1 if the table of objects is complete"""
    QUICK_ROWS = 6
    """the address of the number of rows that functions without optimisation may still process"""
    OBJECTS = 7
    OBJECT_COUNT = 8
    LAST = 9
    OPS = 10
    RULES = 11
    SUSPECTS = 12
    SUSPECT_COUNT = 13
    SUSPECT_CAPACITY = 14
    REPLAYED = 15
    """1 if compiled code has processed rows that it leaves to Python"""
    STOPPED = 16
    """the result of ``drain`` for these"""
    EPOCH = 17
    """the number of the table of objects; a memo for an earlier table is not valid"""
    TRANSFERRED = 18
    """1 if a row was a transfer"""
    PARTED = 19
    """1 if some warp has executed an aligned instruction only in part"""
    DRAINED = 20
    """of the rows that are drained: the address, the index of the first one, and ``count``, the index behind the last one"""
    ACCESSED = 24
    """of the ranges that one access consists of: the addresses of starts and sizes, the distance from one size to the next, or 0 where all
    have one size, and their number; then the two words of the entry"""
    ACCUMULATOR = 32
    """of the accumulator that was written last with nothing in between: the address of the starts of the access, the first word of its
    entry, and its kind; 0 if there is none"""
    ISSUED = 35
    """of how many operations that are issued next the accesses are recorded, and only to be judged"""
    REPORTED = 36
    """the address of pairs of which there is a finding, of `REPORTED_WORDS` words"""
    REPORTED_COUNT = 37
    LEFT_OUT = 38
    """how many suspects have been left out, as there is a finding of their pair"""
    MEMO = 40
    """cells before and after an access: `MEMOS` times `MemoWord`"""
    RECENT = MEMO + MEMOS * 24
    """the last access to each of neighbouring cells, by the lowest bits of its number, all by the agent and to the object of the first
    one: `RECENT` times `MemoWord`"""
    END = RECENT + RECENT_CELLS * 24


AGENT_HEADER = Struct("5Q")
"""The words of the state that say which agent runs, from `StateWord.ROWS` to `StateWord.AGENT`."""


class AgentWord(IntEnum):
    """The words of one agent, a warp."""

    REPLAY = 0
    """the address of ``replay`` (`Word.EVENT_REPLAY`)"""
    STATE = 1
    """the address of the state"""
    HEADER = 2
    """`AGENT_HEADER`"""
    TRANSFERS = HEADER + AGENT_HEADER.size // 8
    """the address of its transfers (`TransferWord`)"""
    MBARRIERS = 8
    """the address of its table of mbarrier objects (`Clocks.share_mbarrier`), or 0"""
    COPY_SLOT = 9
    """the name of the slot of its cp.async"""
    COPY_CLOCK = 10
    """the number of the copies that follow"""
    COPY_GROUPS = 11
    """how many of the newest groups of cp.async have consecutive numbers, the last of which is `COPY_CLOCK` - 1"""
    COPIED = 12
    """the number of the newest copy, in a group or not yet"""
    PIPES = 13
    """the address of what numbers the operations of each lane on tensor memory (`PipeWord`), or 0"""
    CLUSTER_MBARRIERS = 14
    """the address of the addresses of the tables of all CTAs of the cluster, by rank; 0 if Python handles the arrivals of the warp"""
    BULK_READS = 15
    """the address of what numbers the bulk copies of each lane that mbarriers report (`BulkWord`), or 0"""
    WARPGROUP = 16
    """the address of the words of its warpgroup (`WarpgroupWord`), or 0"""
    CONTEXT = 17
    """the address of the words of the warp that it shares with compiled code"""
    FENCED = 18
    FENCED_WIDTH = 19
    """the address and the width of the rows that its relaxed arrivals release within the cluster, or 0 (`Agent.fence`)"""
    INIT_FENCED = 20
    """1 if a fence.mbarrier_init would change nothing: the one before follows all that the warp has initialised"""
    BULK_GROUPS = 21
    """the address of what numbers the bulk copies of each lane that are in groups (`BulkWord`), or 0"""
    END = 22


class PipeWord(IntEnum):
    """The words of the slot of a lane's operations on tensor memory."""

    NAME = 0
    """the name of the slot, 0 if there is none yet"""
    CLOCK = 1
    END = 2


class BulkWord(IntEnum):
    """The words of a slot of bulk copies."""

    NAME = 0
    """the name of the slot, 0 if there is none yet"""
    CLOCK = 1
    OP = 2
    """the newest copy"""
    COMMITTED = 3
    """of those of a lane, how many groups it has committed since the slot was made"""
    ENDS = 4
    ENDS_SIZE = 5
    """address of a ring of int64, and its size, a power of two: of each group the number of the newest copy

    No wait leaves as many groups pending.
    """
    STORES = 6
    """address of `DIGESTS` times two words: of a copy in a group its number, and the digest of what it reads and where it writes it"""
    END = 7


class MemoWord(IntEnum):
    """One access to a cell whose near entries were enough, and which found no suspects, not even such that are left out.

    If the same agent makes the same access to equal entries again, the result is the same: clocks only grow.
    """

    EPOCH = 0
    OBJECT = 1
    WHO = 2
    WHAT = 3
    BEFORE = 8
    AFTER = 16
    """the entries before and after the access"""
    END = 24
