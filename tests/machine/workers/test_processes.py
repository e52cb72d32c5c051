"""Worker processes: what they leave behind, when they die or are interrupted, beside threads; and which bytes count as accessed."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.memory.global_memory import DeviceMemory
from ptxlab.machine.workers import processes, worker
from ptxlab.machine.workers.accesses import AccessMaps, Groups, conflict, put, read_groups, write_groups
from tests.machine.launch_helpers import kernel, store

CTAS = 8
LONG = "mov.u32 r1, 0; L: add.u32 r1, r1, 1; setp.lt.u32 p, r1, 20000000; @p bra L;" + store("r1")


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The processes that are made; none must be left."""
    made: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        if pid:
            made.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    gc.collect()  # descriptors of earlier tests
    files = len(os.listdir("/proc/self/fd"))
    yield made
    for pid in made:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    assert len(os.listdir("/proc/self/fd")) <= files


def launch(body: str, workers: int = 2, **options: Any) -> tuple[np.ndarray, ptxlab.Result]:
    out = np.zeros(CTAS * 32, np.uint32)
    return out, kernel(body).launch(grid=CTAS, block=32, args=[out], workers=workers, **options)


def test_nothing_is_left(forked: list[int]) -> None:
    out, result = launch(store("cta"), 3)
    assert (result.ok, result.stats.workers, len(forked)) == (True, 3, 3)
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_each_cluster_runs_once() -> None:
    """Each of many clusters is taken by one worker, though they are taken as fast as they can be."""
    out = np.zeros(4096 * 32, np.uint32)
    loaded = kernel("ld.global.u32 r1, [at]; add.u32 r1, r1, 1; add.u32 r1, r1, cta;" + store("r1"))
    for _ in range(3):
        out[:] = 0
        result = loaded.launch(grid=4096, block=32, args=[out], workers=3, policy="random", check="none")
        assert (result.stats.workers, result.stats.ctas) == (3, 4096), result.stats.why_alone
        assert np.array_equal(out, np.repeat(np.arange(1, 4097), 32))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, "exception"])
