"""Run the clusters of a launch in worker processes, if the result is that of one process.

Each worker is a fork of this process: it has the compiled code, the state of the launch and, copied page by page when they change, all
memory. It runs some of the clusters. Memory of this process stays as it was until all workers have ended. What they have written is taken
over if

- no worker has accessed bytes that another one has written: then the order of their clusters does not matter, and no race is between them;
- no worker has made a finding or printed anything.

In all other cases the launch runs with one worker, as if there had been none. So results, findings and statistics are those of one worker.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxlab import native
from ptxlab._records import dataclass
from ptxlab.machine.launch.program_facts import depends_on_schedule, lets_others_start, may_poll
from ptxlab.machine.memory.global_memory import ALIGNMENT
from ptxlab.machine.workers.accesses import Groups, conflict, mark_ranges, put, read_groups, write_all
from ptxlab.machine.workers.worker import RANGE, Alone, Done, UnexpectedWrite, serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import numpy as np
    from numpy.typing import NDArray

    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.memory.global_memory import Allocation
    from ptxlab.machine.workers.worker import Part

__all__ = ["run_clusters", "shared_with_processes"]

_RANGES = 4
"""So many ranges of clusters does each worker get at least, if there are as many clusters: so that all end at about the same time."""
_PATIENCE = 0.1
"""Seconds after which this process looks whether the launch is to be interrupted."""


def run_clusters(launch: Launch) -> None:
    """Run all clusters of a launch that may use several processes; `Launch.workers` and `Launch.why_alone` say how."""
    try:
        _check(launch)
        if not launch.facts.executed and launch.policy != "random":
            # What is compiled now need not be compiled by each worker. Under ``random`` all clusters run at the same time.
            launch.start_only(1)
            launch.run_alone()
        if launch.clusters_left > 1:
            _run_workers(launch)
            return
        raise Alone("there is one cluster, or clusters wait for others")
    except Alone as alone:
        launch.why_alone = str(alone)
        launch.start_all()
    launch.run_alone()


def _run_workers(launch: Launch) -> None:
    """Run all clusters in workers; again, if they have not written the same allocations as those of the last launch."""
    try:
        _Workers(launch).run()
    except UnexpectedWrite:
        launch.facts.written = None
        _Workers(launch).run()


def _check(launch: Launch) -> None:
    """Whether this launch can run with several workers; `Alone` if not."""
    options = launch.options
    shares = launch.uses_tensor_memory and launch.clusters_left * launch.cluster_size > launch.device.sms
    for applies, why in (
        (launch.clusters_left < 2, "there is one cluster"),
        (not sys.platform.startswith("linux"), "worker processes need Linux"),
        (not launch.only_checked, "something else than the checks observes the launch"),
        (options.trace is not None, "a trace is written"),
        (options.profile, "the launch is counted"),
        (options.policy == "random" and shares, "the policy is random, and CTAs share tensor memory"),
        (options.undefined == "random", "undefined bits are random"),
        (launch.facts.of(depends_on_schedule), "the kernel reads a clock or %smid"),
        (launch.facts.of(may_poll), "the kernel can wait for what other CTAs write in device memory"),
        (launch.facts.of(lets_others_start), "the kernel lets dependent grids start"),
        (options.outside is not None and options.outside.wants_accesses(), "the order of launches is checked"),
    ):
        if applies:
            raise Alone(why)


@dataclass(slots=True, eq=False)
class _Process:
    """A worker process, the CTAs that it has ended and the instructions that it has executed."""

    pid: int
    connection: Connection
    instructions: int = 0


class _Workers:
    """The worker processes of one launch.

    Attributes
    ----------
    written : the numbers of the only allocations that they are expected to write; None if they may write all
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._allocations = launch.device.memory.reached_from(launch.roots)
        self._sizes = tuple(each.size for each in self._allocations)
        self.written = launch.facts.written[1] if launch.facts.written and launch.facts.written[0] == self._sizes else None
        self._processes: list[_Process] = []
        self._count = min(launch.options.processes, launch.clusters_left)
        self._ended = 0

    def run(self) -> None:
        """Run the clusters that are left; `Alone` if one process must do this, `UnexpectedWrite` if workers must that may write all."""
        _refuse_memory(self._allocations)
        mark_ranges()
        launch = self._launch
        clusters = range(launch.next_cluster, launch.next_cluster + launch.clusters_left)
        ranges = list(_ranges(clusters, self._count, alone=launch.policy == "random"))
        files: list[int] = []
        try:
            others, *results = _memory_files(files, 1 + self._count, ranges[self._count :])
            for first, file in zip(ranges, results, strict=False):
                self._fork(first, others, file)
            parts = self._gather()
            written = [part.written for part in parts]
            numbers = sorted(set().union(*written))
            self._send(numbers)
            read: list[dict[int, Groups]] = self._gather()
            found = conflict(written, read)
            if found is not None:
                raise Alone(f"clusters access what others write in {self._allocations[found]}")
            for at, groups, rows in self._results(parts, results):
                allocation = self._allocations[at]
                if launch.journal is not None:
                    launch.journal.before_write(allocation.base, allocation.size)
                put(allocation, groups, rows)
        finally:
            try:
                self._end()
            finally:
                for file in files:
                    os.close(file)
        launch.take_over(parts)
        launch.workers = self._count
        launch.facts.written = self._sizes, frozenset(numbers)

    @staticmethod
    def _results(parts: Sequence[Part], files: Sequence[int]) -> list[tuple[int, Groups, NDArray[np.uint8]]]:
        """What the workers have written (`read_groups`); `Alone` if some of it cannot be read."""
        try:
            return [each for part, file in zip(parts, files, strict=True) for each in read_groups(file, part.written)]
        except OSError as error:
            raise Alone(f"there is no memory for results: {error}") from None

    def _fork(self, first: range, others: int, results: int) -> None:
        """Make a worker process; an interrupt waits until it is among those that are ended."""
        from multiprocessing import Pipe

        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # until the worker ignores it
        try:
            here, there = Pipe()
            with warnings.catch_warnings():
                # A process with several threads may be forked here: the worker needs no lock that another thread can hold.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if not pid:
                here.close()
                serve(self._launch, self._allocations, self.written, first, others, results, there)
            there.close()
            self._processes.append(_Process(pid, here))
        except OSError as error:
            raise Alone(f"there can be no worker process: {error}") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _gather(self) -> list[Any]:
        """The next message of each worker that is not a progress report (`Done`)."""
        from multiprocessing.connection import wait

        last: dict[int, Any] = {}
        by_connection = {process.connection: process for process in self._processes}
        while len(last) < len(by_connection):
            waiting = [c for c, process in by_connection.items() if process.pid not in last]
            for connection in wait(waiting, _PATIENCE):
                process = by_connection[connection]  # type: ignore[index]
                message = self._receive(process)
                if isinstance(message, Done):
                    self._progress(process, message)
                else:
                    last[process.pid] = message
            outside = self._launch.options.outside
            if outside is not None:
                outside.turn()
        return [last[process.pid] for process in self._processes]

    def _send(self, numbers: list[int]) -> None:
        """Ask each worker for its reads of the allocations with these numbers."""
        try:
            for process in self._processes:
                process.connection.send(numbers)
        except OSError:
            raise Alone("a worker process has died") from None

    @staticmethod
    def _receive(process: _Process) -> Any:
        try:
            message = process.connection.recv()
        except (EOFError, OSError):
            raise Alone("a worker process has died") from None
        if isinstance(message, (Alone, UnexpectedWrite)):
            raise message
        return message

    def _progress(self, process: _Process, done: Done) -> None:
        launch = self._launch
        process.instructions = done.instructions
        if launch.scheduler.instructions + sum(each.instructions for each in self._processes) > launch.budget:
            raise Alone("the budget of instructions ends")
        self._ended += done.ctas
        for ended in range(self._ended - done.ctas, self._ended):
            launch.tell_progress(launch.done_ctas + ended + 1)

    def _end(self) -> None:
        """End all workers; an interrupt meanwhile is raised when they have ended."""
        interrupt: KeyboardInterrupt | None = None
        running, ended = list(self._processes), list(self._processes)
        while running or ended:
            try:
                while running:
                    running[-1].connection.close()
                    with suppress(ProcessLookupError):
                        os.kill(running[-1].pid, signal.SIGKILL)
                    running.pop()
                while ended:
                    with suppress(ChildProcessError):  # where SIGCHLD is ignored
                        os.waitpid(ended[-1].pid, 0)
                    ended.pop()
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def _ranges(clusters: range, workers: int, alone: bool) -> Iterator[range]:
    """Ranges of clusters, long ones first; or each cluster alone."""
    while clusters:
        size = 1 if alone else max(1, len(clusters) // (_RANGES * workers))
        yield clusters[:size]
        clusters = clusters[size:]


def _memory_files(files: list[int], count: int, ranges: Sequence[range]) -> list[int]:
    """Append files in memory, which this process shares with its workers; the first one holds ranges. `Alone` if there can be none."""
    try:
        for _ in range(count):
            files.append(os.memfd_create("ptxlab"))
        write_all(files[0], b"".join(RANGE.pack(each.start, each.stop) for each in ranges))
        os.lseek(files[0], 0, os.SEEK_SET)
    except OSError as error:
        raise Alone(f"there can be no shared memory: {error}") from None
    return files


def _refuse_memory(allocations: list[Allocation]) -> None:
    """Refuse memory that processes share, where what a worker writes could not be taken back, and memory that maps cannot describe."""
    if any(each.base % ALIGNMENT for each in allocations):
        raise Alone("device memory is not aligned")
    starts = ((native.address_of(each.data), each.size) for each in allocations)
    if shared_with_processes([(start, start + size) for start, size in starts if size]):
        raise Alone("device memory is shared with another process")


def shared_with_processes(places: Sequence[tuple[int, int]]) -> bool:
    """Whether other processes can see what is written to some host addresses, each from the first one up to the second one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, flags, *_ = line.split(maxsplit=2)
        if flags[3] == "s":
            first, end = (int(text, 16) for text in where.split("-"))
            if any(start < end and first < stop for start, stop in places):
                return True
    return False
