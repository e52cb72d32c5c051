"""Which bytes count as accessed, which accesses conflict, and what workers hand over."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.memory.global_memory import DeviceMemory
from ptxlab.machine.workers.accesses import AccessMaps, Groups, conflict, put, read_groups, write_groups

SIZES = (1000, 512, 4096, 1)


def maps() -> tuple[DeviceMemory, AccessMaps]:
    memory = DeviceMemory()
    for number, size in enumerate(SIZES):
        memory.allocate(size, str(number))
    return memory, AccessMaps(memory.live(), memory.rows)


def bytes_of(groups: Groups, size: int) -> set[int]:
    bits = np.unpackbits(groups.bits.view(np.uint8), axis=1, bitorder="little")
    rows, columns = np.nonzero(bits)
    found = set((groups.numbers[rows] * 512 + columns).tolist())
    assert all(byte < size for byte in found)
    return found


def test_marked_ranges_against_sets() -> None:
    random = np.random.default_rng(7)
    memory, found = maps()
    live = memory.live()
    expected: dict[tuple[int, bool], set[int]] = {(at, write): set() for at in range(len(SIZES)) for write in (False, True)}
    for _ in range(60):
        at, write = int(random.integers(len(SIZES))), bool(random.integers(2))
        starts = random.integers(0, SIZES[at], 5)
        sizes = np.minimum(random.integers(1, 200, 5), SIZES[at] - starts)
        base = live[at].data.ctypes.data
        found.mark([MemoryAccess((starts + base).astype(np.uint64), sizes.astype(np.uint32), write)])
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            expected[at, write] |= set(range(start, start + size))
    elsewhere = np.zeros(64, np.uint8)
    found.mark([MemoryAccess.of(elsewhere, True)])
    written, read = found.written(), found.read(range(len(SIZES)))
    for at, size in enumerate(SIZES):
        assert bytes_of(read[at], size) == expected[at, False]
        assert (bytes_of(written[at], size) if at in written else set()) == expected[at, True]


def test_repeated_accesses_are_marked_once_for_a_cluster() -> None:
    memory, found = maps()
    accesses = (MemoryAccess.of(memory.live()[0].data[10:20], True),)
    for conflicts in (False, True):
        found.mark_once(accesses)
        found.mark_once(accesses)
        assert bytes_of(found.written()[0], SIZES[0]) == set(range(10, 20))
        assert found.next_cluster() is conflicts


def test_written_bytes_are_taken_over() -> None:
    random = np.random.default_rng(8)
    memory, found = maps()
    live = memory.live()
    chosen = [random.random(size) < 0.3 for size in SIZES]
    chosen[2][512:1536] = True  # two whole groups
    for allocation, bytes_ in zip(live, chosen, strict=True):
        bytes_[-1] = True
        for byte in np.flatnonzero(bytes_).tolist():
            found.mark([MemoryAccess.of(allocation.data[byte : byte + 1], True)])
        allocation.data[:] = random.integers(1, 256, allocation.size)
    after = [allocation.data.copy() for allocation in live]
    written, file = found.written(), os.memfd_create("results")
    for at, groups in written.items():
        write_groups(file, live[at], groups)
    for allocation in live:
        allocation.data[:] = 7
    for at, groups, rows in read_groups(file, written):
        put(live[at], groups, rows)
    os.close(file)
    for allocation, bytes_, values in zip(live, chosen, after, strict=True):
        assert np.array_equal(allocation.data, np.where(bytes_, values, 7))


CONFLICTS = pytest.mark.parametrize(
    ("first", "second", "conflicts"),
    [
        ("w0-9", "w10-19", False),
        ("w0-9", "w9-19", True),
        ("r0-9", "r0-9", False),
        ("w0-9", "r5-5", True),
        ("r900-999", "w999-999", True),
        ("r900-998", "w999-999", False),
        ("w0-9 r0-9", "w600-700 r600-800", False),
        ("w0-9 r800-800", "w600-700 r10-20", False),
    ],
)


def accesses(found: AccessMaps, memory: DeviceMemory, text: str) -> None:
    for access in text.split():
        low, high = map(int, access[1:].split("-"))
        found.mark([MemoryAccess.of(memory.live()[0].data[low : high + 1], access[0] == "w")])


@CONFLICTS
def test_conflicts_of_clusters(first: str, second: str, conflicts: bool) -> None:
    for order in ((first, second), (second, first)):
        memory, found = maps()
        noted = []
        for text in order:
            accesses(found, memory, text)
            noted.append(found.next_cluster())
        assert noted == [False, conflicts]
        if not conflicts:
            expected = {True: set[int](), False: set[int]()}
            for access in " ".join(order).split():
                low, high = map(int, access[1:].split("-"))
                expected[access[0] == "w"] |= set(range(low, high + 1))
            written = found.written()
            assert (bytes_of(written[0], SIZES[0]) if written else set()) == expected[True]
            assert bytes_of(found.read([0])[0], SIZES[0]) == expected[False]


@CONFLICTS
def test_conflicts_of_processes(first: str, second: str, conflicts: bool) -> None:
    for order in ((first, second), (second, first)):
        written: list[dict[int, Groups]] = []
        read: list[dict[int, Groups]] = []
        for text in order:
            memory, found = maps()
            accesses(found, memory, text)
            written.append(found.written())
            read.append(found.read(range(len(SIZES))))
        assert (conflict(written, read) is not None) is conflicts