def test_a_worker_dies(forked: list[int], monkeypatch: pytest.MonkeyPatch, how: Any) -> None:
    run = worker.Worker.run

    def dying(self: worker.Worker, clusters: range) -> worker.Done:
        if 5 in clusters:
            if how == "exception":
                raise MemoryError
            os.kill(os.getpid(), how)
        return run(self, clusters)

    monkeypatch.setattr(worker.Worker, "run", dying)
    out, result = launch(store("cta"))
    assert (result.ok, result.stats.why_alone, len(forked)) == (True, "a worker process has died", 2)
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_no_process_can_be_made(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fork = os.fork

    def limited() -> int:
        if forked:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", limited)
    out, result = launch(store("cta"))
    assert result.ok
    assert result.stats.why_alone.startswith("there can be no worker process")
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupt_ends_all_processes(forked: list[int]) -> None:
    """Arrays are not written back then, as with one worker."""
    launch(store("cta"))
    forked.clear()

    def interrupt() -> None:
        while len(forked) < 2:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    out = np.zeros(CTAS * 32, np.uint32)
    loaded = kernel(LONG)
    gc.disable()  # an interrupt while a callback of the collector runs, such as hypothesis', is lost
    try:
        with pytest.raises(KeyboardInterrupt):
            loaded.launch(grid=CTAS, block=32, args=[out], workers=2, policy="random", check="none")
    finally:
        gc.enable()
    assert len(forked) == 2
    assert not out.any()


def test_an_interrupt_while_processes_are_ended(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    end = processes._Workers._end

    def interrupted(self: processes._Workers) -> None:
        end(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes._Workers, "_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launch(store("cta"))
    assert len(forked) == 2


def test_no_memory_can_be_shared(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse)
    out, result = launch(store("cta"))
    assert (result.ok, forked) == (True, [])
    assert result.stats.why_alone == "there can be no shared memory: [Errno 24] Too many open files"
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_no_memory_for_ranges(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    write, limit = os.write, [8]

    def full(file: int, data: Any) -> int:
        """A file that has room for half a range."""
        if not limit:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, memoryview(data)[: limit.pop()])

    monkeypatch.setattr(os, "write", full)
    out, result = launch(store("cta"))
    assert (result.ok, forked) == (True, [])
    assert result.stats.why_alone == "there can be no shared memory: [Errno 28] No space left on device"
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_files_that_take_few_bytes_at_once(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of clusters and results are written in parts."""
    write, most = os.write, [5, 300]
    monkeypatch.setattr(os, "write", lambda file, data: write(file, memoryview(data)[: most[len(data) >= 512]]))
    out, result = launch(store("cta"))
    assert (result.ok, result.stats.workers, len(forked)) == (True, 2, 2), result.stats.why_alone
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_no_pipe_can_be_made(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    import multiprocessing

    def refuse() -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(multiprocessing, "Pipe", refuse)
    out, result = launch(store("cta"))
    assert (result.ok, forked) == (True, [])
    assert result.stats.why_alone == "there can be no worker process: [Errno 24] Too many open files"
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_a_worker_dies_before_it_is_asked_for_its_reads(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    gather = processes._Workers._gather

    def killing(self: processes._Workers) -> Any:
        found = gather(self)
        os.kill(forked[-1], signal.SIGKILL)
        os.waitid(os.P_PID, forked[-1], os.WEXITED | os.WNOWAIT)
        return found

    monkeypatch.setattr(processes._Workers, "_gather", killing)
    out, result = launch(store("cta"))
    assert (result.ok, result.stats.why_alone, len(forked)) == (True, "a worker process has died", 2)
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))


def test_no_memory_for_results(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worker, "write_groups", refuse)
    files = len(os.listdir("/proc/self/fd"))
    out, result = launch(store("cta"))
    assert (result.ok, len(forked)) == (True, 2)
    assert result.stats.why_alone == "there is no memory for results: [Errno 28] No space left on device"
    assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))
    assert len(os.listdir("/proc/self/fd")) == files


def test_results_that_cannot_be_read(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken over, of no worker."""
    read, left = processes.read_groups, [1]

    def refuse(*given: Any) -> Any:
        if left.pop():
            left.append(0)
            return read(*given)
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(processes, "read_groups", refuse)
    out = np.full(CTAS * 32, 7, np.uint32)
    body = "ld.global.u32 r1, [at]; add.u32 r1, r1, 1;" + store("r1")
    result = kernel(body).launch(grid=CTAS, block=32, args=[out], workers=2)
    assert (result.ok, len(forked)) == (True, 2)
    assert result.stats.why_alone == "there is no memory for results: [Errno 12] Cannot allocate memory"
    assert (out == 8).all()


def test_a_progress_function_that_raises(forked: list[int]) -> None:
    def progress(ended: int, total: int) -> None:
        if ended == 3:
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        launch(store("cta"), progress=progress)


@pytest.mark.sweep
def test_beside_threads(forked: list[int]) -> None:
    """Processes are made while other threads compile and launch."""
    failures: list[BaseException] = []

    def many(first: int) -> None:
        try:
            for number in range(first, first + 4):
                body = f"add.u32 r1, cta, {number}; mul.lo.u32 r1, r1, {number + 3}; {store('r1')}"
                out, result = launch(body)
                assert result.stats.workers == 2, result.stats.why_alone
                assert np.array_equal(out, np.repeat((np.arange(CTAS) + number) * (number + 3), 32))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=many, args=(100 * number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_memory_that_processes_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker writes there is seen at once."""
    import mmap

    device = ptxlab.Device("sm_100a")
    shared = np.frombuffer(mmap.mmap(-1, 4096), np.uint8)
    device.memory.attach(0x1000_0000_0000, shared, "shared memory")
    result = kernel(store("cta")).launch(grid=CTAS, block=32, args=[0x1000_0000_0000], device=device, workers=2)
    assert result.stats.why_alone == "device memory is shared with another process"
    assert np.array_equal(shared.view(np.uint32)[: CTAS * 32], np.repeat(np.arange(CTAS), 32))


def test_ranges_cover_all_clusters() -> None:
    for start, stop, workers in ((0, 64, 16), (3, 64, 2), (0, 1, 4), (5, 1000, 3)):
        for alone in (False, True):
            found = list(processes._ranges(range(start, stop), workers, alone))
            assert [number for each in found for number in each] == list(range(start, stop))
            assert max(map(len, found)) <= (1 if alone else max(1, (stop - start) // (4 * workers)))


# ------------------------------------------------------------------------------------------------------------ access maps

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


EITHER = """
ld.param.u64 rd1, [other];
ld.param.u64 rd2, [third];
ld.global.u32 r1, [at];
ld.global.u32 r2, [rd2];
setp.ne.u32 p, r2, 0;
sub.s64 rd3, at, out;
add.s64 rd3, rd3, rd1;
selp.b64 rd3, rd3, at, p;
add.u32 r1, r1, cta;
{write}
"""
WRITES = {
    "store": "st.global.u32 [rd3], r1;",
    "reduction": "red.global.add.u32 [rd3], r1;",
    "bulk copy": "mov.u32 r4, words; mad.lo.u32 r3, lane, 4, r4; st.shared.u32 [r3], r1; fence.proxy.async; bar.sync 0;"
    "setp.eq.u32 q, lane, 0; @q cp.async.bulk.global.shared::cta.bulk_group [rd3], [r4], 128;"
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
}


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("name", WRITES)
def test_launches_that_write_different_allocations(name: str, check: str, forked: list[int]) -> None:
    """Workers expect the allocations that the last launch has written, and begin again where they write another one."""
    compiled = kernel(
        EITHER.format(write=WRITES[name]), params=", .param .u64 other, .param .u64 third", shared=".shared .align 16 .b32 words[32];"
    )
    for flag, expected in ((0, 2), (0, 2), (1, 4), (1, 2), (0, 4)):
        given: list[tuple[list[np.ndarray], ptxlab.Result]] = []
        forked.clear()
        for workers in (1, 2):
            arrays = [np.arange(CTAS * 32, dtype=np.uint32), np.full(CTAS * 32, 7, np.uint32), np.full(1, flag, np.uint32)]
            given.append((arrays, compiled.launch(grid=CTAS, block=32, args=arrays, workers=workers, check=check)))
        (one, alone), (two, result) = given
        assert all(map(np.array_equal, one, two))
        assert [str(each) for each in alone.diagnostics] == [str(each) for each in result.diagnostics]
        assert result.stats.workers == 2, result.stats.why_alone
        assert len(forked) == expected
        assert np.array_equal(two[0], np.arange(CTAS * 32)) == bool(flag)


EXPECTED = """
ld.param.u64 rd1, [other];
ld.param.u64 rd2, [third];
ld.global.u32 r1, [rd1];
ld.global.u32 r2, [rd2];
st.global.u32 [at], r1;
setp.eq.u32 p, r2, 1;
@p st.global.u32 [16], r1;
setp.eq.u32 p, r2, 2;
@p st.global.u32 [rd1], r1;
"""


def launch_after_expected_writes(forked: list[int], flag: int, read_only: bool = False, check: str = "all") -> ptxlab.Result:
    """A launch of whose workers it is expected that they write the first array only."""
    compiled = kernel(EXPECTED, params=", .param .u64 other, .param .u64 third")
    for given, number in ((0, 2), (0, 2), (flag, 0)):
        forked.clear()
        arrays = [np.zeros(CTAS * 32, np.uint32), np.full(1, 5, np.uint32), np.full(1, given, np.uint32)]
        arrays[1].setflags(write=not read_only)
        result = compiled.launch(grid=CTAS, block=32, args=arrays, workers=2, check=check)
        assert not number or (result.stats.workers, len(forked)) == (2, number), result.stats.why_alone
    return result


@pytest.mark.parametrize(("flag", "read_only", "code"), [(1, False, "M401"), (2, True, "M404")], ids=["wild", "read-only"])
def test_a_finding_is_no_reason_to_begin_again(forked: list[int], flag: int, read_only: bool, code: str) -> None:
    """One worker makes it, as if no writes had been expected; so it does where memory is read-only without that expectation."""
    result = launch_after_expected_writes(forked, flag, read_only)
    assert (len(forked), result.stats.workers, result.stats.why_alone) == (2, 1, "a finding ends the launch")
    assert [each.code for each in result.diagnostics] == [code]


def test_a_race_with_an_unexpected_write_begins_again(forked: list[int]) -> None:
    """Workers that may write all find out that clusters write the same bytes."""
    result = launch_after_expected_writes(forked, 2, check="none")
    assert (len(forked), result.stats.workers) == (4, 1)
    assert result.stats.why_alone.startswith("clusters access what others write in "), result.stats.why_alone


def test_a_worker_that_dies_is_no_reason_to_begin_again(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    run, attempts = worker.Worker.run, [0]

    def dying(self: worker.Worker, clusters: range) -> worker.Done:
        if attempts[0] >= 2 and 5 in clusters:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(self, clusters)

    def counted(launch: Any) -> Any:
        attempts[0] += 1
        return make(launch)

    make = processes._Workers
    monkeypatch.setattr(processes, "_Workers", counted)
    monkeypatch.setattr(worker.Worker, "run", dying)
    compiled = kernel(store("cta"))
    for expected in (2, 1):
        forked.clear()
        out = np.zeros(CTAS * 32, np.uint32)
        result = compiled.launch(grid=CTAS, block=32, args=[out], workers=2)
        assert (result.ok, result.stats.workers, len(forked)) == (True, expected, 2), result.stats.why_alone
        assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))
    assert (attempts, result.stats.why_alone) == ([2], "a worker process has died")
