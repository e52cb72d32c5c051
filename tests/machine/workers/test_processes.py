"""Worker processes: what they leave behind, when they die or are interrupted, beside threads."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
import time
from typing import Any, NoReturn

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.workers import processes, worker
from tests.machine.launch_helpers import kernel, store
from tests.machine.workers.worker_helpers import CTAS, launch

LONG = "mov.u32 r1, 0; L: add.u32 r1, r1, 1; setp.lt.u32 p, r1, 1000000000; @p bra L;" + store("r1")


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
            loaded.launch(grid=CTAS, block=32, args=[out], workers=2, policy="random", check="none", max_instructions=1 << 40)
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
        """The memory file takes the first 8 bytes of the ranges, and is full then."""
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
